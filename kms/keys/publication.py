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
from kms.store.prompt_keys import StoredPromptKey


def publish(tx: WriteTransaction, record: KeyRecord, public_key: bytes | None, *, actor: Actor, at: datetime) -> None:
    """Log the public half of a new version, if it has one, and store the position of the entry."""
    if public_key is not None:
        body = {**_members(record, public_key, at=at), "actor": actor.members()}
        entry = tx.log.add(kind=PUBLISHED, at=at, body=body)
        tx.prompt_keys.add(record, public_key=public_key, seq=entry.seq, at=at)


def _members(key: KeyRecord | StoredPromptKey, public_key: bytes, *, at: datetime) -> dict[str, JsonValue]:
    """Return the members of the entry that publishes a version at this moment."""
    return {
        "tenant": key.name.tenant,
        "key_id": key.name.key_id,
        "version": key.version,
        "algorithm": key.algorithm,
        "public_key": base64url_text(public_key),
        "policy_sha256": key.policy_digest.hex(),
        "not_before": rfc3339_text(at),
    }


def require_policy_open(record: KeyRecord) -> KeyRecord:
    """Return a key whose policy may be replaced. Clients choose a prompt key by its policy, which therefore stays.

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
        logged = {} if entry is None or entry.seq != one.seq else entry.document()
        expected = {"kind": PUBLISHED, **_members(one, one.public_key, at=one.published_at)}
        if any(logged.get(name) != value for name, value in expected.items()):
            yield f"what is published of {one.name}@{one.version} is not what entry {one.seq} of the log says"
