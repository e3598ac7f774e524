"""Documents that administrators of a Key Broker Service upload. Each change is one transaction with its log entry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.store import Store
from kms.store.kbs_documents import KbsDocument

KBS_DOCUMENT_SET: Final = "kbs-document-set"


def update_document(
    store: Store, name: str, update: Callable[[bytes | None], bytes], *, actor: Actor, at: datetime
) -> None:
    """Put a new version of a document into force, made from the one in force; the same content changes nothing.

    Raises:
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        before = tx.kbs_documents.newest(name)
        content = update(None if before is None else before.content)
        if before is not None and before.content == content:
            return
        made = KbsDocument(name, 1 if before is None else before.version + 1, content)
        tx.kbs_documents.add(made, at=at)
        digest = sha256(content).hexdigest()
        body: dict[str, JsonValue] = {"name": name, "version": made.version, "sha256": digest}
        tx.log.add(kind=KBS_DOCUMENT_SET, at=at, body={**body, "actor": actor.members()})
