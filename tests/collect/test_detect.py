"""Which TEE a machine is: read from files, concluded by a pure function."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.collect.boot_log import CCEL, collect_event_log
from attest.collect.detect import Machine, detect, no_tee, read_machine
from attest.errors import CollectionError
from attest.evidence.envelope import MAX_ITEM_BYTES
from tests.collect.fake_machine import plain_machine, simulated_td, snp_machine, tdx_machine, with_gpus

AZURE = "7783-7084-3265-9085-8269-3286-77"


def machine(*flags: str, **more: object) -> Machine:
    return Machine(flags=frozenset(flags), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "tee", "interface"),
    [
        (machine(), None, None),
        (machine("hypervisor"), None, None),
        (machine("hypervisor", "sev_snp", configfs="tsm"), "sev-snp", "configfs-tsm"),
        (machine("hypervisor", "tdx_guest", configfs="tsm"), "tdx", "configfs-tsm"),
        (machine("hypervisor", "sev_snp"), "sev-snp", None),
        (machine("hypervisor", devices=frozenset({"sev-guest"})), "sev-snp", "sev-guest"),
        (machine("hypervisor", devices=frozenset({"tdx_guest"})), "tdx", "tdx-guest"),
        (machine("hypervisor", sev_vmpl=0), "sev-snp", None),
        (machine("hypervisor", sev_platform=True), "sev-snp", None),
        (machine("sev_snp", devices=frozenset({"sev"})), None, None),
        (machine("hypervisor", "sev", "sev_es"), None, None),
        (machine("hypervisor", configfs="tsm"), None, "configfs-tsm"),
    ],
)
def test_tee_and_interface_follow_from_the_files(found: Machine, tee: str | None, interface: str | None) -> None:
    detected = detect(found)
    assert (detected.tee, detected.interface) == (tee, interface)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (machine(), "this machine is no confidential guest"),
        (machine("hypervisor"), "this virtual machine is no confidential one"),
        (machine("hypervisor", "sev", "sev_es"), "SEV-ES without SEV-SNP"),
        (machine("sev_snp", devices=frozenset({"sev"})), "a host for confidential guests"),
        (machine("hypervisor", asset_tag=AZURE), "Azure"),
        (machine("hypervisor", "sev_snp", configfs="not mounted"), "configfs is not mounted"),
        (machine("hypervisor", "sev_snp", kernel="5.15"), "the kernel 5.15 shows neither"),
        (machine("hypervisor", "sev_snp", configfs="not permitted"), "may not look"),
    ],
)
def test_what_is_missing_is_told_with_what_to_do(found: Machine, words: str) -> None:
    detected = detect(found)
    assert words in detected.reason
    assert detected.hint
    error = no_tee(detected)
    assert words in error.message
    assert error.code == ("tee-missing" if detected.tee is None else "tsm-missing")


def test_the_files_of_a_snp_guest_are_read(tmp_path: Path) -> None:
    made = snp_machine(tmp_path)
    made.has("sys/devices/system/cpu/sev/vmpl", "1\n")
    found = read_machine(with_gpus(made, 2).root)
    assert found.vendor == "AuthenticAMD"
    assert "sev_snp" in found.flags
    assert (found.kernel, found.system, found.configfs) == ("6.11.0-test", "QEMU Standard PC", "tsm")
    assert (found.sev_vmpl, found.nvidia_pci, found.nvidia_driver, found.event_log) == (1, 2, True, False)
    assert found.devices == {"sev-guest"}
    assert (detect(found).hypervisor, detect(found).gpus) == ("QEMU", True)


def test_the_files_of_a_td_are_read(tmp_path: Path) -> None:
    found = read_machine(tdx_machine(tmp_path).root)
    assert (found.devices, found.event_log, found.nvidia_pci) == (frozenset({"tdx_guest"}), True, 0)


def test_an_empty_root_is_no_guest(tmp_path: Path) -> None:
    assert read_machine(tmp_path) == Machine()
    assert detect(Machine(flags=frozenset({"hypervisor"}))).hypervisor == "unknown"


@pytest.mark.parametrize(
    ("folders", "state"),
    [
        ((), "absent"),
        (("sys/kernel/config",), "not mounted"),
        (("sys/kernel/config/usb_gadget",), "without tsm"),
        (("sys/kernel/config/tsm/report",), "tsm"),
    ],
)
def test_how_far_the_way_to_configfs_leads_is_told(folders: tuple[str, ...], state: str, tmp_path: Path) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    assert read_machine(tmp_path).configfs == state


def test_a_vmpl_that_is_no_number_is_none(tmp_path: Path) -> None:
    made = plain_machine(tmp_path)
    made.has("sys/devices/system/cpu/sev/vmpl", "²\n")
    assert read_machine(tmp_path).sev_vmpl is None


def test_what_may_not_be_looked_at_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain_machine(tmp_path)

    def denied(*_: object, **__: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", denied)
    monkeypatch.setattr(Path, "is_dir", denied)
    assert read_machine(tmp_path).configfs == "not permitted"


def test_this_very_machine_can_be_read() -> None:
    assert detect(read_machine()).reason or detect(read_machine()).interface


@given(text=st.binary(max_size=300))
def test_any_processor_file_is_read(text: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_bytes(text)
    detect(read_machine(root))


# -- the event log


def place(root: Path, data: bytes) -> None:
    (root / CCEL).parent.mkdir(parents=True)
    (root / CCEL).write_bytes(data)


def test_a_log_comes_without_the_rest_of_its_area(tmp_path: Path) -> None:
    td = simulated_td()
    place(tmp_path, td.event_log(size=1 << 20))
    assert collect_event_log(tmp_path) == td.event_log()


def test_no_log_is_none(tmp_path: Path) -> None:
    assert collect_event_log(tmp_path) is None


def test_a_container_has_the_event_log_where_it_is_not_hidden(tmp_path: Path) -> None:
    td = simulated_td()
    (tmp_path / "run/firmware").mkdir(parents=True)
    (tmp_path / "run/firmware/CCEL").write_bytes(td.event_log(size=1 << 20))
    assert read_machine(tmp_path).event_log is True
    assert collect_event_log(tmp_path) == td.event_log()


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, simulated_td().event_log()[:-3]])
def test_a_log_that_cannot_be_read_is_malformed(data: bytes, tmp_path: Path) -> None:
    place(tmp_path, data)
    with pytest.raises(CollectionError) as caught:
        collect_event_log(tmp_path)
    assert caught.value.code == "collected-malformed"
    assert "--no-eventlog" in (caught.value.hint or "")


def test_a_log_that_no_envelope_holds_is_too_long(tmp_path: Path) -> None:
    from attest_simulator.intel import application_event

    td = simulated_td()
    for _ in range(3):
        td = td.extend(3, application_event("example.com", "load", "x" * (MAX_ITEM_BYTES // 2)))
    place(tmp_path, td.event_log())
    with pytest.raises(CollectionError) as caught:
        collect_event_log(tmp_path)
    assert caught.value.code in ("collected-too-long", "collected-malformed")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError(13, "Permission denied"), "collection-permission-denied"),
        (OSError(5, "I/O"), "collection-failed"),
    ],
)
def test_a_log_that_may_not_be_read_is_told(
    error: OSError, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CollectionError) as caught:
        collect_event_log(tmp_path)
    assert caught.value.code == code


# -- Azure


@pytest.mark.parametrize(
    ("found", "interface"),
    [
        (machine("hypervisor", asset_tag=AZURE, devices=frozenset({"tpmrm0"})), "azure-vtpm"),
        # Some kernels show the processor's flag, or have the directory, and no interface all the same.
        (machine("hypervisor", "sev_snp", asset_tag=AZURE, devices=frozenset({"tpmrm0"})), "azure-vtpm"),
        (machine("hypervisor", asset_tag=AZURE, devices=frozenset({"tpmrm0"}), configfs="tsm"), "azure-vtpm"),
        # A guest without a paravisor asks for itself.
        (machine("hypervisor", asset_tag=AZURE, devices=frozenset({"tpmrm0", "sev-guest"})), "sev-guest"),
        (machine("hypervisor", asset_tag=AZURE, devices=frozenset({"tpmrm0", "tdx_guest"})), "tdx-guest"),
        (machine("hypervisor", asset_tag=AZURE, devices=frozenset({"tpmrm0"}), sev_platform=True), None),
        (machine("hypervisor", asset_tag=AZURE, devices=frozenset({"tpmrm0"}), sev_vmpl=2), None),
        (machine("hypervisor", devices=frozenset({"tpmrm0"})), None),
        (machine("hypervisor", asset_tag=AZURE), None),
    ],
)
def test_a_vm_below_a_paravisor_is_asked_through_its_tpm(found: Machine, interface: str | None) -> None:
    detected = detect(found)
    assert detected.interface == interface
    if interface == "azure-vtpm":
        assert (detected.tee, detected.reason) == (None, "")


@pytest.mark.parametrize("found", [machine(), machine("hypervisor", "sev_snp", configfs="tsm")])
def test_a_tpm_that_is_named_is_what_is_asked(found: Machine) -> None:
    assert detect(found, tcti="swtpm:port=2321").interface == "azure-vtpm"
