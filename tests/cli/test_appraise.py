"""`attest appraise`: policies, the baseline, several policies at once."""

from pathlib import Path

import pytest

from tests.cli.conftest import LAB, Attest, Files

REPOSITORY = Path(__file__).resolve().parents[2]
FRESH = ("--nonce-text", "question")


def test_evidence_that_meets_the_policy_is_affirmed(attest: Attest, files: Files) -> None:
    ran = attest("appraise", files.extended, *LAB, *FRESH, "--policy", files.policy(), "--json")
    assert ran.code == 0
    document = ran.document
    assert (document["command"], document["outcome"], document["status"]) == ("appraise", "affirmed", "affirming")
    assert document["policy"]["name"] == "unit"
    assert document["policy"]["production"] is True
    assert ran.check("policy.snp.measurement")["outcome"] == "pass"


def test_evidence_that_does_not_is_not_affirmed(attest: Attest, files: Files) -> None:
    policy = files.policy(measurement=bytes(48))
    ran = attest("appraise", files.extended, *LAB, *FRESH, "--policy", policy, "--json")
    assert (ran.code, ran.document["outcome"]) == (1, "not-affirmed")
    assert ran.check("policy.snp.measurement")["outcome"] == "fail"
    assert "claims" in ran.document["items"][0]
    page = attest("appraise", files.extended, *LAB, *FRESH, "--policy", policy)
    assert "NOT AFFIRMED (SIMULATED)" in page.out


def test_without_a_nonce_nothing_is_affirmed_unless_somebody_says_why(attest: Attest, files: Files) -> None:
    policy = files.policy()
    ran = attest("appraise", files.extended, *LAB, "--policy", policy, "--json")
    assert (ran.code, ran.check("freshness")["outcome"]) == (1, "fail")
    ran = attest("appraise", files.extended, *LAB, "--policy", policy, "--unchecked", "freshness=recorded", "--json")
    assert (ran.code, ran.check("freshness")["outcome"]) == (0, "not evaluated")
    relaxed = files.policy(name="relaxed", more="unchecked: {freshness: recorded evidence}")
    assert attest("appraise", files.extended, *LAB, "--policy", relaxed, "-q").code == 0


def test_the_baseline_refuses_simulation_and_says_that_it_is_no_production_policy(attest: Attest, files: Files) -> None:
    ran = attest("appraise", files.extended, *LAB, *FRESH, "--json")
    assert (ran.code, ran.document["policy"]["production"]) == (1, False)
    assert ran.check("policy.not_simulated")["outcome"] == "fail"
    assert "not a production policy" in " ".join(attest("appraise", files.extended, *LAB, *FRESH).out.split())


def test_evidence_that_is_not_genuine_is_refused_before_any_policy_sees_it(attest: Attest, files: Files) -> None:
    ran = attest("appraise", files.flipped, *LAB, *FRESH, "--policy", files.policy(), "--json")
    assert (ran.code, ran.document["outcome"], ran.document["command"]) == (4, "refused", "appraise")
    assert attest("appraise", files.report, *LAB, "--policy", files.policy(), "-q").code == 5
    assert attest("appraise", files.write("x", b"x"), *LAB, "--policy", files.policy(), "--json").code == 3


def test_a_policy_may_leave_revocation_unchecked(attest: Attest, files: Files) -> None:
    relaxed = files.policy(name="relaxed", more="unchecked: {revocation: the site is offline}")
    ran = attest("appraise", files.without_crl, *LAB, *FRESH, "--policy", relaxed, "--json")
    assert ran.code == 0
    assert {"check": "revocation", "reason": "the site is offline"} in ran.document["unchecked"]


def test_what_one_policy_leaves_unchecked_another_still_demands(attest: Attest, files: Files) -> None:
    relaxed = files.policy(name="relaxed", more="unchecked: {revocation: the site is offline}")
    strict = files.policy(name="strict")
    for order in ((relaxed, strict), (strict, relaxed)):
        options = [part for policy in order for part in ("--policy", policy)]
        ran = attest("appraise", files.without_crl, *LAB, *FRESH, *options, "--json")
        assert (ran.code, ran.document["outcome"]) == (5, "refused")


def test_all_policies_must_affirm(attest: Attest, files: Files) -> None:
    good, other = files.policy(name="good"), files.policy(name="other", measurement=bytes(48))
    ran = attest("appraise", files.extended, *LAB, *FRESH, "--policy", good, "--policy", other, "--json")
    assert (ran.code, ran.document["outcome"], ran.document["status"]) == (1, "not-affirmed", "contraindicated")
    assert [(p["name"], p["outcome"]) for p in ran.document["policies"]] == [
        ("good", "affirmed"),
        ("other", "not-affirmed"),
    ]
    assert "policy" not in ran.document
    told = [(c["policy"], c["outcome"]) for c in ran.document["checks"] if c["id"] == "policy.snp.measurement"]
    assert told == [("good", "pass"), ("other", "fail")]
    assert len([c for c in ran.document["checks"] if c["id"] == "snp.signature"]) == 1
    both = attest("appraise", files.extended, *LAB, *FRESH, "--policy", good, "--policy", good, "--json")
    assert (both.code, both.document["outcome"]) == (0, "affirmed")
    page = attest("appraise", files.extended, *LAB, *FRESH, "--policy", good, "--policy", other)
    assert "(other)" in page.out


def test_a_policy_that_does_not_load_is_usage_and_names_the_file(attest: Attest, files: Files) -> None:
    for content in (b"schema: attest.policy/1\nname: x\n", b"\xff", b"[", b""):
        ran = attest("appraise", files.extended, *LAB, "--policy", files.write("bad.yaml", content), "--json")
        assert (ran.code, ran.out) == (2, "")
        assert "bad.yaml" in ran.err
    assert attest("appraise", files.extended, *LAB, "--policy", files.folder / "absent").code == 2


PRODUCTION = sorted(p for p in (REPOSITORY / "policies").glob("*[!s].yaml") if "simulated" not in p.name)


def test_there_are_production_policies() -> None:
    assert PRODUCTION


@pytest.mark.parametrize("policy", PRODUCTION, ids=lambda p: p.name)
@pytest.mark.parametrize("product", ["Milan", "Genoa", "Turin"])
def test_shipped_production_policies_refuse_simulated_evidence(attest: Attest, policy: Path, product: str) -> None:
    attest("simulate", "evidence", "--product", product, "--nonce-text", "question", "--at", LAB[3], "-o", "e.bin")
    assert attest("appraise", "e.bin", *LAB, *FRESH, "--policy", policy, "-q").code == 1
    assert attest("appraise", "e.bin", "--offline", *LAB[2:], *FRESH, "--policy", policy, "-q").code == 4


@pytest.mark.parametrize("policy", PRODUCTION, ids=lambda p: p.name)
def test_shipped_production_policies_refuse_recorded_sample_evidence(
    attest: Attest, policy: Path, vectors_dir: Path
) -> None:
    import json

    snp = vectors_dir / "sev-snp"
    relaxed = ("--unchecked", "revocation=recorded", "--unchecked", "freshness=recorded")
    for vector in json.loads((snp / "MANIFEST.json").read_text())["vectors"]:
        if vector.get("report"):
            given = ("--offline", "--endorsements", snp, "--at", vector["verify_time"])
            assert attest("appraise", snp / vector["report"], *given, *relaxed, "--policy", policy, "-q").code in {1, 5}


def test_the_policy_for_azure_refuses_recorded_evidence_of_other_vms(attest: Attest, vectors_dir: Path) -> None:
    policy = REPOSITORY / "policies/azure-ncc-h100.yaml"
    for name, issuer in (("az-snp-milan-v3", "sev-snp/certs/milan"), ("az-tdx-v4", "collateral")):
        relaxed = ("--unchecked", "revocation=recorded", "--unchecked", "freshness=recorded")
        given = ("--offline", "--endorsements", vectors_dir / issuer, "--at", "2026-03-20T00:00:00Z")
        ran = attest("appraise", vectors_dir / "azure" / name / "evidence.json", *given, *relaxed, "--policy", policy)
        assert ran.code == 1, ran.err
        assert "policy.devices.gpus" in ran.out


def test_a_simulated_azure_vm_with_a_gpu_is_affirmed_by_the_laboratory_policy_for_it(attest: Attest) -> None:
    policy = REPOSITORY / "policies/azure-ncc-h100-lab-simulated.yaml"
    at = ("--at", LAB[3])
    outputs = ("-o", "vm.json", "--endorsements-out", "amd.end", "--device-endorsements-out", "nvidia.end")
    made = attest("simulate", "azure", "--gpus", 1, "--form", "envelope", "--nonce-text", "q" * 32, *at, *outputs)
    assert made.code == 0, made.err
    given = ("--endorsements", "amd.end", "--endorsements", "nvidia.end", "--allow-simulated", "--offline", *at)
    ran = attest("appraise", "vm.json", "--nonce-text", "q" * 32, *given, "--policy", policy)
    assert ran.code == 0, ran.out + ran.err
    other = attest("appraise", "vm.json", "--nonce-text", "p" * 32, *given, "--policy", policy)
    assert other.code == 4


def test_the_laboratory_policy_affirms_the_simulator_and_nothing_else(attest: Attest, vectors_dir: Path) -> None:
    policy = REPOSITORY / "policies/snp-lab-simulated.yaml"
    attest("simulate", "evidence", "--nonce-text", "question", "--at", LAB[3], "-o", "e.bin")
    assert attest("appraise", "e.bin", *LAB, *FRESH, "--policy", policy, "-q").code == 0
    snp = vectors_dir / "sev-snp"
    real = ("appraise", snp / "genoa-v5-vcek/report.bin", "--endorsements", snp, "--offline")
    relaxed = ("--unchecked", "revocation=recorded", "--unchecked", "freshness=recorded")
    assert attest(*real, "--at", "2026-11-01T00:00:00Z", *relaxed, "--policy", policy, "-q").code == 1
