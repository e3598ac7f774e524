"""Life cycle of a key's versions, and the states in which they are released.

::

    current     → released to requests that name no version; a key has exactly one
    overlap     → replaced by a newer version; still released to requests that name its number
    retired     → its overlap has ended; no longer released, material kept
    destroying  → destruction is scheduled; not released, can be restored until then
    destroyed   → material deleted

A version moves down this list, except that ``destroying`` can be cancelled. Disabling a key or a version is independent
of its state and can be undone at any time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from datetime import datetime

from attest.encoding import rfc3339_text
from kms.domain.decide import ReleaseObstacle
from kms.domain.keys import KeyRecord


class VersionState(enum.StrEnum):
    """State of a version in its life cycle."""

    CURRENT = "current"
    OVERLAP = "overlap"
    RETIRED = "retired"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"


def state_of(record: KeyRecord, *, at: datetime) -> VersionState:
    """Return the state of a version; the end of its overlap is excluded."""
    if record.is_destroyed:
        return VersionState.DESTROYED
    if record.destroy_at is not None:
        return VersionState.DESTROYING
    if record.overlap_until is None:
        return VersionState.CURRENT
    return VersionState.OVERLAP if at < record.overlap_until else VersionState.RETIRED


def version_obstacles(record: KeyRecord, *, at: datetime) -> Iterator[ReleaseObstacle]:
    """List the reasons against releasing a version at this moment."""
    state = state_of(record, at=at)
    what = f"version {record.version} of the key {str(record.name)!r}"
    if state is VersionState.DESTROYED:
        yield ReleaseObstacle(code="key-destroyed", text=f"{what} was destroyed")
    if state is VersionState.DESTROYING and record.destroy_at is not None:
        when = rfc3339_text(record.destroy_at)
        yield ReleaseObstacle(code="key-destroying", text=f"{what} will be destroyed at {when}")
    if state is VersionState.RETIRED and record.overlap_until is not None:
        when = rfc3339_text(record.overlap_until)
        yield ReleaseObstacle(
            code="key-version-retired", text=f"{what} was replaced and has not been released since {when}"
        )
    if not record.version_enabled:
        yield ReleaseObstacle(code="key-version-disabled", text=f"{what} is disabled")
