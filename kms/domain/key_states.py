"""What becomes of a version of a key in time, and which of them are released.

::

    current     → the one that a request gets which names no version; a key has exactly one
    overlap     → another one is current, and this one is still released to who asks for it by its number
    retired     → its overlap has ended; it is released to nobody, and its material is kept
    destroying  → its destruction is asked for; it is released to nobody, and can be restored until the moment comes
    destroyed   → its material is gone

A version moves down this list and never up, save that ``destroying`` can be undone. That a key or a version is disabled
is apart from this, and can be undone at any time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from datetime import datetime

from attest.encoding import rfc3339_text
from kms.domain.decide import Hindrance
from kms.domain.keys import KeyRecord

__all__ = ["VersionState", "state_of", "version_hindrances"]


class VersionState(enum.StrEnum):
    """Where a version is in its life."""

    CURRENT = "current"
    OVERLAP = "overlap"
    RETIRED = "retired"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"


def state_of(record: KeyRecord, *, at: datetime) -> VersionState:
    """Return where a version is in its life; the end of its overlap is the first moment without it."""
    if record.is_destroyed:
        return VersionState.DESTROYED
    if record.destroy_at is not None:
        return VersionState.DESTROYING
    if record.overlap_until is None:
        return VersionState.CURRENT
    return VersionState.OVERLAP if at < record.overlap_until else VersionState.RETIRED


def version_hindrances(record: KeyRecord, *, at: datetime) -> Iterator[Hindrance]:
    """List what stands against a release of a version at this moment."""
    state = state_of(record, at=at)
    what = f"version {record.version} of the key {str(record.name)!r}"
    if state is VersionState.DESTROYED:
        yield Hindrance(code="key-destroyed", text=f"{what} was destroyed")
    if state is VersionState.DESTROYING and record.destroy_at is not None:
        when = rfc3339_text(record.destroy_at)
        yield Hindrance(code="key-destroying", text=f"{what} is to be destroyed at {when}")
    if state is VersionState.RETIRED and record.overlap_until is not None:
        when = rfc3339_text(record.overlap_until)
        yield Hindrance(code="key-version-retired", text=f"{what} was replaced, and is released no longer since {when}")
    if not record.version_enabled:
        yield Hindrance(code="key-version-disabled", text=f"{what} is disabled")
