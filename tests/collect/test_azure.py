"""Evidence of Azure VMs: collected from a TPM, real or not, then verified."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from attest.collect import collect_machine
from attest.collect.azure import asked_of_azure
from attest.collect.azure_host import AzureHost, ThimCertificates
from attest.collect.machine import Collected, collect_all, unasked_binding
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import BindingError, CollectionError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.envelope import Evidence
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest_simulator.azure import SimulatedSnpHost
from attest_simulator.azure.imds import SimulatedImds
from attest_simulator.azure.metadata_service import serving_imds
from attest_simulator.nvidia.device import device_endorsements
from tests.collect.azure_judged import NONCE, a_vm, azure_of, judged, refused
from tests.collect.azure_vm import SNP, TDX, Host, software_vm
from tests.collect.fake_machine import with_gpus
from tests.collect.swtpm import paravisor, swtpm_vm
from tests.samples import AT

# -- what is collected


@pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
def test_what_is_collected_verifies(kind: str, host: Host, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path, host) as vm:
        collected = collect_all(NONCE, access=vm.access, with_log=False)
    expected = "azure-snp" if host is SNP else "azure-tdx"
    assert (collected.tee, collected.interface, collected.notes) == (expected, "azure-vtpm", ())
    verified = judged(collected.evidence, host)
    assert verified.freshness.value == "matched"
    found = azure_of(verified)
    assert found.runtime.user_data == NONCE.ljust(64, b"\0")
    assert found.evidence.form_version == 2
    assert len(found.pcrs) == 24


def test_the_hosts_certificates_come_along_and_suffice(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path) as vm:
        evidence = collect_machine(NONCE, access=vm.access)
    assert [item.name for item in evidence.items] == ["cpu", "endorsements"]
    assert azure_of(judged(evidence, endorsements=NO_ENDORSEMENTS)).runtime.user_data


def test_a_machine_without_a_network_gives_the_same_without_certificates(tmp_path: Path) -> None:
    vm, _, services = software_vm(tmp_path)
    services.error = CollectionError("nobody answers", code="azure-host-unreachable")
    collected = collect_all(NONCE, access=vm.access)
    assert [item.name for item in collected.evidence.items] == ["cpu"]
    assert "nobody answers" in collected.notes[0]
    judged(collected.evidence)


def test_a_binding_stands_in_both_places(kind: str, tmp_path: Path) -> None:
    binding = unasked_binding(NONCE)
    with a_vm(kind, tmp_path) as vm:
        evidence = collect_machine(binding, access=vm.access)
    found = azure_of(judged(evidence))
    assert found.evidence.form_version == 1
    assert found.runtime.user_data == binding.report_data()
    assert found.quote.extra_data == binding.extra_data()


def test_gpus_are_bound_to_the_tpm(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path) as vm:
        with_gpus(vm.machine)
        collected = collect_all(NONCE, access=vm.access)
    assert [item.name for item in collected.evidence.items] == ["cpu", "gpu0", "gpu1", "binding", "endorsements"]
    endorsements = SNP.endorsements(at=AT).merged(device_endorsements(vm.machine.gpus, at=AT))
    verified = judged(collected.evidence, endorsements=endorsements)
    assert (verified.freshness.value, len(verified.items)) == ("matched", 3)
    exchanged = [item for item in collected.evidence.items if item.name != "gpu1"]
    with pytest.raises(BindingError) as caught:
        judged(Evidence(items=tuple(exchanged)), endorsements=endorsements)
    assert caught.value.code == "binding-devices-mismatch"


def test_all_of_the_user_data_can_be_given(kind: str, tmp_path: Path) -> None:
    mine = sha256(b"1").digest() + sha256(b"2").digest()
    with a_vm(kind, tmp_path) as vm:
        evidence = collect_machine(mine, access=vm.access)
    found = azure_of(judged(evidence, nonce=None, report_data=mine))
    assert (found.runtime.user_data, found.quote.extra_data) == (mine, mine[:48])


@pytest.mark.parametrize("size", [1, 48])
def test_a_nonce_of_every_length_that_fits_is_quoted_whole(kind: str, size: int, tmp_path: Path) -> None:
    nonce = b"\x5a" * size
    with a_vm(kind, tmp_path) as vm:
        assert judged(collect_machine(nonce, access=vm.access), nonce=nonce).freshness.value == "matched"


@pytest.mark.parametrize("size", [49, 63])
def test_a_nonce_that_does_not_fit_is_refused_and_nothing_is_written(size: int, tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    assert refused(vm, bytes(size)).code == "azure-nonce-length"
    assert tpm.written == []


def test_an_empty_nonce_is_refused() -> None:
    with pytest.raises(CollectionError):
        asked_of_azure(b"")


def test_a_second_collection_answers_the_second_question(kind: str, tmp_path: Path) -> None:
    other = bytes(reversed(NONCE))
    with a_vm(kind, tmp_path) as vm:
        first = collect_machine(NONCE, access=vm.access)
        second = collect_machine(other, access=vm.access)
    judged(first)
    judged(second, nonce=other)
    with pytest.raises(BindingError):
        judged(second)


def test_the_level_of_the_report_is_the_paravisors(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    assert collect_machine(NONCE, access=vm.access, vmpl=0).items
    with pytest.raises(CollectionError) as caught:
        collect_machine(NONCE, access=vm.access, vmpl=1)
    assert caught.value.code == "vmpl-refused"


# -- a snapshot


@pytest.mark.loopback
def test_a_restored_snapshot_answers_new_questions_and_shows_in_its_counters(tmp_path: Path) -> None:
    with swtpm_vm(tmp_path) as (vm, tpm):
        access = vm.access
        first = azure_of(judged(collect_machine(NONCE, access=access)))
    saved = tmp_path / "saved"
    copytree(tpm.folder, saved)

    def again(nonce: bytes) -> VerifiedAzureEvidence:
        tpm.start()
        try:
            vm.tcti = tpm.tcti
            with paravisor(tpm, vm.publish):
                return azure_of(judged(collect_machine(nonce, access=vm.access), nonce=nonce))
        finally:
            tpm.stop()

    later = again(b"later")
    assert later.quote.reset_count > first.quote.reset_count
    rmtree(tpm.folder)
    copytree(saved, tpm.folder)
    # What the snapshot holds, the report with its user data included, is of the first question; the answer is not.
    restored = again(b"restored")
    assert restored.runtime.user_data == b"restored".ljust(64, b"\0")
    assert restored.quote.reset_count == later.quote.reset_count


# -- what the host adds


def served(url: str) -> AzureHost:
    return AzureHost(address=("127.0.0.1", int(url.rpartition(":")[2])))


@pytest.mark.loopback
@pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
def test_all_of_it_together_verifies(host: Host, tmp_path: Path) -> None:
    # A TPM of its own process, the TSS, a paravisor beside it, and the host's service over HTTP.
    with swtpm_vm(tmp_path, host) as (vm, _), serving_imds(SimulatedImds(host=host)) as url:
        vm.services = served(url)
        collected = collect_all(NONCE, access=vm.access, with_log=False)
    assert collected.notes == ()
    judged(collected.evidence, host)


@pytest.mark.loopback
@pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
def test_a_host_that_is_busy_at_first_is_waited_for(host: Host, tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path, host)
    with serving_imds(SimulatedImds(host=host), busy=(429, 503)) as url:
        vm.services = served(url)
        collected = collect_all(NONCE, access=vm.access, with_log=False)
    assert (collected.notes, len(vm.waited)) == ((), 2)
    judged(collected.evidence, host)


def test_a_certificate_for_another_tcb_is_left_out_and_told(tmp_path: Path) -> None:
    chip = SNP.guest.chip
    old = replace(chip.current_tcb, microcode=chip.current_tcb.microcode - 1)
    updated = SimulatedSnpHost(guest=replace(SNP.guest, chip=replace(chip, reported_tcb=old)))
    vm, _, _ = software_vm(tmp_path, updated)
    collected = collect_all(NONCE, access=vm.access, with_log=False)
    (note,) = collected.notes
    assert chip.current_tcb.to_bytes()[::-1].hex() in note
    assert old.to_bytes()[::-1].hex() in note
    cpu = parse_azure_evidence(collected.evidence.items[0].value).cpu
    assert isinstance(cpu, ParsedSnpEvidence)
    assert cpu.leaves == ()
    assert collected.evidence.items[-1].name == "endorsements"
    judged(collected.evidence, updated)


def test_a_host_without_issuers_gives_the_certificate_alone(tmp_path: Path) -> None:
    vm, _, services = software_vm(tmp_path)
    services.thim = ThimCertificates(vcek=SNP.vcek(), chain_pem=b"", tcb=SNP.guest.chip.current_tcb.to_bytes())
    assert [item.name for item in collect_machine(NONCE, access=vm.access).items] == ["cpu"]


def test_a_td_without_a_quote_has_no_evidence(tmp_path: Path) -> None:
    vm, _, services = software_vm(tmp_path, TDX)
    services.error = CollectionError("busy", code="azure-host-busy", hint="later", retryable=True)
    assert refused(vm) is services.error


def test_a_td_quote_that_is_none_or_of_another_is_refused(tmp_path: Path) -> None:
    vm, _, services = software_vm(tmp_path, TDX)
    services.quote = b"nonsense"
    assert refused(vm).code == "collected-malformed"
    services.quote = TDX.td_quote(vm.report(b"\x09" * 64))
    error = refused(vm, b"another question")
    assert (error.code, error.field) == ("report-data-ignored", "REPORTDATA")


def test_a_td_quote_is_in_the_evidence(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path, TDX)
    collected: Collected = collect_all(NONCE, access=vm.access)
    (item,) = collected.evidence.items
    assert isinstance(parse_azure_evidence(item.value).cpu, ParsedQuote)
