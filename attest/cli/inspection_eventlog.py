"""An event log as plain data: replayed, but compared with nothing."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.errors import VerificationError
from attest.evidence.dstack.facts import dstack_document, read_facts
from attest.evidence.dstack.structure import DstackEvent, ParsedDstackLog, is_dstack_log, parse_dstack_log
from attest.evidence.eventlog.content import Verification, event_text, readable_text, verification
from attest.evidence.eventlog.kinds import CCEL, TCG2_SHA256, Growth, LogKind
from attest.evidence.eventlog.replay import replay
from attest.evidence.eventlog.structure import ParsedEvent, ParsedEventLog, parse_event_log
from attest.evidence.eventlog.vocabulary import ALGORITHMS, SHA384
from attest.policy.authoring.lint_app_compose import lint_app_compose

_Facts = dict[str, JsonValue]
_OF_OTHER_DATA = "MISMATCH: the digest is of other data"
_SHOWN_DATA_BYTES = 256
"""Maximum length of binary data that is shown in hex; longer data is shown by its digest."""


def event_log(data: bytes) -> _Facts:
    """Describe an event log.

    A log that declares SHA-384 alone is shown as a TDX guest's, any other one as a TPM's: only for showing it.

    Raises:
        EvidenceError: ``eventlog-malformed`` or ``dstack-log-malformed``.
    """
    if is_dstack_log(data):
        return dstack_event_log(parse_dstack_log(data))
    log = parse_event_log(data) if _declares_sha384_alone(data) else parse_event_log(data, kind=TCG2_SHA256)
    facts: _Facts = {
        "kind": log.kind.name,
        "algorithms": [_algorithm(algorithm) for algorithm, _ in log.spec_id.algorithms],
        "log_bytes": len(data) - log.padding_bytes,
        "padding_bytes": log.padding_bytes,
        "event_count": len(log.events),
    }
    facts["replayed"] = _replayed(log)
    facts["events"] = [_event(event, log.kind) for event in log.events]
    return facts


def dstack_event_log(log: ParsedDstackLog) -> _Facts:
    """Describe an event log of dstack, with the facts that it states."""
    return {
        "kind": log.form,
        "event_count": len(log.events),
        "replayed": _replayed(log),
        "dstack": _stated_facts(log),
        "events": [_dstack_event(event) for event in log.events],
    }


def app_compose_facts(data: bytes) -> _Facts:
    """Describe an app-compose: its hash, and what a policy that accepts it accepts as well.

    Raises:
        ConfigurationError: ``app-compose-unreadable``.
    """
    found = lint_app_compose(data)
    findings: list[JsonValue] = [f"{one.severity}: {one.path}: {one.why}" for one in found.findings]
    return {"compose_hash": found.compose_hash.hex(), "findings": findings}


def _stated_facts(log: ParsedDstackLog) -> JsonValue:
    """Return the facts of a log; one with an event that is out of place is shown with its defect."""
    try:
        return dstack_document(read_facts(log))
    except VerificationError as exc:
        return f"MISMATCH: {exc.message}"


def _dstack_event(event: DstackEvent) -> _Facts:
    if not event.is_runtime:
        return _event(event, CCEL)
    shown = readable_text(event.payload) or event.payload.hex()
    facts: _Facts = {
        "number": event.number,
        "register": event.register,
        "type": event.type_name,
        "digest": event.digest.hex(),
        "data": _relation(event),
        "name": event.name,
    }
    return {**facts, "payload": shown} if shown else facts


def _relation(event: DstackEvent) -> str:
    """Return the relation of the digest to name and payload, which it always covers."""
    if not event.stated_digest:
        return "computed: the log leaves the digest out"
    how = verification(event, CCEL)
    return str(how) if how is Verification.VERIFIED else _OF_OTHER_DATA


def _replayed(log: ParsedEventLog) -> _Facts:
    """Return the replayed registers; those of an operating system only if the log has them."""
    replayed = replay(log)
    return {
        register.name.lower(): replayed.values[register.name].hex()
        for register in log.kind.registers
        if replayed.counts.get(register.name) or (register.growth is Growth.NONE and register.initial is not None)
    }


def _declares_sha384_alone(data: bytes) -> bool:
    return data[56:62] == (1).to_bytes(4, "little") + SHA384.to_bytes(2, "little")


def _algorithm(algorithm: int) -> str:
    known = ALGORITHMS.get(algorithm)
    return f"{algorithm:#06x}" if known is None else known.name


def _event(event: ParsedEvent, kind: LogKind) -> _Facts:
    facts: _Facts = {
        "number": event.number,
        "register": event.register,
        "type": event.type_name,
        "digest": event.digest.hex(),
        "data": _verification(event, kind),
        "data_bytes": len(event.data),
    }
    text = event_text(event)
    if text is not None:
        facts["text"] = text
    elif event.data:
        facts["hex"] = event.data[:_SHOWN_DATA_BYTES].hex() + ("…" if len(event.data) > _SHOWN_DATA_BYTES else "")
    return facts


def _verification(event: ParsedEvent, kind: LogKind) -> str:
    """Return the relation of the digest to the data; a log that was changed is shown with its defect."""
    try:
        return str(verification(event, kind))
    except VerificationError:
        return _OF_OTHER_DATA
