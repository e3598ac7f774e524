"""The event log of this machine's boot: a TDX guest's ACPI table CCEL, or the TPM log of an Azure VM.

Spec: specs/intel-tdx-sgx.md, sections 19 and 20; specs/azure-cvm.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attest.collect.refusals import permission_denied
from attest.collect.tsm import is_there
from attest.errors import CollectionError, EvidenceError
from attest.evidence.envelope import MAX_ITEM_BYTES
from attest.evidence.eventlog import kinds
from attest.evidence.eventlog.structure import MAX_LOG_BYTES, ParsedEventLog, parse_event_log

CCEL = Path("sys/firmware/acpi/tables/data/CCEL")
"""Below the root directory: the log of a TDX guest, for the RTMRs."""
CCEL_IN_CONTAINER = Path("run/firmware/CCEL")
"""Place of the same in a container, in which /sys/firmware is hidden."""
TCG_LOG = Path("sys/kernel/security/tpm0/binary_bios_measurements")
"""Below the root directory: the log of a machine with a TPM, for its PCRs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootLog:
    """A log as read, not trusted: its bytes without the unused remainder, and its events."""

    raw: bytes
    parsed: ParsedEventLog


def collect_event_log(root: Path) -> bytes | None:
    """Read the log of a TDX guest, without the unused remainder of its area; None without a log.

    Raises:
        CollectionError: ``collection-permission-denied``, ``collection-failed``, ``collected-malformed`` or
            ``collected-too-long``.
    """
    place = ccel_place(root)
    area = _read(root, place)
    return None if area is None else _without_rest(area, place, kinds.CCEL).raw


def ccel_place(root: Path) -> Path:
    """Return the place of the log of a TDX guest, below the root directory."""
    return CCEL_IN_CONTAINER if is_there(root / CCEL_IN_CONTAINER) else CCEL


def collect_tcg_log(root: Path) -> BootLog | None:
    """Read the kernel's log of measurements into the TPM; None if it is missing or empty.

    Only root may read it, and only where securityfs is mounted. Arguments and errors as ``collect_event_log``.
    """
    area = _read(root, TCG_LOG)
    return _without_rest(area, TCG_LOG, kinds.TCG2_SHA256) if area else None


def _read(root: Path, place: Path) -> bytes | None:
    try:
        with (root / place).open("rb") as file:
            return file.read(MAX_LOG_BYTES + 1)
    except FileNotFoundError:
        return None
    except PermissionError as exc:
        raise permission_denied(exc, f"/{place}") from exc
    except OSError as exc:
        problem = f"the event log cannot be read: {exc.strerror}"
        raise _refused(place, "collection-failed", problem, None, exc.strerror) from exc


def _without_rest(area: bytes, place: Path, kind: kinds.LogKind) -> BootLog:
    """Cut the log at its end: an area of a mebibyte often holds a log of twenty kibibytes."""
    try:
        log = parse_event_log(area, kind=kind)
    except EvidenceError as exc:
        problem = f"the firmware's event log cannot be read: {exc.message}"
        raise _refused(place, "collected-malformed", problem, exc.expected, exc.got) from exc
    used = area[: len(area) - log.padding_bytes]
    if len(used) > MAX_ITEM_BYTES:
        size = f"{len(used)} bytes"
        limit = f"at most {MAX_ITEM_BYTES} bytes"
        raise _refused(place, "collected-too-long", f"the event log has {size}", limit, size)
    return BootLog(raw=used, parsed=log)


def _refused(place: Path, code: str, problem: str, expected: str | None, got: str | None) -> CollectionError:
    return CollectionError(
        problem,
        code=code,
        field=f"/{place}",
        expected=expected,
        got=got,
        hint="without the log: --no-eventlog",
    )
