"""A simulated VM's evidence is verified in every form, whole, and only as what it is."""

from dataclasses import replace

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.envelope import MEDIA_AZURE_CVM, Evidence, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator.azure import FORMS, AzureForm, SimulatedAzureVm, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.nvidia import SimulatedBoard, bound_evidence
from attest_simulator.tpm_log import replayed_pcrs, typical_tpm_boot
from tests.samples import AT

NONCE = bytes(range(48))
REPEATED = NONCE.ljust(64, b"\0")
SNP = SimulatedAzureVm.of()
TDX = SimulatedAzureVm.of(SimulatedTdxHost.of(), name="VM 1")
VMS = pytest.mark.parametrize("vm", [SNP, TDX], ids=["snp", "tdx"])
BINDING = Binding(
    context="kms-release/v1", role="workload", audience="a test", nonce=bytes(range(32)), key=b"\x01" * 32
)
EXPECTED = ExpectedBinding(context="kms-release/v1", role="workload", audience="a test", nonce=bytes(range(32)))


def judged(
    vm: SimulatedAzureVm,
    evidence: Evidence,
    *,
    expected: ExpectedFreshness | ExpectedBinding,
    more: Endorsements | None = None,
    anchors: TrustAnchors | None = None,
) -> VerifiedEvidence:
    endorsements = vm.endorsements(at=AT)
    return verify(
        evidence,
        endorsements=endorsements if more is None else endorsements.merged(more),
        anchors=anchors or TrustAnchors.simulation(),
        at=AT,
        expected=expected,
    )


def one_item(data: bytes) -> Evidence:
    return Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_AZURE_CVM, value=data),))


@VMS
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_verified(vm: SimulatedAzureVm, form: AzureForm) -> None:
    data = vm.attest(NONCE, user_data=REPEATED).json(form)
    assert read_evidence([("evidence.json", data)]).evidence.items[0].value == data
    found = judged(vm, one_item(data), expected=ExpectedFreshness(nonce=NONCE, report_data=REPEATED))
    (item,) = found.items
    assert found.simulated
    assert isinstance(item.verified, VerifiedAzureEvidence)
    assert item.verified.pcrs == tuple(enumerate(vm.tpm.pcrs))
    assert item.verified.runtime.vm_configuration["vm_unique_id"] == vm.configuration.vm_unique_id


@VMS
def test_the_raw_pieces_are_verified(vm: SimulatedAzureVm) -> None:
    evidence = read_evidence(list(vm.attest(NONCE).files().items())).evidence
    assert judged(vm, evidence, expected=ExpectedFreshness(nonce=NONCE)).simulated


def test_version_2_says_that_user_data_repeats_extra_data() -> None:
    data = SNP.attest(NONCE).json("coco-v2")
    with pytest.raises(AttestError) as caught:
        judged(SNP, one_item(data), expected=ExpectedFreshness(nonce=NONCE))
    assert caught.value.code == "azure-user-data-mismatch"


@VMS
def test_a_binding_stands_in_both_places(vm: SimulatedAzureVm) -> None:
    evidence = vm.evidence(BINDING)
    parsed = parse_azure_evidence(evidence.items[0].value)
    assert parsed.stated_user_data == BINDING.report_data()
    assert parsed.stated_extra_data == BINDING.extra_data()
    assert judged(vm, evidence, expected=EXPECTED).simulated


@VMS
def test_a_gpu_beside_it_is_bound_too(vm: SimulatedAzureVm) -> None:
    board = SimulatedBoard.of(gpus=1, switches=0)
    evidence = bound_evidence(BINDING, board.devices, vm.items)
    found = judged(vm, evidence, expected=EXPECTED, more=board.endorsements(at=AT))
    assert [item.name for item in found.items] == ["cpu", "gpu0"]


def test_settings_are_said_and_measured() -> None:
    vm = SimulatedAzureVm.of(secure_boot=False, console_enabled=False, vm_unique_id="0123")
    (item,) = judged(vm, one_item(vm.attest(NONCE).json()), expected=ExpectedFreshness(nonce=NONCE)).items
    assert isinstance(item.verified, VerifiedAzureEvidence)
    said = item.verified.runtime.vm_configuration
    assert said == {"console_enabled": False, "secure_boot": False, "tpm_enabled": True, "vm_unique_id": "0123"}
    assert vm.tpm.pcrs[7] != SNP.tpm.pcrs[7]


def test_some_registers_are_quoted_without_the_others() -> None:
    data = SNP.attest(NONCE, indices=(11, 4)).json()
    (item,) = judged(SNP, one_item(data), expected=ExpectedFreshness(nonce=NONCE)).items
    assert isinstance(item.verified, VerifiedAzureEvidence)
    assert item.verified.pcrs == ((4, SNP.tpm.pcrs[4]), (11, SNP.tpm.pcrs[11]))


@VMS
def test_a_vm_is_no_real_one(vm: SimulatedAzureVm) -> None:
    with pytest.raises(AttestError):
        judged(
            vm,
            one_item(vm.attest(NONCE).json()),
            expected=ExpectedFreshness(nonce=NONCE),
            anchors=TrustAnchors.vendors(),
        )


# -- what an attacker would do


def code_of(vm: SimulatedAzureVm, evidence: Evidence) -> str | None:
    with pytest.raises(AttestError) as caught:
        judged(vm, evidence, expected=ExpectedFreshness(nonce=NONCE))
    return caught.value.code


@VMS
def test_a_quote_of_another_vms_tpm_is_refused(vm: SimulatedAzureVm) -> None:
    other = replace(vm, tpm=replace(vm.tpm, name="VM 2"))
    pieces = replace(vm.attest(NONCE), quote=other.tpm.quote(NONCE))
    assert code_of(vm, one_item(pieces.json())) == "tpm-signature-invalid"


@VMS
def test_a_report_of_another_vm_is_refused_for_its_nonce_or_key(vm: SimulatedAzureVm) -> None:
    stale = vm.attest(NONCE[::-1])
    assert code_of(vm, one_item(stale.json())) == "nonce-mismatch"


def test_a_td_quote_of_another_td_is_refused() -> None:
    other = SimulatedTdxHost.of()
    other = replace(other, td=replace(other.td, mr_td=b"\x07" * 48))
    pieces = TDX.attest(NONCE)
    spliced = replace(pieces, td_quote=other.td_quote(replace(TDX, host=other).hcl_report()))
    assert code_of(TDX, one_item(spliced.json())) == "azure-td-report-mismatch"


def test_a_report_of_a_guest_above_the_paravisor_is_refused() -> None:
    host = SimulatedSnpHost.of()
    vm = replace(SNP, host=replace(host, guest=replace(host.guest, vmpl=2)))
    assert code_of(vm, one_item(vm.attest(NONCE).json())) == "azure-vmpl-unexpected"


def test_a_vm_that_booted_has_the_registers_to_which_its_log_leads() -> None:
    entries = typical_tpm_boot(loader="stub")
    booted = SimulatedAzureVm.of().booted(entries)
    assert booted.tpm.pcrs == replayed_pcrs(entries)
    assert booted.tpm.pcrs != SimulatedAzureVm.of().tpm.pcrs
