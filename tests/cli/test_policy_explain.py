"""`attest policy explain`."""

import pytest

from tests.cli.conftest import LAB, Attest, Files

QUESTION = ("--nonce-text", Files.NONCE)


def test_a_policy_is_told_in_words_and_the_same_each_time(attest: Attest, files: Files) -> None:
    policy = files.policy()
    ran = attest("policy", "explain", policy)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == attest("policy", "explain", policy, env={"COLUMNS": "20"}).out
    assert "A SEV-SNP guest:\n  - The processor must be one of Genoa.\n" in ran.out
    assert "Reference values 'good': 1 value, never ends; the simulator" in ran.out
    document = attest("policy", "explain", policy, "--json").document
    assert (document["schema"], document["name"]) == ("attest.policy-explanation/1", "unit")
    assert all(rule["text"].endswith(".") for rule in document["rules"])
    assert attest("policy", "explain", policy, "-q").out == ""
    assert attest("policy", "explain", "-", stdin=policy.read_bytes()).out == ran.out


def test_what_a_stranger_wrote_into_a_policy_moves_no_cursor(attest: Attest, files: Files) -> None:
    policy = files.write("p.yaml", files.policy().read_bytes().replace(b"the simulator", b"\\e[2J"))
    assert "\x1b" not in attest("policy", "explain", policy).out


def test_against_evidence_each_failed_check_has_its_remedy(attest: Attest, files: Files) -> None:
    policy = files.policy(name="other", measurement=bytes(48))
    arguments = ("policy", "explain", policy, "--against", files.extended, *LAB, *QUESTION)
    ran = attest(*arguments)
    assert ran.code == 1
    assert ran.out.startswith("SIMULATED evidence: NOT AFFIRMED, 1 check failed by policy 'other' version 3\n")
    for line in ("FAILED policy.snp.measurement (cpu)", "  expected    good: 00", "  got         ", "  how to fix  "):
        assert f"\n{line}" in ran.out
    document = attest(*arguments, "--json").document
    assert (document["outcome"], document["simulated"]) == ("not-affirmed", True)
    (row,) = document["failed"]
    assert row["id"] == "policy.snp.measurement"
    assert "attest measure" in row["how_to_fix"]
    assert attest(*arguments, "-q").out == ""


def test_against_evidence_that_is_affirmed_there_is_nothing_to_fix(attest: Attest, files: Files) -> None:
    arguments = ("policy", "explain", files.policy(), "--against", files.extended, *LAB)
    ran = attest(*arguments, *QUESTION)
    assert (ran.code, "FAILED" in ran.out) == (0, False)
    relaxed = attest(*arguments, "--unchecked", "freshness=recorded", "--json").document
    assert relaxed["unchecked"] == [{"check": "freshness", "reason": "recorded"}]
    stale = attest(*arguments)
    assert (stale.code, "Send a new nonce" in stale.out) == (1, True)


@pytest.mark.parametrize(("name", "code"), [("flipped", 4), ("without_crl", 5), ("junk", 3)])
def test_evidence_that_is_refused_is_told_as_elsewhere(attest: Attest, files: Files, name: str, code: int) -> None:
    evidence = files.write("junk", b"junk") if name == "junk" else getattr(files, name)
    ran = attest("policy", "explain", files.policy(), "--against", evidence, *LAB, *QUESTION)
    assert ran.code == code
    assert "error: " in ran.err


def test_wrong_usage(attest: Attest, files: Files) -> None:
    assert attest("policy", "explain").code == 2
    assert attest("policy", "explain", "absent.yaml").code == 2
    assert attest("policy", "explain", files.policy(), files.extended).code == 2
    assert attest("policy", "explain", files.write("p.yaml", b"schema: x")).code == 2
