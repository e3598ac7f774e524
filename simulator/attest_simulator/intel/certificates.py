"""Certificates of the software Intel, in Intel's own byte layout.

They differ from the real ones in four properties: the keys, values derived from the keys, the organisation in every
name, and the unresolvable hosts of the distribution points. ``dataclasses.replace`` can modify a template
before it is issued, for tests with invalid certificates.

Spec: Intel, SGX PCK Certificate and CRL Profile Specification; specs/intel-tdx-sgx.md, sections 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha1
from ssl import DER_cert_to_PEM_cert
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.anchors import intel_name
from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.intel.keys import IntelAuthority, authority_key, derived_bytes, sign_der, spki_of

SIMULATED_INTEL: Final = "SIMULATION - NOT Intel Corporation"
"""Replaces Intel's ``O=Intel Corporation``."""
CERTIFIED_FROM: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Default start of a PCK certificate's validity."""
PCK_COMMON_NAME: Final = "Intel SGX PCK Certificate"
CERTIFICATES_HOST: Final = "certificates.trustedservices.simulation.invalid"
API_HOST: Final = "api.trustedservices.simulation.invalid"
"""RFC 6761, section 6.4: unresolvable, since Intel's real lists would not match."""

ECDSA_SHA256: Final = der.sequence(der.object_identifier("1.2.840.10045.4.3.2"))
"""AlgorithmIdentifier of ecdsa-with-SHA256, without parameters (RFC 5758, section 3.2)."""

ROOT_CRL_URL: Final = f"https://{CERTIFICATES_HOST}/IntelSGXRootCA.der"
_PCK_CRL_URLS: Final[Mapping[IntelAuthority, str]] = {
    ca: f"https://{API_HOST}/sgx/certification/v4/pckcrl?ca={name}&encoding=der"
    for ca, name in ((IntelAuthority.PLATFORM, "platform"), (IntelAuthority.PROCESSOR, "processor"))
}
_SGX_ARC = "1.2.840.113741.1.13.1"
_SIGNS_CERTIFICATES_AND_LISTS = der.bit_string(b"\x06", unused_bits=1)
_SIGNS_DATA = der.bit_string(b"\xc0", unused_bits=6)
_NO_CA = der.sequence()
_FALSE = b"\x01\x01\x00"
_SERIAL_BYTES = 20
_PCK_YEARS = 7

_VALIDITY: Final[Mapping[IntelAuthority, tuple[datetime, datetime]]] = {
    IntelAuthority.ROOT: (
        datetime(2018, 5, 21, 10, 45, 10, tzinfo=UTC),
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
    ),
    IntelAuthority.PLATFORM: (
        datetime(2018, 5, 21, 10, 50, 10, tzinfo=UTC),
        datetime(2033, 5, 21, 10, 50, 10, tzinfo=UTC),
    ),
    IntelAuthority.PROCESSOR: (
        datetime(2018, 5, 21, 10, 50, 10, tzinfo=UTC),
        datetime(2033, 5, 21, 10, 50, 10, tzinfo=UTC),
    ),
    IntelAuthority.TCB_SIGNING: (
        datetime(2025, 5, 6, 9, 25, tzinfo=UTC),
        datetime(2032, 5, 6, 9, 25, tzinfo=UTC),
    ),
}
"""First and last valid second of the real ones (specs/intel-tdx-sgx.md, section 7)."""
_PATH_LENGTHS: Final[Mapping[IntelAuthority, int]] = {
    IntelAuthority.ROOT: 1,
    IntelAuthority.PLATFORM: 0,
    IntelAuthority.PROCESSOR: 0,
}


def simulated_name(common_name: str) -> bytes:
    """Return the DER Name in Intel's form, with the simulator's organisation."""
    return intel_name(common_name, organisation=SIMULATED_INTEL)


def pem_text(certificates: Iterable[bytes]) -> str:
    """Return certificates as concatenated PEM with lines of 64 characters."""
    return "".join(map(DER_cert_to_PEM_cert, certificates))


# -- certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelCertificateTemplate:
    """A certificate without its signature.

    Attributes:
        serial: up to 160 bits, positive.
        issuer: DER Name.
        subject: DER Name.
        not_before: first valid second, aware.
        not_after: last valid second, aware.
        spki: DER SubjectPublicKeyInfo.
        extensions: in the certificate's order.
    """

    serial: int
    issuer: bytes
    subject: bytes
    not_before: datetime
    not_after: datetime
    spki: bytes
    extensions: tuple[Extension, ...]

    def to_be_signed(self) -> bytes:
        """Return the DER of ``tbsCertificate``."""
        return der.sequence(
            der.context(0, der.integer(2)),
            der.integer(self.serial),
            ECDSA_SHA256,
            self.issuer,
            der.sequence(der.time(self.not_before), der.time(self.not_after)),
            self.subject,
            self.spki,
            der.context(3, der.sequence(*map(der.extension, self.extensions))),
        )

    def issue(self, authority: IntelAuthority | ec.EllipticCurvePrivateKey) -> bytes:
        """Return the DER of the certificate, signed by a simulated authority or by any P-256 key."""
        key = authority_key(authority) if isinstance(authority, IntelAuthority) else authority
        return issue_signed(self.to_be_signed(), key)


@lru_cache(maxsize=512)
def issue_signed(tbs: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the DER of a signed part with algorithm and signature, for certificates and lists."""
    return der.sequence(tbs, ECDSA_SHA256, der.bit_string(sign_der(key, tbs)))


def key_id(spki: bytes) -> bytes:
    """Return the SHA-1 of the whole SubjectPublicKeyInfo, Intel's method; RFC 5280 uses its bits alone."""
    return sha1(spki, usedforsecurity=False).digest()


def authority_key_id(authority: IntelAuthority) -> Extension:
    """Return this authority's key identifier as an extension."""
    identifier = key_id(spki_of(authority_key(authority)))
    return Extension(oid="2.5.29.35", critical=False, value=der.sequence(der.tlv(0x80, identifier)))


def distribution_point(url: str) -> Extension:
    """Return CRLDistributionPoints with one full name, a URI (RFC 5280, section 4.2.1.13)."""
    uri = der.tlv(0x86, url.encode("ascii"))
    value = der.sequence(der.sequence(der.context(0, der.context(0, uri))))
    return Extension(oid="2.5.29.31", critical=False, value=value)


def _common_extensions(
    spki: bytes, issuer: IntelAuthority, url: str, usage: bytes, constraints: bytes
) -> tuple[Extension, ...]:
    """Return the five extensions of every Intel certificate, in its order."""
    return (
        authority_key_id(issuer),
        distribution_point(url),
        Extension(oid="2.5.29.14", critical=False, value=der.octet_string(key_id(spki))),
        Extension(oid="2.5.29.15", critical=True, value=usage),
        Extension(oid="2.5.29.19", critical=True, value=constraints),
    )


def authority_template(authority: IntelAuthority) -> IntelCertificateTemplate:
    """Return the unsigned certificate of a simulated authority.

    As in Intel's, the serial number of an authority is its subject key identifier.
    """
    spki = spki_of(authority_key(authority))
    not_before, not_after = _VALIDITY[authority]
    path_length = _PATH_LENGTHS.get(authority)
    usage = _SIGNS_DATA if path_length is None else _SIGNS_CERTIFICATES_AND_LISTS
    constraints = _NO_CA if path_length is None else der.sequence(der.TRUE, der.integer(path_length))
    return IntelCertificateTemplate(
        serial=int.from_bytes(key_id(spki), "big"),
        issuer=simulated_name(IntelAuthority.ROOT),
        subject=simulated_name(authority),
        not_before=not_before,
        not_after=not_after,
        spki=spki,
        extensions=_common_extensions(spki, IntelAuthority.ROOT, ROOT_CRL_URL, usage, constraints),
    )


def authority_certificate(authority: IntelAuthority) -> bytes:
    """Return the DER of a simulated authority's certificate."""
    return authority_template(authority).issue(IntelAuthority.ROOT)


def issuer_chain(authority: IntelAuthority) -> str:
    """Return PEM of an authority and of the root, signer first, in PCS's form."""
    return pem_text(map(authority_certificate, (authority, IntelAuthority.ROOT)))


# -- PCK certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformConfiguration:
    """Flags under .7; None omits a flag.

    Attributes:
        dynamic_platform: packages can be added (.7.1).
        cached_keys: platform root keys are kept by Intel (.7.2).
        smt_enabled: simultaneous multithreading is on (.7.3).
    """

    dynamic_platform: bool | None = True
    cached_keys: bool | None = True
    smt_enabled: bool | None = True

    def to_der(self) -> bytes:
        """Return the SEQUENCE of the present flags."""
        flags = (self.dynamic_platform, self.cached_keys, self.smt_enabled)
        return der.sequence(
            *(
                _pair(f"7.{number}", der.TRUE if flag else _FALSE)
                for number, flag in enumerate(flags, 1)
                if flag is not None
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SgxExtension:
    """The extension 1.2.840.113741.1.13.1 of a PCK certificate.

    Attributes:
        ppid: .1, 16 bytes.
        components: .2.1 to .2.16, component SVNs of the TCB, 0 to 255 each.
        pce_svn: .2.17, 0 to 65535.
        cpu_svn: .2.18, 16 bytes.
        pce_id: .3, 2 bytes.
        fmspc: .4, 6 bytes.
        sgx_type: .5, 0 standard, 1 scalable, 2 scalable with integrity.
        platform_instance_id: .6, 16 bytes; in the Platform CA's certificates only.
        configuration: .7; in the Platform CA's certificates only.
    """

    ppid: bytes
    components: tuple[int, ...]
    pce_svn: int
    cpu_svn: bytes
    pce_id: bytes
    fmspc: bytes
    sgx_type: int
    platform_instance_id: bytes | None
    configuration: PlatformConfiguration | None

    def to_der(self) -> bytes:
        """Return the content of the extension's OCTET STRING: a SEQUENCE of pairs of identifier and value."""
        levels = (*self.components, self.pce_svn)
        tcb = (_pair(f"2.{number}", der.integer(level)) for number, level in enumerate(levels, 1))
        pairs = [
            _pair("1", der.octet_string(self.ppid)),
            _pair("2", der.sequence(*tcb, _pair("2.18", der.octet_string(self.cpu_svn)))),
            _pair("3", der.octet_string(self.pce_id)),
            _pair("4", der.octet_string(self.fmspc)),
            _pair("5", der.tlv(0x0A, bytes([self.sgx_type]))),
        ]
        if self.platform_instance_id is not None:
            pairs.append(_pair("6", der.octet_string(self.platform_instance_id)))
        if self.configuration is not None:
            pairs.append(_pair("7", self.configuration.to_der()))
        return der.sequence(*pairs)


def _pair(suffix: str, value: bytes) -> bytes:
    return der.sequence(der.object_identifier(f"{_SGX_ARC}.{suffix}"), value)


def pck_template(
    *, spki: bytes, sgx: SgxExtension, ca: IntelAuthority, not_before: datetime = CERTIFIED_FROM
) -> IntelCertificateTemplate:
    """Return an unsigned PCK certificate.

    Args:
        spki: DER SubjectPublicKeyInfo of the PCK.
        sgx: its facts about the platform.
        ca: ``PLATFORM`` or ``PROCESSOR``.
        not_before: first valid second; it lasts seven years.
    """
    return IntelCertificateTemplate(
        serial=int.from_bytes(derived_bytes(_SERIAL_BYTES, "PCK serial", spki.hex(), not_before.isoformat()), "big"),
        issuer=simulated_name(ca),
        subject=simulated_name(PCK_COMMON_NAME),
        not_before=not_before,
        not_after=der.years_after(not_before, _PCK_YEARS),
        spki=spki,
        extensions=(
            *_common_extensions(spki, ca, _PCK_CRL_URLS[ca], _SIGNS_DATA, _NO_CA),
            Extension(oid=_SGX_ARC, critical=False, value=sgx.to_der()),
        ),
    )
