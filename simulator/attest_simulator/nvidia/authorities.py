"""The certificate authorities of the software NVIDIA: L1 to L3 of the device chain and of the RIM chain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.x509 import Extension, Issuer
from attest_simulator import der
from attest_simulator.nvidia.certificates import (
    COMMON_NAME,
    COUNTRY,
    END_OF_2049,
    NO_EXPIRY,
    ORGANISATION,
    SIMULATED_NVIDIA,
    NvidiaCertificateTemplate,
    authority_key_id,
    basic_constraints,
    distribution_point,
    key_usage,
    name,
    ocsp_pointer,
    subject_key_id,
)
from attest_simulator.nvidia.keys import derived_bytes, p384_key, spki_of
from attest_simulator.nvidia.products import PRODUCTS, Product

_SIGNS_CERTIFICATES_AND_LISTS = der.bit_string(b"\x06", unused_bits=1)
_SERIAL_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A simulated certificate authority: L1, L2 or L3 of either chain.

    Attributes:
        common_name: its CN.
        subject: its DER Name.
        key: signs; it is no secret.
        answers_unknown: its OCSP responder's status of a serial number that it never issued: ``unknown`` under the
            RIM root, ``good`` under the device root (specs/nvidia-gpu.md, section 8).
        template: its own certificate before its issuer signs it.
        issuer: its issuer; None for a root.
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
        """Return the DER of its certificate and of all issuers, the root last."""
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
    """Return the common extensions of L2 and L3 of the device chain and L2 of the RIM chain, in NVIDIA's order."""
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
        validity=(datetime(2023, 5, 11, tzinfo=UTC), END_OF_2049),
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
        validity=(datetime(2023, 10, 31, tzinfo=UTC), END_OF_2049),
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
    """Return all issuing authorities, each once: roots, then L2 and L3 of every product."""
    makers = (identity_authority, provisioner_authority, reference_authority, reference_issuer)
    below = (make(product) for product in PRODUCTS.values() for make in makers)
    return tuple({authority.common_name: authority for authority in (DEVICE_ROOT, RIM_ROOT, *below)}.values())
