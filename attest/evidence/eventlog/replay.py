"""The replay of a log, and its comparison with the registers that hardware signed.

The replay proves the digests; ``require_data`` proves what can be proven of the data. Both make a
``VerifiedEventLog``, which is built here and nowhere else.

Two kinds of registers are not compared. An unsigned one proves nothing. One that an operating system alone
extends is left out of the firmware's log. No fact is read from either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attest.errors import BindingError
from attest.evidence.eventlog.content import Verification, is_extended, require_data
from attest.evidence.eventlog.kinds import Growth, LogKind, Register
from attest.evidence.eventlog.structure import ParsedEventLog

_CLAUSE = "Intel TDX module, TDG.MR.RTMR.EXTEND; TPM 2.0 Library, TPM2_PCR_Extend"
_CHECK = "eventlog.registers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registers:
    """Replayed values of a log, by the names of all registers that events extend.

    Attributes:
        values: of the size of the log's bank; the initial value where nothing was extended.
        counts: number of events that extended each.
    """

    values: Mapping[str, bytes]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEventLog:
    """A log that replays to signed registers, and whose data matches its digests wherever that can be checked.

    The signer of the registers authenticates the log. Built by ``verify_event_log``.

    Attributes:
        proven: names of the registers for which that is what was signed. Events of others prove nothing.
        unjudged: names of those that differ and that a relaxation leaves unjudged.
        verifications: extent to which each event's data is authenticated, in the order of ``log.events``.
    """

    log: ParsedEventLog
    registers: Registers
    proven: frozenset[str]
    unjudged: tuple[str, ...]
    verifications: tuple[Verification, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Result of the comparison; attributes as those of ``VerifiedEventLog``."""

    registers: Registers
    proven: frozenset[str]
    unjudged: tuple[str, ...]


def replay(log: ParsedEventLog) -> Registers:
    """Extend the registers, from their initial values, with every event but EV_NO_ACTION.

    Spec: specs/intel-tdx-sgx.md, section 19: R = H(R ‖ digest); TPM 2.0 Library, part 1, extend.
    """
    kind = log.kind
    values = {register.name: register.initial for register in kind.registers if register.initial is not None}
    counts = dict.fromkeys(values, 0)
    if kind.locality_index is not None:
        first = kind.registers[kind.locality_index].name
        values[first] = values[first][:-1] + bytes([log.startup_locality])
    for event in log.events:
        if is_extended(event, kind):
            values[event.register] = kind.hashed(values[event.register] + event.digest)
            counts[event.register] += 1
    return Registers(values=values, counts=counts)


def continuation(kind: LogKind, register: Register, replayed: bytes, signed: bytes) -> int | None:
    """Return the number of known phases between the replayed and the signed value; None when no number fits."""
    for number, phase in enumerate(register.phases):
        if replayed == signed:
            return number
        replayed = kind.hashed(replayed + phase)
    return len(register.phases) if replayed == signed else None


def require_replay(log: ParsedEventLog, signed: Mapping[str, bytes], *, tolerant: bool = False) -> Replayed:
    """Demand that a log leads to signed registers; one without events has to have its initial value.

    A register may have been extended by the phases of a boot that are known to follow the log, and one that only an
    operating system extends may be left out of the log altogether.

    Args:
        log: parsed, not trusted.
        signed: by name, the registers that hardware signed; those of a quote whose signature holds.
        tolerant: leave a register unjudged that differs and that an operating system may have extended since.

    Raises:
        BindingError: ``eventlog-register-mismatch``, with the first register that differs;
            ``eventlog-registers-unsigned``, when the log has events and none is of a register that was compared.
        ValueError: a register that a log of this kind does not have, or of another size.

    Spec: specs/intel-tdx-sgx.md, section 19 and check T13; specs/azure-cvm.md, section 5.
    """
    _require_use(log.kind, signed)
    replayed = replay(log)
    proven: list[str] = []
    unjudged: list[str] = []
    for register in log.kind.registers:
        if register.name not in signed or register.initial is None:
            continue
        expected, got = signed[register.name], replayed.values[register.name]
        if continuation(log.kind, register, got, expected) is not None:
            proven.append(register.name)
        elif register.growth is Growth.SYSTEM_ALONE and not replayed.counts[register.name]:
            continue
        elif register.growth is not Growth.NONE and tolerant:
            unjudged.append(register.name)
        else:
            raise _mismatch(register, expected, got, replayed.counts[register.name])
    if not proven or (any(replayed.counts.values()) and not any(replayed.counts[name] for name in proven)):
        raise _unsigned(replayed, signed)
    return Replayed(registers=replayed, proven=frozenset(proven), unjudged=tuple(unjudged))


def verify_event_log(log: ParsedEventLog, *, signed: Mapping[str, bytes], tolerant: bool = False) -> VerifiedEventLog:
    """Check that a log leads to signed registers, as ``require_replay``, and that its data is what was measured.

    Raises:
        VerificationError: ``eventlog-data-mismatch``.
    """
    # (1) Digests, their registers and their order.
    replayed = require_replay(log, signed, tolerant=tolerant)
    # (2) Data that is always what was hashed, whichever register it is in. Other texts stay unverified and give no
    # claim; nor does anything of a register that was not compared.
    found = zip(log.events, require_data(log), strict=True)
    return VerifiedEventLog(
        log=log,
        registers=replayed.registers,
        proven=replayed.proven,
        unjudged=replayed.unjudged,
        verifications=tuple(
            how if event.register in replayed.proven else Verification.UNVERIFIED for event, how in found
        ),
    )


def _require_use(kind: LogKind, signed: Mapping[str, bytes]) -> None:
    names = {register.name for register in kind.registers if register.initial is not None}
    wrong = {name: len(value) for name, value in signed.items() if name not in names or len(value) != kind.size}
    if wrong:
        raise ValueError(
            f"a {kind.name} log has registers of {kind.size} bytes named {', '.join(sorted(names))}, got {wrong}"
        )


def _mismatch(register: Register, expected: bytes, got: bytes, count: int) -> BindingError:
    hint = "the log is of another boot, truncated or changed; collect log and quote together"
    if register.growth is not Growth.NONE:
        hint += ", or the system extended it since: --unchecked eventlog=REASON skips the check"
    return BindingError(
        f"{register.name} is {expected.hex()}, the event log gives {got.hex()} from {count} events",
        code="eventlog-register-mismatch",
        check=_CHECK,
        field=register.name,
        expected=expected.hex(),
        got=f"{got.hex()} from {count} events",
        clause=_CLAUSE,
        hint=hint,
    )


def _unsigned(replayed: Registers, signed: Mapping[str, bytes]) -> BindingError:
    extended = ", ".join(name for name, count in replayed.counts.items() if count) or "none"
    names = ", ".join(signed) or "none"
    return BindingError(
        f"no register that the event log extends ({extended}) can be compared with a signed one ({names})",
        code="eventlog-registers-unsigned",
        check=_CHECK,
        field="registers",
        expected=f"a signed value of one of: {extended}",
        got=names,
        clause=_CLAUSE,
        hint="quote the registers that the log extends: for a TPM at least 0 to 7",
    )
