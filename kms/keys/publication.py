"""Publishing the public half of a prompt key: an entry of the log, in the transaction that makes the key."""

from __future__ import annotations

from datetime import datetime

from attest.encoding import JsonValue, base64url_text, rfc3339_text
from attest.release import PUBLISHED
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.keys import KeyPurpose, KeyRecord
from kms.store import WriteTransaction


def publish(tx: WriteTransaction, record: KeyRecord, public_key: bytes | None, *, actor: Actor, at: datetime) -> None:
    """Log the public half of a new version, if it has one, and store the position of the entry."""
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
    """Return a key whose policy may be replaced. Clients choose a prompt key by its policy, which therefore stays.

    Raises:
        KeyConflictError: ``prompt-key-policy``.
    """
    if record.purpose is KeyPurpose.PROMPT_KEY:
        raise KeyConflictError(
            f"the policy of the prompt key {str(record.name)!r} cannot change: clients encrypt under this policy",
            code="prompt-key-policy",
            field=str(record.name),
            hint="create another prompt key with the new policy, and disable this one after its prompts are answered",
        )
    return record
