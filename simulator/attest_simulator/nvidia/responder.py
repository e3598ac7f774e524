"""The SPDM responder: bytes of an attestation report, with and without its signature.

Written independently of the parser's tables: their agreement is a test. Every field can be
replaced, so that a test can sign invalid reports.

Spec: specs/nvidia-gpu.md, sections 2 to 5; DMTF DSP0274 1.1, GET_MEASUREMENTS.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from attest_simulator.nvidia.keys import sign_raw

NONCE_BYTES = 32
_REQUEST_HEAD = bytes((0x11, 0xE0, 0x01, 0xFF))
_RESPONSE_HEAD = bytes((0x11, 0x60, 0x00, 0x00))
_SLOT = b"\x00"
_DMTF = 0x01
_DIGEST_OF_MUTABLE_FIRMWARE = 0x01
_VALUE_HEAD_BYTES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTemplate:
    """A report without its signature; ``dataclasses.replace`` makes invalid ones.

    Attributes:
        nonce: of the requester, 32 bytes.
        responder_nonce: of the device, 32 bytes.
        measurements: 48 bytes each; a block's index is its position plus one.
        opaque: packed entries.
        request_head: version, code and two parameters of the request, 4 bytes.
        slot: SlotIDParam, 1 byte.
        response_head: version, code and two parameters of the response, 4 bytes.
        key: for the signature.
    """

    nonce: bytes
    responder_nonce: bytes
    measurements: tuple[bytes, ...]
    opaque: bytes
    key: ec.EllipticCurvePrivateKey
    request_head: bytes = _REQUEST_HEAD
    slot: bytes = _SLOT
    response_head: bytes = _RESPONSE_HEAD

    def to_be_signed(self) -> bytes:
        """Return request and response up to the signature; all integers little-endian."""
        record = b"".join(_block(index, value) for index, value in enumerate(self.measurements, 1))
        return b"".join(
            (
                self.request_head,
                self.nonce,
                self.slot,
                self.response_head,
                len(self.measurements).to_bytes(1, "little"),
                len(record).to_bytes(3, "little"),
                record,
                self.responder_nonce,
                len(self.opaque).to_bytes(2, "little"),
                self.opaque,
            )
        )

    def issue(self) -> bytes:
        """Return the signed report."""
        signed = self.to_be_signed()
        return signed + sign_raw(self.key, signed)


def _block(index: int, value: bytes) -> bytes:
    """Return a measurement block: index, specification, size, type of value, size of value, value."""
    size = _VALUE_HEAD_BYTES + len(value)
    head = bytes((index, _DMTF)) + size.to_bytes(2, "little")
    return head + bytes((_DIGEST_OF_MUTABLE_FIRMWARE,)) + len(value).to_bytes(2, "little") + value


def opaque_data(entries: Iterable[tuple[int, bytes]]) -> bytes:
    """Return concatenated entries of opaque data."""
    return b"".join(opaque_entry(kind, value) for kind, value in entries)


def opaque_entry(kind: int, value: bytes) -> bytes:
    """Return one entry: type, size, value (section 4.1)."""
    return kind.to_bytes(2, "little") + len(value).to_bytes(2, "little") + value


def text_field(text: str, size: int | None = None) -> bytes:
    """Return ASCII padded with NULs to a size, or with one NUL after it.

    Raises:
        ValueError: longer than the size.
    """
    data = text.encode("ascii")
    wanted = len(data) + 1 if size is None else size
    if len(data) > wanted:
        raise ValueError(f"{text!r} has more than {size} characters")
    return data.ljust(wanted, b"\0")


def vbios_field(version: str) -> bytes:
    """Return the eight bytes of a GPU's VBIOS version (section 4.2): ``96.00.74.00.1A`` is 00 74 00 96 1a 00 00 00.

    Raises:
        ValueError: not five dot-separated pairs of hex digits.
    """
    parts = version.split(".")
    if len(parts) != 5 or any(len(part) != 2 for part in parts):
        raise ValueError(f"VBIOS version {version!r}: expected five pairs of hex digits with dots between")
    first = bytes.fromhex("".join(reversed(parts[:4])))
    return (first + bytes.fromhex(parts[4])).ljust(8, b"\0")
