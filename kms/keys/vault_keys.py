"""Settings of a vault's keys. Each change is one transaction with its log entry."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.domain.kek import KeyEncryptionKey
from kms.domain.keys import KeyName, KeyPurpose, KeyRecord
from kms.domain.vault_keys import VaultKeySettings
from kms.domain.vault_material import public_members
from kms.keys.admin import name_members
from kms.store import WriteTransaction
from kms.store.vault_keys import VaultKey

VAULT_KEY_SET: Final = "vault-key-set"
_WITH_PUBLIC_HALF: Final = frozenset({KeyPurpose.SKR_RSA, KeyPurpose.SKR_EC})


def set_vault_key_in(
    tx: WriteTransaction, name: KeyName, settings: VaultKeySettings, *, actor: Actor, at: datetime
) -> None:
    """Put new settings of a key into force, in a transaction."""
    before = tx.vault_keys.newest(name)
    revision = 1 if before is None else before.revision + 1
    add_vault_key_in(tx, VaultKey(name, revision, settings), actor=actor, at=at)


def add_vault_key_in(tx: WriteTransaction, one: VaultKey, *, actor: Actor, at: datetime) -> None:
    """Put a revision of a key's settings into force, in a transaction."""
    tx.vault_keys.add(one, at=at)
    tx.log.add(kind=VAULT_KEY_SET, at=at, body={**vault_key_body(one), "actor": actor.members()})


def vault_key_body(one: VaultKey) -> dict[str, JsonValue]:
    """Return the members of a revision's log entry, without who made it."""
    return {
        **name_members(one.name),
        "revision": one.revision,
        "sha256": sha256(one.settings.to_bytes()).hexdigest(),
        "release_policy_sha256": one.settings.policy_digest.hex(),
        "immutable": one.settings.immutable,
    }


def public_half_of(kek: KeyEncryptionKey, record: KeyRecord) -> dict[str, str]:
    """Return the public members of a version of an RSA or EC key, and none of another one.

    The key is unwrapped for it.

    Raises:
        IntegrityError: ``wrapped-key-invalid``.
        UnavailableError: the key-encryption key's back-end does not answer.
    """
    if record.purpose not in _WITH_PUBLIC_HALF or record.is_destroyed:
        return {}
    with kek.unwrap(record.wrapped, context=record.context) as material:
        return public_members(material)
