"""Entries of the log: canonical JSON, each a leaf of a Merkle tree (RFC 6962).

::

    entry    canonical JSON (RFC 8785) with schema, seq, time, kind and members of the kind; time never goes back
    leaf     SHA-256( 0x00 ‖ entry )
    first    has seq 1 and is leaf 0

A receipt names the hash of its entry and carries the proof that it is in the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from attest.encoding import JsonValue, json_value, rfc3339, rfc3339_text
from attest.errors import EvidenceError
from attest.release import leaf_hash
from kms.domain.canonical_json import canonical_json
from kms.domain.errors import LogBrokenError

ENTRY_SCHEMA = "kms.log/1"
MAX_TEXT_CHARACTERS = 4096
"""Maximum length of a text in an entry; longer text of a request is truncated."""
MAX_ENTRY_BYTES = 48 * 1024
"""A length in a bundle of entries has two bytes. Members that make an entry longer are replaced by digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """Number and time of the newest entry; 0 and None for an empty log."""

    seq: int
    time: datetime | None


GENESIS = LogHead(seq=0, time=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One entry as stored: its number, from 1 without gaps, and its canonical JSON, as hashed."""

    seq: int
    raw: bytes

    @property
    def leaf_hash(self) -> bytes:
        """The entry's hash in the tree, 32 bytes."""
        return leaf_hash(self.raw)

    def document(self) -> dict[str, JsonValue]:
        """Return the members.

        Raises:
            LogBrokenError: ``log-entry-invalid``.
        """
        try:
            document = json_value(self.raw, what=f"log entry {self.seq}")
        except EvidenceError as exc:
            raise _broken(self.seq, "it is not JSON", "log-entry-invalid") from exc
        if not isinstance(document, dict):
            raise _broken(self.seq, "it is not a JSON object", "log-entry-invalid")
        return document

    def time(self) -> datetime:
        """Return when it was written.

        Raises:
            LogBrokenError: ``log-entry-invalid``.
        """
        try:
            return rfc3339(str(self.document().get("time")), what="time")
        except EvidenceError as exc:
            raise _broken(self.seq, "it has no time", "log-entry-invalid") from exc


def make_entry(head: LogHead, *, kind: str, at: datetime, body: Mapping[str, JsonValue]) -> LogEntry:
    """Make the entry that follows the head.

    Args:
        head: the newest entry.
        kind: kind of the event (``decision``, ``key-created``).
        at: its moment, aware; if requests overlapped and it is a little before the head, the entry has the head's time.
        body: its other members; no secret, no token.
    """
    document: dict[str, JsonValue] = {
        **{name: _bounded(value) for name, value in body.items()},
        "schema": ENTRY_SCHEMA,
        "seq": head.seq + 1,
        "time": rfc3339_text(at if head.time is None else max(at, head.time)),
        "kind": kind,
    }
    return LogEntry(seq=head.seq + 1, raw=_fitted(document))


def require_entry(entry: LogEntry, seq: int) -> None:
    """Refuse a stored entry with a wrong number, or that is not canonical.

    Raises:
        LogBrokenError: ``log-gap`` or ``log-entry-invalid``.
    """
    if entry.seq != seq:
        raise _broken(seq, f"it is missing; the next one is {entry.seq}", "log-gap")
    document = entry.document()
    if document.get("seq") != seq or canonical_json(document) != entry.raw:
        raise _broken(seq, "its text is not canonical or has a wrong number", "log-entry-invalid")


def _fitted(document: dict[str, JsonValue]) -> bytes:
    """Return canonical JSON; if it is too long, digests replace the longest members."""
    raw = canonical_json(document)
    while len(raw) > MAX_ENTRY_BYTES:
        texts = {name: canonical_json(value) for name, value in document.items()}
        longest = max(texts, key=lambda name: len(texts[name]))
        omitted: JsonValue = {"omitted_bytes": len(texts[longest]), "sha256": sha256(texts[longest]).hexdigest()}
        document = {**document, longest: omitted}
        raw = canonical_json(document)
    return raw


def _bounded(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT_CHARACTERS else value[:MAX_TEXT_CHARACTERS] + "…"
    if isinstance(value, list):
        return [_bounded(member) for member in value]
    if isinstance(value, dict):
        return {name: _bounded(member) for name, member in value.items()}
    return value


def _broken(seq: int, problem: str, code: str) -> LogBrokenError:
    return LogBrokenError(
        f"log entry {seq}: {problem}",
        code=code,
        field=f"entry {seq}",
        hint="preserve the database and find out who wrote to it; a backup has the original entries",
    )
