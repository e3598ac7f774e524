"""dstack's answers as items of evidence: GetQuote, Info, and app-compose as files of their own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.evidence.dstack.statements import DstackStatements, read_statements
from attest.evidence.json_form import JsonForm

_FORM = JsonForm(code="dstack-malformed", clause="dstack GetQuote", check="dstack.log")
_STATED = ("report_data", "vm_config")
_OF_INFO = ("app_id", "tcb_info")
_OF_APP_COMPOSE = ("manifest_version", "runner")
_OF_ENTRY = ("imr", "event_type", "digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteAnswer:
    """An answer of GetQuote. Nothing of it is trusted.

    Attributes:
        log: the event log, JSON.
        statements: the other members that count, JSON.
    """

    quote: bytes
    log: bytes
    statements: bytes


def is_quote_answer(document: JsonValue) -> bool:
    """Recognise an answer of GetQuote.

    Trustee's evidence has another name for its log, and the documents of services have the quote of their machine too.
    """
    return _has(document, "quote", "event_log") and not _has(document, "intel_quote")


def is_info(document: JsonValue) -> bool:
    """Recognise an answer of Info."""
    return _has(document, *_OF_INFO)


def is_app_compose(document: JsonValue) -> bool:
    """Recognise app-compose."""
    return _has(document, *_OF_APP_COMPOSE)


def is_log(document: JsonValue) -> bool:
    """Recognise an event log by its first event."""
    return isinstance(document, list) and _has(document[0] if document else None, *_OF_ENTRY)


def is_attestation(document: JsonValue) -> bool:
    """Recognise an answer of Attest, whose one member is SCALE or msgpack in hex."""
    return isinstance(document, dict) and set(document) == {"attestation"} and isinstance(document["attestation"], str)


_MSGPACK = re.compile(rb"(?:[\x80-\x8f]|\xde..|\xdf....)(?:[\xa0-\xbf]|\xd9.)[a-z]", re.DOTALL)
"""A map whose first name is text; in CBOR a text begins with another byte."""


def is_packed_attestation(data: bytes) -> bool:
    """Recognise what Attest answers in msgpack: a map with the name of its stack in it."""
    return _MSGPACK.match(data) is not None and b"dstack" in data


def _has(document: JsonValue, *names: str) -> bool:
    return isinstance(document, dict) and set(names) <= set(document)


def read_quote_answer(document: JsonValue) -> QuoteAnswer:
    """Read an answer of GetQuote; members that nothing rests on are left out.

    Raises:
        EvidenceError: ``dstack-malformed``.

    Spec: specs/dstack.md, section 7.
    """
    members = _FORM.object_of(document, "answer", members=None)
    log = members.get("event_log")
    return QuoteAnswer(
        quote=_FORM.hex_of(members.get("quote"), "quote"),
        log=log.encode() if isinstance(log, str) else _json(log),
        statements=_json({name: members[name] for name in _STATED if name in members}),
    )


def statements_json(*, answer: bytes | None, info: bytes | None, app_compose: bytes | None) -> bytes:
    """Write the value of an item of statements.

    Args:
        answer: the statements of an answer of GetQuote.
        info: an answer of Info, as received.
        app_compose: app-compose, as received.

    Raises:
        EvidenceError: ``dstack-malformed``, app-compose is no UTF-8.
    """
    members: dict[str, JsonValue] = {}
    if answer is not None:
        members |= _FORM.object_of(json_value(answer, what="answer"), "answer", members=None)
    if info is not None:
        members["info"] = json_value(info, what="info")
    if app_compose is not None:
        members["app_compose"] = _utf8(app_compose)
    return _json(members)


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _FORM.malformed("app_compose", "UTF-8", "other bytes") from exc


def parse_statements(data: bytes) -> DstackStatements:
    """Read the value of an item of statements; errors as ``read_statements``."""
    try:
        document = json_value(data, what="statements")
    except EvidenceError as exc:
        raise _FORM.malformed("statements", "one strict JSON document", exc.message) from exc
    return read_statements(_FORM.object_of(document, "statements", members=None))


def _json(value: JsonValue) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
