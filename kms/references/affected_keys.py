"""The keys for which a document of reference values would count, before it is taken in."""

from __future__ import annotations

from dataclasses import replace

from attest.errors import ConfigurationError
from attest.policy import accept_document
from kms.domain.references import StoredDocument
from kms.references.resolution import proved, stored_policy
from kms.store import ReadTransaction


def reach_of(tx: ReadTransaction, given: StoredDocument) -> tuple[str, ...]:
    """Return the keys whose policy accepts a document; none when all of it is there already, so that nothing changes.

    Raises:
        IntegrityError: something stored is not what it was.
    """
    stored = tx.references.find(given.digest)
    before = () if stored is None else stored.proofs
    known = {proof.key_id for proof in before}
    fresh = tuple(proof for proof in given.proofs if proof.key_id not in known)
    if stored is not None and not fresh:
        return ()
    whole = proved(replace(given, proofs=tuple(sorted((*before, *fresh), key=lambda proof: proof.key_id))))
    found: list[str] = []
    for record in tx.keys.all():
        for row in stored_policy(tx, record.policy_digest)[1]:
            if row.document != whole.name:
                continue
            try:
                accept_document(row, {row.document: whole})
            except ConfigurationError:
                continue
            found.append(str(record.name))
    return tuple(dict.fromkeys(found))
