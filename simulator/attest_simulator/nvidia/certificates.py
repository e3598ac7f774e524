"""Certificates of the software NVIDIA, in NVIDIA's own byte layout: the form, and the authorities.

They differ from the real ones in four things: the keys, what is computed from the keys, the organisation in every
name (and the roots' CN), and the hosts of links, which cannot resolve. A template can be changed with
``dataclasses.replace`` before it is issued; that is how a test makes a certificate that NVIDIA would never sign.

Spec: specs/nvidia-gpu.md, sections 6.1 and 9.4.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.x509 import Extension, Issuer
from attest_simulator import der
from attest_simulator.nvidia.keys import derived_bytes, key_id, p384_key, sign_der, spki_of
from attest_simulator.nvidia.products import PRODUCTS, Product

__all__ = [
    "DEVICE_ROOT",
    "ECDSA_SHA384",
    "NO_EXPIRY",
    "RIM_ROOT",
    "SIMULATED_NVIDIA",
    "Authority",
    "NvidiaCertificateTemplate",
    "authority_key_id",
    "basic_constraints",
    "device_name",
    "identity_authority",
    "issue_signed",
    "issuing_authorities",
    "key_usage",
    "ocsp_pointer",
    "pem_bytes",
    "provisioner_authority",
    "reference_authority",
    "reference_issuer",
    "subject_key_id",
]

SIMULATED_NVIDIA: Final = "SIMULATION - NOT NVIDIA Corporation"
"""Stands where NVIDIA's certificates have ``O=NVIDIA Corporation``, or ``O=NVIDIA`` in its roots."""
NO_EXPIRY: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The value that says "no expiry" (RFC 5280, section 4.1.2.5)."""
CRL_HOST: Final = "crl.ndis.simulation.invalid"
OCSP_URL: Final = "http://ocsp.ndis.simulation.invalid"
"""RFC 6761, section 6.4: resolves nowhere. NVIDIA's own responder would not know these certificates."""

ECDSA_SHA384: Final = der.sequence(der.object_identifier("1.2.840.10045.4.3.3"))
"""AlgorithmIdentifier of ecdsa-with-SHA384, without parameters (RFC 5758, section 3.2)."""

COUNTRY, STATE, LOCALITY, ORGANISATION = "2.5.4.6", "2.5.4.8", "2.5.4.7", "2.5.4.10"
COMMON_NAME, SERIAL_NUMBER = "2.5.4.3", "2.5.4.5"
_UTF8_STRING, _PRINTABLE_STRING = 0x0C, 0x13
_PRINTABLE = frozenset((COUNTRY, SERIAL_NUMBER))

_SIGNS_CERTIFICATES_AND_LISTS = der.bit_string(b"\x06", unused_bits=1)
_SERIAL_BYTES = 16
_PEM_LINE = 64
_END_OF_2049 = datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)


# -- names


def name(*attributes: tuple[str, str]) -> bytes:
    """Return a DER Name with one attribute in each RDN: country and serial number PrintableString, the rest UTF8."""
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
    """Everything of a certificate but its signature.

    Attributes:
        serial: up to 160 bits, positive.
        issuer: DER Name.
        subject: DER Name.
        not_before: first valid second, aware.
        not_after: last valid second, aware.
        spki: DER SubjectPublicKeyInfo.
        extensions: in the order in which they are written.
        generalized: both times as GeneralizedTime whatever the year, as two of NVIDIA's RIM authorities have them.
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
            der.context(3, der.sequence(*map(encode_extension, self.extensions))),
        )

    def issue(self, key: ec.EllipticCurvePrivateKey) -> bytes:
        """Return the DER of the certificate, signed by any P-384 key."""
        return issue_signed(self.to_be_signed(), key)


def generalized_time(moment: datetime) -> bytes:
    """Write a whole second as GeneralizedTime, whatever the year."""
    return der.tlv(0x18, moment.astimezone(UTC).strftime("%Y%m%d%H%M%SZ").encode("ascii"))


@lru_cache(maxsize=512)
def issue_signed(tbs: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Put the algorithm and a signature behind what is to be signed."""
    return der.sequence(tbs, ECDSA_SHA384, der.bit_string(sign_der(key, tbs)))


def encode_extension(extension: Extension) -> bytes:
    """Return the DER of an extension; criticality is written only where it is true."""
    critical = (der.TRUE,) if extension.critical else ()
    return der.sequence(der.object_identifier(extension.oid), *critical, der.octet_string(extension.value))


def pem_bytes(certificates: Iterable[bytes]) -> bytes:
    """Return certificates as PEM with lines of 64 characters, one behind the other, with a newline at the end."""
    blocks: list[bytes] = []
    for certificate in certificates:
        text = b64encode(certificate)
        lines = (text[at : at + _PEM_LINE] for at in range(0, len(text), _PEM_LINE))
        blocks.extend((b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----"))
    return b"\n".join((*blocks, b""))


# -- authorities


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A simulated certificate authority: L1, L2 or L3 of either chain.

    Attributes:
        common_name: its CN.
        subject: its DER Name.
        key: signs; it is no secret.
        answers_unknown: what its OCSP responder says of a serial number that it never issued: ``unknown`` under the
            RIM root, ``good`` under the device root (specs/nvidia-gpu.md, section 8).
        template: its own certificate before its issuer signs it.
        issuer: who issued it; None for a root.
    """

    common_name: str
    subject: bytes
    key: ec.EllipticCurvePrivateKey
    answers_unknown: bool
    template: NvidiaCertificateTemplate
    issuer: Authority | None

    def certificate(self) -> bytes:
        """Return the DER of its certificate."""
        return self.template.issue(self.key if self.issuer is None else self.issuer.key)

    def as_issuer(self) -> Issuer:
        """Return its name and key."""
        return Issuer(name=self.common_name, subject=self.subject, spki=spki_of(self.key))

    def chain(self) -> tuple[bytes, ...]:
        """Return the DER of its certificate and of all above it, the root last."""
        above = () if self.issuer is None else self.issuer.chain()
        return (self.certificate(), *above)


def _authority(
    *,
    subject: bytes,
    common_name: str,
    label: str,
    issuer: Authority | None,
    validity: tuple[datetime, datetime],
    extensions: tuple[Extension, ...],
    answers_unknown: bool = False,
    generalized: bool = False,
) -> Authority:
    key = p384_key("authority", label)
    serial = int.from_bytes(derived_bytes(_SERIAL_BYTES, "authority serial", label), "big") >> 1
    template = NvidiaCertificateTemplate(
        serial=serial,
        issuer=subject if issuer is None else issuer.subject,
        subject=subject,
        not_before=validity[0],
        not_after=validity[1],
        spki=spki_of(key),
        extensions=extensions,
        generalized=generalized,
    )
    return Authority(
        common_name=common_name,
        subject=subject,
        key=key,
        answers_unknown=answers_unknown,
        template=template,
        issuer=issuer,
    )


def _ca_extensions(label: str, issuer: Authority, path: str) -> tuple[Extension, ...]:
    """Return what L2 and L3 of the device chain and L2 of the RIM chain have, in NVIDIA's order."""
    return (
        basic_constraints(),
        key_usage(_SIGNS_CERTIFICATES_AND_LISTS),
        distribution_point(path),
        ocsp_pointer(),
        subject_key_id(p384_key("authority", label)),
        authority_key_id(issuer.key),
    )


def _device_root() -> Authority:
    label = common_name = "SIMULATED NVIDIA Device Identity CA"
    key = p384_key("authority", label)
    constraints, usage = basic_constraints(), key_usage(_SIGNS_CERTIFICATES_AND_LISTS)
    return _authority(
        subject=name((COMMON_NAME, common_name), (ORGANISATION, SIMULATED_NVIDIA)),
        common_name=common_name,
        label=label,
        issuer=None,
        validity=(datetime(2021, 11, 5, tzinfo=UTC), NO_EXPIRY),
        extensions=(constraints, usage, subject_key_id(key), authority_key_id(key)),
    )


def _rim_root() -> Authority:
    label = common_name = "SIMULATED NVIDIA CoRIM signing Root CA"
    key = p384_key("authority", label)
    constraints, usage = basic_constraints(), key_usage(_SIGNS_CERTIFICATES_AND_LISTS)
    return _authority(
        subject=name((COUNTRY, "US"), (ORGANISATION, SIMULATED_NVIDIA), (COMMON_NAME, common_name)),
        common_name=common_name,
        label=label,
        issuer=None,
        validity=(
            datetime(2023, 3, 16, 15, 37, 34, tzinfo=UTC),
            datetime(2053, 3, 8, 15, 37, 34, tzinfo=UTC),
        ),
        extensions=(subject_key_id(key), authority_key_id(key), constraints, usage),
        answers_unknown=True,
    )


DEVICE_ROOT: Final = _device_root()
"""L1 of device chains."""
RIM_ROOT: Final = _rim_root()
"""L1 of RIM chains."""


@lru_cache(maxsize=8)
def identity_authority(product: Product) -> Authority:
    """Return L2 of the product's device chain; switches share it with Hopper GPUs."""
    label = product.identity
    return _authority(
        subject=name((COMMON_NAME, label), (ORGANISATION, SIMULATED_NVIDIA)),
        common_name=label,
        label=label,
        issuer=DEVICE_ROOT,
        validity=(datetime(2022, 1, 12, tzinfo=UTC), NO_EXPIRY),
        extensions=_ca_extensions(label, DEVICE_ROOT, "crl/l1-root.crl"),
    )


@lru_cache(maxsize=8)
def provisioner_authority(product: Product) -> Authority:
    """Return L3 of the product's device chain."""
    label, issuer = product.provisioner, identity_authority(product)
    return _authority(
        subject=name((COMMON_NAME, label), (ORGANISATION, SIMULATED_NVIDIA), (COUNTRY, "US")),
        common_name=label,
        label=label,
        issuer=issuer,
        validity=(product.provisioned, NO_EXPIRY),
        extensions=_ca_extensions(label, issuer, f"crl/{product.crl}"),
    )


@lru_cache(maxsize=8)
def reference_authority(product: Product) -> Authority:
    """Return L2 of the product's RIM chain."""
    label = product.reference_ca
    return _authority(
        subject=name((COMMON_NAME, label), (ORGANISATION, SIMULATED_NVIDIA), (COUNTRY, "US")),
        common_name=label,
        label=label,
        issuer=RIM_ROOT,
        validity=(datetime(2023, 5, 11, tzinfo=UTC), _END_OF_2049),
        extensions=_ca_extensions(label, RIM_ROOT, "crl-corim/l1-corim"),
        answers_unknown=True,
        generalized=True,
    )


@lru_cache(maxsize=8)
def reference_issuer(product: Product) -> Authority:
    """Return L3 of the product's RIM chain; NOTE: it lasts until 2049, a real one for three years and a half."""
    label, issuer = product.reference_issuer, reference_authority(product)
    return _authority(
        subject=name((COMMON_NAME, label), (ORGANISATION, SIMULATED_NVIDIA), (COUNTRY, "US")),
        common_name=label,
        label=label,
        issuer=issuer,
        validity=(datetime(2023, 10, 31, tzinfo=UTC), _END_OF_2049),
        extensions=(
            basic_constraints(path_length=0),
            key_usage(_SIGNS_CERTIFICATES_AND_LISTS),
            ocsp_pointer(),
            subject_key_id(p384_key("authority", label)),
            authority_key_id(issuer.key),
        ),
        answers_unknown=True,
        generalized=True,
    )


@lru_cache(maxsize=1)
def issuing_authorities() -> tuple[Authority, ...]:
    """Return everybody who issues certificates, each once: roots, then L2 and L3 of every product."""
    makers = (identity_authority, provisioner_authority, reference_authority, reference_issuer)
    below = (make(product) for product in PRODUCTS.values() for make in makers)
    return tuple({authority.common_name: authority for authority in (DEVICE_ROOT, RIM_ROOT, *below)}.values())
