"""Certificates of the software NVIDIA, in NVIDIA's own byte layout.

They differ from the real ones in four properties: the keys, values derived from the keys, the organisation in every
name (and the roots' CN), and the unresolvable hosts of links. ``dataclasses.replace`` can modify a template
before it is issued, for tests with invalid certificates.

Spec: specs/nvidia-gpu.md, sections 6.1 and 9.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from ssl import DER_cert_to_PEM_cert
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.nvidia.keys import key_id, sign_der

SIMULATED_NVIDIA: Final = "SIMULATION - NOT NVIDIA Corporation"
"""Replaces NVIDIA's ``O=NVIDIA Corporation``, or ``O=NVIDIA`` in its roots."""
NO_EXPIRY: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The value that says "no expiry" (RFC 5280, section 4.1.2.5)."""
CRL_HOST: Final = "crl.ndis.simulation.invalid"
OCSP_URL: Final = "http://ocsp.ndis.simulation.invalid"
"""RFC 6761, section 6.4: unresolvable, since NVIDIA's own responder does not know these certificates."""

ECDSA_SHA384: Final = der.sequence(der.object_identifier("1.2.840.10045.4.3.3"))
"""AlgorithmIdentifier of ecdsa-with-SHA384, without parameters (RFC 5758, section 3.2)."""

COUNTRY, STATE, LOCALITY, ORGANISATION = "2.5.4.6", "2.5.4.8", "2.5.4.7", "2.5.4.10"
COMMON_NAME, SERIAL_NUMBER = "2.5.4.3", "2.5.4.5"
_UTF8_STRING, _PRINTABLE_STRING = 0x0C, 0x13
_PRINTABLE = frozenset((COUNTRY, SERIAL_NUMBER))

END_OF_2049 = datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)


# -- names


def name(*attributes: tuple[str, str]) -> bytes:
    """Return a DER Name with one attribute per RDN: country and serial number PrintableString, the rest UTF8."""
    return der.sequence(
        *(
            der.tlv(
                0x31,
                der.sequence(
                    der.object_identifier(oid),
                    der.tlv(_PRINTABLE_STRING if oid in _PRINTABLE else _UTF8_STRING, value.encode("utf-8")),
                ),
            )
            for oid, value in attributes
        )
    )


def device_name(common_name: str, serial: int, *, digits: int) -> bytes:
    """Return the name of L4 or L5: serialNumber, C, O, CN; the serial number in upper-case hex.

    Args:
        common_name: such as ``GH100 A01 GSP BROM``.
        serial: the certificate's own serial number.
        digits: 18 for L4 (type byte and PDI), 40 for L5.
    """
    return name(
        (SERIAL_NUMBER, f"{serial:0{digits}X}"),
        (COUNTRY, "US"),
        (ORGANISATION, SIMULATED_NVIDIA),
        (COMMON_NAME, common_name),
    )


# -- extensions


def basic_constraints(*, path_length: int | None = None) -> Extension:
    """Return basicConstraints of a CA, critical."""
    length = () if path_length is None else (der.integer(path_length),)
    return Extension(oid="2.5.29.19", critical=True, value=der.sequence(der.TRUE, *length))


def key_usage(bits: bytes) -> Extension:
    """Return keyUsage, critical, from a DER BIT STRING."""
    return Extension(oid="2.5.29.15", critical=True, value=bits)


def subject_key_id(key: ec.EllipticCurvePrivateKey) -> Extension:
    """Return subjectKeyIdentifier."""
    return Extension(oid="2.5.29.14", critical=False, value=der.octet_string(key_id(key)))


def authority_key_id(key: ec.EllipticCurvePrivateKey) -> Extension:
    """Return authorityKeyIdentifier, with the key's identifier alone."""
    return Extension(oid="2.5.29.35", critical=False, value=der.sequence(der.tlv(0x80, key_id(key))))


def distribution_point(path: str) -> Extension:
    """Return CRLDistributionPoints with one full name, a URI (RFC 5280, section 4.2.1.13)."""
    uri = der.tlv(0x86, f"http://{CRL_HOST}/{path}".encode("ascii"))
    value = der.sequence(der.sequence(der.context(0, der.context(0, uri))))
    return Extension(oid="2.5.29.31", critical=False, value=value)


def ocsp_pointer() -> Extension:
    """Return authorityInfoAccess with the address of the OCSP responder (RFC 5280, section 4.2.2.1)."""
    access = der.sequence(der.object_identifier("1.3.6.1.5.5.7.48.1"), der.tlv(0x86, OCSP_URL.encode("ascii")))
    return Extension(oid="1.3.6.1.5.5.7.1.1", critical=False, value=der.sequence(access))


# -- certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaCertificateTemplate:
    """A certificate without its signature.

    Attributes:
        serial: up to 160 bits, positive.
        issuer: DER Name.
        subject: DER Name.
        not_before: first valid second, aware.
        not_after: last valid second, aware.
        spki: DER SubjectPublicKeyInfo.
        extensions: in the certificate's order.
        generalized: both times as GeneralizedTime in any year, as in two of NVIDIA's RIM authorities.
    """

    serial: int
    issuer: bytes
    subject: bytes
    not_before: datetime
    not_after: datetime
    spki: bytes
    extensions: tuple[Extension, ...]
    generalized: bool = False

    def to_be_signed(self) -> bytes:
        """Return the DER of ``tbsCertificate``."""
        write = generalized_time if self.generalized else der.time
        return der.sequence(
            der.context(0, der.integer(2)),
            der.integer(self.serial),
            ECDSA_SHA384,
            self.issuer,
            der.sequence(write(self.not_before), write(self.not_after)),
            self.subject,
            self.spki,
            der.context(3, der.sequence(*map(der.extension, self.extensions))),
        )

    def issue(self, key: ec.EllipticCurvePrivateKey) -> bytes:
        """Return the DER of the certificate, signed by any P-384 key."""
        return issue_signed(self.to_be_signed(), key)


def generalized_time(moment: datetime) -> bytes:
    """Encode a whole second as GeneralizedTime in any year."""
    return der.tlv(0x18, moment.astimezone(UTC).strftime("%Y%m%d%H%M%SZ").encode("ascii"))


@lru_cache(maxsize=512)
def issue_signed(tbs: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the DER of a signed part with algorithm and signature."""
    return der.sequence(tbs, ECDSA_SHA384, der.bit_string(sign_der(key, tbs)))


def pem_bytes(certificates: Iterable[bytes]) -> bytes:
    """Return certificates as concatenated PEM with lines of 64 characters."""
    return "".join(map(DER_cert_to_PEM_cert, certificates)).encode("ascii")
