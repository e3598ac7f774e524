"""Verified evidence is shown to a Rego policy under Trustee's names, and its verdict joins the typed policy's."""

from dataclasses import replace
from pathlib import Path

import pytest

from attest.appraisal import AttestationResult, appraise
from attest.checks import Outcome
from attest.cli.rego import read_rego
from attest.encoding import JsonValue
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import ConfigurationError
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, Evidence, EvidenceItem
from attest.policy import Policy
from attest.rego import read_rego_policy, rego_checks, with_rego
from attest.rego.trustee import ear_document, evidence_document
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator.nvidia import SimulatedGpu
from tests.policy.documents import MEASUREMENT, STRICT, policy_of
from tests.samples import AT, NO_CRL, report_evidence, scene
from tests.samples_intel import NO_TCB, intel_scene

pytest.importorskip("regopy", reason="needs the extra 'rego'")

FRESH = ExpectedFreshness(nonce=b"fresh")

SNP_POLICY = b"""package policy
import rego.v1

default executables := 33
default hardware := 97
default configuration := 36

executables := 3 if {
    input.snp
    input.snp.measurement in query_reference_value("snp_launch_measurement")
}

hardware := 2 if {
    input.snp.reported_tcb_microcode >= query_reference_value("microcode")
}

configuration := 2 if {
    not input.snp.policy_debug_allowed
    input.snp.policy_migrate_ma == false
}
"""
TDX_POLICY = b"""package policy
default hardware = 97
hardware = 2 {
    input.tdx.quote.header.tee_type == "81000000"
    input.tdx.quote.header.vendor_id == "939a7233f79c4ca9940a0db3957f0607"
    input.tdx.quote.body.mr_td == query_reference_value("mr_td")
    input.tdx.tcb_status == "UpToDate"
    input.tdx.collateral_expiration_status == "0"
    not input.tdx.td_attributes.debug
}
"""
RESOURCE_POLICY = b"""package policy
default allow = false
allow {
    data.plugin == "resource"
    count(input.submods) > 0
    input.submods.cpu0["ear.status"] == "STATUS"
    input.submods.cpu0["ear.veraison.annotated-evidence"].snp.measurement
}
"""
REFERENCES: dict[str, JsonValue] = {"snp_launch_measurement": [MEASUREMENT], "microcode": 1}


def tdx_evidence() -> VerifiedEvidence:
    """Verify a simulated TD."""
    honest = intel_scene()
    return honest.verify(honest.td.quote(bytes(64)))


def snp_result(policy: Policy | None = None, **guest: object) -> AttestationResult:
    """Appraise a simulated guest."""
    honest = scene()
    report = replace(honest.guest, **guest).report(b"fresh".ljust(64, b"\0"))  # type: ignore[arg-type]
    verified = verify(
        report_evidence(report),
        endorsements=honest.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=FRESH,
    )
    return appraise(verified, policy=policy or policy_of(STRICT), at=AT)


def test_an_attestation_policy_for_snp_reads_what_is_verified() -> None:
    (check,) = rego_checks([snp_result()], read_rego_policy(SNP_POLICY), REFERENCES)
    assert (check.outcome, check.item, check.got) == (Outcome.PASS, "cpu", "not refused")


def test_it_refuses_another_measurement_and_a_missing_reference_value() -> None:
    policy = read_rego_policy(SNP_POLICY)
    for references in (
        REFERENCES | {"snp_launch_measurement": ["00"]},
        {"microcode": 1},
        {},
        REFERENCES | {"microcode": "1"},
        REFERENCES | {"microcode": 255},
    ):
        (check,) = rego_checks([snp_result()], policy, references)
        assert check.outcome is Outcome.FAIL


def test_an_attestation_policy_for_tdx_reads_what_is_verified() -> None:
    verified = tdx_evidence()
    document = evidence_document(verified.items[0])
    tdx = document["tdx"]
    assert isinstance(tdx, dict)
    body = tdx["quote"]["body"]  # type: ignore[index, call-overload]
    result = appraise(verified, policy=Policy.baseline(), at=AT)
    (check,) = rego_checks([result], read_rego_policy(TDX_POLICY), {"mr_td": body["mr_td"]})  # type: ignore[index, call-overload]
    assert check.outcome is Outcome.PASS, check.got
    (check,) = rego_checks([result], read_rego_policy(TDX_POLICY), {"mr_td": "00" * 48})
    assert check.outcome is Outcome.FAIL


@pytest.mark.parametrize("status", ["affirming", "warning", "contraindicated", "none"])
def test_a_resource_policy_reads_the_status_of_the_appraisal(status: str) -> None:
    result = snp_result()
    submods = ear_document([result])["submods"]
    assert isinstance(submods, dict)
    cpu = submods["cpu0"]
    assert isinstance(cpu, dict)
    policy = read_rego_policy(RESOURCE_POLICY.replace(b"STATUS", status.encode()))
    (check,) = rego_checks([result], policy, {"plugin": "resource"})
    assert (check.outcome is Outcome.PASS) == (cpu["ear.status"] == status)
    (check,) = rego_checks([result], policy)
    assert check.outcome is Outcome.FAIL


def test_a_rego_policy_refuses_what_the_typed_policy_affirms() -> None:
    (judged,) = with_rego([snp_result()], read_rego_policy(SNP_POLICY), {})
    assert snp_result().affirmed
    assert not judged.affirmed
    assert {check.id for check in judged.failed} == {"policy.rego"}


def test_a_rego_policy_never_allows_what_the_typed_policy_refuses() -> None:
    everything = read_rego_policy(b"package policy\nallow := true\n")
    refused = snp_result(Policy.baseline())
    (judged,) = with_rego([refused], everything)
    assert not refused.affirmed
    assert not judged.affirmed
    assert judged.failed == refused.failed


def test_evidence_without_a_cpu_or_of_a_kind_without_names_is_refused() -> None:
    result = snp_result()
    policy = read_rego_policy(SNP_POLICY)
    bare = replace(result, verified=result.verified._replace(items=()))
    (check,) = rego_checks([bare], policy, REFERENCES)
    assert (check.outcome, check.got) == (Outcome.FAIL, "no CPU evidence to ask about")


def test_the_options_read_policy_and_data(tmp_path: Path) -> None:
    policy, data = tmp_path / "p.rego", tmp_path / "d.json"
    policy.write_bytes(b'package policy\nallow { data.plugin == "resource" }\n')
    data.write_text('{"plugin": "resource"}')
    (judged,) = read_rego((str(policy),), str(data)).judge([snp_result()])
    assert judged.affirmed
    (judged,) = read_rego((str(policy),), None).judge([snp_result()])
    assert not judged.affirmed
    (judged,) = read_rego((), None).judge([snp_result()])
    assert "policy.rego" not in {check.id for check in judged.checks}


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1, "a": 2}'])
def test_data_that_is_no_object_is_refused(content: str, tmp_path: Path) -> None:
    policy, data = tmp_path / "p.rego", tmp_path / "d.json"
    policy.write_bytes(b"package policy\nallow := true\n")
    data.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        read_rego((str(policy),), str(data))
    assert caught.value.code == "rego-data-invalid"


def test_data_without_a_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--rego-data requires --rego"):
        read_rego((), str(tmp_path / "d.json"))


def test_a_tcb_that_was_left_unchecked_leaves_its_claims_out() -> None:
    honest = intel_scene()
    verified = honest.verify(honest.td.quote(bytes(64)), endorsements=Endorsements(), unchecked=(NO_TCB, NO_CRL[0]))
    tdx = evidence_document(verified.items[0])["tdx"]
    assert isinstance(tdx, dict)
    assert "tcb_status" not in tdx


def test_an_enclave_has_no_names_and_is_refused() -> None:
    honest = intel_scene()
    verified = honest.verify(honest.enclave.quote(bytes(64)), endorsements=honest.endorsements("sgx"))
    result = appraise(verified, policy=Policy.baseline(), at=AT)
    (check,) = rego_checks([result], read_rego_policy(b"package policy\nexecutables := 3\n"))
    assert (check.outcome, check.got) == (Outcome.FAIL, "the input is empty")


def test_a_gpu_is_shown_to_a_resource_policy_by_nvidias_names() -> None:
    gpu = SimulatedGpu.of("gpu")
    nonce = bytes(range(32))
    verified = verify(
        Evidence(items=(EvidenceItem(name="gpu0", media_type=MEDIA_NVIDIA_DEVICE, value=gpu.device_item(nonce)),)),
        endorsements=gpu.endorsements(at=AT),
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedFreshness(nonce=nonce),
    )
    result = appraise(verified, policy=Policy.baseline(), at=AT)
    path = b'input.submods.gpu0["ear.veraison.annotated-evidence"].nvidia'
    policy = read_rego_policy(b"package policy\nallow { " + path + b'.measres == "success" }\n')
    (check,) = rego_checks([result], policy)
    assert check.outcome is Outcome.PASS, check.got
    (check,) = rego_checks([result], read_rego_policy(SNP_POLICY), REFERENCES)
    assert check.outcome is Outcome.FAIL
