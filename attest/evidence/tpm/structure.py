"""Structures of TPM 2.0: quotes (TPMS_ATTEST) and signatures (TPMT_SIGNATURE). All integers are big-endian.

Sizes of a TPM's structures depend on their contents, so a table here names its fields and their kinds in order; the
parser, the encoder and the mutation tests walk it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from attest.endorsements.malformed import malformed
from attest.errors import UnsupportedError
from attest.evidence.reader import ByteReader

SHA256 = 0x000B
"""TPM_ALG_SHA256: the one bank of registers that is read here."""
SHA256_BYTES = 32
RSASSA = 0x0014
"""TPM_ALG_RSASSA: PKCS#1 v1.5."""
MAX_PCRS = 24
_SELECT_BYTES = 3
"""A bit for each of the registers of a PC's TPM."""

_MAGIC = 0xFF544347
_QUOTE = 0x8018
_MAX_SELECTIONS = 16
"""TPM 2.0 Library, part 2, HASH_COUNT of implementations: a selection names each bank at most once."""
_MAX_NAME_BYTES = 68
_MAX_DATA_BYTES = 66
_MAX_DIGEST_BYTES = 64
_MAX_SIGNATURE_BYTES = 512

_CLAUSE = "TPM 2.0 Library, part 2, TPMS_ATTEST"
_malformed = partial(malformed, code="tpm-quote-malformed", of=" of the TPM's message", clause=_CLAUSE)

Kind = Literal["u8", "u16", "u32", "u64", "sized", "selections"]
_INTEGERS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class TpmField:
    """One row of a structure's table.

    Attributes:
        kind: ``u8`` to ``u64`` are big-endian; ``sized`` is a u16 length and that many bytes (TPM2B);
            ``selections`` is TPML_PCR_SELECTION.
        limit: most bytes of a ``sized`` value.
    """

    name: str
    kind: Kind
    limit: int = 0
    note: str = ""


ATTEST: tuple[TpmField, ...] = (
    TpmField(name="magic", kind="u32", note="0xFF544347: made by a TPM, not by software that signs with its key"),
    TpmField(name="type", kind="u16", note="0x8018: a quote"),
    TpmField(name="qualified_signer", kind="sized", limit=_MAX_NAME_BYTES, note="name of the signing key"),
    TpmField(name="extra_data", kind="sized", limit=_MAX_DATA_BYTES, note="the nonce of the request"),
    TpmField(name="clock", kind="u64", note="milliseconds that the TPM has run"),
    TpmField(name="reset_count", kind="u32", note="restarts of the machine"),
    TpmField(name="restart_count", kind="u32", note="resumptions"),
    TpmField(name="safe", kind="u8", note="1: the clock never went back"),
    TpmField(name="firmware_version", kind="u64"),
    TpmField(name="selections", kind="selections", note="which registers of which banks"),
    TpmField(name="pcr_digest", kind="sized", limit=_MAX_DIGEST_BYTES, note="over the values of these registers"),
)
"""TPMS_ATTEST with TPMS_QUOTE_INFO, its rows in order."""

SIGNATURE: tuple[TpmField, ...] = (
    TpmField(name="algorithm", kind="u16", note="0x0014: RSASSA"),
    TpmField(name="hash", kind="u16", note="0x000B: SHA-256"),
    TpmField(name="signature", kind="sized", limit=_MAX_SIGNATURE_BYTES),
)
"""TPMT_SIGNATURE of RSA keys, its rows in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PcrSelection:
    """Registers of one bank.

    Attributes:
        algorithm: TPM_ALG_ID of the bank's hash.
        bitmap: three bytes; bit i of byte j is register 8j+i.
    """

    algorithm: int
    bitmap: bytes

    @property
    def indices(self) -> tuple[int, ...]:
        """The registers, ascending."""
        return tuple(index for index in range(MAX_PCRS) if self.bitmap[index // 8] >> index % 8 & 1)


def bitmap_of(indices: tuple[int, ...]) -> bytes:
    """Return the bitmap that selects these registers, each from 0 to 23."""
    return sum(1 << index for index in set(indices)).to_bytes(_SELECT_BYTES, "little")


_Value = int | bytes | tuple[PcrSelection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTpmQuote:
    """A quote as presented: unverified until its signature is checked.

    Attributes:
        raw: the message as received; signatures are checked over these bytes.
        qualified_signer: the TPM's name for the signing key; its expected value is not known here.
        extra_data: the nonce of the request.
        clock: milliseconds that the TPM has run; with the two counters it reveals a restored snapshot.
        reset_count: changes whenever the machine restarts.
        restart_count: changes whenever it resumes.
        safe: true if the clock never went back.
        pcr_digest: of their values, in ascending order.
    """

    raw: bytes
    qualified_signer: bytes
    extra_data: bytes
    clock: int
    reset_count: int
    restart_count: int
    safe: bool
    firmware_version: int
    selections: tuple[PcrSelection, ...]
    pcr_digest: bytes

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_tpm_quote`` accepts."""
        values: dict[str, _Value] = {"magic": _MAGIC, "type": _QUOTE}
        for field in ATTEST[2:]:
            values[field.name] = getattr(self, field.name)
        return _encode(ATTEST, values)


def parse_tpm_quote(data: bytes) -> ParsedTpmQuote:
    """Read a quote: TPMS_ATTEST, without the length that TPM2B_ATTEST has in front.

    Raises:
        EvidenceError: ``truncated``, ``trailing-bytes`` or ``tpm-quote-malformed``.
        UnsupportedError: ``tpm-attest-unsupported``: another magic or type than that of a quote (azure-cvm.md, A05).
    """
    reader = ByteReader(data, what="TPM quote")
    # (1) What is no quote is refused before the rest is read by a table that is not its own.
    for field, wanted, what in ((ATTEST[0], _MAGIC, "made by a TPM"), (ATTEST[1], _QUOTE, "a quote")):
        found = _number(reader, field)
        if found != wanted:
            raise _unsupported(field.name, f"{wanted:#x} ({what})", f"{found:#x}", code="tpm-attest-unsupported")
    # (2) The rest, to its end.
    values: dict[str, Any] = {field.name: _take(reader, field) for field in ATTEST[2:]}  # Any: by the table's kinds
    reader.finish()
    safe = values.pop("safe")
    if safe not in (0, 1):
        raise _malformed("safe", "0 or 1", str(safe))
    return ParsedTpmQuote(raw=data, safe=bool(safe), **values)


def parse_tpm_signature(data: bytes) -> bytes:
    """Read a TPMT_SIGNATURE and return the signature in it: RSASSA with SHA-256, the one that is verified here.

    Raises:
        EvidenceError: ``truncated``, ``trailing-bytes`` or ``tpm-quote-malformed``.
        UnsupportedError: ``tpm-signature-unsupported``.
    """
    reader = ByteReader(data, what="TPM signature")
    algorithm, hashed = (_number(reader, field) for field in SIGNATURE[:2])
    if (algorithm, hashed) != (RSASSA, SHA256):
        expected = f"{RSASSA:#06x} (RSASSA) with {SHA256:#06x} (SHA-256)"
        got = f"{algorithm:#06x} with {hashed:#06x}"
        raise _unsupported("TPMT_SIGNATURE", expected, got, code="tpm-signature-unsupported")
    signature = _sized(reader, SIGNATURE[2])
    reader.finish()
    return signature


# -- by the table


def _take(reader: ByteReader, field: TpmField) -> _Value:
    if field.kind == "selections":
        return _take_selections(reader)
    return _sized(reader, field) if field.kind == "sized" else _number(reader, field)


def _number(reader: ByteReader, field: TpmField) -> int:
    return reader.unsigned(_INTEGERS[field.kind], field.name, byteorder="big")


def _sized(reader: ByteReader, field: TpmField) -> bytes:
    length = reader.unsigned(2, f"{field.name}, length", byteorder="big")
    if length > field.limit:
        raise _malformed(field.name, f"at most {field.limit} bytes", f"{length} bytes")
    return reader.take(length, field.name)


def _take_selections(reader: ByteReader) -> tuple[PcrSelection, ...]:
    count = reader.unsigned(4, "selections, count", byteorder="big")
    if count > _MAX_SELECTIONS:
        raise _malformed("selections", f"at most {_MAX_SELECTIONS}", str(count))
    found: list[PcrSelection] = []
    for number in range(count):
        name = f"selections[{number}]"
        algorithm = reader.unsigned(2, f"{name}, hash", byteorder="big")
        size = reader.unsigned(1, f"{name}, size", byteorder="big")
        if size != _SELECT_BYTES:
            raise _malformed(name, f"a bitmap of {_SELECT_BYTES} bytes", f"{size} bytes")
        found.append(PcrSelection(algorithm=algorithm, bitmap=reader.take(size, f"{name}, bitmap")))
    return tuple(found)


def _encode(table: tuple[TpmField, ...], values: Mapping[str, _Value]) -> bytes:
    return b"".join(_encoded(field, values[field.name]) for field in table)


def _encoded(field: TpmField, value: _Value) -> bytes:
    match value:
        case int():
            return value.to_bytes(_INTEGERS[field.kind], "big")
        case bytes():
            return len(value).to_bytes(2, "big") + value
        case selections:
            rows = (s.algorithm.to_bytes(2, "big") + bytes([len(s.bitmap)]) + s.bitmap for s in selections)
            return len(selections).to_bytes(4, "big") + b"".join(rows)


def _unsupported(field: str, expected: str, got: str, *, code: str) -> UnsupportedError:
    return UnsupportedError(
        f"{field} of the TPM's message is {got}, expected {expected}",
        code=code,
        field=field,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )
