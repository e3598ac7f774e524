"""The log for people and for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from kms.errors import LogBrokenError
from kms.log.entries import LogEntry, LogHead, verify_chain

__all__ = ["json_line", "parse_head", "text_line", "verify_log"]

_HEAD = re.compile(r"(?:([0-9]{1,18}):)?([0-9a-f]{64})")


def json_line(entry: LogEntry) -> str:
    """Return an entry as one line of JSON: the entry as hashed, and its hash."""
    return json.dumps({"entry": entry.document(), "hash": entry.hash.hex()}, sort_keys=True)


def text_line(entry: LogEntry) -> str:
    """Return an entry as one line for people."""
    document = entry.document()
    kind = str(document.get("kind"))
    if kind == "decision":
        what = _decision(document)
    else:
        named = [str(document[name]) for name in ("key_id", "policy_sha256", "identity") if name in document]
        what = " ".join([*named, *_references(document)])
    return f"{entry.seq:6}  {document.get('time')}  {kind}  {what}"


def _references(document: dict[str, JsonValue]) -> list[str]:
    rows = document.get("references")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [f"{row.get('name')}@{row.get('version')}" for row in found]


def _decision(document: dict[str, JsonValue]) -> str:
    requested, reasons = document.get("requested"), document.get("reasons")
    asked = ",".join(map(str, requested)) if isinstance(requested, list) else "?"
    codes = (
        [str(reason.get("code")) for reason in reasons if isinstance(reason, dict)] if isinstance(reasons, list) else []
    )
    marks = ["SIMULATED"] if document.get("simulated") is True else []
    return " ".join([str(document.get("outcome")), asked, *marks, *dict.fromkeys(codes)])


def parse_head(text: str) -> tuple[int | None, bytes]:
    """Read ``SEQ:HASH``, or a hash alone.

    Raises:
        ConfigurationError: ``log-head-invalid``.
    """
    match = _HEAD.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            f"{text[:100]!r} is no head", code="log-head-invalid", expected="a number, ':' and 64 lower-case hex digits"
        )
    return (None if match[1] is None else int(match[1])), bytes.fromhex(match[2])


def verify_log(entries: Iterable[LogEntry], expected: tuple[int | None, bytes] | None) -> LogHead:
    """Check the chain, and that it passes through a point that was noted earlier.

    Raises:
        LogBrokenError: as ``verify_chain``, or ``log-rolled-back``: the noted entry is not there.
    """
    seen: list[int] = []

    def watched() -> Iterator[LogEntry]:
        for entry in entries:
            if expected is not None and entry.hash == expected[1] and expected[0] in {None, entry.seq}:
                seen.append(entry.seq)
            yield entry

    head = verify_chain(watched())
    if expected is not None and not seen:
        raise LogBrokenError(
            f"the entry that was noted is not among the {head.seq} entries",
            code="log-rolled-back",
            expected=expected[1].hex(),
            got=f"head {head.seq}:{head.hash.hex()}",
            hint="the database was replaced by an older one, or is that of another service",
        )
    return head
