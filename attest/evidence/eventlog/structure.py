"""TCG crypto-agile event logs, as a TDX guest's CCEL table and a TPM's driver hand them out.

Everything is little-endian. Indices, types and data are what the log says; only a replay against registers that
hardware signed gives the digests a meaning, and only a recomputed digest gives the data one.
"""

from __future__ import annotations

from dataclasses import dataclass

from attest.errors import EvidenceError
from attest.evidence.eventlog.kinds import CCEL, LogKind
from attest.evidence.eventlog.vocabulary import ALGORITHMS, EV_NO_ACTION, type_name
from attest.evidence.reader import ByteReader

MAX_EVENTS = 65_536
"""Records behind the header; real logs have a few hundred. specs/intel-tdx-sgx.md, section 19."""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""Maximum size of a log; real log areas have 64 KiB to 1 MiB."""
MAX_ALGORITHMS = 16
"""Banks that a header may declare; no TPM has more than five."""

_CLAUSE = "TCG PC Client Platform Firmware Profile, crypto agile log"
_CHECK = "eventlog.format"
_SIGNATURE = b"Spec ID Event03\0"
_SHA1_BYTES = 20
_END_INDEX = 0xFFFFFFFF
_LOCALITY = b"StartupLocality\0"
_LOCALITIES = (b"\0", b"\3", b"\4")
"""TPM2_Startup from locality 0 or 3; 4 when something measured before it (H-CRTM)."""
_LOCALITY_RULE = "one StartupLocality of 0, 3 or 4, in front of the first event of its register"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSpecId:
    """The header's event: how the log is written.

    Attributes:
        index: register index of the header record; it extends nothing.
        algorithms: id and digest size of each declared algorithm, in order.
    """

    index: int
    platform_class: int
    version_minor: int
    version_major: int
    errata: int
    uintn_size: int
    algorithms: tuple[tuple[int, int], ...]
    vendor_info: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDigest:
    """One digest of a record, with the id of its algorithm."""

    algorithm: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEvent:
    """One record as the log has it.

    Attributes:
        number: 1 for the first record behind the header.
        offset: of the record, from the start of the log; 0 in a log that is text.
        index: the log's number of the register.
        type: the number of the event type; no digest covers it.
        type_name: its name, or the number in hex.
        digest: the one of the bank that counts.
        data: the data that the log gives for the measurement; ``content.verification`` decides whether it counts.
        withheld: the log leaves the data out.
    """

    number: int
    offset: int
    index: int
    register: str
    type: int
    type_name: str
    digests: tuple[ParsedDigest, ...]
    digest: bytes
    data: bytes
    withheld: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEventLog:
    """A log as presented, whatever it is written in: unverified until it replays to signed registers.

    Attributes:
        startup_locality: initial locality of a TPM's first register, where the log records it; the replay proves it.
    """

    kind: LogKind
    events: tuple[ParsedEvent, ...]
    startup_locality: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTcgLog(ParsedEventLog):
    """A log in the TCG's binary form.

    Attributes:
        padding_bytes: bytes behind the last record that are no part of the log, its end marker included.
    """

    spec_id: ParsedSpecId
    padding_bytes: int

    def to_bytes(self) -> bytes:
        """Encode again; equal to what ``parse_event_log`` accepted, up to the padding."""
        return b"".join((_header_bytes(self.spec_id), *map(_event_bytes, self.events)))


def parse_event_log(data: bytes, *, kind: LogKind = CCEL) -> ParsedTcgLog:
    """Read an event log.

    It ends at a record with index 0xFFFFFFFF, where all remaining bytes are zero, or with the data.

    Raises:
        EvidenceError: ``eventlog-malformed``, with the number of the event in ``field`` and its offset.

    Spec: TCG PC Client Platform Firmware Profile, crypto agile log; specs/intel-tdx-sgx.md, section 19 and check T13.
    """
    if len(data) > MAX_LOG_BYTES:
        raise _malformed(0, 0, f"at most {MAX_LOG_BYTES} bytes", f"{len(data)} bytes")
    reader = _LogReader(data)
    # (1) The header declares the algorithms of every record.
    spec_id = _header(reader)
    sizes = dict(spec_id.algorithms)
    # (2) The records, up to one of the three ends.
    content_ends = len(data.rstrip(b"\0"))
    events: list[ParsedEvent] = []
    while reader.offset < content_ends:
        reader.number += 1
        offset = reader.offset
        index = reader.unsigned(4, "register index")
        if index == _END_INDEX:
            return _log(kind, spec_id, events, len(data) - offset)
        if len(events) == MAX_EVENTS:
            raise _malformed(reader.number, offset, f"at most {MAX_EVENTS} events", "one more")
        events.append(_record(reader, offset, index, sizes, kind))
    return _log(kind, spec_id, events, reader.remaining)


def _log(kind: LogKind, spec_id: ParsedSpecId, events: list[ParsedEvent], padding_bytes: int) -> ParsedTcgLog:
    # (3) The initial values of the registers, where a TPM's log records them.
    return ParsedTcgLog(
        kind=kind,
        spec_id=spec_id,
        events=tuple(events),
        padding_bytes=padding_bytes,
        startup_locality=_startup_locality(kind, events),
    )


def _startup_locality(kind: LogKind, events: list[ParsedEvent]) -> int:
    """Read the event StartupLocality, which precedes everything that extends its register.

    Spec: TCG PC Client Platform Firmware Profile, TCG_EfiStartupLocalityEvent.
    """
    found: int | None = None
    extended = False
    for event in events if kind.locality_index is not None else ():
        if event.type != EV_NO_ACTION:
            extended = extended or event.index == kind.locality_index
        elif event.data.startswith(_LOCALITY):
            where = event.index == kind.locality_index and not extended and found is None
            locality = event.data[len(_LOCALITY) :]
            if not where or locality not in _LOCALITIES:
                raise _malformed(event.number, event.offset, _LOCALITY_RULE, f"{locality.hex()} in {event.register}")
            found = locality[0]
    return found or 0


class _LogReader(ByteReader):
    """A reader that knows which event it is in."""

    __slots__ = ("number",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data, what="event log")
        self.number = 0

    def take(self, length: int, field: str) -> bytes:
        """Take bytes; a record that is cut off is malformed, and the event is named."""
        if length > self.remaining:
            raise _malformed(
                self.number, self.offset, f"{length} bytes of {field}", f"the end after {self.remaining} bytes"
            )
        return super().take(length, field)


def _header(reader: _LogReader) -> ParsedSpecId:
    """Read the first record: the old form, with the declarations as its data."""
    index = reader.unsigned(4, "register index")
    for field, expected in (("event type", (3).to_bytes(4, "little")), ("digest", bytes(_SHA1_BYTES))):
        at, found = reader.offset, reader.take(len(expected), field)
        if found != expected:
            raise _malformed(0, at, f"{field} {expected.hex()}", found.hex())
    size = reader.unsigned(4, "event size")
    begins = reader.offset
    signature = reader.take(len(_SIGNATURE), "signature")
    if signature != _SIGNATURE:
        raise _malformed(0, begins, f"signature {_SIGNATURE.hex()}", signature.hex())
    spec_id = ParsedSpecId(
        index=index,
        platform_class=reader.unsigned(4, "platform class"),
        version_minor=reader.unsigned(1, "specification version, minor"),
        version_major=reader.unsigned(1, "specification version, major"),
        errata=reader.unsigned(1, "specification errata"),
        uintn_size=reader.unsigned(1, "size of UINTN"),
        algorithms=_algorithms(reader),
        vendor_info=reader.take(reader.unsigned(1, "vendor information size"), "vendor information"),
    )
    if reader.offset - begins != size:
        raise _malformed(0, begins, f"{size} bytes of header", f"{reader.offset - begins} bytes")
    return spec_id


def _algorithms(reader: _LogReader) -> tuple[tuple[int, int], ...]:
    at, count = reader.offset, reader.unsigned(4, "number of algorithms")
    if not 1 <= count <= MAX_ALGORITHMS:
        raise _malformed(0, at, f"1 to {MAX_ALGORITHMS} algorithms", str(count))
    sizes: dict[int, int] = {}
    for _ in range(count):
        at = reader.offset
        algorithm, size = reader.unsigned(2, "algorithm"), reader.unsigned(2, "digest size")
        if algorithm in sizes:
            raise _malformed(0, at, "each algorithm once", f"{algorithm:#06x} again")
        known = ALGORITHMS.get(algorithm)
        if size == 0 or (known is not None and size != known.size):
            raise _malformed(0, at, f"a digest size that {algorithm:#06x} has", str(size))
        sizes[algorithm] = size
    return tuple(sizes.items())


def _record(reader: _LogReader, offset: int, index: int, sizes: dict[int, int], kind: LogKind) -> ParsedEvent:
    """Read what follows the register index of a record."""
    if index >= len(kind.registers):
        raise _malformed(reader.number, offset, f"register index 0 to {len(kind.registers) - 1}", str(index))
    event_type = reader.unsigned(4, "event type")
    digests = _digests(reader, sizes)
    if kind.bank not in digests:
        got = ", ".join(f"{algorithm:#06x}" for algorithm in digests) or "no algorithm"
        raise _malformed(reader.number, offset, f"a {ALGORITHMS[kind.bank].name} digest", f"digests of {got}")
    return ParsedEvent(
        number=reader.number,
        offset=offset,
        index=index,
        register=kind.registers[index].name,
        type=event_type,
        type_name=type_name(event_type),
        digests=tuple(ParsedDigest(algorithm=algorithm, value=value) for algorithm, value in digests.items()),
        digest=digests[kind.bank],
        data=reader.take(reader.unsigned(4, "event size"), "event data"),
    )


def _digests(reader: _LogReader, sizes: dict[int, int]) -> dict[int, bytes]:
    at, count = reader.offset, reader.unsigned(4, "digest count")
    if count > len(sizes):
        raise _malformed(reader.number, at, f"at most {len(sizes)} digests, as declared", str(count))
    digests: dict[int, bytes] = {}
    for _ in range(count):
        at, algorithm = reader.offset, reader.unsigned(2, "algorithm")
        if algorithm not in sizes:
            raise _malformed(reader.number, at, "an algorithm that the header declares", f"{algorithm:#06x}")
        if algorithm in digests:
            raise _malformed(reader.number, at, "each algorithm once", f"{algorithm:#06x} again")
        digests[algorithm] = reader.take(sizes[algorithm], "digest")
    return digests


def _malformed(number: int, offset: int, expected: str, got: str) -> EvidenceError:
    where = f"event {number}" if number else "header"
    return EvidenceError(
        f"event log, {where}: expected {expected}, got {got} (offset {offset:#x})",
        code="eventlog-malformed",
        check=_CHECK,
        field=where,
        offset=offset,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )


# -- encoding


def _number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little")


def _header_bytes(spec_id: ParsedSpecId) -> bytes:
    event = b"".join(
        (
            _SIGNATURE,
            _number(spec_id.platform_class),
            bytes((spec_id.version_minor, spec_id.version_major, spec_id.errata, spec_id.uintn_size)),
            _number(len(spec_id.algorithms)),
            *(_number(algorithm, 2) + _number(size, 2) for algorithm, size in spec_id.algorithms),
            _number(len(spec_id.vendor_info), 1),
            spec_id.vendor_info,
        )
    )
    return _number(spec_id.index) + _number(EV_NO_ACTION) + bytes(_SHA1_BYTES) + _number(len(event)) + event


def _event_bytes(event: ParsedEvent) -> bytes:
    return b"".join(
        (
            _number(event.index),
            _number(event.type),
            _number(len(event.digests)),
            *(_number(digest.algorithm, 2) + digest.value for digest in event.digests),
            _number(len(event.data)),
            event.data,
        )
    )
