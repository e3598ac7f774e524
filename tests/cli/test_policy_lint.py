"""`attest policy lint`."""

from pathlib import Path

from tests.cli.conftest import WHEN, Attest, Files

POLICIES = Path(__file__).resolve().parents[2] / "policies"
AT = ("--at", WHEN)


def test_shipped_policies_pass(attest: Attest) -> None:
    policies = sorted(path for path in POLICIES.glob("*.yaml") if not path.name.endswith(".tests.yaml"))
    ran = attest("policy", "lint", *policies, *AT, "--json")
    assert (ran.code, ran.document["clean"], ran.document["schema"]) == (0, True, "attest.policy-lint/1")
    assert attest("policy", "lint", POLICIES / "snp-production.yaml", *AT, "--strict").code == 1
    assert attest("policy", "lint", POLICIES / "snp-lab-simulated.yaml", *AT, "--strict").code == 0


def test_a_finding_has_its_line(attest: Attest, files: Files) -> None:
    policy = files.policy(more='unchecked: {freshness: "x"}')
    policy.write_bytes(policy.read_bytes().replace(b"simulated:", b"# simulated:"))
    ran = attest("policy", "lint", policy, *AT, "--json")
    assert (ran.code, ran.document["at"]) == (1, WHEN)
    (finding,) = [one for one in ran.document["policies"][0]["findings"] if one["severity"] == "error"]
    lines = policy.read_text().splitlines()
    assert (finding["rule"], finding["path"]) == ("unchecked", "unchecked.freshness")
    assert "freshness" in lines[finding["line"] - 1]
    page = attest("policy", "lint", policy, *AT)
    told = "".join(page.out.split())  # a long path breaks the line anywhere
    assert f"unit.yaml:{finding['line']}:error:unchecked.freshness" in told
    assert "todo:" in told
    assert "2notes(--verbose)" in told
    assert "warning:snp.minimum_tcb.Genoa.snp" in told
    assert "reference-without-end" in attest("policy", "lint", policy, *AT, "--verbose").out
    assert attest("policy", "lint", policy, *AT, "-q").out == ""


def test_nothing_found(attest: Attest) -> None:
    page = attest("policy", "lint", POLICIES / "snp-lab-simulated.yaml")
    assert (page.code, "nothing found, 4 notes" in page.out) == (0, True)


def test_what_is_no_policy(attest: Attest, files: Files) -> None:
    bad = files.write("bad.yaml", b"schema: attest.policy/1\n")
    ran = attest("policy", "lint", files.policy(), bad)
    assert (ran.code, ran.out) == (2, "")
    assert "bad.yaml" in ran.err
