"""The log of an Azure VM's boot: collected where it explains the registers that the TPM quotes, otherwise left out."""

from hashlib import sha256
from pathlib import Path

import pytest

from attest.checks import Outcome
from attest.collect.boot_log import TCG_LOG, collect_tcg_log
from attest.collect.machine import Collected, collect_all
from attest.errors import CollectionError
from attest.evidence.envelope import MAX_ITEM_BYTES, MEDIA_EVENT_LOG
from attest.evidence.eventlog.facts import facts_of
from attest.evidence.eventlog.structure import MAX_LOG_BYTES
from attest_simulator.intel.eventlog import SHA1, LogEntry, opaque_event
from attest_simulator.nvidia.device import device_endorsements
from attest_simulator.tpm_log import startup_locality, typical_tpm_boot, write_tpm_log
from tests.collect.azure_judged import NONCE, a_vm, judged
from tests.collect.azure_vm import BOOT, SNP, TDX, AzureMachine, Host, software_vm
from tests.collect.fake_machine import with_gpus
from tests.samples import AT


def collected(vm: AzureMachine) -> Collected:
    return collect_all(NONCE, access=vm.access)


def log_of(found: Collected) -> bytes | None:
    item = found.evidence.item("eventlog")
    assert item is None or item.media_type == MEDIA_EVENT_LOG
    return None if item is None else item.value


def left_out(vm: AzureMachine) -> str:
    """Collect without the log: the evidence verifies, and one note says why there is none."""
    found = collected(vm)
    assert log_of(found) is None
    judged(found.evidence, vm.host)
    (note,) = found.notes
    return note


@pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
@pytest.mark.parametrize("padding", [0, 4096])
def test_the_log_is_collected_and_its_facts_verify(kind: str, host: Host, padding: int, tmp_path: Path) -> None:
    with a_vm(kind, tmp_path, host) as vm:
        log = vm.boot(padding=padding)
        found = collected(vm)
    assert (log_of(found), found.notes) == (log, ())
    verified = judged(found.evidence, host)
    (item,) = verified.items
    assert item.eventlog is not None
    facts = facts_of(item.eventlog)
    assert facts.secure_boot is not None
    assert facts.secure_boot.values == (("enabled", True),)
    assert [fact.values for fact in facts.kernel_command_lines or ()] == [(("text", "/vmlinuz root=/dev/sda1 ro"),)]
    assert "eventlog" in item.claims
    (check,) = [check for check in verified.checks if check.id == "eventlog.replay"]
    assert check.outcome is Outcome.PASS


def test_what_systemd_measures_after_the_log_is_no_difference(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    vm.boot(typical_tpm_boot(loader="stub"))
    for word in (b"enter-initrd", b"leave-initrd", b"sysinit"):
        tpm.extend(11, sha256(word).digest())
    assert log_of(collected(vm)) is not None


def test_a_log_with_gpus_and_a_binding_verifies(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    vm.boot()
    with_gpus(vm.machine, 1)
    found = collected(vm)
    assert [item.name for item in found.evidence.items] == ["cpu", "eventlog", "gpu0", "binding", "endorsements"]
    endorsements = SNP.endorsements(at=AT).merged(device_endorsements(vm.machine.gpus, at=AT))
    assert judged(found.evidence, endorsements=endorsements).items[0].eventlog is not None


def test_it_can_be_left_out(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    vm.boot()
    found = collect_all(NONCE, access=vm.access, with_log=False)
    assert (log_of(found), found.notes) == (None, ())


# -- what is left out


@pytest.mark.parametrize("content", [None, b""])
def test_a_machine_without_a_log_says_so(content: bytes | None, tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    if content is not None:
        vm.machine.has(str(TCG_LOG), content)
    assert left_out(vm).startswith(f"this machine has no log of its boot (/{TCG_LOG})")


@pytest.mark.parametrize("index", [0, 4, 7, 8, 14])
def test_a_log_that_does_not_lead_to_the_quoted_registers_is_left_out(index: int, tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    vm.boot()
    tpm.extend(index)
    assert f"PCR{index} is " in left_out(vm)


def test_a_log_without_an_event_that_happened_is_left_out(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    vm.boot()
    vm.machine.has(str(TCG_LOG), write_tpm_log(BOOT[:-1]))
    assert "PCR5 is " in left_out(vm)


def test_a_log_whose_data_is_not_what_was_measured_is_left_out(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    log = vm.boot()
    vm.machine.has(str(TCG_LOG), log.replace(b"EFI PART", b"EFI part"))
    assert "is left out, as verifiers would refuse it" in left_out(vm)


def test_a_log_from_another_locality_is_left_out(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    vm.boot()
    vm.machine.has(str(TCG_LOG), write_tpm_log((startup_locality(3), *BOOT)))
    assert "PCR0 is " in left_out(vm)


@pytest.mark.parametrize("rest", [write_tpm_log(BOOT, algorithms=(SHA1,)), write_tpm_log(BOOT)[:-3], b"\xff" * 100])
def test_a_log_that_cannot_be_read_is_left_out(rest: bytes, tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    vm.boot()
    vm.machine.has(str(TCG_LOG), rest)
    assert left_out(vm).startswith("the log of the boot is left out: the firmware's event log cannot be read")


def test_a_log_that_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    (tmp_path / TCG_LOG).mkdir(parents=True)
    assert left_out(vm).startswith("the log of the boot is left out: the event log cannot be read")


def test_only_root_may_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    vm, _, _ = software_vm(tmp_path)
    vm.boot()
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CollectionError) as caught:
        collect_tcg_log(tmp_path)
    assert (caught.value.code, caught.value.field) == ("collection-permission-denied", f"/{TCG_LOG}")


# -- limits


def with_data(size: int) -> tuple[LogEntry, ...]:
    return (*BOOT, LogEntry(index=14, event=opaque_event(0xD, b"x" * size, measured=b"x")))


def test_the_longest_log_that_an_envelope_holds_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    place = tmp_path / TCG_LOG
    place.parent.mkdir(parents=True)
    fits = MAX_ITEM_BYTES - len(write_tpm_log(with_data(0)))
    place.write_bytes(write_tpm_log(with_data(fits)) + bytes(100))
    found = collect_tcg_log(tmp_path)
    assert found is not None
    assert len(found.raw) == MAX_ITEM_BYTES
    place.write_bytes(write_tpm_log(with_data(fits + 1)))
    with pytest.raises(CollectionError) as caught:
        collect_tcg_log(tmp_path)
    assert caught.value.code == "collected-too-long"


def test_no_more_is_read_than_a_log_may_have(tmp_path: Path) -> None:
    place = tmp_path / TCG_LOG
    place.parent.mkdir(parents=True)
    place.write_bytes(write_tpm_log(BOOT).ljust(MAX_LOG_BYTES, b"\0"))
    assert collect_tcg_log(tmp_path) is not None
    place.write_bytes(write_tpm_log(BOOT).ljust(MAX_LOG_BYTES + 1, b"\0"))
    with pytest.raises(CollectionError) as caught:
        collect_tcg_log(tmp_path)
    assert caught.value.code == "collected-malformed"
