"""Reports through configfs-tsm, the common kernel interface of SEV-SNP and TDX guests (Linux 6.7 and later).

Creating a directory creates a request; ``inblob`` takes the data to commit to, and reading ``outblob`` makes the
firmware, or the host's quoting service, produce the report. ``generation`` counts writes: it reveals a write by another
process into the same request, whose report would not answer this one.

Spec: Linux, Documentation/ABI/testing/configfs-tsm-report; specs/sev-snp.md, section 17; specs/intel-tdx-sgx.md,
section 20.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from attest.collect.refusals import BUSY, permission_denied, refused_by
from attest.errors import CollectionError

CONFIGFS = Path("sys/kernel/config")
"""Below the root directory."""
IN_CONTAINER = Path("run/configfs")
"""Place of the same in a container: the AppArmor profile of containers denies writing below /sys."""
REPORTS = Path("tsm/report")
PROVIDERS: Mapping[str, Literal["sev-snp", "tdx"]] = {"sev_guest": "sev-snp", "tdx_guest": "tdx"}
REPORT_DATA_BYTES = 64
MAX_BLOB_BYTES = 1024 * 1024
"""Maximum size of outblob, auxblob and manifestblob; current kernels have up to 32 KiB. See ``evidence.envelope``."""
MAX_TEXT_BYTES = 4096
MAX_RACES = 4
"""Requests with foreign writes before an error."""
MAX_NAMES = 4
MAX_PRIVLEVEL = 3
WAITS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Between attempts to read a delayed report. The kernel's own driver has waited a minute before."""
_STEP = "/sys/kernel/config/tsm/report"
_WHERE = "configfs-tsm"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TsmReport:
    """The kernel's output, not verified.

    Attributes:
        provider: ``sev_guest`` or ``tdx_guest``.
        outblob: the report or quote.
        auxblob: for ``sev_guest`` the host's certificate table, or empty.
        manifestblob: manifest of a service module (SVSM), or empty.
        privlevel: the requested VMPL; None if the kernel has no choice.
    """

    provider: str
    outblob: bytes
    auxblob: bytes
    manifestblob: bytes
    privlevel: int | None


def is_there(path: Path) -> bool:
    """Return whether a path exists and can be seen."""
    try:
        return path.exists()
    except OSError:
        return False


class TsmReports:
    """The directory of requests below the root directory of a machine. Every method raises the kernel's ``OSError``."""

    def __init__(self, root: Path) -> None:
        places = (root / IN_CONTAINER, root / CONFIGFS)
        self.configfs = next((place for place in places if is_there(place / REPORTS)), places[-1])
        self.folder = self.configfs / REPORTS

    def make(self, name: str) -> None:
        """Create a request."""
        (self.folder / name).mkdir()

    def remove(self, name: str) -> None:
        """Remove a request with its attributes."""
        (self.folder / name).rmdir()

    def attributes(self, name: str) -> frozenset[str]:
        """Return the names of the request's attributes."""
        return frozenset(path.name for path in (self.folder / name).iterdir())

    def read(self, name: str, attribute: str) -> bytes:
        """Read an attribute, or limit + 1 bytes of a longer one."""
        with (self.folder / name / attribute).open("rb", buffering=0) as file:
            found = b""
            while piece := file.read(MAX_BLOB_BYTES + 1 - len(found)):
                found += piece
        return found

    def write(self, name: str, attribute: str, data: bytes) -> None:
        """Write an attribute in one piece, as configfs requires. A missing one is not created."""
        file = os.open(self.folder / name / attribute, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if os.write(file, data) != len(data):
                raise OSError(errno.EIO, "written in part")
        finally:
            os.close(file)


def tsm_provider(reports: TsmReports, *, random: Callable[[int], bytes]) -> str:
    """Return the name of this kernel's provider of reports, from a request that is removed again.

    Raises:
        CollectionError: as ``collect_tsm``, except for reports.
    """
    _require_there(reports)
    with _request(reports, random) as name:
        return _provider(reports, name)


def collect_tsm(
    reports: TsmReports,
    report_data: bytes,
    *,
    random: Callable[[int], bytes],
    sleep: Callable[[float], None],
    vmpl: int | None = None,
    service_provider: str | None = None,
) -> TsmReport:
    """Request a report or quote from the kernel.

    Args:
        reports: directory of requests.
        report_data: 64 bytes to commit to. With a service provider, the report commits to a hash of these bytes and
            the manifest instead.
        random: returns so many random bytes, for the name of the request.
        sleep: waits a number of seconds for a busy host.
        vmpl: SNP: privilege level in the report, 0 to 3. None is the lowest that the kernel allows.
        service_provider: ``svsm`` selects the guest's service module; None selects the firmware.

    Raises:
        ValueError: ``report_data`` is not 64 bytes, or an invalid VMPL.
        CollectionError: no interface, no provider or an unknown one, no permission, a VMPL below the kernel's own,
            a busy host, a report that is too long, or foreign writes in every request.
    """
    if len(report_data) != REPORT_DATA_BYTES:
        raise ValueError(f"a report commits to {REPORT_DATA_BYTES} bytes, not {len(report_data)}")
    if vmpl is not None and not 0 <= vmpl <= MAX_PRIVLEVEL:
        raise ValueError(f"VMPL {vmpl}: expected 0 to {MAX_PRIVLEVEL}")
    _require_there(reports)
    for _ in range(MAX_RACES):
        with _request(reports, random) as name:
            found = _ask(reports, name, report_data, vmpl=vmpl, service_provider=service_provider, sleep=sleep)
        if found is not None:
            return found
    raise CollectionError(
        f"another process wrote into each of {MAX_RACES} requests for a report",
        code="tsm-changed",
        field=f"{_STEP}/…/generation",
        expected="our own writes, and no others",
        got="more",
        hint="find out which process writes into requests of others, and stop it",
        retryable=True,
    )


def _ask(
    reports: TsmReports,
    name: str,
    report_data: bytes,
    *,
    vmpl: int | None,
    service_provider: str | None,
    sleep: Callable[[float], None],
) -> TsmReport | None:
    """Write one request and read its answer; None after a foreign write."""
    provider = _provider(reports, name)
    shown = _call(partial(reports.attributes, name), name)
    privlevel = _privlevel(reports, name, shown, vmpl)
    writes = [("inblob", report_data)]
    if privlevel is not None:
        writes.append(("privlevel", b"%d" % privlevel))
    if service_provider is not None:
        _require_service(shown, service_provider)
        writes.append(("service_provider", service_provider.encode()))
    before = _number(reports, name, "generation")
    for attribute, data in writes:
        # NOTE: configfs takes a binary attribute when its file is closed, and cannot report an error then.
        # A refused inblob shows in the generation, or the kernel refuses to read the report (EINVAL).
        _call(partial(reports.write, name, attribute, data), attribute)
    outblob = _patiently(partial(reports.read, name, "outblob"), "outblob", sleep)
    others = {
        attribute: _patiently(partial(reports.read, name, attribute), attribute, sleep)
        for attribute in ("auxblob", "manifestblob")
        if attribute in shown
    }
    if _number(reports, name, "generation") != before + len(writes):
        return None
    for attribute, blob in (("outblob", outblob), *others.items()):
        _require_short(attribute, blob)
    return TsmReport(
        provider=provider,
        outblob=outblob,
        auxblob=others.get("auxblob", b""),
        manifestblob=others.get("manifestblob", b""),
        privlevel=privlevel,
    )


def _provider(reports: TsmReports, name: str) -> str:
    found = _text(reports, name, "provider")
    if found not in PROVIDERS:
        raise CollectionError(
            f"the kernel's provider of reports {found[:40]!r} is not known to this version",
            code="tsm-provider-unknown",
            field=f"{_STEP}/…/provider",
            expected=" or ".join(PROVIDERS),
            got=found[:40],
            hint="'attest' collects on SEV-SNP and TDX guests",
        )
    return found


def _privlevel(reports: TsmReports, name: str, shown: frozenset[str], vmpl: int | None) -> int | None:
    """Return the VMPL to write. The kernel's default 0 is refused by firmware for a kernel above VMPL 0."""
    if "privlevel" not in shown:
        if vmpl is not None:
            raise _vmpl_refused("this guest has no privilege levels", "no VMPL", vmpl)
        return None
    floor = _number(reports, name, "privlevel_floor")
    if vmpl is not None and vmpl < floor:
        raise _vmpl_refused(f"VMPL {vmpl} is below the kernel's own, {floor}", f"at least {floor}", vmpl)
    return floor if vmpl is None else vmpl


def _vmpl_refused(message: str, expected: str, vmpl: int) -> CollectionError:
    return CollectionError(
        message,
        code="vmpl-refused",
        field=f"{_STEP}/…/privlevel",
        expected=expected,
        got=str(vmpl),
        hint="leave the VMPL out: the lowest that is allowed is taken",
    )


def _require_service(shown: frozenset[str], service_provider: str) -> None:
    if "service_provider" not in shown:
        raise CollectionError(
            "this guest has no service module that could answer",
            code="tsm-service-missing",
            field=f"{_STEP}/…/service_provider",
            expected=service_provider,
            got="none",
            hint="leave the service provider out: the firmware answers itself",
        )


def _require_short(attribute: str, blob: bytes) -> None:
    if len(blob) > MAX_BLOB_BYTES:
        raise CollectionError(
            f"{attribute} is longer than {MAX_BLOB_BYTES} bytes",
            code="collected-too-long",
            field=f"{_STEP}/…/{attribute}",
            expected=f"at most {MAX_BLOB_BYTES} bytes",
            got="more",
            hint="no current report or quote is that long; report this to the project",
        )


# -- requests, and errors of the kernel


def _require_there(reports: TsmReports) -> None:
    """Refuse a kernel without the interface, with the missing part."""
    try:
        if reports.folder.is_dir():
            return
        mounted = reports.configfs.is_dir() and any(reports.configfs.iterdir())
        known = reports.configfs.is_dir()
    except OSError as exc:
        raise permission_denied(exc, f"/{CONFIGFS}") from exc
    if known and not mounted:
        raise CollectionError(
            "configfs is not mounted",
            code="configfs-not-mounted",
            field=f"/{CONFIGFS}",
            hint="mount -t configfs none /sys/kernel/config; in a container, mount the machine's own at /run/configfs",
        )
    raise CollectionError(
        "the kernel has no configfs-tsm interface",
        code="tsm-missing",
        field=_STEP,
        hint="it needs Linux 6.7 or later and, in a guest, modprobe sev-guest or modprobe tdx-guest; "
        "in a container, mount the machine's /sys/kernel/config at /run/configfs",
    )


@contextmanager
def _request(reports: TsmReports, random: Callable[[int], bytes]) -> Iterator[str]:
    """Create a request with a unique name, and always remove it."""
    name = _made(reports, random)
    try:
        yield name
    finally:
        with suppress(OSError):  # an empty request may remain; it must not hide the answer, or an error
            reports.remove(name)


def _made(reports: TsmReports, random: Callable[[int], bytes]) -> str:
    taken = 0
    while True:
        name = f"attest-{random(8).hex()}"
        try:
            reports.make(name)
        except OSError as exc:
            taken += 1
            if not isinstance(exc, FileExistsError) or taken == MAX_NAMES:
                raise refused_by(_WHERE, exc, step=_STEP) from exc
        else:
            return name


def _call(step: Callable[[], _T], attribute: str) -> _T:
    try:
        return step()
    except OSError as exc:
        raise refused_by(_WHERE, exc, step=f"{_STEP}/…/{attribute}") from exc


def _patiently(read: Callable[[], bytes], attribute: str, sleep: Callable[[float], None]) -> bytes:
    """Read a blob, which is produced on reading: wait a limited time for a busy host."""
    waits = iter(WAITS_SECONDS)
    while True:
        try:
            return read()
        except OSError as exc:
            wait = next(waits, None) if exc.errno in BUSY else None
            if wait is None:
                raise refused_by(_WHERE, exc, step=f"{_STEP}/…/{attribute}") from exc
        sleep(wait)


def _number(reports: TsmReports, name: str, attribute: str) -> int:
    text = _text(reports, name, attribute)
    if not (text.isascii() and text.isdecimal()):
        raise CollectionError(
            f"{attribute} is no number",
            code="collected-malformed",
            field=f"{_STEP}/…/{attribute}",
            expected="a decimal number",
            got=repr(text[:40]),
            hint="this is no configfs-tsm as Linux has it",
        )
    return int(text)


def _text(reports: TsmReports, name: str, attribute: str) -> str:
    data = _call(partial(reports.read, name, attribute), attribute)
    return data[:MAX_TEXT_BYTES].decode("ascii", "backslashreplace").strip()
