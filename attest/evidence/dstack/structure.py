"""dstack's event log: a JSON array of the events that extended RTMR0 to RTMR3.

Registers are numbered from 0 (``imr``); a CCEL counts MRTD as its register 0. So an event becomes one of a CCEL with
the next higher index, and replay, data, facts and comparison are those of ``attest.evidence.eventlog``.

The digest of dstack's own events covers their type, name and payload. The stripped form leaves these digests out, and
with them the payloads of the firmware's events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha384

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.evidence.eventlog.kinds import CCEL
from attest.evidence.eventlog.structure import MAX_EVENTS, MAX_LOG_BYTES, ParsedDigest, ParsedEvent, ParsedEventLog
from attest.evidence.eventlog.vocabulary import EV_RUNTIME, SHA384, type_name
from attest.evidence.json_form import JsonForm

LOG_CLAUSE = "dstack event log"
RUNTIME_REGISTER = "RTMR3"
_RUNTIME_IMR = 3
_DIGEST_BYTES = 48
_MEMBERS_OF_EVENT = 8
"""Members of an event of today, and one: an upper limit of the commas and brackets in a log, but for those in names."""
_MAX_MARKS = MAX_EVENTS * _MEMBERS_OF_EVENT
_FORM = JsonForm(code="dstack-log-malformed", clause=LOG_CLAUSE, check="dstack.log", of=" of the dstack event log")


@dataclass(frozen=True, slots=True, kw_only=True)
class DstackEvent(ParsedEvent):
    """One event as the log has it; attributes as those of ``ParsedEvent``.

    Attributes:
        digest: as stated; of an event of dstack without one, computed.
        data: of an event of dstack what its digest has to cover; of another its payload.
        name: the name of an event of dstack; empty for others.
        payload: what the log gives as payload.
        version: of the digest of an event of dstack, 1 or 2.
        stated_digest: False where the log leaves the digest out.
    """

    name: str
    payload: bytes
    version: int
    stated_digest: bool

    @property
    def is_runtime(self) -> bool:
        """True for an event of dstack, by its type and register; no digest covers either but for such an event."""
        return self.type == EV_RUNTIME and self.register == RUNTIME_REGISTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDstackLog(ParsedEventLog):
    """A log as presented: unverified until it replays to signed registers."""

    events: tuple[DstackEvent, ...]

    @property
    def form(self) -> str:
        """``dstack``, or ``dstack-stripped`` for a log that leaves digests of dstack's events out."""
        return "dstack" if all(event.stated_digest for event in self.events) else "dstack-stripped"


def is_dstack_log(data: bytes) -> bool:
    """Return True if a log is JSON text; a log in the TCG's binary form begins with a small number."""
    return data.lstrip()[:1] in (b"[", b'"')


def parse_dstack_log(data: bytes) -> ParsedDstackLog:
    """Read an event log in JSON: an array, or a text that holds one.

    Raises:
        EvidenceError: ``dstack-log-malformed``, with the path of the value in ``field``.

    Spec: specs/dstack.md, section 2, check dstack.log.
    """
    return dstack_log(_json(data, "events"), "events")


def dstack_log(value: JsonValue, path: str) -> ParsedDstackLog:
    """Read an event log that is a member of a document, at ``path``; errors as ``parse_dstack_log``."""
    if isinstance(value, str):
        value = _json(value.encode(), path)
    entries = _FORM.array_of(value, path, most=MAX_EVENTS)
    return ParsedDstackLog(
        kind=CCEL,
        events=tuple(_event(entry, f"{path}[{at}]", number=at + 1) for at, entry in enumerate(entries)),
    )


def _json(text: bytes, path: str) -> JsonValue:
    if len(text) > MAX_LOG_BYTES:
        raise _FORM.malformed(path, f"at most {MAX_LOG_BYTES} bytes", f"{len(text)} bytes")
    try:
        return json_value(text, what=path, most=_MAX_MARKS)
    except EvidenceError as exc:
        raise _FORM.malformed(path, "one strict JSON document", exc.message) from exc


def _event(value: JsonValue, path: str, *, number: int) -> DstackEvent:
    """Read an event. Members that are not known are left out: a digest that rests on one does not fit."""
    members = _FORM.object_of(value, path, members=None)
    imr = _FORM.number_of(members.get("imr"), f"{path}.imr", size=1)
    if imr > _RUNTIME_IMR:
        raise _FORM.malformed(f"{path}.imr", f"0 to {_RUNTIME_IMR}", str(imr))
    kind = _FORM.number_of(members.get("event_type"), f"{path}.event_type", size=4)
    name = _FORM.text_of(members.get("event"), f"{path}.event")
    payload = _FORM.hex_of(members.get("event_payload"), f"{path}.event_payload")
    version = _version(members.get("version", 1), f"{path}.version")
    runtime = kind == EV_RUNTIME and imr == _RUNTIME_IMR
    covered = _covered(name, payload, version) if runtime else payload
    stated = _FORM.hex_of(members.get("digest"), f"{path}.digest", sizes=(0, _DIGEST_BYTES))
    if not stated and not runtime:
        raise _FORM.malformed(
            f"{path}.digest", f"{_DIGEST_BYTES} bytes of hex", "nothing, which only dstack's events may"
        )
    digest = stated or sha384(covered).digest()
    return DstackEvent(
        number=number,
        offset=0,
        index=imr + 1,
        register=CCEL.registers[imr + 1].name,
        type=kind,
        type_name="dstack" if runtime else type_name(kind),
        digests=(ParsedDigest(algorithm=SHA384, value=digest),),
        digest=digest,
        data=covered,
        withheld=not covered,
        name=name,
        payload=payload,
        version=version,
        stated_digest=bool(stated),
    )


def _version(value: JsonValue, path: str) -> int:
    version = _FORM.number_of(value, path, size=4)
    if version not in (1, 2):
        raise _FORM.malformed(path, "1 or 2", str(version))
    return version


def _covered(name: str, payload: bytes, version: int) -> bytes:
    """Return what the digest of an event of dstack covers.

    Spec: specs/dstack.md, section 2: V1 type ‖ ":" ‖ name ‖ ":" ‖ payload; V2 the canonical JSON of the three
    (RFC 8785), which a member ``preimage`` may repeat.
    """
    if version == 1:
        return EV_RUNTIME.to_bytes(4, "little") + b":" + name.encode() + b":" + payload
    members = {"name": name, "payload": payload.hex(), "type": EV_RUNTIME}
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
