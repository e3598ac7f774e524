"""Floors that count for keys, as one transaction sees them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from attest.encoding import JsonValue
from kms.domain.decide import FloorState
from kms.domain.floors import Floor
from kms.domain.permissions import EVERY_TENANT
from kms.store import ReadTransaction


def floors_of(tx: ReadTransaction, tenants: Iterable[str]) -> tuple[Floor, ...]:
    """Return the floor of the service and those of some tenants, also those of version 0.

    Raises:
        IntegrityError: ``floor-record-invalid``.
    """
    return tuple(tx.floors.newest(scope) for scope in dict.fromkeys((EVERY_TENANT, *tenants)))


def floor_state(floor: Floor, *, at: datetime) -> FloorState | None:
    """Return a floor as input of a decision; None if no entry of it is in force."""
    because = tuple(dict.fromkeys(entry.because for entry in floor.in_force(at)))
    if not because:
        return None
    digest = bytes.fromhex(floor.digest)
    return FloorState(scope=floor.scope, name=floor.name, version=floor.version, digest=digest, because=because)


def counting_floors(tx: ReadTransaction, tenant: str, *, at: datetime) -> list[JsonValue]:
    """Return the floors in force for the keys of a tenant, as JSON members."""
    found = (floor_state(one, at=at) for one in floors_of(tx, (tenant,)))
    return [
        {"scope": one.scope, "version": one.version, "sha256": one.digest.hex(), "because": list(one.because)}
        for one in found
        if one is not None
    ]
