"""Prompt keys for clients that encrypt: signed notes with proofs of inclusion in the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.release import KeyName, PromptKeyNote, PublishedPromptKey, sign_note
from kms.domain.errors import KeyUnknownError, LogBrokenError
from kms.domain.freezes import freezing
from kms.domain.log_entries import LogEntry
from kms.release.services import Services
from kms.store import ReadTransaction
from kms.store.prompt_keys import StoredPromptKey

MAX_PAGE: Final = 50
NOTE_SECONDS: Final = 3600
"""Longest validity of a note; clients then fetch a new one and learn of a rotation or expiry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptKeyPage:
    """Prompt keys in their wire form by name, and the name after which the next page starts; None on the last page."""

    keys: tuple[PublishedPromptKey, ...]
    after: KeyName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    stored: StoredPromptKey
    entry: LogEntry
    use_until: datetime


class PromptKeyService:
    """Directory of prompt keys, each with a signed note."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def page(self, *, tenant: str | None, key_id: str | None, after: KeyName | None, limit: int) -> PromptKeyPage:
        """Return the usable prompt keys; frozen ones are left out.

        Raises:
            IntegrityError: ``key-record-invalid``.
            LogBrokenError: the log does not contain the publication.
            UnavailableError: the database is in use, or away.
        """
        at = self._services.clock()
        with self._services.store.reading() as tx:
            stored = tx.prompt_keys.current(tenant=tenant, key_id=key_id, after=after, limit=limit + 1)
            freezes = tx.freezes.all()
            free = (one for one in stored[:limit] if not any(freezing(freezes, key=one.name)))
            found = tuple(_find(tx, one, at=at) for one in free)
        last = stored[limit - 1].name if len(stored) > limit else None
        return PromptKeyPage(keys=tuple(map(self._published, found)), after=last)

    def find(self, name: KeyName) -> PublishedPromptKey:
        """Return the current version of a prompt key.

        Raises:
            KeyUnknownError: ``key-unknown``: there is no such prompt key, or it cannot be used now.
            IntegrityError: ``key-record-invalid``.
            LogBrokenError: the log does not contain the publication.
            UnavailableError: the database is in use, or away.
        """
        found = self.page(tenant=name.tenant, key_id=name.key_id, after=None, limit=1).keys
        if not found:
            raise KeyUnknownError(f"there is no prompt key {str(name)!r}", code="key-unknown", field=str(name))
        return found[0]

    def _published(self, found: _Found) -> PublishedPromptKey:
        stored, identity = found.stored, self._services.identity
        note = PromptKeyNote(
            name=stored.name,
            version=stored.version,
            algorithm=stored.algorithm,
            public_key=stored.public_key,
            policy_digest=stored.policy_digest,
            not_before=stored.published_at,
            use_until=found.use_until,
            logged=found.entry.leaf_hash,
        )
        return PublishedPromptKey(
            note=sign_note(note.text(), name=identity.public.name, key=identity.key),
            entry=found.entry.raw,
            proof=self._services.log.proof(found.entry.seq).inclusion.to_text(),
        )


def _find(tx: ReadTransaction, stored: StoredPromptKey, *, at: datetime) -> _Found:
    """Find the log entry and the end of the key's use, which the next scheduled rotation limits."""
    entry = next(tx.log.entries(after=stored.seq - 1, limit=1), None)
    if entry is None or entry.seq != stored.seq:
        raise LogBrokenError(f"log entry {stored.seq} is missing", code="log-gap", field=f"entry {stored.seq}")
    end, schedule = at + timedelta(seconds=NOTE_SECONDS), tx.schedules.find(stored.name)
    due = schedule is not None and at < schedule.due_at < end
    return _Found(stored=stored, entry=entry, use_until=schedule.due_at if schedule is not None and due else end)
