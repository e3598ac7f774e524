"""`attest policy diff`."""

from pathlib import Path

from tests.cli.conftest import WHEN, Attest, Files

LAB = ("--allow-simulated", "--at", WHEN)


def stricter(files: Files) -> Path:
    text = (
        files.policy().read_bytes().replace(b"microcode: 80", b"microcode: 255").replace(b"version: 3", b"version: 4")
    )
    return files.write("stricter.yaml", text)


def test_two_policies(attest: Attest, files: Files) -> None:
    old, new = files.policy(), stricter(files)
    ran = attest("policy", "diff", old, new, "--json")
    assert (ran.code, ran.document["schema"]) == (1, "attest.policy-diff/1")
    assert (ran.document["effect"], ran.document["same_meaning"]) == ("stricter", False)
    assert ran.document["changes"][-1] == {
        "path": "snp.minimum_tcb",
        "effect": "stricter",
        "text": "Genoa: microcode raised from 80 to 255",
    }
    page = attest("policy", "diff", new, old)
    assert (page.code, "B accepts more" not in page.out) == (1, True)  # the version goes back, too
    assert "looser   snp.minimum_tcb" in page.out
    assert attest("policy", "diff", old, new, "-q").out == ""


def test_one_meaning(attest: Attest, files: Files) -> None:
    policy = files.policy()
    other = files.write("other.yaml", policy.read_bytes() + b"  vmpl: [0]\n")
    ran = attest("policy", "diff", policy, other)
    assert (ran.code, "both accept the same" in ran.out) == (0, True)
    assert "evidence" not in attest("policy", "diff", policy, other, "--json").document


def recorded(files: Files) -> Path:
    folder = files.folder / "recorded"
    folder.mkdir()
    (folder / "extended.bin").write_bytes(files.extended.read_bytes())
    return folder


def test_recorded_evidence_without_an_index(attest: Attest, files: Files) -> None:
    folder = recorded(files)
    (folder / "nothing.txt").write_text("no evidence")
    (folder / "without-crl.bin").write_bytes(files.without_crl.read_bytes())
    ran = attest("policy", "diff", files.policy(), stricter(files), "--evidence", folder, *LAB, "--json")
    assert ran.code == 1
    extended, nothing, without = ran.document["evidence"]
    assert (extended["name"], extended["changed"]) == ("extended.bin", True)
    assert extended["old"] == {"outcome": "affirmed", "because": []}
    assert extended["new"] == {"outcome": "not-affirmed", "because": ["policy.snp.minimum_tcb"]}
    assert (nothing["changed"], nothing["old"]["outcome"]) == (False, "refused")
    assert without["old"]["because"] == without["new"]["because"] != []
    page = attest("policy", "diff", files.policy(), stricter(files), "--evidence", folder, *LAB)
    assert "extended.bin: CHANGES" in page.out
    assert "not-affirmed: policy.snp.minimum_tcb" in page.out


def test_recorded_evidence_with_an_index(attest: Attest, files: Files) -> None:
    folder = recorded(files)
    (folder / "report.bin").write_bytes(files.report.read_bytes())
    files.endorsements.rename(folder / "endorsements")
    (folder / "evidence.yaml").write_text(
        f"""
schema: attest.evidence-index/1
cases:
  - {{name: fresh, files: [report.bin], endorsements: [endorsements], at: "{WHEN}", nonce: "{b"question".hex()}"}}
  - {{name: stale, files: [extended.bin], at: "{WHEN}", report_data: "{"00" * 64}"}}
"""
    )
    policy = files.policy()
    ran = attest("policy", "diff", policy, policy, "--evidence", folder, "--allow-simulated", "--json")
    fresh, stale = ran.document["evidence"]
    assert (ran.code, fresh["old"]["outcome"]) == (0, "affirmed")
    assert stale["old"]["outcome"] == "refused"
    for text in ("schema: attest.evidence-index/1\n", "schema: attest.evidence-index/1\ncases: [{name: x, file: y}]\n"):
        (folder / "evidence.yaml").write_text(text)
        bad = attest("policy", "diff", policy, policy, "--evidence", folder)
        assert (bad.code, "evidence.yaml:" in bad.err) == (2, True)


def test_tokens_are_not_judged(attest: Attest, files: Files) -> None:
    folder = recorded(files)
    (folder / "extended.bin").write_text("eyJhbGciOiJub25lIn0.e30.c2ln")
    ran = attest("policy", "diff", files.policy(), stricter(files), "--evidence", folder, *LAB, "--json")
    assert ran.document["evidence"][0]["new"]["outcome"] == "refused"


def test_wrong_usage(attest: Attest, files: Files) -> None:
    policy = files.policy()
    empty = files.folder / "empty"
    empty.mkdir()
    for arguments in (
        ("--at", WHEN),
        ("--allow-simulated",),
        ("--evidence", empty),
        ("--evidence", files.folder / "absent"),
    ):
        assert attest("policy", "diff", policy, policy, *arguments).code == 2
    assert attest("policy", "diff", "-", "-", stdin=policy.read_bytes()).code == 2
    assert attest("policy", "diff", policy, files.write("bad.yaml", b"no: policy")).code == 2
