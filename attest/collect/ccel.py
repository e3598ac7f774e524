"""The event log of a TDX guest's boot, as the firmware leaves it in the ACPI table CCEL.

Spec: specs/intel-tdx-sgx.md, sections 19 and 20.
"""

from __future__ import annotations

from pathlib import Path

from attest.collect.refusals import permission_denied
from attest.errors import CollectionError, EvidenceError
from attest.evidence.envelope import MAX_ITEM_BYTES
from attest.evidence.eventlog.structure import MAX_LOG_BYTES, parse_event_log

__all__ = ["CCEL", "collect_event_log"]

CCEL = Path("sys/firmware/acpi/tables/data/CCEL")
"""Below the root directory."""


def collect_event_log(root: Path) -> bytes | None:
    """Read the event log, without the unused rest of its area; None if this machine has none.

    Args:
        root: the root directory of the machine.

    Raises:
        CollectionError: ``collection-permission-denied``, ``collection-failed``, ``collected-malformed`` or
            ``collected-too-long``.
    """
    try:
        with (root / CCEL).open("rb") as file:
            area = file.read(MAX_LOG_BYTES + 1)
    except FileNotFoundError:
        return None
    except PermissionError as exc:
        raise permission_denied(exc, f"/{CCEL}") from exc
    except OSError as exc:
        raise CollectionError(
            f"the event log cannot be read: {exc.strerror}",
            code="collection-failed",
            field=f"/{CCEL}",
            got=exc.strerror,
            hint="without the log: --no-eventlog",
        ) from exc
    return _without_rest(area)


def _without_rest(area: bytes) -> bytes:
    """Cut the log at its end marker: an area of a mebibyte often holds a log of twenty kibibytes."""
    try:
        log = parse_event_log(area)
    except EvidenceError as exc:
        raise CollectionError(
            f"the firmware's event log cannot be read: {exc.message}",
            code="collected-malformed",
            field=f"/{CCEL}",
            expected=exc.expected,
            got=exc.got,
            hint="without the log: --no-eventlog",
        ) from exc
    used = area[: len(area) - log.padding_bytes]
    if len(used) > MAX_ITEM_BYTES:
        raise CollectionError(
            f"the event log has {len(used)} bytes",
            code="collected-too-long",
            field=f"/{CCEL}",
            expected=f"at most {MAX_ITEM_BYTES} bytes",
            got=f"{len(used)} bytes",
            hint="without the log: --no-eventlog",
        )
    return used
