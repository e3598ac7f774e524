"""Adding documents of reference values: verified, current, accepted by a policy, and never rolled back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError, ConfigurationError
from attest.policy import (
    AcceptedDocument,
    DocumentSignature,
    DocumentState,
    PolicyPublicKey,
    ReferenceDocument,
    RelaxedDemand,
    accept_document,
    identity_in,
    key_id,
    read_public_key,
    read_signature,
    read_signed_document,
)
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.references import Proof, StoredDocument
from kms.references.resolution import accepts, find_guard, in_force, proved, stored_policy
from kms.store import ReadTransaction, Store, WriteTransaction

REFERENCES_ADDED = "references-added"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFile:
    """A file of an operator."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Result of adding a document.

    Attributes:
        new: True if the document, or a signature over it, was not stored before.
        keys: the keys for which it is in force now.
        blocked: those of them that cannot be released now, each with the reason.
    """

    document: ReferenceDocument
    new: bool
    keys: tuple[str, ...]
    blocked: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A stored document, and the keys for which it is in force."""

    document: ReferenceDocument
    keys: tuple[str, ...]

    def members(self, *, at: datetime) -> dict[str, JsonValue]:
        """Return it as JSON members, with its state at a moment."""
        document = self.document
        end = document.expires.value
        return {
            **reference_members(document),
            "state": str(document.state(at)),
            "issued": rfc3339_text(document.issued),
            "expires": None if isinstance(end, RelaxedDemand) else rfc3339_text(end),
            "signers": [signer.hex() for signer in sorted(document.signers)],
            "keys": list(self.keys),
        }


def read_given(
    documents: Iterable[GivenFile], *, signatures: Iterable[GivenFile], keys: Iterable[GivenFile]
) -> tuple[StoredDocument, ...]:
    """Read documents with the signatures over them and the signers' keys.

    Raises:
        ConfigurationError: a file is malformed; ``references-not-accepted``, a signature that does not verify, or is
            not over one of the documents by one of the keys.
    """
    publics = {key_id(key): key for key in (read_public_key(file.data) for file in keys)}
    signed = [(file, read_signature(file.data)) for file in signatures]
    found: list[StoredDocument] = []
    for file in documents:
        document = read_signed_document(
            file.data, signatures=[one for _, one in signed], keys=publics.values(), name=file.name
        )
        own = {one.key_id: given for given, one in signed if one.document == identity_in(document)}
        proofs = tuple(
            Proof(key_id=one, public_key=_pem(publics[one]), signature=own[one].data)
            for one in sorted(document.signers)
        )
        name, version = document.name, document.version
        found.append(
            StoredDocument(digest=document.digest, name=name, version=version, document=file.data, proofs=proofs)
        )
    for file, one in signed:
        _require_used(file, one, found)
    return tuple(found)


def _require_used(file: GivenFile, signature: DocumentSignature, documents: list[StoredDocument]) -> None:
    for stored in documents:
        if any(proof.key_id == signature.key_id for proof in stored.proofs) and signature.document == identity_in(
            proved(stored)
        ):
            return
    raise ConfigurationError(
        f"{file.name}: the key or the document of a signature by {signature.key_id.hex()} over {signature.document} "
        "was not given",
        code="references-not-accepted",
        hint="give the public key of each signature, and the document that was signed",
    )


def _pem(key: PolicyPublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def add_document(store: Store, given: StoredDocument, *, actor: Actor, at: datetime) -> Intake:
    """Add a document, or a newer version of one, for every key whose policy accepts it.

    Raises:
        KeyConflictError: as ``take_in``; ``references-not-named``: no key's policy names it.
        ConfigurationError: ``references-not-accepted``: they name it, and none accepts it.
        IntegrityError: a stored record was altered.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        rows = [row for digest in _policies_of_keys(tx).values() for row in stored_policy(tx, digest)[1]]
        new = take_in(tx, given, rows=rows, at=at)
        done = effects(tx, given, new=new)
        if new:
            body = {**added_body(done), "actor": actor.members()}
            tx.log.add(kind=REFERENCES_ADDED, at=at, body=body)
    return done


def take_in(tx: WriteTransaction, given: StoredDocument, *, rows: Iterable[AcceptedDocument], at: datetime) -> bool:
    """Store a document that one of these rows accepts; return True if anything of it was not stored before.

    Raises:
        KeyConflictError: ``references-not-named``; ``references-not-current``; ``references-rolled-back``: another
            version that is not below this one is in force for every row that accepts it.
        ConfigurationError: ``references-not-accepted``.
    """
    document = proved(given)
    naming = [row for row in rows if row.document == document.name]
    if not naming:
        raise KeyConflictError(
            f"no policy names a document {document.name!r}",
            code="references-not-named",
            field=document.name,
            hint="add it with the first key whose policy names it: 'kms key import --references'",
        )
    require_current(document, at=at)
    accepting = _accepting(naming, document)
    _require_forward(tx, given, accepting)
    return tx.references.add(given, at=at)


def _require_forward(tx: ReadTransaction, given: StoredDocument, accepting: list[AcceptedDocument]) -> None:
    before = [in_force(tx, (row,)) for row in accepting]
    if all(_goes_back(row, given, current) for row, current in zip(accepting, before, strict=True)):
        current = before[0][0]
        raise KeyConflictError(
            f"document {given.name!r}: expected a version above {current.version}, got {given.version}",
            code="references-rolled-back",
            field=given.name,
            expected=f"above {current.version}",
            got=str(given.version),
            hint="increase the version with every change; values withdrawn by a newer version stay withdrawn",
        )


def _accepting(rows: list[AcceptedDocument], document: ReferenceDocument) -> list[AcceptedDocument]:
    """Return the rows that accept a document; if none does, raise the error of the first."""
    found: list[AcceptedDocument] = []
    first: AttestError | None = None
    for row in rows:
        try:
            accept_document(row, {row.document: document})
        except ConfigurationError as exc:
            first = first or exc
        else:
            found.append(row)
    if first is not None and not found:
        raise first
    return found


def _goes_back(row: AcceptedDocument, given: StoredDocument, current: tuple[StoredDocument, ...]) -> bool:
    """Return True if a document that is not older is in force; a digest in a policy identifies exactly one."""
    return (
        row.sha256 is None
        and bool(current)
        and current[0].digest != given.digest
        and current[0].version >= given.version
    )


def require_current(document: ReferenceDocument, *, at: datetime) -> None:
    """Refuse a document that is not in force at this moment.

    Raises:
        KeyConflictError: ``references-not-current``.
    """
    state = document.state(at)
    if state is DocumentState.CURRENT:
        return
    end = document.expires.value
    until = "without expiry" if isinstance(end, RelaxedDemand) else f"to {rfc3339_text(end)}"
    raise KeyConflictError(
        f"document {document.name!r} version {document.version} is {state}",
        code="references-not-current",
        field=document.name,
        expected=f"a moment from {rfc3339_text(document.issued)} {until}",
        got=rfc3339_text(at),
        hint="use a newer version of the document",
    )


def _policies_of_keys(tx: ReadTransaction) -> dict[str, bytes]:
    """Return the policy of the newest version of each key."""
    return {str(record.name): record.policy_digest for record in tx.keys.all()}


def effects(tx: ReadTransaction, given: StoredDocument, *, new: bool) -> Intake:
    """Return the keys for which a document is in force, and those of them that cannot be released now."""
    keys: list[str] = []
    blocked: dict[str, str] = {}
    for one, digest in _policies_of_keys(tx).items():
        guard = find_guard(tx, digest)
        if any(document.digest == given.digest for document in guard.documents):
            keys.append(one)
            if guard.problem is not None:
                blocked[one] = guard.problem.message
    return Intake(document=proved(given), new=new, keys=tuple(keys), blocked=blocked)


def added_body(done: Intake) -> dict[str, JsonValue]:
    """Return the body of the log entry for an added document."""
    return {
        "references": [reference_members(done.document)],
        "signers": [one.hex() for one in sorted(done.document.signers)],
        "in_force_for": list(done.keys),
        "blocked": list(done.blocked),
    }


def list_documents(tx: ReadTransaction) -> tuple[InForce, ...]:
    """Return every stored document by name, the newest first.

    Raises:
        IntegrityError: a stored record was altered.
    """
    guards = {one: find_guard(tx, digest).documents for one, digest in _policies_of_keys(tx).items()}
    digests = [digest for name in tx.references.names() for _, digest in tx.references.versions(name)]
    stored = [tx.references.require(digest) for digest in digests]
    return tuple(
        InForce(
            document=proved(one),
            keys=tuple(key_id for key_id, held in guards.items() if any(each.digest == one.digest for each in held)),
        )
        for one in stored
    )


def reference_members(document: ReferenceDocument) -> dict[str, JsonValue]:
    """Return the members that identify a document."""
    return {"name": document.name, "version": document.version, "sha256": document.digest.hex()}


def reach_of(tx: ReadTransaction, given: StoredDocument) -> tuple[str, ...]:
    """Return the keys whose policy accepts a document; none if all of it is stored already, so that nothing changes.

    Raises:
        IntegrityError: a stored record was altered.
    """
    stored = tx.references.find(given.digest)
    before = () if stored is None else stored.proofs
    proofs = {proof.key_id: proof for proof in (*given.proofs, *before)}
    if stored is not None and len(proofs) == len(before):
        return ()
    whole = replace(given, proofs=tuple(proofs[one] for one in sorted(proofs)))
    return tuple(
        dict.fromkeys(
            str(record.name)
            for record in tx.keys.all()
            for row in stored_policy(tx, record.policy_digest)[1]
            if row.document == whole.name and accepts(row, whole)
        )
    )
