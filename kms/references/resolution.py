"""Loading of stored policies with the documents of reference values that are in force for them.

The wrapped key is bound to the digest of its policy, which names documents by digest or by signers. Write access to the
database therefore puts no value into force: signatures are verified here at every use, except over bytes seen before.

Of a document that a policy names by its signers, the highest version that the policy accepts is in force; of one that
it names by digest, exactly that one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from attest import Policy, load_policy
from attest.errors import AttestError, ConfigurationError, InvalidValueError
from attest.policy import (
    AcceptedDocument,
    ReferenceDocument,
    accept_document,
    decode_policy,
    identity_of,
    placed,
    read_document,
    read_public_key,
    read_signature,
    read_signed_document,
)
from kms.domain.errors import IntegrityError, damaged
from kms.domain.references import StoredDocument
from kms.store import ReadTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A policy with the reference values in force.

    Attributes:
        policy: the policy with the values of its documents; None if it does not load with them.
        documents: the documents that are in force for it, in its order.
        problem: the reason why it does not load, or None.
    """

    policy: Policy | None
    documents: tuple[ReferenceDocument, ...]
    problem: AttestError | None = None


def find_guard(tx: ReadTransaction, digest: bytes) -> Guard:
    """Load a stored policy with the documents that are in force for it.

    A policy that names no documents loads, as it did when it was stored. A newer document may leave a policy without
    values; then nothing is released, but nothing is damaged.

    Raises:
        IntegrityError: ``policy-missing``, ``policy-altered`` or ``references-altered``.
    """
    document, rows = stored_policy(tx, digest)
    stored = in_force(tx, rows)
    documents = tuple(map(proved, stored))
    try:
        return Guard(policy=_loaded(document, stored), documents=documents)
    except ConfigurationError as exc:
        if not rows:
            raise _altered("policy-altered", digest) from exc
        return Guard(policy=None, documents=documents, problem=exc)


def stored_policy(tx: ReadTransaction, digest: bytes) -> tuple[bytes, tuple[AcceptedDocument, ...]]:
    """Return a stored policy, and the documents that it names.

    Raises:
        IntegrityError: ``policy-missing`` or ``policy-altered``.
    """
    document = tx.policies.document(digest)
    if document is None:
        raise _altered("policy-missing", digest)
    try:
        return document, _rows(document, digest)
    except AttestError as exc:
        raise _altered("policy-altered", digest) from exc


def load_guard(tx: ReadTransaction, document: bytes) -> tuple[Policy, tuple[ReferenceDocument, ...]]:
    """Load a policy before it is stored, with the documents that are in force for it.

    Raises:
        ConfigurationError: it is not a policy, or a document that it names is missing, not accepted or incomplete.
        IntegrityError: ``references-altered``.
    """
    stored = in_force(tx, named_by(document))
    return _loaded(document, stored), tuple(map(proved, stored))


def named_by(document: bytes, *, name: str = "policy") -> tuple[AcceptedDocument, ...]:
    """Return the documents that a policy names; errors call it by ``name``.

    Raises:
        ConfigurationError: it is not a policy.
    """
    parsed = read_document(document, name=name)
    try:
        return decode_policy(parsed, incomplete=True).references
    except InvalidValueError as exc:
        raise placed(exc, document, name=name) from exc


def in_force(tx: ReadTransaction, rows: Iterable[AcceptedDocument]) -> tuple[StoredDocument, ...]:
    """Return the documents that are in force for these rows of a policy; missing ones are left out.

    Raises:
        IntegrityError: ``references-altered``.
    """
    found = (_current(tx, row) for row in rows)
    return tuple(one for one in found if one is not None)


def _current(tx: ReadTransaction, row: AcceptedDocument) -> StoredDocument | None:
    if row.sha256 is not None:
        stored = tx.references.find(row.sha256)
        return stored if stored is not None and accepts(row, stored) else None
    for version, digest in tx.references.versions(row.document):
        if version < row.minimum_version:
            return None
        stored = tx.references.require(digest)
        if accepts(row, stored):
            return stored
    return None


def accepts(row: AcceptedDocument, stored: StoredDocument) -> bool:
    """Return True if a row of a policy accepts a document.

    Raises:
        IntegrityError: ``references-altered``.
    """
    try:
        accept_document(row, {row.document: proved(stored)})
    except ConfigurationError:
        return False
    return True


@lru_cache(maxsize=64)
def proved(stored: StoredDocument) -> ReferenceDocument:
    """Read a stored document, and verify every signature over it.

    Raises:
        IntegrityError: ``references-altered``.
    """
    try:
        document = read_signed_document(
            stored.document,
            signatures=[read_signature(proof.signature) for proof in stored.proofs],
            keys=[read_public_key(proof.public_key) for proof in stored.proofs],
            name=stored.name,
        )
    except AttestError as exc:
        raise _damaged(stored) from exc
    if (document.digest, document.name, document.version) != (stored.digest, stored.name, stored.version):
        raise _damaged(stored)
    return document


@lru_cache(maxsize=256)
def _rows(document: bytes, digest: bytes) -> tuple[AcceptedDocument, ...]:
    """Return the documents that a stored policy names, after comparing its digest."""
    parsed = read_document(document)
    if identity_of(parsed).digest != digest:
        raise _altered("policy-altered", digest)
    return decode_policy(parsed, incomplete=True).references


@lru_cache(maxsize=256)
def _loaded(document: bytes, stored: tuple[StoredDocument, ...]) -> Policy:
    return load_policy(document, references={one.name: proved(one) for one in stored})


def _altered(code: str, digest: bytes) -> IntegrityError:
    return damaged(f"the stored policy {digest.hex()} does not match its digest", code=code, field="policies")


def _damaged(stored: StoredDocument) -> IntegrityError:
    document = f"document of reference values {stored.name!r} version {stored.version}"
    problem = f"the stored {document} was altered"
    return damaged(problem, code="references-altered", field="reference_documents")
