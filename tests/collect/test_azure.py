"""Evidence of Azure VMs: collected from a TPM, real or not, then verified and appraised; and every way to fail."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from attest.checks import Unchecked
from attest.collect import collect_machine
from attest.collect.azure import (
    FIRST_WAIT_SECONDS,
    MAX_QUOTES,
    REPORT_INDEX,
    REPORT_SECONDS,
    UNREADABLE_SECONDS,
    USER_DATA_INDEX,
    asked_of_azure,
)
from attest.collect.azure_host import ThimCertificates
from attest.collect.machine import Collected, collect_all, unasked_binding
from attest.collect.refusals import permission_denied
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import BindingError, CollectionError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.structure import HCL
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_AZURE_CVM, Evidence, parse_envelope
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.simulator.azure import SimulatedSnpHost
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from tests.collect.azure_vm import SNP, TDX, AzureMachine, Host, SoftwareTpm, software_vm
from tests.collect.fake_machine import with_gpus
from tests.collect.swtpm import paravisor, swtpm_vm
from tests.samples import AT

NONCE = bytes(range(32))


@pytest.fixture(params=["software", pytest.param("swtpm", marks=pytest.mark.loopback)])
def kind(request: pytest.FixtureRequest) -> str:
    """Which TPM."""
    return str(request.param)


@contextmanager
def a_vm(kind: str, folder: Path, host: Host = SNP, *, stuck: bool = False) -> Iterator[AzureMachine]:
    if kind == "software":
        vm, tpm, _ = software_vm(folder, host)
        if stuck:
            tpm.on_write = None
        yield vm
        return
    with swtpm_vm(folder, host, stuck=stuck) as (vm, _):
        yield vm


def judged(
    evidence: Evidence,
    host: Host = SNP,
    *,
    nonce: bytes | None = NONCE,
    report_data: bytes | None = None,
    endorsements: Endorsements | None = None,
) -> VerifiedEvidence:
    """Verify as a stranger would: from the bytes of the envelope."""
    unchecked = (Unchecked(check="revocation", reason="a test"),) if endorsements is not None else ()
    return verify(
        parse_envelope(evidence.to_json()),
        endorsements=host.endorsements(at=AT) if endorsements is None else endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedFreshness(nonce=nonce, report_data=report_data),
        unchecked=unchecked,
    )


def azure_of(verified: VerifiedEvidence) -> VerifiedAzureEvidence:
    (found,) = [item.verified for item in verified.items if isinstance(item.verified, VerifiedAzureEvidence)]
    return found


def refused(vm: AzureMachine, challenge: Binding | bytes = NONCE) -> CollectionError:
    with pytest.raises(CollectionError) as caught:
        collect_machine(challenge, access=vm.access)
    assert caught.value.hint
    return caught.value


# -- what is collected


@pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
def test_what_is_collected_verifies(kind: str, host: Host, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path, host) as vm:
        collected = collect_all(NONCE, access=vm.access)
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
    cpu = next(item for item in collected.evidence.items if item.media_type == MEDIA_AZURE_CVM)
    binding = next(item for item in collected.evidence.items if item.name == "binding")
    parsed = parse_azure_evidence(cpu.value)
    assert parsed.stated_user_data[:48] == parsed.stated_extra_data
    assert sha256(binding.value).digest() != parsed.stated_extra_data[:32]


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


# -- a TPM that is not as it should be


def test_without_a_report_this_is_no_confidential_vm(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path, stuck=True) as vm:
        vm.tpm.drop(REPORT_INDEX)
        error = refused(vm)
        assert (error.code, error.got) == ("azure-report-missing", "no such index")
        vm.tpm.put(REPORT_INDEX, None)
        error = refused(vm)
        assert (error.code, error.got) == ("azure-report-missing", "nothing written")


@pytest.mark.parametrize("content", [bytes(2048), b"\xff" * 2048])
def test_an_erased_report_is_none(kind: str, content: bytes, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path, stuck=True) as vm:
        vm.tpm.put(REPORT_INDEX, content)
        assert refused(vm).code == "azure-report-missing"


def test_a_report_of_another_kind_is_refused(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path, stuck=True) as vm:
        data = bytearray(vm.report())
        data[0x4C8] = 3  # VBS: trusted launch
        vm.tpm.put(REPORT_INDEX, bytes(data))
        error = refused(vm)
        assert (error.code, error.field) == ("collected-malformed", "report_type")


def test_without_its_key_the_tpm_cannot_speak(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path) as vm:
        vm.tpm.swap_ak(there=False)
        assert refused(vm).code == "azure-ak-missing"


def test_another_key_than_the_reports_is_refused(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path, stuck=True) as vm:
        vm.publish(NONCE.ljust(64, b"\0"))
        vm.tpm.swap_ak(there=True)
        assert refused(vm).code == "azure-ak-mismatch"


def test_nothing_is_written_to_a_tpm_without_a_place_for_a_report(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path) as vm:
        vm.tpm.drop(REPORT_INDEX)
        refused(vm)
        assert vm.access.tpm().nv_size(USER_DATA_INDEX) is None


def test_claims_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    template = vm.host.hcl_template(tpm.ak, tpm.ak)
    tpm.put(REPORT_INDEX, replace(template, runtime_data=b"{}").to_bytes())
    tpm.on_write = None
    error = refused(vm)
    assert (error.code, error.field) == ("collected-malformed", "keys")


def test_a_hardware_report_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    template = vm.host.hcl_template(tpm.ak, tpm.ak)
    tpm.put(REPORT_INDEX, replace(template, hardware_report=b"\x63" + bytes(1183)).to_bytes())
    tpm.on_write = None
    error = refused(vm)
    assert error.code == "collected-malformed"
    assert "SNP report" in error.message


@pytest.mark.parametrize("method", ["open", "read_nv", "read_key", "write_nv", "quote", "read_pcrs"])
def test_what_the_tpm_refuses_is_handed_on(method: str, tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    error = permission_denied(PermissionError(errno.EACCES, "Permission denied"), "/dev/tpmrm0")
    tpm.errors[method] = [error]
    assert refused(vm) is error


# -- waiting for the report


def test_the_report_is_waited_for_with_longer_and_longer_pauses(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.on_write = None
    plain = vm.access

    def sleep(seconds: float) -> None:
        plain.sleep(seconds)
        if len(vm.waited) == 6:
            vm.publish(tpm.written[-1])

    judged(collect_machine(NONCE, access=replace(plain, sleep=sleep)))
    assert vm.waited == [FIRST_WAIT_SECONDS, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_paravisor_that_does_nothing_is_given_up_on(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.on_write = None
    error = refused(vm)
    assert (error.code, error.retryable) == ("azure-report-stale", True)
    assert (error.expected, error.got) == (NONCE.ljust(64, b"\0").hex(), bytes(64).hex())
    assert REPORT_SECONDS <= vm.clock <= REPORT_SECONDS + 1


def test_user_data_of_somebody_else_is_not_taken_for_ours(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.on_write = lambda _: vm.publish(b"\x07" * 64)
    assert refused(vm).code == "azure-report-stale"


@pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
def test_a_report_that_is_half_old_is_read_again(host: Host, tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path, host)
    new = vm.report(NONCE.ljust(64, b"\0"))
    half = vm.report()[: HCL.size] + new[HCL.size :]
    tpm.on_write = lambda _: tpm.put(REPORT_INDEX, half)
    assert refused(vm).code == "azure-report-stale"
    plain = vm.access

    def sleep(seconds: float) -> None:
        plain.sleep(seconds)
        vm.publish(tpm.written[-1])

    judged(collect_machine(NONCE, access=replace(plain, sleep=sleep)), host)


def openhcl(vm: AzureMachine, tpm: SoftwareTpm) -> list[float]:
    """Remake the report as OpenHCL does: when its reading begins, once in two seconds; tell when."""
    renewed: list[float] = []

    def on_read(index: int) -> None:
        if index == REPORT_INDEX and (not renewed or vm.clock - renewed[-1] > 2):
            renewed.append(vm.clock)
            given = tpm.nv[USER_DATA_INDEX].data
            vm.publish(given or bytes(64))

    tpm.on_write, tpm.on_read = None, on_read
    return renewed


def test_a_report_that_is_remade_by_reading_is_there_at_once(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    renewed = openhcl(vm, tpm)
    judged(collect_machine(NONCE, access=vm.access))
    assert (renewed, vm.waited) == ([0.0], [])
    judged(collect_machine(b"again", access=vm.access), nonce=b"again")
    assert 2 < renewed[1] == vm.clock < 3.5


def test_programs_that_collect_at_once_get_their_turns(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    renewed = openhcl(vm, tpm)
    plain = vm.access
    rival = b"\x07" * 64

    def sleep(seconds: float) -> None:
        plain.sleep(seconds)
        if len(renewed) < 3:
            tpm.put(USER_DATA_INDEX, rival)

    renewed.append(vm.clock)
    judged(collect_machine(NONCE, access=replace(plain, sleep=sleep)))
    assert len(renewed) == 4


def test_a_report_that_is_gone_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.on_write = lambda _: tpm.drop(REPORT_INDEX)
    assert refused(vm).code == "azure-report-missing"
    assert UNREADABLE_SECONDS <= vm.clock <= UNREADABLE_SECONDS + 1
    vm.publish()
    plain = vm.access

    def sleep(seconds: float) -> None:
        plain.sleep(seconds)
        vm.publish(tpm.written[-1])

    judged(collect_machine(NONCE, access=replace(plain, sleep=sleep)))


def test_a_tpm_that_fails_while_it_is_waited_for_is_told(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    error = CollectionError("gone", code="tpm-unreachable", hint="look")

    def fail(_: bytes) -> None:
        tpm.errors["read_nv"] = [error]

    tpm.on_write = fail
    assert refused(vm) is error


# -- registers that change


def test_a_register_that_changes_between_quote_and_reading_is_quoted_again(kind: str, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path) as vm:
        plain = vm.access

        @dataclass
        class Extending:
            left: int = 2

            def open(self, tcti: str) -> object:
                inner = plain.open_tpm(tcti)
                outer = self

                class Tpm:
                    def __getattr__(self, name: str) -> object:
                        return getattr(inner, name)

                    def read_pcrs(self) -> tuple[bytes, ...]:
                        if outer.left:
                            outer.left -= 1
                            vm.tpm.extend(16)
                        return inner.read_pcrs()

                return Tpm()

        evidence = collect_machine(NONCE, access=replace(plain, open_tpm=Extending().open))  # type: ignore[arg-type]
    values = dict(azure_of(judged(evidence)).pcrs)
    assert any(values[16])


def test_registers_that_never_rest_are_given_up_on(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    quotes: list[int] = []

    def extend() -> None:
        quotes.append(1)
        tpm.extend(10)

    tpm.before_pcrs = extend
    error = refused(vm)
    assert (error.code, error.retryable, len(quotes)) == ("tpm-pcrs-changing", True, MAX_QUOTES)


def test_a_quote_under_another_nonce_is_refused(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.quoted_nonce = b"another"
    error = refused(vm)
    assert (error.code, error.field) == ("report-data-ignored", "extraData")


def test_a_quote_that_is_none_is_refused(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.message = b"\xffTCG"
    assert refused(vm).code == "collected-malformed"


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


def test_a_certificate_for_another_tcb_is_left_out_and_told(tmp_path: Path) -> None:
    chip = SNP.guest.chip
    old = replace(chip.current_tcb, microcode=chip.current_tcb.microcode - 1)
    updated = SimulatedSnpHost(guest=replace(SNP.guest, chip=replace(chip, reported_tcb=old)))
    vm, _, _ = software_vm(tmp_path, updated)
    collected = collect_all(NONCE, access=vm.access)
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
