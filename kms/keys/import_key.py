"""The service's import key, to which owners seal the keys that they import."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue
from attest.policy import identity_of, read_document
from attest.release import (
    KEM_HYBRID,
    MATERIAL_BYTES,
    ImportTerms,
    VerifierKey,
    WorkloadKey,
    WrappedKey,
    open_wrapped,
    wrap_key,
)
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.kek import KeyEncryptionKey, RandomBytes
from kms.domain.keys import KeyName, KeyRecord
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.later_key import LaterKey
from kms.store import Store, WriteTransaction

IMPORT_KEY_CREATED = "import-key-created"
IMPORT_KEY: Final = "import-key"


def make_import_key(
    store: Store, kek: KeyEncryptionKey, *, service: VerifierKey, random: RandomBytes, actor: Actor, at: datetime
) -> WorkloadKey:
    """Return the service's import key, made on the first call.

    Raises:
        IntegrityError: ``wrapped-key-invalid``.
        UnavailableError: the database is in use, or the key-encryption key's back-end does not answer.
    """

    def log(tx: WriteTransaction, made: WorkloadKey) -> None:
        body: dict[str, JsonValue] = {"public_key_sha256": sha256(made.public).hexdigest(), "actor": actor.members()}
        tx.log.add(kind=IMPORT_KEY_CREATED, at=at, body=body)

    return _KEY.make(store, kek, service=service, random=random, log=log, at=at)


def find_import_key(store: Store, kek: KeyEncryptionKey, *, service: VerifierKey) -> WorkloadKey | None:
    """Return the service's import key, or None when none was made yet.

    Raises:
        IntegrityError: ``wrapped-key-invalid``.
    """
    return _KEY.find(store, kek, service=service)


def _key_pair(material: SecretBytes) -> WorkloadKey:
    return material.lend(EXPORT, partial(WorkloadKey.from_material, KEM_HYBRID))


_KEY: Final = LaterKey(
    name=IMPORT_KEY, algorithm="hpke-mlkem768-x25519", size=MATERIAL_BYTES[KEM_HYBRID], read=_key_pair
)


def unwrap_material(
    store: Store, kek: KeyEncryptionKey, data: bytes, *, service: VerifierKey, terms: ImportTerms
) -> SecretBytes:
    """Open a key that its owner sealed to the import key under these terms.

    Raises:
        KeyConflictError: ``import-key-missing``: none was made, so nothing can be sealed to it.
        EvidenceError: it is not a wrapped key.
        BindingError: ``wrapped-key-mismatch`` or ``release-not-for-this-exchange``.
        IntegrityError: ``wrapped-key-invalid``: the import key itself cannot be unwrapped.
    """
    wrapped = WrappedKey.from_json(data)
    key = find_import_key(store, kek, service=service)
    if key is None:
        raise no_import_key()
    return SecretBytes(open_wrapped(wrapped, key=key, service=service, terms=terms))


def no_import_key() -> KeyConflictError:
    """Return the error for a service without an import key."""
    return KeyConflictError(
        "the service has no import key yet",
        code="import-key-missing",
        hint="create and print it with 'kms key import-key'; seal the key to it with 'kms key wrap'",
    )


def first_terms(name: KeyName, *, algorithm: str, policy: bytes) -> ImportTerms:
    """Return the terms under which the first version of a key with this policy document is sealed.

    Raises:
        ConfigurationError: the policy cannot be read.
    """
    digest = identity_of(read_document(policy)).digest
    return ImportTerms(name=name, version=1, algorithm=algorithm, policy_digest=digest)


def next_terms(before: KeyRecord) -> ImportTerms:
    """Return the terms under which the next version is sealed: it keeps the policy of its key."""
    number = before.version + 1
    return ImportTerms(name=before.name, version=number, algorithm=before.algorithm, policy_digest=before.policy_digest)


def wrap_material(material: SecretBytes, *, import_key: bytes, service: VerifierKey, terms: ImportTerms) -> WrappedKey:
    """Seal a key to a service's import key, on the owner's machine.

    Raises:
        VerificationError: ``recipient-key-invalid``.
    """
    seal_to = partial(wrap_key, import_key=import_key, service=service, terms=terms)
    return material.lend(EXPORT, seal_to)
