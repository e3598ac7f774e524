"""Reports through configfs-tsm: what is asked, what is left behind, and each way in which it fails."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from attest.collect.detect import read_machine
from attest.collect.tsm import (
    MAX_BLOB_BYTES,
    MAX_RACES,
    WAITS_SECONDS,
    TsmReport,
    TsmReports,
    collect_tsm,
    tsm_provider,
)
from attest.errors import CollectionError
from tests.collect.fake_machine import FakeMachine, FakeTsm, snp_machine, tdx_machine

DATA = bytes(range(64))


def ask(machine: FakeMachine, **options: object) -> TsmReport:
    access = machine.access
    return collect_tsm(
        access.reports(access.root),
        DATA,
        random=access.random,
        sleep=access.sleep,
        **options,  # type: ignore[arg-type]
    )


def refused(machine: FakeMachine, **options: object) -> CollectionError:
    with pytest.raises(CollectionError) as caught:
        ask(machine, **options)
    assert caught.value.exit_code == 6
    assert caught.value.hint
    if machine.tsm is not None and machine.tsm.folder.is_dir():
        assert machine.tsm.left == []
    return caught.value


def kernel(machine: FakeMachine) -> FakeTsm:
    assert machine.tsm is not None
    return machine.tsm


def other_writer(machine: FakeMachine, times: int) -> Callable[[str], None]:
    """Another process that writes into our requests, the first so many times."""
    left = [times]

    def write(name: str) -> None:
        if left[0] > 0:
            left[0] -= 1
            kernel(machine).write(name, "inblob", b"\xee" * 64)

    return write


# -- what is asked


def test_a_request_is_made_asked_and_removed(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    found = ask(machine)
    assert (found.provider, found.privlevel, found.manifestblob) == ("sev_guest", 0, b"")
    assert found.outblob[0x50:0x90] == DATA
    assert found.auxblob
    assert kernel(machine).left == []


def test_every_request_has_a_name_of_its_own(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    ask(machine)
    ask(machine)
    assert kernel(machine).made == ["attest-0000000000000001", "attest-0000000000000002"]


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    (kernel(machine).folder / "attest-0000000000000001").mkdir()
    ask(machine)
    assert kernel(machine).made == ["attest-0000000000000002"]
    assert kernel(machine).left == ["attest-0000000000000001"]


def test_names_that_are_always_taken_are_an_error(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    kernel(machine).errors["make"] = [errno.EEXIST] * 4
    assert refused(machine).code == "collection-failed"


def test_a_request_that_cannot_be_removed_does_not_hide_the_answer(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    kernel(machine).errors["remove"] = [errno.EBUSY]
    assert ask(machine).outblob
    assert len(kernel(machine).left) == 1


def test_a_td_has_neither_privilege_levels_nor_certificates(tmp_path: Path) -> None:
    found = ask(tdx_machine(tmp_path))
    assert (found.provider, found.privlevel, found.auxblob) == ("tdx_guest", None, b"")


def test_the_provider_can_be_asked_without_a_report(tmp_path: Path) -> None:
    machine = tdx_machine(tmp_path)
    kernel(machine).errors["outblob"] = [errno.EIO]
    assert tsm_provider(kernel(machine), random=machine.access.random) == "tdx_guest"
    assert kernel(machine).left == []


def test_a_service_module_is_asked_by_name_and_its_manifest_comes_along(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    tsm = kernel(machine)
    tsm.shown |= {"service_provider", "manifestblob"}
    tsm.answer = lambda data, _: {"outblob": b"report" + data, "auxblob": b"", "manifestblob": b"manifest"}
    assert ask(machine, service_provider="svsm").manifestblob == b"manifest"
    assert tsm.requests["attest-0000000000000001"].service == b"svsm"


def test_a_guest_without_a_service_module_says_so(tmp_path: Path) -> None:
    assert refused(snp_machine(tmp_path), service_provider="svsm").code == "tsm-service-missing"


@pytest.mark.parametrize("size", [0, 63, 65])
def test_report_data_of_another_length_is_wrong_use(size: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        collect_tsm(TsmReports(tmp_path), bytes(size), random=bytes, sleep=lambda _: None)


@pytest.mark.parametrize("vmpl", [-1, 4])
def test_a_vmpl_that_is_none_is_wrong_use(vmpl: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="VMPL"):
        ask(snp_machine(tmp_path), vmpl=vmpl)


# -- other writers


@pytest.mark.parametrize("times", [1, MAX_RACES - 1])
def test_a_request_that_somebody_else_wrote_into_is_made_anew(times: int, tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    kernel(machine).meanwhile = other_writer(machine, times)
    assert ask(machine).outblob[0x50:0x90] == DATA
    assert len(kernel(machine).made) == times + 1
    assert kernel(machine).left == []


def test_somebody_who_writes_for_ever_ends_it(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    kernel(machine).meanwhile = other_writer(machine, 1000)
    error = refused(machine)
    assert (error.code, error.retryable) == ("tsm-changed", True)
    assert len(kernel(machine).made) == MAX_RACES


# -- a busy host


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT])
def test_a_busy_host_is_waited_for(number: int, tmp_path: Path) -> None:
    machine = tdx_machine(tmp_path)
    kernel(machine).errors["outblob"] = [number, number]
    assert ask(machine).outblob
    assert machine.waited == list(WAITS_SECONDS[:2])


def test_a_host_that_stays_busy_is_given_up_on(tmp_path: Path) -> None:
    machine = tdx_machine(tmp_path)
    kernel(machine).errors["outblob"] = [errno.EBUSY] * 100
    error = refused(machine)
    assert (error.code, error.retryable) == ("collection-busy", True)
    assert machine.waited == list(WAITS_SECONDS)


# -- each way in which it fails


@pytest.mark.parametrize(
    ("what", "number", "code"),
    [
        ("make", errno.ENXIO, "tsm-provider-missing"),
        ("make", errno.EACCES, "collection-permission-denied"),
        ("make", errno.EPERM, "collection-permission-denied"),
        ("make", errno.EROFS, "collection-permission-denied"),
        ("make", errno.ENOMEM, "collection-failed"),
        ("provider", errno.ENXIO, "tsm-provider-missing"),
        ("provider", errno.EACCES, "collection-permission-denied"),
        ("generation", errno.EIO, "collection-failed"),
        ("privlevel_floor", errno.ENXIO, "tsm-provider-missing"),
        ("privlevel", errno.EINVAL, "tsm-refused"),
        ("inblob", errno.EBUSY, "collection-busy"),
        ("inblob", errno.EINVAL, "tsm-refused"),
        ("outblob", errno.EINVAL, "tsm-refused"),
        ("outblob", errno.EPERM, "collection-permission-denied"),
        ("outblob", errno.EFBIG, "collected-too-long"),
        ("outblob", errno.ENOTTY, "sev-guest-key-disabled"),
        ("outblob", errno.ENXIO, "tsm-provider-missing"),
        ("outblob", errno.EIO, "collection-failed"),
        ("auxblob", errno.EIO, "collection-failed"),
    ],
)
def test_each_refusal_of_the_kernel_has_its_name(what: str, number: int, code: str, tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    kernel(machine).errors[what] = [number]
    error = refused(machine)
    assert error.code == code
    assert error.field is not None
    assert error.field.startswith("/sys/kernel/config/tsm/report")


def test_an_unknown_provider_is_refused(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    kernel(machine).provider = "arm_cca_guest"
    error = refused(machine)
    assert (error.code, error.got) == ("tsm-provider-unknown", "arm_cca_guest")


def test_a_blob_that_is_too_long_is_refused(tmp_path: Path) -> None:
    machine = tdx_machine(tmp_path)
    kernel(machine).answer = lambda *_: {"outblob": bytes(MAX_BLOB_BYTES)}
    assert len(ask(machine).outblob) == MAX_BLOB_BYTES
    kernel(machine).answer = lambda *_: {"outblob": bytes(MAX_BLOB_BYTES + 1)}
    assert refused(machine).code == "collected-too-long"


def test_a_generation_that_is_no_number_is_malformed(tmp_path: Path) -> None:
    class Strange(FakeTsm):
        def read(self, name: str, attribute: str) -> bytes:
            return b"\xb2\n" if attribute == "generation" else super().read(name, attribute)

    machine = snp_machine(tmp_path)
    machine.tsm = Strange(tmp_path, kernel(machine).answer)
    assert refused(machine).code == "collected-malformed"


def test_without_configfs_that_is_said(tmp_path: Path) -> None:
    assert refused(FakeMachine(root=tmp_path)).code == "tsm-missing"


def test_configfs_that_is_not_mounted_is_told_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/config").mkdir(parents=True)
    error = refused(FakeMachine(root=tmp_path))
    assert error.code == "configfs-not-mounted"
    assert "mount -t configfs" in (error.hint or "")


def test_configfs_without_tsm_is_a_kernel_without_it(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/config/usb_gadget").mkdir(parents=True)
    assert refused(FakeMachine(root=tmp_path)).code == "tsm-missing"


def test_a_configfs_that_may_not_be_looked_into_is_said(tmp_path: Path) -> None:
    class Closed:
        def is_dir(self) -> bool:
            raise PermissionError(errno.EACCES, "Permission denied")

    reports = TsmReports(tmp_path)
    reports.folder = Closed()  # type: ignore[assignment]
    with pytest.raises(CollectionError) as caught:
        tsm_provider(reports, random=bytes)
    assert caught.value.code == "collection-permission-denied"


# -- the real files


@pytest.mark.parametrize(
    ("there", "used"),
    [
        ((), "sys/kernel/config"),
        (("sys/kernel/config/tsm/report",), "sys/kernel/config"),
        (("run/configfs/tsm/report",), "run/configfs"),
        (("sys/kernel/config/tsm/report", "run/configfs/tsm/report"), "run/configfs"),
    ],
)
def test_a_container_has_its_reports_where_its_apparmor_profile_permits_writing(
    tmp_path: Path, there: tuple[str, ...], used: str
) -> None:
    for folder in there:
        (tmp_path / folder).mkdir(parents=True)
    assert TsmReports(tmp_path).configfs == tmp_path / used
    assert read_machine(tmp_path).configfs == ("tsm" if there else "absent")


def test_an_attribute_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    reports = TsmReports(tmp_path)
    (reports.folder / "one").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        reports.write("one", "inblob", DATA)
    assert reports.attributes("one") == frozenset()


def test_an_attribute_that_takes_only_a_part_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = TsmReports(tmp_path)
    (reports.folder / "one").mkdir(parents=True)
    (reports.folder / "one/inblob").touch()
    monkeypatch.setattr("os.write", lambda *_: 1)
    with pytest.raises(OSError, match="written in part"):
        reports.write("one", "inblob", DATA)


def test_on_a_machine_without_it_the_real_kernel_is_asked_and_says_no() -> None:
    if TsmReports(Path("/")).folder.is_dir():
        pytest.skip("this machine has configfs-tsm")
    with pytest.raises(CollectionError):
        tsm_provider(TsmReports(Path("/")), random=bytes)
