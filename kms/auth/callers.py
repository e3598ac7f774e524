"""Callers of the release plane, where the service wants to know them: a role is needed beside attestation (MC-21)."""

from __future__ import annotations

from collections.abc import Iterable

from attest.release import KeyReference
from kms.domain.actors import Actor
from kms.domain.permissions import Operation, may
from kms.store import ReadTransaction


def within_reach(
    tx: ReadTransaction, asked: Iterable[KeyReference], *, caller: Actor | None
) -> tuple[KeyReference, ...]:
    """Return what a caller may ask for; of the rest they are told that it does not exist.

    Args:
        tx: sees the grants of the moment.
        asked: what is asked for.
        caller: who asks; None where the service does not ask who.
    """
    if caller is None:
        return tuple(asked)
    grants = tx.grants.held_by(caller)
    return tuple(
        one
        for one in asked
        if may(caller, grants=grants, operation=Operation.KEYS_RELEASE, tenant=one.name.tenant) is not None
    )
