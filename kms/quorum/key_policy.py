"""A new policy of a key: a higher version of the one it has, for all versions of the key at once."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Final

from attest import Policy, load_policy
from attest.encoding import JsonValue
from attest.policy import (
    DocumentIdentity,
    PolicyDifference,
    ReferenceDocument,
    identity_of,
    read_document,
    require_newer,
)
from kms.domain.errors import UnavailableError
from kms.domain.keys import KeyName, KeyRecord
from kms.domain.people import ChangeKind
from kms.domain.references import StoredDocument
from kms.keys.admin import name_members, require_key
from kms.keys.policy_trials import difference_members, policy_difference
from kms.keys.publication import require_policy_open
from kms.keys.vault import Vault
from kms.quorum.break_glass import GLASS_CLOSED
from kms.quorum.change_context import Changing, Prepared, ProposedChange, Rewrapped
from kms.references.intake import (
    REFERENCES_ADDED,
    GivenFile,
    added_body,
    effects,
    read_given,
    reference_members,
    require_current,
    take_in,
)
from kms.references.resolution import in_force, load_guard, named_by, proved, stored_policy
from kms.store import ReadTransaction

POLICY_CHANGED: Final = "key-policy-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPolicySet(ProposedChange):
    """A new policy.

    ``references`` are the documents that it names and that are not yet in force.
    """

    name: KeyName
    policy: bytes
    references: tuple[StoredDocument, ...] = ()

    kind = ChangeKind.KEY_POLICY
    action = "key-policy-set"

    @property
    def identity(self) -> DocumentIdentity:
        """Name, version and digest of the policy."""
        return identity_of(read_document(self.policy))

    def arguments(self) -> dict[str, JsonValue]:
        """Return the policy as a whole, so that its approvers read what they sign."""
        return {
            "key": str(self.name),
            "policy": self.policy.decode(),
            "policy_sha256": self.identity.digest.hex(),
            "references": reference_arguments(self.references),
        }

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the policy in force, which has the same name and a lower version (MC-23).

        Raises:
            KeyUnknownError: ``key-unknown``.
            KeyConflictError: ``prompt-key-policy``.
            ConfigurationError: ``policy-name-differs``, or it is not a policy.
            SignatureError: ``policy-rolled-back``.
            IntegrityError: ``policy-missing`` or ``policy-altered``: the policy in force.
        """
        record = require_policy_open(require_key(tx, self.name))
        before = identity_of(read_document(stored_policy(tx, record.policy_digest)[0]))
        require_newer(self.identity, than=before)
        named_by(self.policy)
        return {"policy": before.name, "policy_version": before.version, "policy_sha256": before.digest.hex()}

    def difference(self, tx: ReadTransaction) -> PolicyDifference:
        """Return what becomes stricter, looser or other."""
        before = self._before(tx)
        return policy_difference(before, self.policy, references=(_documents(tx, before), self._documents(tx)))

    def policies(self, tx: ReadTransaction) -> tuple[Policy, Policy]:
        """Load the policy in force and the new one, for a trial.

        Raises:
            ConfigurationError: a document of reference values is missing, not accepted or unusable.
        """
        before = self._before(tx)
        return (
            load_policy(before, references=_documents(tx, before)),
            load_policy(self.policy, references=self._documents(tx)),
        )

    def _before(self, tx: ReadTransaction) -> bytes:
        return stored_policy(tx, require_key(tx, self.name).policy_digest)[0]

    def _documents(self, tx: ReadTransaction) -> dict[str, ReferenceDocument]:
        return {**_documents(tx, self.policy), **{one.name: proved(one) for one in self.references}}

    def prepare(self, vault: Vault) -> Prepared:
        """Wrap the material of every version again, bound to the new policy."""
        with vault.store.reading() as tx:
            records = _with_material(tx, self.name)
        digest = self.identity.digest
        rewrapped = {
            one.version: Rewrapped(
                before=one.wrapped,
                after=vault.kek.wrap(
                    vault.kek.unwrap(one.wrapped, context=one.context),
                    context=replace(one.context, policy_digest=digest),
                ),
            )
            for one in records
        }
        return Prepared(rewrapped=rewrapped)

    def apply(self, changing: Changing) -> str:
        """Store policy and documents, and put every version of the key under it."""
        tx, at = changing.tx, changing.at
        difference = self.difference(tx)
        before = self.state(tx)
        rows = named_by(self.policy)
        added = [one for one in self.references if take_in(tx, one, rows=rows, at=at)]
        loaded, documents = load_guard(tx, self.policy)
        for document in documents:
            require_current(document, at=at)
        tx.policies.add(digest=loaded.digest, name=loaded.name, version=loaded.version, document=self.policy, at=at)
        versions = self._rebind(changing, digest=loaded.digest)
        for one in added:
            changing.log(REFERENCES_ADDED, added_body(effects(tx, one, new=True)))
        self._close_policy_relaxations(changing)
        changing.log(
            POLICY_CHANGED,
            {
                **name_members(self.name),
                "versions": versions,
                "before": before,
                "policy": loaded.name,
                "policy_version": loaded.version,
                "policy_sha256": loaded.digest.hex(),
                "references": [reference_members(document) for document in documents],
                **difference_members(difference),
            },
        )
        return f"{self.name} is under {loaded.name} version {loaded.version} ({loaded.digest.hex()})"

    def _rebind(self, changing: Changing, *, digest: bytes) -> list[JsonValue]:
        """Store the prepared material of every version, bound to the new policy; return the versions."""
        tx = changing.tx
        records = _with_material(tx, self.name)
        for record in records:
            rewrapped = changing.prepared.rewrapped.get(record.version)
            if rewrapped is None or rewrapped.before != record.wrapped:
                raise UnavailableError(
                    "the key changed while its policy was being replaced",
                    code="keys-changing",
                    hint="repeat the command",
                    retryable=True,
                )
            tx.keks.require_wrapping(rewrapped.after)
            tx.keys.put_under_policy(record, digest=digest, wrapped=rewrapped.after)
        return [record.version for record in records]

    def _close_policy_relaxations(self, changing: Changing) -> None:
        """Close break-glass that replaces the policy: it replaces the policy that ends."""
        for one in changing.tx.break_glass.in_force(at=changing.at):
            if one.key == self.name and one.policy_digest is not None:
                changing.tx.break_glass.close(one.number, at=changing.at)
                changing.log(GLASS_CLOSED, {"number": one.number, "reason": "the key has another policy now"})


def _with_material(tx: ReadTransaction, name: KeyName) -> tuple[KeyRecord, ...]:
    """Return every version that has material; the others keep their last policy."""
    return tuple(one for one in tx.keys.versions(name) if not one.is_destroyed)


def _documents(tx: ReadTransaction, policy: bytes) -> dict[str, ReferenceDocument]:
    return {one.name: proved(one) for one in in_force(tx, named_by(policy))}


def reference_arguments(references: tuple[StoredDocument, ...]) -> list[JsonValue]:
    """Return documents with their signatures and the signers' keys."""
    return [
        {
            "document": b64encode(one.document).decode(),
            "signatures": [b64encode(proof.signature).decode() for proof in one.proofs],
            "keys": [proof.public_key.decode() for proof in one.proofs],
        }
        for one in references
    ]


def read_references(documents: list[tuple[bytes, list[bytes], list[bytes]]]) -> tuple[StoredDocument, ...]:
    """Read documents with their signatures and the keys that made these.

    Raises:
        ConfigurationError: as ``read_given``.
    """
    found: list[StoredDocument] = []
    for number, (document, signatures, keys) in enumerate(documents):
        what = f"document {number + 1}"
        found += read_given(
            [GivenFile(name=what, data=document)],
            signatures=[GivenFile(name=f"signature over {what}", data=one) for one in signatures],
            keys=[GivenFile(name=f"key of {what}", data=one) for one in keys],
        )
    return tuple(found)
