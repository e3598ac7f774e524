"""Unsigned quotes and their assembly.

Invalid quotes are explicit: ``dataclasses.replace`` on a ``QuoteTemplate`` changes any part,
and all dependent parts are computed and signed again, unless they are replaced too.

Spec: specs/intel-tdx-sgx.md, sections 2 to 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest_simulator.intel.keys import raw_public_key, sign_raw
from attest_simulator.intel.structure import HEADER_V3, HEADER_V4, SGX_REPORT

INTEL_QE_VENDOR_ID: Final = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
QE_AUTH_DATA: Final = bytes(range(32))
"""Value in all known quotes."""

_ECDSA_P256 = 2
_TEE_TYPE_TDX = 0x81
_QE_REPORT_CERTIFICATION = 6
_PEM_CHAIN = 5

Values = Mapping[str, int | bytes]
"""Fields of a structure by their names in ``structure.py``."""


def quote_header(*, version: int, tdx: bool, qe_id: bytes, override: Values | None = None) -> bytes:
    """Return a quote header, 48 bytes.

    Args:
        version: 3, 4 or 5.
        tdx: TEE type TDX instead of SGX.
        qe_id: 16 bytes, the QE's identifier on this platform.
        override: fields to replace, also ``version``; QE SVN and PCE SVN of version 3 are zero
            by default.

    Raises:
        ValueError: an invalid name or value.
    """
    values: dict[str, int | bytes] = {
        "version": version,
        "attestation_key_type": _ECDSA_P256,
        "tee_type": _TEE_TYPE_TDX if tdx else 0,
        "qe_vendor_id": INTEL_QE_VENDOR_ID,
        "user_data": qe_id.ljust(20, b"\0"),
    }
    if version == 3:
        return HEADER_V3.encode(values | {"qe_svn": 0, "pce_svn": 0} | dict(override or {}))
    return HEADER_V4.encode(values | {"reserved": bytes(4)} | dict(override or {}))


def body_descriptor(body_type: int, size: int) -> bytes:
    """Return the descriptor before the body of version 5: type (u16) and size (u32), little-endian."""
    return body_type.to_bytes(2, "little") + size.to_bytes(4, "little")


def sgx_report(values: Values) -> bytes:
    """Return an enclave report, 384 bytes; unnamed fields are zero.

    Raises:
        ValueError: an invalid name or value.
    """
    zeros: dict[str, int | bytes] = {row.name: bytes(row.size) if row.kind == "bytes" else 0 for row in SGX_REPORT}
    return SGX_REPORT.encode(zeros | dict(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteTemplate:
    """A quote without its signatures.

    Attributes:
        header: 48 bytes.
        body: the quoted report.
        attestation_key: signs header, descriptor and body.
        pck_key: signs the report of the QE.
        qe_fields: fields of the QE's report (``structure.SGX_REPORT``); by default its ``report_data`` commits to the
            attestation key.
        certification_data: bytes after the QE's authentication data.
        certification_type: its type; 5 is a PEM chain.
        descriptor: before the body of version 5, otherwise empty.
        outer_type: type of the certification data around the QE's report in versions 4 and 5; None uses the flat form
            of version 3.
        qe_auth_data: up to 65,535 bytes.
        bound_key: key in the QE's commitment, 64 bytes; None uses the attestation key.
        padding: bytes after the quote.
    """

    header: bytes
    body: bytes
    attestation_key: ec.EllipticCurvePrivateKey = field(repr=False)
    pck_key: ec.EllipticCurvePrivateKey = field(repr=False)
    qe_fields: Values
    certification_data: bytes
    certification_type: int = _PEM_CHAIN
    descriptor: bytes = b""
    outer_type: int | None = _QE_REPORT_CERTIFICATION
    qe_auth_data: bytes = QE_AUTH_DATA
    bound_key: bytes | None = None
    padding: bytes = b""

    @property
    def signed(self) -> bytes:
        """Bytes under the attestation key's signature."""
        return self.header + self.descriptor + self.body

    def qe_report(self) -> bytes:
        """Return the QE's report over SHA-256 of attestation key and authentication data, then 32 zero bytes."""
        bound = raw_public_key(self.attestation_key) if self.bound_key is None else self.bound_key
        commitment = sha256(bound + self.qe_auth_data).digest() + bytes(32)
        return sgx_report({"report_data": commitment} | dict(self.qe_fields))

    def issue(self) -> bytes:
        """Return the signed quote.

        Raises:
            ValueError: an invalid field of the QE's report.
        """
        report = self.qe_report()
        certified = b"".join(
            (
                report,
                sign_raw(self.pck_key, report),
                _sized(2, self.qe_auth_data),
                _certification(self.certification_type, self.certification_data),
            )
        )
        wrapped = certified if self.outer_type is None else _certification(self.outer_type, certified)
        signature_data = sign_raw(self.attestation_key, self.signed) + raw_public_key(self.attestation_key) + wrapped
        return self.signed + _sized(4, signature_data) + self.padding


def _sized(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "little") + data


def _certification(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2, "little") + _sized(4, data)
