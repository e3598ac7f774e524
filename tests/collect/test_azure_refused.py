"""What stands in the way of an Azure VM's evidence: its TPM, its paravisor, registers that change."""

import errno
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from attest.collect import collect_machine
from attest.collect.azure import (
    FIRST_WAIT_SECONDS,
    MAX_QUOTES,
    REPORT_INDEX,
    REPORT_SECONDS,
    UNREADABLE_SECONDS,
    USER_DATA_INDEX,
)
from attest.collect.refusals import permission_denied
from attest.errors import CollectionError
from attest.evidence.azure.structure import HCL
from tests.collect.azure_judged import NONCE, a_vm, azure_of, judged, refused
from tests.collect.azure_vm import SNP, TDX, AzureMachine, Host, SoftwareTpm, software_vm

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
