"""Documents that administrators of a Key Broker Service upload. Each change is one transaction with its log entry."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.store import Store
from kms.store.kbs_documents import KbsDocument

KBS_DOCUMENT_SET: Final = "kbs-document-set"


def set_documents(store: Store, contents: dict[str, bytes], *, actor: Actor, at: datetime) -> None:
    """Put documents into force, by name; one that is in force already is left as it is.

    Raises:
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        for name, content in contents.items():
            before = tx.kbs_documents.newest(name)
            if before is not None and before.content == content:
                continue
            made = KbsDocument(name, 1 if before is None else before.version + 1, content)
            tx.kbs_documents.add(made, at=at)
            digest = sha256(content).hexdigest()
            body: dict[str, JsonValue] = {"name": name, "version": made.version, "sha256": digest}
            tx.log.add(kind=KBS_DOCUMENT_SET, at=at, body={**body, "actor": actor.members()})
