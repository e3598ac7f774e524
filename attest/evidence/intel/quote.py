"""The DCAP quote of SGX and TDX, versions 3, 4 and 5: header, body, and what the Quoting Enclave adds.

::

    header 48 | descriptor 6 (version 5) | body | u32 length | signature data | padding

Fixed parts are tables; every nested part must end exactly where its container ends. Bytes behind the declared length
are padding: many platforms append some. They are counted and shown, and authenticate nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.reader import Field, Layout
from attest.evidence.sgx.structure import ENCLAVE_REPORT_BYTES, ParsedEnclaveReport, parse_enclave_report
from attest.evidence.tdx.structure import TD_REPORT_TYPES, ParsedTdReport, layout_of_type, parse_td_report

MAX_QUOTE_BYTES = 64 * 1024
"""Real quotes have 4,600 to 8,000 bytes with their padding; configfs returns up to 32 KiB."""

INTEL_QE_VENDOR = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
PCK_CHAIN = 5
"""Certification data that holds the PCK certificate and its issuers, PEM."""

Tee = Literal["sgx", "tdx"]
_TEES: dict[int, Tee] = {0x00: "sgx", 0x81: "tdx"}
_VERSIONS: dict[int, tuple[Tee, ...]] = {3: ("sgx",), 4: ("sgx", "tdx"), 5: ("sgx", "tdx")}
_BODY_SIZES = {1: ENCLAVE_REPORT_BYTES, **{kind: layout_of_type(kind).size for kind in TD_REPORT_TYPES}}
_BODY_TYPES: dict[Tee, tuple[int, ...]] = {"sgx": (1,), "tdx": TD_REPORT_TYPES}
_ECDSA_P256 = 2
_QE_REPORT_CERTIFICATION = 6
_CERTIFICATION_SIZES = {1: 36, 2: 276, 3: 404, 4: None, PCK_CHAIN: None}
"""Types 1 to 3 are PPID (clear, RSA-2048, RSA-3072), CPUSVN, PCESVN and PCEID; 4 and 5 are certificates."""
_LENGTH_BYTES = 4
_CLAUSE = "Intel DCAP, ECDSA quote format"

HEADER = Layout(
    name="quote header",
    size=48,
    clause="Intel DCAP, quote header",
    fields=(
        Field(name="version", offset=0, size=2, kind="u16"),
        Field(name="attestation_key_type", offset=2, size=2, kind="u16", note="2: ECDSA P-256"),
        Field(name="tee_type", offset=4, size=4, kind="u32", note="0: SGX, 0x81: TDX"),
        Field(name="qe_svn", offset=8, size=2, kind="u16", note="reserved from version 4 on, not judged"),
        Field(name="pce_svn", offset=10, size=2, kind="u16", note="reserved from version 4 on, not judged"),
        Field(name="qe_vendor_id", offset=12, size=16, kind="bytes"),
        Field(name="user_data", offset=28, size=20, kind="bytes", note="QE identifier, not judged"),
    ),
)
DESCRIPTOR = Layout(
    name="body descriptor",
    size=6,
    clause="Intel DCAP, quote version 5",
    fields=(
        Field(name="body_type", offset=0, size=2, kind="u16"),
        Field(name="body_size", offset=2, size=4, kind="u32"),
    ),
)
CERTIFICATION_HEAD = Layout(
    name="certification data",
    size=6,
    clause="Intel DCAP, QE certification data",
    fields=(
        Field(name="certification_type", offset=0, size=2, kind="u16"),
        Field(name="certification_size", offset=2, size=4, kind="u32"),
    ),
)


def _signature_head(*, wrapped: bool) -> Layout:
    """Return the layout of the fixed signature data; from version 4 on with a certification head inside."""
    at = 134 if wrapped else 128
    head = (
        Field(name="outer_type", offset=128, size=2, kind="u16", note="6: QE report certification data"),
        Field(name="outer_size", offset=130, size=4, kind="u32"),
    )
    return Layout(
        name="signature data",
        size=at + 450,
        clause="Intel DCAP, ECDSA 256-bit quote signature data",
        fields=(
            Field(name="signature", offset=0, size=64, kind="bytes", note="r, s, big-endian; by the attestation key"),
            Field(name="attestation_key", offset=64, size=64, kind="bytes", note="x, y, big-endian"),
            *(head if wrapped else ()),
            Field(name="qe_report", offset=at, size=384, kind="bytes"),
            Field(name="qe_report_signature", offset=at + 384, size=64, kind="bytes", note="by the PCK"),
            Field(name="qe_auth_size", offset=at + 448, size=2, kind="u16"),
        ),
    )


SIGNATURE_HEADS = {
    3: _signature_head(wrapped=False),
    4: _signature_head(wrapped=True),
    5: _signature_head(wrapped=True),
}
"""Start of the signature data, by quote version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuote:
    """A quote as presented: unverified until its signatures and chain are checked.

    Attributes:
        raw: the quote as received, padding included.
        body_type: 1 enclave report, 2 TD report 1.0, 3 TD report 1.5, 4 the same extended; before version 5 it follows
            from the TEE.
        signed_bytes: header, descriptor and body as received: what the attestation key signed.
        signature: r and s, 64 bytes, big-endian.
        attestation_key: x and y, 64 bytes, big-endian; any bytes, perhaps no point of the curve.
        qe_report: the report of the Quoting Enclave, which commits to the attestation key.
        qe_report_signature: r and s by the PCK, 64 bytes, big-endian.
        qe_auth_data: data that the Quoting Enclave hashed together with the attestation key.
        certification_type: 5: PEM chain of the PCK; 1 to 4: the chain has to come from elsewhere.
        padding: bytes behind the declared length; nothing authenticates them.
    """

    raw: bytes
    version: int
    tee: Tee
    qe_svn: int
    pce_svn: int
    user_data: bytes
    body_type: int
    body: ParsedTdReport | ParsedEnclaveReport
    signed_bytes: bytes
    signature: bytes
    attestation_key: bytes
    qe_report: ParsedEnclaveReport
    qe_report_signature: bytes
    qe_auth_data: bytes
    certification_type: int
    certification_data: bytes
    padding: bytes

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_quote`` accepts."""
        header = HEADER.encode(
            {
                "version": self.version,
                "attestation_key_type": _ECDSA_P256,
                "tee_type": next(number for number, tee in _TEES.items() if tee == self.tee),
                "qe_svn": self.qe_svn,
                "pce_svn": self.pce_svn,
                "qe_vendor_id": INTEL_QE_VENDOR,
                "user_data": self.user_data,
            }
        )
        body = self.body.to_bytes()
        described = self.version == 5
        descriptor = DESCRIPTOR.encode({"body_type": self.body_type, "body_size": len(body)}) if described else b""
        signature_data = self._encoded_signature_data()
        length = len(signature_data).to_bytes(_LENGTH_BYTES, "little")
        return b"".join((header, descriptor, body, length, signature_data, self.padding))

    def _encoded_signature_data(self) -> bytes:
        certification = (
            CERTIFICATION_HEAD.encode(
                {"certification_type": self.certification_type, "certification_size": len(self.certification_data)}
            )
            + self.certification_data
        )
        values: dict[str, int | bytes] = {
            "signature": self.signature,
            "attestation_key": self.attestation_key,
            "qe_report": self.qe_report.to_bytes(),
            "qe_report_signature": self.qe_report_signature,
            "qe_auth_size": len(self.qe_auth_data),
        }
        if self.version != 3:
            outer_size = 384 + 64 + 2 + len(self.qe_auth_data) + len(certification)
            values |= {"outer_type": _QE_REPORT_CERTIFICATION, "outer_size": outer_size}
        return SIGNATURE_HEADS[self.version].encode(values) + self.qe_auth_data + certification


def parse_quote(data: bytes) -> ParsedQuote:
    """Read a quote of SGX or TDX.

    Args:
        data: the quote with its padding, at most ``MAX_QUOTE_BYTES``.

    Raises:
        EvidenceError: ``quote-too-large``, ``quote-truncated`` or ``quote-length-mismatch``: a part that does not fit
            into its container or does not fill it.
        UnsupportedError: ``quote-version-unsupported``, ``quote-key-type-unsupported``,
            ``quote-tee-type-unsupported``, ``quote-vendor-unsupported``, ``quote-body-type-unsupported`` or
            ``quote-certification-data-unsupported``.

    Spec: Intel SGX and TDX DCAP quoting library API, quote format; specs/intel-tdx-sgx.md, sections 2 to 4, check T01.
    """
    if len(data) > MAX_QUOTE_BYTES:
        most = f"at most {MAX_QUOTE_BYTES} bytes"
        raise _malformed("quote-too-large", "quote", 0, most, f"{len(data)} bytes")
    # (1) Header: what comes after is read by version, TEE and body type together.
    header = _fixed(data, 0, len(data), HEADER)
    version, key_type, tee_type, qe_svn, pce_svn, vendor, user_data = header
    tee = _tee(version, key_type, tee_type, vendor)
    # (2) Body.
    at = HEADER.size
    body_type, size = _BODY_TYPES[tee][0], _BODY_SIZES[_BODY_TYPES[tee][0]]
    if version == 5:
        body_type, size = _described(data, tee)
        at += DESCRIPTOR.size
    body_bytes = _cut(data, at, size, len(data), "body")
    body = parse_enclave_report(body_bytes) if tee == "sgx" else parse_td_report(body_bytes, body_type=body_type)
    signed_end = at + size
    # (3) Signature data: its declared length bounds everything in it.
    certified = _signature_data(data, version, signed_end)
    return ParsedQuote(
        raw=data,
        version=version,
        tee=tee,
        qe_svn=qe_svn,
        pce_svn=pce_svn,
        user_data=user_data,
        body_type=body_type,
        body=body,
        signed_bytes=data[:signed_end],
        signature=certified.signature,
        attestation_key=certified.attestation_key,
        qe_report=parse_enclave_report(certified.qe_report),
        qe_report_signature=certified.qe_report_signature,
        qe_auth_data=certified.auth_data,
        certification_type=certified.certification_type,
        certification_data=certified.certification_data,
        padding=data[certified.end :],
    )


class _SignatureData(NamedTuple):
    """The part after the signed bytes; ``end`` is the start of the padding."""

    signature: bytes
    attestation_key: bytes
    qe_report: bytes
    qe_report_signature: bytes
    auth_data: bytes
    certification_type: int
    certification_data: bytes
    end: int


def _signature_data(data: bytes, version: int, signed_end: int) -> _SignatureData:
    """Cut the signature data, which ends with the certification data."""
    length = int.from_bytes(_cut(data, signed_end, _LENGTH_BYTES, len(data), "signature data length"), "little")
    at = signed_end + _LENGTH_BYTES
    end = at + length
    if end > len(data):
        raise _truncated("signature data", at, length, len(data) - at)
    head = SIGNATURE_HEADS[version]
    signature, attestation_key, *outer, qe_report, qe_report_signature, auth_size = _fixed(data, at, end, head)
    if outer:
        _require_outer(*outer, at=at + 128, end=end)
    at += head.size
    auth_data = _cut(data, at, auth_size, end, "QE authentication data")
    kind, certification = _certification(data, at + auth_size, end)
    return _SignatureData(
        signature=signature,
        attestation_key=attestation_key,
        qe_report=qe_report,
        qe_report_signature=qe_report_signature,
        auth_data=auth_data,
        certification_type=kind,
        certification_data=certification,
        end=end,
    )


def _tee(version: int, key_type: int, tee_type: int, vendor: bytes) -> Tee:
    if version not in _VERSIONS:
        raise _unsupported("quote-version-unsupported", "version", 0, "3, 4 or 5", str(version))
    if key_type != _ECDSA_P256:
        raise _unsupported("quote-key-type-unsupported", "attestation key type", 2, "2 (ECDSA P-256)", str(key_type))
    tee = _TEES.get(tee_type)
    if tee is None or tee not in _VERSIONS[version]:
        known = " or ".join(f"{n:#x} ({t.upper()})" for n, t in _TEES.items() if t in _VERSIONS[version])
        raise _unsupported("quote-tee-type-unsupported", "TEE type", 4, known, f"{tee_type:#x} in version {version}")
    if vendor != INTEL_QE_VENDOR:
        raise _unsupported(
            "quote-vendor-unsupported", "QE vendor id", 12, f"{INTEL_QE_VENDOR.hex()} (Intel)", vendor.hex()
        )
    return tee


def _described(data: bytes, tee: Tee) -> tuple[int, int]:
    """Type and size of the body by a version 5 quote's descriptor: known, of this TEE, and of one meaning."""
    body_type, size = _fixed(data, HEADER.size, len(data), DESCRIPTOR)
    if body_type not in _BODY_TYPES[tee]:
        known = " or ".join(map(str, _BODY_TYPES[tee]))
        raise _unsupported("quote-body-type-unsupported", "body type", 48, f"{known} ({tee.upper()})", str(body_type))
    if size != _BODY_SIZES[body_type]:
        expected = f"{_BODY_SIZES[body_type]} bytes for type {body_type}"
        raise _malformed("quote-length-mismatch", "body size", 50, expected, f"{size} bytes")
    return body_type, size


def _require_outer(kind: int, size: int, *, at: int, end: int) -> None:
    """From version 4 on the QE's part is wrapped, and no signature covers the wrapping: it is compared here."""
    if kind != _QE_REPORT_CERTIFICATION:
        expected = "6 (QE report certification data)"
        raise _unsupported("quote-certification-data-unsupported", "outer certification type", at, expected, str(kind))
    _require_end("outer certification data", at + 6, size, end)


def _certification(data: bytes, at: int, end: int) -> tuple[int, bytes]:
    kind, size = _fixed(data, at, end, CERTIFICATION_HEAD)
    if kind not in _CERTIFICATION_SIZES:
        raise _unsupported("quote-certification-data-unsupported", "certification type", at, "1 to 5", str(kind))
    at += CERTIFICATION_HEAD.size
    _require_end("certification data", at, size, end)
    expected = _CERTIFICATION_SIZES[kind]
    if expected not in (None, size):
        what = f"{expected} bytes for type {kind}"
        raise _malformed("quote-length-mismatch", "certification data", at, what, f"{size} bytes")
    return kind, data[at:end]


# -- bounds


def _fixed(data: bytes, at: int, end: int, layout: Layout) -> tuple[Any, ...]:
    """Read a table at an offset, inside its container."""
    return cast("tuple[Any, ...]", layout.decode(_cut(data, at, layout.size, end, layout.name)))  # Any: by the table


def _cut(data: bytes, at: int, size: int, end: int, field: str) -> bytes:
    """Take bytes out of the container that ends at ``end``."""
    if at + size > end:
        raise _truncated(field, at, size, end - at)
    return data[at : at + size]


def _require_end(field: str, at: int, size: int, end: int) -> None:
    """Require a part that begins at ``at`` to end where its container does."""
    if at + size > end:
        raise _truncated(field, at, size, end - at)
    if at + size < end:
        raise _malformed("quote-length-mismatch", field, at, f"{end - at} bytes", f"{size} bytes")


def _truncated(field: str, at: int, size: int, left: int) -> EvidenceError:
    return _malformed("quote-truncated", field, at, f"{size} bytes", f"{left} bytes")


def _malformed(code: str, field: str, offset: int, expected: str, got: str) -> EvidenceError:
    text = f"{field} of the quote: expected {expected}, got {got} (offset {offset:#x})"
    return EvidenceError(text, code=code, field=field, offset=offset, expected=expected, got=got, clause=_CLAUSE)


def _unsupported(code: str, field: str, offset: int, expected: str, got: str) -> UnsupportedError:
    text = f"{field} of the quote: expected {expected}, got {got} (offset {offset:#x})"
    return UnsupportedError(text, code=code, field=field, offset=offset, expected=expected, got=got, clause=_CLAUSE)
