"""Administration of aliases. Each change is one transaction with its log entry."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kms.domain.actors import Actor
from kms.domain.aliases import Alias
from kms.domain.errors import KeyUnknownError
from kms.domain.keys import KeyName
from kms.keys.admin import name_members, require_key
from kms.store import ReadTransaction, Store, WriteTransaction

ALIAS_ADDED: Final = "alias-added"
ALIAS_REMOVED: Final = "alias-removed"


def add_alias(store: Store, alias: Alias, *, actor: Actor, at: datetime) -> None:
    """Let an address lead to a key.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``alias-exists``.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        add_alias_in(tx, alias, actor=actor, at=at)


def add_alias_in(tx: WriteTransaction, alias: Alias, *, actor: Actor, at: datetime) -> None:
    """Let an address lead to a key, in a transaction; as ``add_alias``."""
    require_key(tx, alias.key)
    tx.aliases.add(alias, at=at)
    _log(tx, ALIAS_ADDED, alias, actor, at)


def remove_alias(store: Store, address: str, *, actor: Actor, at: datetime) -> Alias:
    """Remove an alias, and return it. The key stays.

    Raises:
        KeyUnknownError: ``alias-unknown``.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        return remove_alias_in(tx, address, actor=actor, at=at)


def remove_alias_in(tx: WriteTransaction, address: str, *, actor: Actor, at: datetime) -> Alias:
    """Remove an alias in a transaction; as ``remove_alias``."""
    alias = tx.aliases.find(address)
    if alias is None:
        raise unknown_alias(address)
    tx.aliases.remove(alias)
    _log(tx, ALIAS_REMOVED, alias, actor, at)
    return alias


def unknown_alias(address: str) -> KeyUnknownError:
    """Return the error for an address that leads to no key."""
    return KeyUnknownError(
        f"no key has the address {address}", code="alias-unknown", field="address", hint="'kms alias list'"
    )


def key_of(tx: ReadTransaction, address: str) -> KeyName | None:
    """Return the key to which an address leads, or None."""
    found = tx.aliases.find(address)
    return None if found is None else found.key


def _log(tx: WriteTransaction, kind: str, alias: Alias, actor: Actor, at: datetime) -> None:
    body = {**name_members(alias.key), "address": alias.address, "actor": actor.members()}
    tx.log.add(kind=kind, at=at, body=body)
