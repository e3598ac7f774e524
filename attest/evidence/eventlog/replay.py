"""Does a log lead to the registers that hardware signed?

The replay proves the digests; ``require_data`` proves what can be proven of the data. Both make a
``VerifiedEventLog``, which is built here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha384

from attest.errors import BindingError
from attest.evidence.eventlog.content import Verification, is_extended, require_data
from attest.evidence.eventlog.structure import ParsedEventLog
from attest.evidence.eventlog.vocabulary import CCEL

__all__ = ["REGISTER_BYTES", "Registers", "VerifiedEventLog", "replay", "require_replay", "verify_event_log"]

REGISTER_BYTES = 48
_REGISTERS = 4
_CLAUSE = "Intel TDX module, TDG.MR.RTMR.EXTEND; intel-tdx-sgx.md 19"
_CHECK = "eventlog.registers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registers:
    """What a log leads to.

    Attributes:
        rtmrs: RTMR0 to RTMR3, 48 bytes each; zero where nothing was extended.
        counts: number of events that extended each.
    """

    rtmrs: tuple[bytes, bytes, bytes, bytes]
    counts: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEventLog:
    """A log that replays to signed registers, and whose data gives its digests wherever that can be told.

    It says as much as the registers: whoever signed them vouches for it. Built by ``verify_event_log``.

    Attributes:
        log: the log.
        registers: what it led to.
        verifications: how far each event's data is vouched for, in the order of ``log.events``.
    """

    log: ParsedEventLog
    registers: Registers
    verifications: tuple[Verification, ...]


def replay(log: ParsedEventLog) -> Registers:
    """Extend four empty registers with every event but EV_NO_ACTION and those of MRTD.

    Raises:
        ValueError: the log is of another kind than a TDX guest's.

    Spec: specs/intel-tdx-sgx.md, section 19: R = SHA-384(R ‖ digest), from 48 zero bytes.
    """
    if log.kind != CCEL:
        msg = f"a {log.kind.name} log does not replay to RTMRs"
        raise ValueError(msg)
    values, counts = [bytes(REGISTER_BYTES)] * _REGISTERS, [0] * _REGISTERS
    for event in log.events:
        if is_extended(event, log.kind):
            register = event.index - log.kind.first_extended
            values[register] = sha384(values[register] + event.digest).digest()
            counts[register] += 1
    return Registers(
        rtmrs=(values[0], values[1], values[2], values[3]), counts=(counts[0], counts[1], counts[2], counts[3])
    )


def require_replay(log: ParsedEventLog, rtmrs: tuple[bytes, bytes, bytes, bytes]) -> Registers:
    """Demand that a log leads to these registers; one without events has to be zero.

    Args:
        log: parsed, not trusted.
        rtmrs: RTMR0 to RTMR3 of a quote whose signature holds, 48 bytes each.

    Raises:
        BindingError: ``eventlog-register-mismatch``, with the first register that differs.
        ValueError: not four registers of 48 bytes, or a log of another kind than a TDX guest's.

    Spec: specs/intel-tdx-sgx.md, section 19 and check T13.
    """
    if len(rtmrs) != _REGISTERS or any(len(rtmr) != REGISTER_BYTES for rtmr in rtmrs):
        msg = f"expected {_REGISTERS} registers of {REGISTER_BYTES} bytes, got {[len(rtmr) for rtmr in rtmrs]}"
        raise ValueError(msg)
    replayed = replay(log)
    for number, (expected, got) in enumerate(zip(rtmrs, replayed.rtmrs, strict=True)):
        if expected != got:
            count = replayed.counts[number]
            raise BindingError(
                f"RTMR{number} is {expected.hex()}, the event log gives {got.hex()} from {count} events",
                code="eventlog-register-mismatch",
                check=_CHECK,
                field=f"RTMR{number}",
                expected=expected.hex(),
                got=f"{got.hex()} from {count} events",
                clause=_CLAUSE,
                hint="the log is of another boot, cut short or changed; take log and quote together",
            )
    return replayed


def verify_event_log(log: ParsedEventLog, *, rtmrs: tuple[bytes, bytes, bytes, bytes]) -> VerifiedEventLog:
    """Check that a log leads to signed registers and that its data is what was measured.

    Args:
        log: parsed, not trusted.
        rtmrs: RTMR0 to RTMR3 of a quote whose signature holds, 48 bytes each.

    Raises:
        BindingError: ``eventlog-register-mismatch``.
        VerificationError: ``eventlog-data-mismatch``.
        ValueError: not four registers of 48 bytes, or a log of another kind than a TDX guest's.

    Spec: specs/intel-tdx-sgx.md, section 19 and check T13.
    """
    # (1) Digests, their registers and their order.
    registers = require_replay(log, rtmrs)
    # (2) Data that is always what was hashed. Other texts stay unverified and give no claim.
    return VerifiedEventLog(log=log, registers=registers, verifications=require_data(log))
