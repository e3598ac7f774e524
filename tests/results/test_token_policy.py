"""Policies over tokens: what other Verifiers state, put to the rules that evidence is put to."""

import copy
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from attest.appraisal import Judgement, appraise
from attest.checks import Outcome, Unchecked
from attest.policy.loader import Policy, load_policy
from attest.policy.reference_values.reference_documents import decode_reference_document
from attest.results.ear import VerifierId
from attest.results.ear_build import build_ear
from attest.results.ear_verify import VerifiedEar
from attest.results.nras import appraise_nras, verify_nras_token
from attest.results.service_appraise import appraise_service_token
from attest.results.service_token import verify_service_token
from attest.results.token_policy import judge_ear, judge_facts
from attest.verification import Freshness
from tests.policy.documents import MEASUREMENT, policy_of
from tests.policy.mixed import HEAD, gpu, hopper, mixed, policy_with, snp, snp_cpu
from tests.results import tokens as nras
from tests.results.services import AT, GOOGLE, ITA, MAA, SAMPLES, SERVICE, maa_snp
from tests.samples import AT as EVIDENCE_AT

TRUSTED = {iss: SERVICE.keys() for iss in (MAA, ITA, GOOGLE, "Intel Trust Authority")}
NOT_STATED = {"unchecked": "the Verifier does not state it"}
AT_ONCE = [{"issuer": issuer} for issuer in (MAA, ITA, "Intel Trust Authority", GOOGLE)]


def claims_of(name: str) -> Any:  # noqa: ANN401  a token's claims
    return copy.deepcopy(SAMPLES[name])


def judged(claims: dict[str, Any], policy: dict[str, Any], **changes: Any) -> Judgement:  # noqa: ANN401
    audience = "https://kms.example" if "aud" in claims else None
    token = verify_service_token(SERVICE.sign(claims), trusted=TRUSTED, at=AT, nonce=None, audience=audience)
    given: dict[str, Any] = {"freshness": Freshness.MATCHED, "at": AT} | changes
    return judge_facts(token.facts, policy=policy_of(policy), baseline=appraise_service_token(token), **given)


def failed(claims: dict[str, Any], policy: dict[str, Any], **changes: Any) -> set[str]:  # noqa: ANN401
    return {check.id for check in judged(claims, policy, **changes).failed}


def facts_of(claims: dict[str, Any]) -> Any:  # noqa: ANN401
    audience = "https://kms.example" if "aud" in claims else None
    return verify_service_token(SERVICE.sign(claims), trusted=TRUSTED, at=AT, audience=audience).facts


def snp_policy(**changes: object) -> dict[str, Any]:
    """Policy that leaves unchecked what MAA does not state about an SNP guest, and demands the rest."""
    measurement = facts_of(maa_snp())[0].claims["measurement"]
    section = {
        "products": NOT_STATED,
        "measurement": ["paravisor"],
        "minimum_tcb": NOT_STATED,
        "signing_key": NOT_STATED,
        "provisional_firmware": NOT_STATED,
        "rollback_protection": NOT_STATED,
        "rolled_back_since_launch": NOT_STATED,
        "masked_chip_id": NOT_STATED,
        "platform_info": {"alias_check_complete": NOT_STATED},
        **changes,
    }
    references = {
        "paravisor": {"values": [measurement.hex()], "origin": "a test"},
        "other": {"values": ["01" * 48], "origin": "nobody"},
    }
    return policy_with(snp=section, verifiers=AT_ONCE, reference_values=references)


def test_what_azure_says_of_a_guest_is_put_to_the_rules_for_guests() -> None:
    assert failed(maa_snp(), snp_policy()) == set()
    assert failed(maa_snp(), snp_policy(measurement=["other"])) == {"policy.snp.measurement"}
    debug = maa_snp(**{"x-ms-sevsnpvm-is-debuggable": True})
    assert failed(debug, snp_policy()) == {"policy.snp.guest_policy.debug"}


def test_must_check_16_what_a_token_does_not_state_fails() -> None:
    strict = policy_with(snp=snp(), verifiers=AT_ONCE)
    found = failed(maa_snp(), strict)
    assert {"policy.snp.signing_key", "policy.snp.masked_chip_id", "policy.snp.provisional_firmware"} <= found
    assert "policy.snp.platform_info.alias_check_complete" in found


def test_a_minimum_is_compared_with_the_levels_that_azure_states() -> None:
    levels = facts_of(maa_snp())[0].claims["reported_tcb"]
    raised = {**levels, "snp": levels["snp"] + 1}
    for minimum, expected in ((levels, set()), (raised, {"policy.snp.minimum_tcb"})):
        assert failed(maa_snp(), snp_policy(minimum_tcb={"Genoa": dict(minimum)})) == expected


def test_a_policy_that_names_no_verifier_takes_no_token() -> None:
    policy = snp_policy()
    del policy["verifiers"]
    assert failed(maa_snp(), policy) == {"policy.verifier"}
    assert failed(maa_snp(), snp_policy() | {"verifiers": [{"issuer": "https://other.attest.azure.net"}]}) == {
        "policy.verifier"
    }


def test_must_check_1_an_old_token_and_one_that_answers_nobody_are_refused() -> None:
    policy = snp_policy() | {"verifiers": [{"issuer": MAA, "maximum_age": 60}]}
    assert failed(maa_snp(), policy, at=AT + timedelta(seconds=3600)) == {"policy.verifier.age"}
    assert failed(maa_snp(), snp_policy(), freshness=Freshness.NOT_EVALUATED) == {"freshness"}
    relaxed = (Unchecked(check="freshness", reason="a test"),)
    assert failed(maa_snp(), snp_policy(), freshness=Freshness.NOT_EVALUATED, unchecked=relaxed) == set()


def test_the_verifiers_own_policy_can_be_demanded() -> None:
    digest = maa_snp()["x-ms-policy-hash"]
    for wanted, expected in ((digest, set()), ("another", {"policy.verifier.policy_ids"})):
        policy = snp_policy() | {"verifiers": [{"issuer": MAA, "policy_ids": [wanted]}]}
        assert failed(maa_snp(), policy) == expected


def test_the_verifiers_no_counts_whatever_the_policy_says() -> None:
    claims = maa_snp(**{"x-ms-compliance-status": "azure-noncompliant"})
    assert failed(claims, snp_policy()) == {"policy.token.compliance"}


def test_a_kind_that_the_policy_does_not_speak_of_is_refused() -> None:
    policy = snp_policy()
    for name, claims in SAMPLES.items():
        kinds = {facts.kind for facts in facts_of(claims)}
        if "sev-snp" not in kinds:
            assert "policy.kind" in failed(claims, policy), name


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_token_is_judged_by_every_kind_of_rule_without_an_error(name: str) -> None:
    policy = policy_with(
        snp=snp(),
        tdx={"mr_td": ["td"], "rtmr1": ["boot"]},
        sgx={"mr_enclave": ["enclave"]},
        gpu=gpu(),
        nvswitch={"vbios_versions": {"at_least": "96.10"}},
        azure=None,
        verifiers=AT_ONCE,
    )
    del policy["azure"]
    result = judged(claims_of(name), policy)
    assert not result.affirmed
    assert all(check.outcome in set(Outcome) for check in result.policy_checks)


def test_no_token_binds_a_gpu_to_its_machine() -> None:
    claims = claims_of("ita composite")
    (td,) = (facts for facts in facts_of(claims) if facts.kind == "tdx")
    references = {"td": {"values": [td.claims["mr_td"].hex()], "origin": "a test"}}
    section = {"mr_td": ["td"], "rtmr1": {"unchecked": "a test"}}
    policy = policy_with(tdx=section, gpu=gpu(), verifiers=AT_ONCE, reference_values=references)
    found = failed(claims, policy)
    assert "policy.devices.bound" in found
    assert found.isdisjoint({"policy.devices.cpu", "policy.devices.gpus", "policy.tdx.mr_td", "policy.kind"})


def test_must_check_11_one_device_told_several_times_is_not_several() -> None:
    signer = nras.Signer()
    policy = policy_of(policy_with(gpu=gpu(), verifiers=[{"issuer": nras.ISSUER}]))

    def checked(*ueids: str | None) -> set[str]:
        texts = {f"GPU-{at}": signer.sign(nras.device_claims(ueid=ueid)) for at, ueid in enumerate(ueids)}
        data = nras.detached(signer.sign(nras.overall_claims(texts)), texts)
        token = verify_nras_token(data, trusted={nras.ISSUER: signer.keys()}, at=nras.AT)
        result = judge_facts(
            token.facts, freshness=Freshness.MATCHED, policy=policy, at=nras.AT, baseline=appraise_nras(token)
        )
        return {check.id for check in result.failed}.intersection({"policy.token.devices"})

    assert checked("1", "2") == checked(None) == checked("1") == set()
    assert checked("1", "1") == checked("1", None) == checked(None, None) == {"policy.token.devices"}


def test_what_is_left_unjudged_takes_no_for_no_answer() -> None:
    waiver = {"unchecked": "a test"}
    td = {"mr_td": waiver, "rtmr1": waiver, "tcb_status": waiver, "accepted_advisories": waiver}
    policy = policy_with(tdx=td, gpu=gpu(rim=waiver), verifiers=AT_ONCE)
    found = failed(claims_of("ita composite"), policy)
    assert found.isdisjoint({"policy.tdx.tcb_status", "policy.gpu.rim"})
    claims = claims_of("ita composite")
    claims["tdx"]["attester_tcb_status"] = "OutOfDate"
    claims["nvgpu"]["measres"] = None
    assert failed(claims, policy) == found
    claims["tdx"]["attester_tcb_status"] = "Revoked"
    assert failed(claims, policy) == found | {"policy.token.not_revoked"}
    claims["nvgpu"]["measres"] = "comparison-fail"
    assert failed(claims, policy) == found | {"policy.token.not_revoked", "policy.token.no_mismatch"}


def test_reference_values_count_only_where_the_token_says_that_their_signers_stand() -> None:
    signer = nras.Signer()
    policy = policy_of(policy_with(gpu=gpu(), verifiers=[{"issuer": nras.ISSUER}]))

    def rim(**status: object) -> Outcome:
        chain = {"x-nvidia-cert-expiration-date": "2027-01-01T00:00:00Z", **status}
        rims = {f"x-nvidia-gpu-{name}-rim-cert-chain": chain for name in ("driver", "vbios")}
        token = verify_nras_token(nras.token(signer, device=rims), trusted={nras.ISSUER: signer.keys()}, at=nras.AT)
        result = judge_facts(
            token.facts, freshness=Freshness.MATCHED, policy=policy, at=nras.AT, baseline=appraise_nras(token)
        )
        return next(check.outcome for check in result.policy_checks if check.id == "policy.gpu.rim")

    assert rim(**{"x-nvidia-cert-ocsp-status": "good"}) is Outcome.PASS
    assert rim(**{"x-nvidia-cert-ocsp-status": "revoked"}) is Outcome.FAIL
    assert rim() is rim(**{"x-nvidia-cert-ocsp-status": None}) is Outcome.FAIL


# -- EARs

BODY = policy_with(snp=snp(), gpu=gpu(), verifiers=[{"issuer": "verifier"}])


def ear(policy: Policy, *, evidence: Any = None, unchecked: tuple[Unchecked, ...] = ()) -> VerifiedEar:  # noqa: ANN401
    verified = mixed(snp_cpu(), hopper()) if evidence is None else evidence
    result = appraise(verified._replace(unchecked=unchecked), policy=policy, at=verified.at)
    built = build_ear([result], verifier=VerifierId(developer="a test", build="1"), issuer="verifier")
    return VerifiedEar(
        ear=built,
        issuer="verifier",
        key_id="a key",
        algorithm="ES256",
        form="jwt",
        at=EVIDENCE_AT,
        freshness=Freshness.MATCHED,
        checks=(),
    )


def refused(token: VerifiedEar, policy: Policy) -> set[str]:
    return {check.id for check in judge_ear(token, policy=policy, at=EVIDENCE_AT).failed}


def test_an_ear_by_this_very_policy_is_as_good_as_the_evidence() -> None:
    policy = policy_of(BODY)
    assert refused(ear(policy), policy) == set()
    failing = ear(policy, evidence=mixed(snp_cpu(vmpl=1), hopper()))
    assert refused(failing, policy) == {"policy.verifier.affirmed", "policy.token.status"}


def of_document(version: int, *values: str) -> Policy:
    """One policy of one digest, with the values that this version of its document brings."""
    signer = bytes(32)
    body = BODY | {"references": [{"document": "images", "signers": [signer.hex()]}]}
    body["reference_values"] = {name: one for name, one in HEAD["reference_values"].items() if name != "image"}
    document = decode_reference_document(
        {
            "schema": "attest.references/1",
            "name": "images",
            "version": version,
            "origin": "the build",
            "issued": "2026-01-01T00:00:00Z",
            "expires": {"unchecked": "a test"},
            "values": {"image": {"kind": "snp-measurement", "values": list(values)}},
        }
    )
    return load_policy(json.dumps(body).encode(), references={"images": document.signed_by([signer])})


def test_must_check_15_an_ear_by_other_reference_values_of_the_same_policy_is_refused() -> None:
    old, new = of_document(1, MEASUREMENT, "01" * 48), of_document(2, MEASUREMENT)
    assert old.digest == new.digest
    assert refused(ear(new), new) == set()
    assert refused(ear(old), new) == {"policy.verifier.references"}
    token = ear(new)
    assert token.ear.details is not None
    silent = replace(
        token.ear.details, policies=tuple(replace(one, references=None) for one in token.ear.details.policies)
    )
    assert refused(replace(token, ear=replace(token.ear, details=silent)), new) == {"policy.verifier.references"}


def test_what_somebody_else_relaxed_is_not_relaxed_here() -> None:
    policy, lax = policy_of(BODY), policy_of(BODY | {"unchecked": {"topology": "one GPU of a board"}})
    relaxed = (Unchecked(check="topology", reason="one GPU of a board"),)
    assert refused(ear(lax), lax) == set()
    assert refused(ear(policy, unchecked=relaxed), policy) == {"policy.verifier.relaxed"}


def test_an_ear_by_another_policy_counts_only_when_the_policy_names_it() -> None:
    strict, other = policy_of(BODY), policy_of(BODY | {"version": 2})
    token = ear(other)
    assert "policy.verifier.applied" in refused(token, strict)
    (name,) = {name for one in token.ear.submods.values() for name in one.policy_ids}
    listed = policy_of(BODY | {"verifiers": [{"issuer": "verifier", "policy_ids": [name]}]})
    # What is simulated never affirms by another policy than this one.
    assert refused(token, listed) == {"policy.token.status", "policy.token.submodule"}
    unlisted = policy_of(BODY | {"verifiers": [{"issuer": "verifier", "policy_ids": ["x"]}]})
    assert "policy.verifier.policy_ids" in refused(token, unlisted)


def test_a_policy_that_judged_one_submodule_vouches_for_no_other() -> None:
    token = ear(policy_of(BODY | {"version": 2}))
    (name,) = {name for one in token.ear.submods.values() for name in one.policy_ids}
    first = next(iter(token.ear.submods))
    submods = {
        label: one if label == first else replace(one, policy_ids=()) for label, one in token.ear.submods.items()
    }
    partial = replace(token, ear=replace(token.ear, submods=submods))
    listed = policy_of(BODY | {"verifiers": [{"issuer": "verifier", "policy_ids": [name]}]})
    assert "policy.verifier.policy_ids" in refused(partial, listed)


def test_an_ear_of_another_issuer_or_age_or_of_a_simulation_is_refused() -> None:
    policy = policy_of(BODY)
    assert refused(replace(ear(policy), issuer="stranger"), policy) >= {"policy.verifier"}
    late = judge_ear(ear(policy), policy=policy, at=EVIDENCE_AT + timedelta(seconds=301))
    assert {check.id for check in late.failed} == {"policy.verifier.age"}
    hardware = {key: value for key, value in BODY.items() if key != "simulated"}
    assert refused(ear(policy_of(hardware)), policy_of(hardware)) >= {"policy.not_simulated"}


def test_an_ear_without_our_details_has_to_be_named_and_affirming() -> None:
    policy = policy_of(BODY)
    token = ear(policy)
    foreign = replace(token, ear=replace(token.ear, details=None))
    assert "policy.verifier.applied" in refused(foreign, policy)


def test_a_policy_refuses_simulated_evidence_behind_a_token_unless_it_tolerates_it() -> None:
    tolerant = snp_policy() | {"simulated": {"unchecked": "a test"}}
    assert failed(maa_snp(simulated=True), {k: v for k, v in snp_policy().items() if k != "simulated"}) == {
        "policy.not_simulated"
    }
    assert failed(maa_snp(simulated=True), tolerant) == set()
    assert failed(maa_snp(simulated=False), {k: v for k, v in snp_policy().items() if k != "simulated"}) == set()
