"""From checks to an EAR: the published mapping, row by row; nothing is better than what was found."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from attest.appraisal import AttestationResult, appraise
from attest.checks import Check, Outcome, Tier, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, Evidence, EvidenceItem
from attest.policy import Policy
from attest.results.cbor import claims_bytes, claims_value
from attest.results.ear import VECTOR_LABELS, Ear, TrustVector, VerifierId, tier_of_value
from attest.results.ear_build import RELAXED, VALUES, build_ear, policy_id_of
from attest.results.ear_codec import ear_from_cbor, ear_from_json, ear_to_cbor, ear_to_json
from attest.results.ear_details import BoundKey, CheckRef, Relaxation
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator.nvidia import SimulatedGpu
from tests.policy.documents import STRICT, policy_of
from tests.policy.intel_documents import STRICT_TDX, tdx_document
from tests.samples import AT, NONCE, Scene, bound_evidence, report_evidence, scene
from tests.samples_intel import NO_TCB, IntelScene, intel_scene, old_platform

VERIFIER = VerifierId(developer="attest-kms", build="test")
HARDWARE = TrustAnchors(anchors=tuple(replace(a, simulated=False) for a in TrustAnchors.simulation().anchors))
"""The simulator's roots, taken for a vendor's: what hardware would give."""


def snp(honest: Scene | None = None, *, anchors: TrustAnchors = HARDWARE, **options: Any) -> VerifiedEvidence:  # noqa: ANN401
    honest = honest or scene()
    return verify(
        report_evidence(honest.guest.report(b"fresh".ljust(64, b"\0"))),
        endorsements=options.pop("endorsements", honest.endorsements),
        anchors=anchors,
        at=AT,
        **{"expected": ExpectedFreshness(nonce=b"fresh"), **options},
    )


def result(policy: dict[str, Any] | Policy = STRICT, verified: VerifiedEvidence | None = None) -> AttestationResult:
    loaded = policy if isinstance(policy, Policy) else policy_of(policy)
    verified = verified or snp()
    return appraise(verified, policy=loaded, at=verified.at)


def ear_of(*results: AttestationResult, **options: Any) -> Ear:  # noqa: ANN401
    return build_ear(results, verifier=VERIFIER, **options)


def document(**snp_keys: object) -> dict[str, Any]:
    changed = copy.deepcopy(STRICT)
    changed["snp"].update(snp_keys)
    if snp_keys.get("measurement") == ["other"]:
        changed["reference_values"]["other"] = {"values": ["00" * 48], "origin": "a test"}
    return changed


def vector_of(ear: Ear, item: str = "cpu") -> dict[str, int]:
    vector = ear.submods[item].vector
    return {} if vector is None else dict(vector.items())


GOOD = {"instance-identity": 2, "configuration": 2, "executables": 3, "hardware": 2, "runtime-opaque": 2}


def test_an_affirmed_guest_on_hardware_is_affirming_in_each_claim_that_was_judged() -> None:
    ear = ear_of(result())
    assert vector_of(ear) == GOOD
    assert (ear.status, ear.submods["cpu"].status) == (Tier.AFFIRMING, Tier.AFFIRMING)
    assert ear.details is not None
    assert (ear.details.affirmed, ear.details.simulated, ear.details.failed) == (True, False, ())


def test_nothing_is_asserted_that_no_rule_judged() -> None:
    ear = ear_of(result(Policy.baseline()))
    assert "executables" not in vector_of(ear)
    assert "instance-identity" not in vector_of(ear)
    assert "storage-opaque" not in vector_of(ear)


def test_simulated_evidence_is_never_affirming_though_a_policy_tolerates_it() -> None:
    """must-check 17: whoever reads the status alone must not take the simulator for hardware."""
    judged = result(verified=snp(anchors=TrustAnchors.simulation()))
    assert judged.affirmed
    ear = ear_of(judged)
    assert set(vector_of(ear).values()) == {RELAXED}
    assert ear.status is Tier.WARNING
    assert ear.details is not None
    assert ear.details.simulated


@pytest.mark.parametrize(
    ("keys", "claim", "value"),
    [
        ({"measurement": ["other"]}, "executables", 33),
        ({"products": ["Milan"]}, "hardware", 97),
        ({"vmpl": [3]}, "configuration", 96),
    ],
)
def test_what_fails_has_its_value_and_the_status_is_contraindicated(
    keys: dict[str, object], claim: str, value: int
) -> None:
    judged = result(document(**keys))
    if judged.affirmed:
        pytest.fail("the policy was expected to refuse")
    ear = ear_of(judged)
    assert vector_of(ear)[claim] == value
    assert ear.status is Tier.CONTRAINDICATED
    assert ear.details is not None
    assert {ref.check for ref in ear.details.failed} == {check.id for check in judged.failed}


def test_a_check_that_a_policy_relaxes_is_not_affirming_and_its_reason_is_told() -> None:
    ear = ear_of(result(document(vmpl={"unchecked": "one level only"})))
    assert vector_of(ear) == {**GOOD, "configuration": 36}
    assert ear.status is Tier.WARNING
    assert ear.details is not None
    assert CheckRef(check="policy.snp.vmpl", item="cpu") in ear.details.not_evaluated


def test_revocation_left_unchecked_is_told_and_lowers_the_hardware() -> None:
    unchecked = (Unchecked(check="revocation", reason="no network"),)
    honest = scene()
    verified = snp(honest, unchecked=unchecked, endorsements=replace(honest.endorsements, crls=()))
    ear = ear_of(result(verified=verified))
    assert vector_of(ear) == {**GOOD, "hardware": RELAXED}
    assert ear.details is not None
    assert Relaxation(check="revocation", reason="no network") in ear.details.relaxed


def test_evidence_that_answers_nobody_speaks_against_the_instance() -> None:
    ear = ear_of(result(verified=snp(expected=None)))
    assert vector_of(ear)["instance-identity"] == 97
    assert ear.status is Tier.CONTRAINDICATED
    relaxed = snp(expected=None, unchecked=(Unchecked(check="freshness", reason="recorded"),))
    assert vector_of(ear_of(result(verified=relaxed)))["instance-identity"] == RELAXED


def test_a_kind_that_the_policy_does_not_speak_of_is_hardware_that_is_not_recognised() -> None:
    ear = ear_of(result(STRICT_TDX))
    assert vector_of(ear)["hardware"] == 97
    assert ear.status is Tier.CONTRAINDICATED


def test_debug_says_that_memory_is_open() -> None:
    honest = scene()
    debug = replace(honest, guest=replace(honest.guest, policy=honest.guest.policy | 1 << 19))
    ear = ear_of(result(verified=snp(debug)))
    assert (vector_of(ear)["configuration"], vector_of(ear)["runtime-opaque"]) == (96, 96)


def test_what_holds_of_all_devices_asserts_nothing_about_one() -> None:
    judged = result()
    extra = Check(id="policy.devices.x", outcome=Outcome.PASS, expected="", got="", clause="")
    told = replace(
        judged,
        policy_checks=(*judged.policy_checks, extra),
        categories={**judged.categories, "policy.devices.x": "sourced-data"},
    )
    assert vector_of(ear_of(told)) == GOOD


def test_the_mapping_in_the_documentation_is_the_one_that_is_used() -> None:
    page = (Path(__file__).parents[2] / "docs/tokens.md").read_text().replace("−", "-")
    for label, values in VALUES.items():
        row = next(line for line in page.splitlines() if line.startswith("| `") and f"`{label}`" in line.split("|")[1])
        cells = [int(re.findall(r"-?\d+", cell)[0]) for cell in row.split("|")[2:6]]
        assert cells == [values.passed, values.warning, values.relaxed, values.failed], label


def test_of_two_policies_the_graver_value_of_each_claim_stays_and_both_are_named() -> None:
    strict, other = result(), result(document(vmpl=[3]))
    ear = ear_of(strict, other)
    assert vector_of(ear) == {**GOOD, "configuration": 96}
    assert ear.submods["cpu"].policy_ids == (policy_id_of(strict), policy_id_of(other))
    assert ear.details is not None
    assert [policy.digest for policy in ear.details.policies] == [strict.policy.digest, other.policy.digest]
    assert not ear.details.affirmed


def test_results_of_different_evidence_make_no_ear() -> None:
    for results in ((), (result(), result(verified=snp(replace_guest())))):
        with pytest.raises(ValueError, match="one evidence"):
            ear_of(*results)


def replace_guest() -> Scene:
    honest = scene()
    return replace(honest, guest=replace(honest.guest, guest_svn=7))


# -- TDX and GPUs


def td(machine: IntelScene) -> VerifiedEvidence:
    return machine.verify(machine.td.quote(NONCE.ljust(64, b"\0")), anchors=HARDWARE, expected=ASKED)


ASKED = ExpectedFreshness(nonce=NONCE)


def test_a_td_is_told_with_its_tcb_and_intels_documents() -> None:
    ear = ear_of(result(STRICT_TDX, td(intel_scene())))
    assert vector_of(ear)["hardware"] == 2
    assert ear.details is not None
    assert [(state.item, state.status) for state in ear.details.tcb] == [("cpu", "UpToDate")]
    found = {entry.kind: entry for entry in ear.details.endorsements}
    assert set(found) == {"pck", "pck-ca", "crl", "tcb-info", "qe-identity", "tcb-signing"}
    assert found["tcb-info"].number is not None
    assert ear_from_json(ear_to_json(ear)) == ear


def test_a_tcb_that_is_out_of_date_but_allowed_has_known_weaknesses() -> None:
    allowed = tdx_document(tcb_status=["UpToDate", "OutOfDate"])
    ear = ear_of(result(allowed, td(intel_scene(old_platform()))))
    assert vector_of(ear)["hardware"] in (32, 96)
    assert ear.status is not Tier.AFFIRMING
    assert ear.details is not None
    assert ear.details.tcb[0].status.startswith("OutOfDate")


def test_a_tcb_that_nobody_judged_is_not_affirming() -> None:
    machine = intel_scene()
    bare = Endorsements(certificates=machine.endorsements().certificates, crls=machine.endorsements().crls)
    quote = machine.td.quote(NONCE.ljust(64, b"\0"))
    verified = machine.verify(quote, anchors=HARDWARE, expected=ASKED, endorsements=bare, unchecked=(NO_TCB,))
    ear = ear_of(result(STRICT_TDX, verified))
    assert tier_of_value(vector_of(ear)["hardware"]) is not Tier.AFFIRMING
    assert ear.details is not None
    assert ear.details.tcb == ()


def gpu(device: SimulatedGpu | None = None) -> VerifiedEvidence:
    device = device or SimulatedGpu.of("gpu 0")
    item = EvidenceItem(name="gpu0", media_type=MEDIA_NVIDIA_DEVICE, value=device.device_item(NONCE))
    return verify(
        Evidence(items=(item,)), endorsements=device.endorsements(at=AT), anchors=HARDWARE, at=AT, expected=ASKED
    )


def test_a_gpu_whose_measurements_match_its_rims_runs_what_is_approved() -> None:
    ear = ear_of(result(Policy.baseline(), gpu()))
    vector = vector_of(ear, "gpu0")
    assert vector["executables"] == 2
    assert "runtime-opaque" not in vector
    assert ear.submods["gpu0"].nonce == (NONCE,)
    assert ear.details is not None
    assert {entry.kind for entry in ear.details.endorsements} >= {
        "device-leaf",
        "device-ca",
        "driver-rim",
        "vbios-rim",
        "ocsp",
    }


# -- values


def test_the_mapping_knows_every_claim_of_the_vector() -> None:
    assert tuple(VALUES) == VECTOR_LABELS


def test_each_published_value_is_of_the_tier_of_its_outcome() -> None:
    for label, values in VALUES.items():
        assert tier_of_value(values.passed) is Tier.AFFIRMING, label
        assert tier_of_value(values.warning) is Tier.WARNING
        assert tier_of_value(values.relaxed) is Tier.WARNING
        assert tier_of_value(values.failed) is not Tier.AFFIRMING
        assert TrustVector.of({label: values.passed}).tier is Tier.AFFIRMING


# -- what goes along


def test_the_members_come_from_the_caller_and_the_moment_of_appraisal() -> None:
    ear = ear_of(
        result(),
        issuer="https://verifier.example",
        lifetime=timedelta(minutes=5),
        token_id="AAAA",
        nonce=NONCE,
        audience=("kms",),
        raw_evidence=True,
    )
    assert ear.issued_at == int(AT.timestamp())
    assert ear.expires == ear.issued_at + 300
    assert (ear.issuer, ear.token_id, ear.nonce, ear.audience) == (
        "https://verifier.example",
        "AAAA",
        (NONCE,),
        ("kms",),
    )
    assert ear.raw_evidence is not None
    assert ear.submods["cpu"].nonce == (b"fresh".ljust(64, b"\0"),)


@pytest.mark.parametrize("size", [7, 65])
def test_a_nonce_that_no_ear_may_carry_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="eat_nonce"):
        ear_of(result(), nonce=bytes(size))


def test_the_details_name_policy_evidence_and_endorsements_by_digest() -> None:
    """must-check 15: the result can be recomputed from what it names."""
    honest = scene()
    verified = snp(honest)
    details = ear_of(result(verified=verified)).details
    assert details is not None
    assert details.evidence == verified.evidence.digest
    found = {entry.kind: entry for entry in details.endorsements}
    assert set(found) == {"vcek", "intermediate", "crl"}
    assert found["crl"].sha256 in {sha256(crl.der).digest() for crl in honest.endorsements.crls}
    assert found["vcek"].begins is not None


def test_a_bound_key_is_told_by_digest() -> None:
    honest = scene()
    binding = Binding(context="kms-release/v1", role="workload", audience="kms", nonce=NONCE, key=b"\0\x20" + bytes(32))
    verified = verify(
        bound_evidence(honest.guest, binding),
        endorsements=honest.endorsements,
        anchors=HARDWARE,
        at=AT,
        expected=ExpectedFreshness(nonce=NONCE),
    )
    ear = ear_of(result(verified=verified))
    assert ear.details is not None
    digest = sha256(binding.key).digest()
    assert ear.details.binding == BoundKey(context="kms-release/v1", role="workload", audience="kms", key=digest)
    assert ear.submods["cpu"].nonce == (NONCE,)


def test_what_was_built_survives_both_encodings() -> None:
    ear = ear_of(result(), lifetime=timedelta(minutes=5), token_id="AAAA", nonce=NONCE, raw_evidence=True)
    claims = claims_value(claims_bytes(ear_to_cbor(ear)), what="payload")
    assert isinstance(claims, dict)
    assert ear_from_cbor(claims) == ear == ear_from_json(ear_to_json(ear))
