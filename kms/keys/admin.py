"""Administration of keys. Each change is one transaction with its log entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from attest import Policy
from attest.encoding import JsonValue
from attest.policy import ReferenceDocument, identity_of, read_document
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError, KeyUnknownError
from kms.domain.kek import KeyEncryptionKey
from kms.domain.keys import SYMMETRIC_256, KeyName, KeyRecord, KeyReference, WrapContext
from kms.domain.material import ALGORITHMS, public_half, require_material
from kms.domain.references import StoredDocument
from kms.domain.secret import SecretBytes
from kms.domain.wires import NATIVE_ONLY, Wire, wires_text
from kms.keys.publication import publish
from kms.references.intake import REFERENCES_ADDED, added_body, effects, reference_members, require_current, take_in
from kms.references.resolution import load_guard, named_by, stored_policy
from kms.store import ReadTransaction, Store, WriteTransaction

KEY_CREATED = "key-created"
KEY_IMPORTED = "key-imported"
KEY_ENABLED = "key-enabled"
KEY_DISABLED = "key-disabled"


def add_key(
    store: Store,
    kek: KeyEncryptionKey,
    *,
    name: KeyName,
    material: SecretBytes,
    policy: bytes,
    kind: str,
    actor: Actor,
    at: datetime,
    algorithm: str = SYMMETRIC_256,
    references: tuple[StoredDocument, ...] = (),
    via: frozenset[Wire] = NATIVE_ONLY,
    also: Callable[[WriteTransaction], object] = lambda _: None,
) -> KeyRecord:
    """Wrap a key, bind it to a policy and store both.

    The policy document, YAML or JSON, is stored unchanged. ``references`` are documents that it names and that are not
    in force yet. ``kind`` is ``KEY_CREATED`` or ``KEY_IMPORTED``. The algorithm determines the key's purpose. ``also``
    is done in the same transaction, at its end.

    Raises:
        ConfigurationError: the policy cannot be read, or a document of reference values that it names is missing, not
            accepted or not usable.
        KeyConflictError: ``key-exists``; ``tenant-unknown``; ``key-material-invalid``: wrong length; or as ``take_in``.
        UnavailableError: the database is in use, or the key-encryption key's back-end does not answer.
    """
    rows = named_by(policy)
    require_material(material, algorithm=algorithm)
    public_key = public_half(material, algorithm=algorithm)
    # Wrapped before the database is locked: the key-encryption key may be on a remote server.
    first = _first_version(kek, material, name=name, algorithm=algorithm, policy=policy, at=at)
    record = replace(first, via=via)
    with store.writing() as tx:
        added = [one for one in references if take_in(tx, one, rows=rows, at=at)]
        loaded, documents = _add_with_policy(tx, record, policy, at=at)
        for one in added:
            body = {**added_body(effects(tx, one, new=True)), "actor": actor.members()}
            tx.log.add(kind=REFERENCES_ADDED, at=at, body=body)
        tx.log.add(kind=kind, at=at, body=_body(record, loaded, documents, actor))
        publish(tx, record, public_key, actor=actor, at=at)
        also(tx)
    return record


def _add_with_policy(
    tx: WriteTransaction, record: KeyRecord, policy: bytes, *, at: datetime
) -> tuple[Policy, tuple[ReferenceDocument, ...]]:
    """Store a key and its policy; return the policy and its documents of reference values, which must be current."""
    loaded, documents = load_guard(tx, policy)
    for document in documents:
        require_current(document, at=at)
    tx.policies.add(digest=loaded.digest, name=loaded.name, version=loaded.version, document=policy, at=at)
    tx.keys.add(record)
    return loaded, documents


def _first_version(
    kek: KeyEncryptionKey, material: SecretBytes, *, name: KeyName, algorithm: str, policy: bytes, at: datetime
) -> KeyRecord:
    purpose = ALGORITHMS[algorithm].purpose
    digest = identity_of(read_document(policy)).digest
    context = WrapContext(
        tenant=name.tenant, key_id=name.key_id, version=1, purpose=purpose, algorithm=algorithm, policy_digest=digest
    )
    return KeyRecord(
        name=name,
        version=1,
        purpose=purpose,
        algorithm=algorithm,
        policy_digest=digest,
        enabled=True,
        created_at=at,
        wrapped=kek.wrap(material, context=context),
    )


def _body(
    record: KeyRecord, policy: Policy, documents: tuple[ReferenceDocument, ...], actor: Actor
) -> dict[str, JsonValue]:
    return {
        **name_members(record.name),
        "version": record.version,
        "purpose": str(record.purpose),
        "algorithm": record.algorithm,
        "policy": policy.name,
        "policy_version": policy.version,
        "policy_sha256": policy.digest.hex(),
        "references": [reference_members(document) for document in documents],
        **({} if record.via == NATIVE_ONLY else {"via": wires_text(record.via)}),
        "actor": actor.members(),
    }


def name_members(name: KeyName) -> dict[str, JsonValue]:
    """Return the members of a log entry that name a key."""
    return {"tenant": name.tenant, "key_id": name.key_id}


def find_key(store: Store, name: KeyName) -> tuple[KeyRecord, bytes]:
    """Return the current version of a key and its policy document.

    Raises:
        KeyUnknownError: ``key-unknown``.
        IntegrityError: ``policy-missing`` or ``policy-altered``.
    """
    with store.reading() as tx:
        record = require_key(tx, name)
        return record, stored_policy(tx, record.policy_digest)[0]


def set_enabled(store: Store, name: KeyName, *, enabled: bool, actor: Actor, at: datetime) -> None:
    """Enable or disable the release of a key.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-state-unchanged``.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        record = require_key(tx, name)
        if record.enabled is enabled:
            state = "enabled" if enabled else "disabled"
            problem = f"the key {str(name)!r} is already {state}"
            raise KeyConflictError(problem, code="key-state-unchanged", field=str(name))
        tx.keys.set_enabled(name, enabled=enabled)
        kind = KEY_ENABLED if enabled else KEY_DISABLED
        tx.log.add(kind=kind, at=at, body={**name_members(name), "actor": actor.members()})


def set_version_enabled(store: Store, asked: KeyReference, *, enabled: bool, actor: Actor, at: datetime) -> None:
    """Enable or disable the release of one version of a key; its state may still prevent it.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-state-unchanged``.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        record = require_key(tx, asked)
        if record.version_enabled is enabled:
            problem = f"{str(asked)!r} is already {'enabled' if enabled else 'disabled'}"
            raise KeyConflictError(problem, code="key-state-unchanged", field=str(asked))
        set_version_enabled_in(tx, record, enabled=enabled, actor=actor, at=at)


def set_version_enabled_in(
    tx: WriteTransaction, record: KeyRecord, *, enabled: bool, actor: Actor, at: datetime
) -> None:
    """Enable or disable the release of one version of a key, in a transaction."""
    tx.keys.set_version_enabled(record, enabled=enabled)
    kind = KEY_ENABLED if enabled else KEY_DISABLED
    body = {**name_members(record.name), "version": record.version, "actor": actor.members()}
    tx.log.add(kind=kind, at=at, body=body)


def require_key(tx: ReadTransaction, asked: KeyName | KeyReference) -> KeyRecord:
    """Return the version of a key that a reference names, the current one by default.

    Raises:
        KeyUnknownError: ``key-unknown``.
    """
    record = tx.keys.find(asked)
    if record is None:
        raise unknown_key(asked)
    return record


def unknown_key(asked: KeyName | KeyReference) -> KeyUnknownError:
    """Return the error for a key, or a version of it, that does not exist."""
    return KeyUnknownError(
        f"there is no key {str(asked)!r}",
        code="key-unknown",
        field=str(asked),
        hint="'kms key list' lists all keys",
    )
