"""Publishing the public half of a prompt key: an entry of the log, in the transaction that makes the key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from attest.encoding import JsonValue, base64url_text, rfc3339_text
from attest.release import PUBLISHED
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.keys import KeyPurpose, KeyRecord
from kms.store import ReadTransaction, WriteTransaction


def publish(tx: WriteTransaction, record: KeyRecord, public_key: bytes | None, *, actor: Actor, at: datetime) -> None:
    """Log the public half of a new version, and store the position of the entry.

    Args:
        tx: the transaction that made it.
        record: the version.
        public_key: its public half; None for a key that has none, for which nothing is done.
        actor: the requester.
        at: the moment of the change.
    """
    if public_key is None:
        return
    body: dict[str, JsonValue] = {
        "tenant": record.name.tenant,
        "key_id": record.name.key_id,
        "version": record.version,
        "algorithm": record.algorithm,
        "public_key": base64url_text(public_key),
        "policy_sha256": record.policy_digest.hex(),
        "not_before": rfc3339_text(at),
        "actor": actor.members(),
    }
    entry = tx.log.add(kind=PUBLISHED, at=at, body=body)
    tx.prompt_keys.add(record, public_key=public_key, seq=entry.seq, at=at)


def require_policy_open(record: KeyRecord) -> KeyRecord:
    """Return a key that may be put under another policy. Clients chose a prompt key by the policy that it has.

    Raises:
        KeyConflictError: ``prompt-key-policy``.
    """
    if record.purpose is KeyPurpose.PROMPT_KEY:
        raise KeyConflictError(
            f"the prompt key {str(record.name)!r} keeps its policy: what is encrypted to it is meant for that alone",
            code="prompt-key-policy",
            field=str(record.name),
            hint="make another prompt key under the other policy, and disable this one when its prompts are answered",
        )
    return record


def publication_problems(tx: ReadTransaction) -> Iterator[str]:
    """List the published keys that differ from the log or are absent from it.

    Raises:
        IntegrityError: ``key-record-invalid``.
        LogBrokenError: ``log-entry-invalid``.
    """
    for one in tx.prompt_keys.all():
        entry = next(tx.log.entries(after=one.seq - 1, limit=1), None)
        said = {} if entry is None or entry.seq != one.seq else entry.document()
        told = {
            "kind": PUBLISHED,
            "tenant": one.name.tenant,
            "key_id": one.name.key_id,
            "version": one.version,
            "algorithm": one.algorithm,
            "public_key": base64url_text(one.public_key),
            "policy_sha256": one.policy_digest.hex(),
            "not_before": rfc3339_text(one.published_at),
        }
        if any(said.get(name) != value for name, value in told.items()):
            yield f"what is published of {one.name}@{one.version} is not what entry {one.seq} of the log says"
