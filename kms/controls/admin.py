"""Freezing and lifting freezes, from the next request on; ``kms.quorum.changes`` restricts who may lift one."""

from __future__ import annotations

from datetime import datetime

from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.freezes import Freeze, Scope, Target, require_reason
from kms.domain.keys import KeyName
from kms.keys.admin import require_key
from kms.store import ReadTransaction, Store, WriteTransaction

FROZEN = "frozen"
THAWED = "thawed"


def freeze(store: Store, target: Target, *, reason: str, actor: Actor, at: datetime) -> Freeze:
    """Stop releases. One person suffices, because lifting the freeze undoes it completely.

    Raises:
        ConfigurationError: ``reason-invalid``.
        KeyUnknownError: ``key-unknown``: a freeze of an unknown name would have no effect.
        KeyConflictError: ``tenant-unknown`` or ``already-frozen``.
        UnavailableError: the database is in use.
    """
    made = Freeze(target=target, reason=require_reason(reason), actor=actor.name, means=str(actor.means), frozen_at=at)
    with store.writing() as tx:
        require_freezable(tx, target)
        tx.freezes.add(made)
        tx.log.add(kind=FROZEN, at=at, body=made.members())
    return made


def thaw_in(tx: WriteTransaction, target: Target) -> None:
    """Lift a freeze; the caller has checked the permission and writes the log entry.

    Raises:
        KeyConflictError: ``not-frozen``.
    """
    require_frozen(tx, target)
    tx.freezes.remove(target)


def require_frozen(tx: ReadTransaction, target: Target) -> Freeze:
    """Return the freeze of a target.

    Raises:
        KeyConflictError: ``not-frozen``.
    """
    found = next((one for one in tx.freezes.all() if one.target == target), None)
    if found is None:
        raise KeyConflictError(
            f"{target} is not frozen",
            code="not-frozen",
            field=target.name or str(target.scope),
            hint="'kms freeze list' lists the freezes; lift a freeze of a tenant or of everything under that target",
        )
    return found


def require_freezable(tx: ReadTransaction, target: Target) -> None:
    """Refuse a target that cannot be frozen.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``tenant-unknown`` or ``already-frozen``.
    """
    if target.scope is Scope.KEY:
        require_key(tx, KeyName.parse(target.name))
    if target.scope is Scope.TENANT and not tx.tenants.exists(target.name):
        raise KeyConflictError(
            f"there is no tenant {target.name!r}", code="tenant-unknown", field=target.name, hint="'kms tenant list'"
        )
    if any(one.target == target for one in tx.freezes.all()):
        raise KeyConflictError(
            f"{target} is already frozen",
            code="already-frozen",
            field=target.name or str(target.scope),
            hint="'kms freeze list' shows person and reason",
        )
