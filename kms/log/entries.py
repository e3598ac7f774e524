"""Entries of the log and the chain that holds them together.

::

    entry    canonical JSON (RFC 8785) with schema, seq, time, kind and what the kind says; time never goes back
    hash     SHA-256( "attest kms log v1" ‖ NUL ‖ previous hash (32 bytes) ‖ entry )
    first    has seq 1 and 32 zero bytes as the previous hash

A receipt names the hash of its entry, so whoever keeps a receipt holds a point that the chain must pass through.
What a chain alone cannot show is that its newest entries were cut off; compare a head that was noted elsewhere.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, cast

import rfc8785

from attest.encoding import JsonValue, json_value, rfc3339, rfc3339_text
from attest.errors import EvidenceError
from kms.errors import LogBrokenError

__all__ = ["ENTRY_SCHEMA", "GENESIS", "MAX_TEXT_CHARACTERS", "LogEntry", "LogHead", "make_entry", "verify_chain"]

ENTRY_SCHEMA = "kms.log/1"
MAX_TEXT_CHARACTERS = 4096
"""Of one text in an entry; what a stranger sent is quoted up to here."""
_DOMAIN = b"attest kms log v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """The newest entry.

    Attributes:
        seq: its number; 0 when there is none.
        hash: its hash, 32 bytes.
        time: when it was written, or None when there is none.
    """

    seq: int
    hash: bytes
    time: datetime | None


GENESIS = LogHead(seq=0, hash=bytes(32), time=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One entry as stored.

    Attributes:
        seq: from 1, without gaps.
        raw: canonical JSON, as hashed.
        previous: hash of the entry before, 32 bytes.
        hash: SHA-256 as above, 32 bytes.
    """

    seq: int
    raw: bytes
    previous: bytes
    hash: bytes

    def document(self) -> dict[str, JsonValue]:
        """Return the members.

        Raises:
            LogBrokenError: ``log-entry-invalid``.
        """
        try:
            document = json_value(self.raw, what=f"log entry {self.seq}")
        except EvidenceError as exc:
            raise _broken(self.seq, "it is no JSON", "log-entry-invalid") from exc
        if not isinstance(document, dict):
            raise _broken(self.seq, "it is no JSON object", "log-entry-invalid")
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
        kind: what happened (``decision``, ``key-created``).
        at: when, aware; where requests overlapped and this one is a little older than the head, the head's time stands.
        body: what there is to say; no secret, no token.
    """
    document: dict[str, JsonValue] = {
        **{name: _bounded(value) for name, value in body.items()},
        "schema": ENTRY_SCHEMA,
        "seq": head.seq + 1,
        "time": rfc3339_text(at if head.time is None else max(at, head.time)),
        "kind": kind,
    }
    raw = rfc8785.dumps(cast("dict[str, Any]", document))  # Any: JSON, as annotated above
    return LogEntry(seq=head.seq + 1, raw=raw, previous=head.hash, hash=_hash(head.hash, raw))


def verify_chain(entries: Iterable[LogEntry]) -> LogHead:
    """Check every entry from the first on: canonical, numbered without a gap, chained.

    Returns:
        The head, to be compared with one that was noted elsewhere.

    Raises:
        LogBrokenError: ``log-gap``, ``log-entry-invalid`` or ``log-hash-mismatch``.
    """
    seq, last = 0, GENESIS.hash
    for entry in entries:
        seq += 1
        if entry.seq != seq:
            raise _broken(seq, f"it is missing; the next one is {entry.seq}", "log-gap")
        document = entry.document()
        if document.get("seq") != seq or rfc8785.dumps(cast("dict[str, Any]", document)) != entry.raw:  # Any: JSON
            raise _broken(seq, "its text is not canonical or has another number", "log-entry-invalid")
        if not hmac.compare_digest(entry.previous, last):
            raise _broken(seq, "it does not follow the entry before it", "log-hash-mismatch")
        if not hmac.compare_digest(entry.hash, _hash(last, entry.raw)):
            raise _broken(seq, "its hash is not that of its text", "log-hash-mismatch")
        last = entry.hash
    return LogHead(seq=seq, hash=last, time=None)


def _hash(previous: bytes, raw: bytes) -> bytes:
    return sha256(_DOMAIN + previous + raw).digest()


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
        hint="keep the database as it is and find out who wrote to it; a backup shows the entries that were there",
    )
