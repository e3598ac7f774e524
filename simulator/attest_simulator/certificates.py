"""Certificates of the software AMD, in AMD's own byte layout.

They differ from the real ones in four properties: the keys, values derived from the keys, the organisation in every
name, and the unresolvable host of the CRL distribution point. ``dataclasses.replace`` can modify a template
before it is issued, for tests with invalid certificates.

Spec: AMD 57230 (VCEK) and 58369 (VLEK); specs/sev-snp.md, sections 8, 9 and 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from cryptography import x509

from attest.endorsements.anchors import amd_name
from attest.endorsements.x509 import Extension
from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator import der
from attest_simulator.keys import CaRole, SimulatedRsaKey, public_key_info, simulated_ca_key, vcek_key, vlek_key

SIMULATED_ORGANISATION: Final = "SIMULATION - NOT Advanced Micro Devices"
"""Replaces AMD's ``O=Advanced Micro Devices``."""
CERTIFIED_FROM: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Default start of a leaf's validity. A VLEK lasts for one year only."""
KDS_HOST: Final = "kdsintf.simulation.invalid"
"""RFC 6761, section 6.4: unresolvable, since AMD's real list would not match."""

_RSASSA_PSS = "1.2.840.113549.1.1.10"
_MGF1 = "1.2.840.113549.1.1.8"
_SHA384 = "2.16.840.1.101.3.4.2.2"
_SALT_BYTES = 48
_ARC = "1.3.6.1.4.1.3704.1"

# keyUsage in AMD's form: one unused bit in both, though DER would have two with certSign alone.
_SIGNS_CERTIFICATES_AND_LISTS = der.bit_string(b"\x06", unused_bits=1)
_SIGNS_CERTIFICATES = der.bit_string(b"\x04", unused_bits=1)

_AUTHORITIES: Final[Mapping[tuple[SnpProduct, CaRole], tuple[int, datetime]]] = {
    (SnpProduct.MILAN, CaRole.ARK): (65536, datetime(2020, 10, 22, 17, 23, 5, tzinfo=UTC)),
    (SnpProduct.MILAN, CaRole.ASK): (65537, datetime(2020, 10, 22, 18, 24, 20, tzinfo=UTC)),
    (SnpProduct.MILAN, CaRole.ASVK): (65793, datetime(2022, 11, 16, 22, 45, 24, tzinfo=UTC)),
    (SnpProduct.GENOA, CaRole.ARK): (131072, datetime(2022, 1, 26, 15, 34, 37, tzinfo=UTC)),
    (SnpProduct.GENOA, CaRole.ASK): (131074, datetime(2022, 10, 31, 13, 33, 48, tzinfo=UTC)),
    (SnpProduct.GENOA, CaRole.ASVK): (131329, datetime(2022, 11, 18, 20, 48, 34, tzinfo=UTC)),
    (SnpProduct.TURIN, CaRole.ARK): (196608, datetime(2023, 5, 15, 20, 3, 12, tzinfo=UTC)),
    (SnpProduct.TURIN, CaRole.ASK): (196609, datetime(2023, 5, 15, 20, 25, 21, tzinfo=UTC)),
    (SnpProduct.TURIN, CaRole.ASVK): (196865, datetime(2023, 5, 15, 21, 9, 41, tzinfo=UTC)),
}
"""Serial number and first valid second of the real ones (specs/sev-snp.md, section 14)."""
_CA_YEARS = 25
_LEAF_YEARS = {LeafKind.VCEK: 7, LeafKind.VLEK: 1}


def pss_identifier(*, explicit_trailer: bool) -> bytes:
    """Return the AlgorithmIdentifier of RSASSA-PSS in AMD's form; trailerField 1 is the default and optional."""
    sha384 = der.sequence(der.object_identifier(_SHA384), der.NULL)
    parameters = (
        der.context(0, sha384),
        der.context(1, der.sequence(der.object_identifier(_MGF1), sha384)),
        der.context(2, der.integer(_SALT_BYTES)),
        *((der.context(3, der.integer(1)),) if explicit_trailer else ()),
    )
    return der.sequence(der.object_identifier(_RSASSA_PSS), der.sequence(*parameters))


def signed(tbs: bytes, algorithm: bytes, key: SimulatedRsaKey) -> bytes:
    """Return a signed structure of X.509 in DER."""
    return der.sequence(tbs, algorithm, der.bit_string(key.sign(tbs)))


# -- certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateTemplate:
    """A certificate without its signature.

    Attributes:
        serial: 0 in every VCEK and VLEK.
        issuer: DER Name.
        subject: DER Name.
        not_before: first valid second, aware.
        not_after: last valid second, aware.
        spki: DER SubjectPublicKeyInfo.
        extensions: in the certificate's order.
        explicit_trailer: the PSS parameters contain trailerField, inside and outside alike.
    """

    serial: int
    issuer: bytes
    subject: bytes
    not_before: datetime
    not_after: datetime
    spki: bytes
    extensions: tuple[Extension, ...]
    explicit_trailer: bool

    def to_be_signed(self) -> bytes:
        """Return the DER of ``tbsCertificate``."""
        return der.sequence(
            der.context(0, der.integer(2)),
            der.integer(self.serial),
            pss_identifier(explicit_trailer=self.explicit_trailer),
            self.issuer,
            der.sequence(der.time(self.not_before), der.time(self.not_after)),
            self.subject,
            self.spki,
            der.context(3, der.sequence(*map(der.extension, self.extensions))),
        )

    def issue(self, key: SimulatedRsaKey) -> bytes:
        """Return the DER of the certificate, signed by any simulated authority."""
        return _issue_certificate(self, key)


@lru_cache(maxsize=512)
def _issue_certificate(template: CertificateTemplate, key: SimulatedRsaKey) -> bytes:
    return signed(template.to_be_signed(), pss_identifier(explicit_trailer=template.explicit_trailer), key)


def ca_role(kind: LeafKind) -> CaRole:
    """Return the authority that issues leaves of this kind."""
    return CaRole.ASK if kind is LeafKind.VCEK else CaRole.ASVK


def ca_name(product: SnpProduct, role: CaRole) -> bytes:
    """Return the name of an authority of AMD in DER."""
    names = {CaRole.ARK: f"ARK-{product}", CaRole.ASK: f"SEV-{product}", CaRole.ASVK: f"SEV-VLEK-{product}"}
    return amd_name(names[role], organisation=SIMULATED_ORGANISATION)


def _key_id(key: SimulatedRsaKey) -> bytes:
    """Return the SHA-1 of the public key's bits (RFC 5280, section 4.2.1.2, method 1), AMD's method; 20 bytes."""
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest


def ca_template(product: SnpProduct, role: CaRole) -> CertificateTemplate:
    """Return the unsigned certificate of a simulated authority.

    The order of the extensions is AMD's: the ARK's differs from that of ASK and ASVK.
    """
    serial, not_before = _AUTHORITIES[product, role]
    key = simulated_ca_key(product, role)
    path = "vlek" if role is CaRole.ASVK else "vcek"
    subject_key = Extension(oid="2.5.29.14", critical=False, value=der.octet_string(_key_id(key)))
    authority_key = authority_key_id(simulated_ca_key(product, CaRole.ARK))
    points = Extension(oid="2.5.29.31", critical=False, value=_distribution_point(f"/{path}/v1/{product}/crl"))
    extensions: tuple[Extension, ...]
    if role is CaRole.ARK:
        extensions = (
            Extension(oid="2.5.29.15", critical=True, value=_SIGNS_CERTIFICATES_AND_LISTS),
            subject_key,
            Extension(oid="2.5.29.19", critical=True, value=der.sequence(der.TRUE)),
            points,
        )
    else:
        extensions = (
            subject_key,
            authority_key,
            Extension(oid="2.5.29.19", critical=True, value=der.sequence(der.TRUE, der.integer(0))),
            Extension(oid="2.5.29.15", critical=True, value=_SIGNS_CERTIFICATES),
            points,
        )
    return CertificateTemplate(
        serial=serial,
        issuer=ca_name(product, CaRole.ARK),
        subject=ca_name(product, role),
        not_before=not_before,
        not_after=der.years_after(not_before, _CA_YEARS),
        spki=key.spki,
        extensions=extensions,
        explicit_trailer=True,
    )


def authority_key_id(key: SimulatedRsaKey) -> Extension:
    """Return the extension that names the key of an issuer."""
    return Extension(oid="2.5.29.35", critical=False, value=der.sequence(der.tlv(0x80, _key_id(key))))


def _distribution_point(path: str) -> bytes:
    """Return CRLDistributionPoints with one full name, a URI (RFC 5280, section 4.2.1.13)."""
    uri = der.tlv(0x86, f"https://{KDS_HOST}{path}".encode("ascii"))
    return der.sequence(der.sequence(der.context(0, der.context(0, uri))))


def simulated_chain(product: SnpProduct, *, kind: LeafKind) -> tuple[bytes, bytes]:
    """Return the DER of the intermediate (ASK for a VCEK, ASVK for a VLEK) and of the ARK."""
    ark = simulated_ca_key(product, CaRole.ARK)
    return ca_template(product, ca_role(kind)).issue(ark), ca_template(product, CaRole.ARK).issue(ark)


def default_product_name(product: SnpProduct, *, kind: LeafKind) -> str:
    """Return AMD's productName: with a stepping in the VCEKs of Milan, otherwise without."""
    return "Milan-B0" if product is SnpProduct.MILAN and kind is LeafKind.VCEK else str(product)


def vcek_template(
    *,
    product: SnpProduct,
    hwid: bytes,
    tcb: SnpTcbVersion,
    product_name: str | None = None,
    not_before: datetime = CERTIFIED_FROM,
    explicit_trailer: bool = False,
    wrapped_hwid: bool = False,
) -> CertificateTemplate:
    """Return the unsigned certificate of a chip's key.

    Args:
        product: the product line.
        hwid: 64 bytes, on Turin 8.
        tcb: TCB of the key.
        product_name: productName; None uses the default.
        not_before: first valid second; it lasts seven years.
        explicit_trailer: True as in the VCEKs of 2022 and 2023, False as since late 2024.
        wrapped_hwid: wrap the HWID in an OCTET STRING, unlike AMD's service.
    """
    value = der.octet_string(hwid) if wrapped_hwid else hwid
    name = product_name or default_product_name(product, kind=LeafKind.VCEK)
    return _leaf_template(
        product,
        LeafKind.VCEK,
        spki=public_key_info(vcek_key(product=product, hwid=hwid, tcb=tcb).public_key()),
        extensions=(*_amd_extensions(product, name, tcb), _amd_extension("4", value)),
        not_before=not_before,
        explicit_trailer=explicit_trailer,
    )


def vlek_template(
    *,
    product: SnpProduct,
    csp_id: str,
    tcb: SnpTcbVersion,
    product_name: str | None = None,
    not_before: datetime = CERTIFIED_FROM,
    explicit_trailer: bool = False,
) -> CertificateTemplate:
    """Return the unsigned certificate of a cloud provider's key.

    Args:
        product: the product line.
        csp_id: CSP_ID, such as ``CN=simulated-cloud.example``.
        tcb: TCB of the key.
        product_name: productName; None uses the default.
        not_before: first valid second; it lasts one year.
        explicit_trailer: as for a VCEK.
    """
    name = product_name or default_product_name(product, kind=LeafKind.VLEK)
    return _leaf_template(
        product,
        LeafKind.VLEK,
        spki=public_key_info(vlek_key(product=product, csp_id=csp_id, tcb=tcb).public_key()),
        extensions=(*_amd_extensions(product, name, tcb), _amd_extension("5", der.ia5_string(csp_id))),
        not_before=not_before,
        explicit_trailer=explicit_trailer,
    )


def _leaf_template(
    product: SnpProduct,
    kind: LeafKind,
    *,
    spki: bytes,
    extensions: tuple[Extension, ...],
    not_before: datetime,
    explicit_trailer: bool,
) -> CertificateTemplate:
    return CertificateTemplate(
        serial=0,
        issuer=ca_name(product, ca_role(kind)),
        subject=amd_name(kind.common_name, organisation=SIMULATED_ORGANISATION),
        not_before=not_before,
        not_after=der.years_after(not_before, _LEAF_YEARS[kind]),
        spki=spki,
        extensions=extensions,
        explicit_trailer=explicit_trailer,
    )


def _amd_extension(suffix: str, value: bytes) -> Extension:
    return Extension(oid=f"{_ARC}.{suffix}", critical=False, value=value)


def _amd_extensions(product: SnpProduct, product_name: str, tcb: SnpTcbVersion) -> tuple[Extension, ...]:
    """Return the common extensions of VCEK and VLEK, in AMD's order (specs/sev-snp.md, section 9)."""
    if product.has_fmc:
        levels = {"3.9": tcb.fmc or 0, "3.1": tcb.bootloader, "3.2": tcb.tee, "3.3": tcb.snp}
        levels |= {"3.5": 0, "3.6": 0, "3.7": 0, "3.8": tcb.microcode}
    else:
        levels = {"3.1": tcb.bootloader, "3.2": tcb.tee, "3.4": 0, "3.5": 0, "3.6": 0, "3.7": 0}
        levels |= {"3.3": tcb.snp, "3.8": tcb.microcode}
    return (
        _amd_extension("1", der.integer(int(product.has_fmc))),
        _amd_extension("2", der.ia5_string(product_name)),
        *(_amd_extension(suffix, der.integer(level)) for suffix, level in levels.items()),
    )
