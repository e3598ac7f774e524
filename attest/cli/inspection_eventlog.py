"""An event log as plain data: replayed, but compared with nothing."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.errors import VerificationError
from attest.evidence.eventlog.content import event_text, verification
from attest.evidence.eventlog.kinds import TCG2_SHA256, Growth, LogKind
from attest.evidence.eventlog.replay import replay
from attest.evidence.eventlog.structure import ParsedEvent, ParsedEventLog, parse_event_log
from attest.evidence.eventlog.vocabulary import ALGORITHMS, SHA384

_Facts = dict[str, JsonValue]
_SHOWN_DATA_BYTES = 256
"""Data that is no text is shown in hex up to here; the digest stands for the rest."""


def event_log(data: bytes) -> _Facts:
    """Describe an event log.

    A log that declares SHA-384 alone is shown as a TDX guest's, any other one as a TPM's: only for showing it.

    Raises:
        EvidenceError: ``eventlog-malformed``.
    """
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
        return "MISMATCH: the digest is of other data"
