"""The attestation report of a GPU or NVSwitch: an SPDM 1.1 GET_MEASUREMENTS request and its MEASUREMENTS response.

::

    request (37) ‖ head (8) ‖ measurement blocks (55 each) ‖ tail (34) ‖ opaque data ‖ signature (96)

The tables below drive the parser, the encoder and the mutation tests; ``FIXED`` says which fields have one value.
The certificate, not this report, shows whether the device is a GPU or a switch.

Spec: specs/nvidia-gpu.md, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from attest.evidence.gpu.opaque import OpaqueData, malformed, parse_opaque
from attest.evidence.reader import Field, Layout
from attest.evidence.tolerances import UnknownValue

MAX_REPORT_BYTES = 0x2000
"""The buffer into which NVML writes a report; the longest one seen has 4,274 bytes."""
BLOCK_COUNTS = (31, 64)
"""Measurement blocks of an NVSwitch (LS10) and of a GPU; no other number has been seen."""

_FRAMING = "DMTF DSP0274, GET_MEASUREMENTS"
_BLOCKS = "DMTF DSP0274, measurement block"

REQUEST = Layout(
    name="GET_MEASUREMENTS request",
    size=37,
    clause=_FRAMING,
    fields=(
        Field(name="request_spdm_version", offset=0, size=1, kind="u8", note="1.1"),
        Field(name="request_code", offset=1, size=1, kind="u8", note="GET_MEASUREMENTS"),
        Field(name="request_param1", offset=2, size=1, kind="u8", note="a signature is requested"),
        Field(name="request_param2", offset=3, size=1, kind="u8", note="all measurements are requested"),
        Field(name="nonce", offset=4, size=32, kind="bytes", note="the verifier's challenge"),
        Field(name="slot_id", offset=36, size=1, kind="u8"),
    ),
)
HEAD = Layout(
    name="MEASUREMENTS response",
    size=8,
    clause=_FRAMING,
    fields=(
        Field(name="response_spdm_version", offset=0, size=1, kind="u8", note="1.1"),
        Field(name="response_code", offset=1, size=1, kind="u8", note="MEASUREMENTS"),
        Field(name="response_param1", offset=2, size=1, kind="u8"),
        Field(name="response_param2", offset=3, size=1, kind="u8", note="later versions carry a slot number here"),
        Field(name="number_of_blocks", offset=4, size=1, kind="u8"),
        Field(name="record_length", offset=5, size=3, kind="bytes", note="u24: 55 times the blocks"),
    ),
)
BLOCK = Layout(
    name="measurement block",
    size=55,
    clause=_BLOCKS,
    fields=(
        Field(name="index", offset=0, size=1, kind="u8", note="1 to the number of blocks; RIM index plus 1"),
        Field(name="measurement_specification", offset=1, size=1, kind="u8", note="DMTF"),
        Field(name="measurement_size", offset=2, size=2, kind="u16", note="of what follows"),
        Field(name="value_type", offset=4, size=1, kind="u8", note="digest of mutable firmware"),
        Field(name="value_size", offset=5, size=2, kind="u16"),
        Field(name="value", offset=7, size=48, kind="bytes", note="SHA-384; zero for a slot that is not used"),
    ),
)
TAIL = Layout(
    name="end of the MEASUREMENTS response",
    size=34,
    clause=_FRAMING,
    fields=(
        Field(name="responder_nonce", offset=0, size=32, kind="bytes", note="the device's own; proves no freshness"),
        Field(name="opaque_length", offset=32, size=2, kind="u16"),
    ),
)
SIGNATURE = Layout(
    name="signature",
    size=96,
    clause=_FRAMING,
    fields=(
        Field(name="signature_r", offset=0, size=48, kind="bytes", note="big-endian"),
        Field(name="signature_s", offset=48, size=48, kind="bytes", note="big-endian"),
    ),
)

FIXED: Mapping[str, int] = {
    "request_spdm_version": 0x11,
    "request_code": 0xE0,
    "request_param1": 0x01,
    "request_param2": 0xFF,
    "slot_id": 0x00,
    "response_spdm_version": 0x11,
    "response_code": 0x60,
    "response_param1": 0x00,
    "response_param2": 0x00,
    "measurement_specification": 0x01,
    "measurement_size": 51,
    "value_type": 0x01,
    "value_size": 48,
}
"""Fields with one value; NVIDIA's own verifiers compare few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedGpuReport:
    """A report as presented: unverified until its signature is checked.

    Attributes:
        raw: the report as received, request and response.
        nonce: the requester's challenge, 32 bytes.
        responder_nonce: 32 bytes that the device chose.
        measurements: SHA-384 digests, 48 bytes each; the position is the RIM index, counted from 0.
        signed_bytes: everything in front of the signature, as received.
        signature_r: 48 bytes, big-endian.
        signature_s: 48 bytes, big-endian.
    """

    raw: bytes
    nonce: bytes
    responder_nonce: bytes
    measurements: tuple[bytes, ...]
    opaque: OpaqueData
    signed_bytes: bytes
    signature_r: bytes
    signature_s: bytes

    @property
    def unknown_values(self) -> tuple[UnknownValue, ...]:
        """Values of the opaque data without a known meaning, which verification refuses unless they are named."""
        return self.opaque.unknown_values(len(self.signed_bytes) - len(self.opaque.raw))

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_report`` accepts."""
        count, opaque = len(self.measurements), self.opaque.to_bytes()
        parts = [
            _encode(REQUEST, nonce=self.nonce),
            _encode(HEAD, number_of_blocks=count, record_length=(count * BLOCK.size).to_bytes(3, "little")),
        ]
        parts += [_encode(BLOCK, index=index, value=value) for index, value in enumerate(self.measurements, 1)]
        parts += [_encode(TAIL, responder_nonce=self.responder_nonce, opaque_length=len(opaque)), opaque]
        parts.append(_encode(SIGNATURE, signature_r=self.signature_r, signature_s=self.signature_s))
        return b"".join(parts)


def parse_report(data: bytes) -> ParsedGpuReport:
    """Read the attestation report of a GPU or switch.

    Args:
        data: request and response, nothing before or after them, at most ``MAX_REPORT_BYTES``.

    Raises:
        EvidenceError: ``gpu-report-malformed``, with field, offset, what was expected and what was found: a field
            that has one value has another, lengths and counts do not agree, bytes are missing or left over.
        UnsupportedError: ``gpu-opaque-unsupported``, opaque data of a version that is not known.

    Spec: specs/nvidia-gpu.md, sections 2 to 4.
    """
    # (1) Size: the maximum of NVML.
    if len(data) > MAX_REPORT_BYTES:
        raise malformed("report", None, f"at most {MAX_REPORT_BYTES} bytes", f"{len(data)} bytes", clause=_FRAMING)
    # (2) Request and head of the response, field by field.
    request, at = _take(REQUEST, data, 0)
    head, at = _take(HEAD, data, at)
    count = _number_of_blocks(head, at - HEAD.size)
    # (3) Measurement blocks, each index in its place.
    measurements, at = _blocks(data, at, count)
    # (4) What the device chose and says of itself.
    tail, at = _take(TAIL, data, at)
    length = tail["opaque_length"]
    if length > len(data) - at:
        raise malformed("opaque_length", at - 2, f"at most {len(data) - at}", str(length), clause=_FRAMING)
    opaque_at, at = at, at + length
    # (5) The signature is located by parsing, never from the end, and ends the report.
    signature, end = _take(SIGNATURE, data, at)
    if end != len(data):
        raise malformed("report", end, f"{end} bytes", f"{len(data)} bytes", clause=_FRAMING)
    return ParsedGpuReport(
        raw=data,
        nonce=request["nonce"],
        responder_nonce=tail["responder_nonce"],
        measurements=measurements,
        opaque=parse_opaque(data[opaque_at:at], offset=opaque_at),
        signed_bytes=data[:at],
        signature_r=signature["signature_r"],
        signature_s=signature["signature_s"],
    )


def _take(layout: Layout, data: bytes, at: int) -> tuple[dict[str, Any], int]:  # Any: the table fixes the types
    """Decode a table at an offset and compare its fixed fields; return its values and the offset behind it."""
    piece = data[at : at + layout.size]
    if len(piece) != layout.size:
        raise malformed(layout.name, at, f"{layout.size} bytes", f"{len(piece)} bytes", clause=layout.clause)
    values: dict[str, Any] = dict(zip(layout.names, layout.decode(piece), strict=True))
    for field in layout:
        found, expected = values[field.name], FIXED.get(field.name)
        if expected is not None and found != expected:
            offset = at + field.offset
            raise malformed(field.name, offset, f"{expected:#04x}", f"{found:#04x}", clause=layout.clause)
    return values, at + layout.size


def _number_of_blocks(head: dict[str, Any], at: int) -> int:
    """Return the number of blocks, which must be one that is known and agree with the length of the record."""
    count: int = head["number_of_blocks"]
    if count not in BLOCK_COUNTS:
        raise malformed("number_of_blocks", at + 4, " or ".join(map(str, BLOCK_COUNTS)), str(count), clause=_FRAMING)
    length = int.from_bytes(head["record_length"], "little")
    if length != count * BLOCK.size:
        raise malformed("record_length", at + 5, str(count * BLOCK.size), str(length), clause=_FRAMING)
    return count


def _blocks(data: bytes, at: int, count: int) -> tuple[tuple[bytes, ...], int]:
    """Read the blocks; their indices count from 1 without a gap, so none is duplicated."""
    values: list[bytes] = []
    for index in range(1, count + 1):
        block = data[at : at + BLOCK.size]
        # All of a block but its value is fixed. Where that differs, the table says which field it is.
        if len(block) != BLOCK.size or block[:_VALUE_AT] != _BLOCK_HEADS[index]:
            found, _ = _take(BLOCK, data, at)
            raise malformed(f"index of block {index}", at, str(index), str(found["index"]), clause=_BLOCKS)
        values.append(block[_VALUE_AT:])
        at += BLOCK.size
    return tuple(values), at


def _encode(layout: Layout, **values: int | bytes) -> bytes:
    fixed = {name: FIXED[name] for name in layout.names if name in FIXED}
    return layout.encode({**fixed, **values})


_VALUE_AT: Final = next(field.offset for field in BLOCK if field.name == "value")
_BLOCK_HEADS: Final = tuple(
    _encode(BLOCK, index=index, value=bytes(48))[:_VALUE_AT] for index in range(max(BLOCK_COUNTS) + 1)
)
"""Prefix of the value, by index."""
