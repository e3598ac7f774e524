"""Typed requests for endorsements, by content and not by source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from attest.endorsements.x509 import Issuer

AmdKeyKind = Literal["vcek", "vlek"]
IntelTee = Literal["sgx", "tdx"]
IntelPckCa = Literal["platform", "processor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdVcekRequest:
    """The VCEK of one chip at one TCB.

    Attributes:
        product: KDS product name (``Milan``, ``Genoa``, ``Turin``).
        hwid: 64 bytes, on Turin 8.
        spls: KDS parameter name and value in the order of KDS (``(("blSPL", 3), …)``).
    """

    product: str
    hwid: bytes
    spls: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdChainRequest:
    """The intermediate (ASK for ``vcek``, ASVK for ``vlek``) and the ARK of a product line."""

    product: str
    kind: AmdKeyKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdCrlRequest:
    """The revocation list of a product line's ARK."""

    product: str
    kind: AmdKeyKind


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelTcbInfoRequest:
    """The TCB info of a platform type.

    Attributes:
        fmspc: 6 bytes, from the PCK certificate.
    """

    tee: IntelTee
    fmspc: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelQeIdentityRequest:
    """The identity of the quoting enclave of a TEE."""

    tee: IntelTee


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelPckCrlRequest:
    """The revocation list of one of the two CAs that issue PCK certificates."""

    ca: IntelPckCa


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelRootCrlRequest:
    """The revocation list of the Intel SGX Root CA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaRimRequest:
    """The reference integrity manifest of one driver, VBIOS or switch BIOS.

    Attributes:
        id: as NVIDIA's RIM service names it (``NV_GPU_DRIVER_GH100_550.144.03``).
    """

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaOcspRequest:
    """The revocation status of one certificate of a device chain or of a RIM's signers.

    Attributes:
        name: common name of the certificate, for people.
        issuer: of the certificate; an OCSP request has digests of its name and key.
    """

    name: str
    serial: int
    issuer: Issuer


AmdRequest: TypeAlias = AmdVcekRequest | AmdChainRequest | AmdCrlRequest
IntelRequest: TypeAlias = IntelTcbInfoRequest | IntelQeIdentityRequest | IntelPckCrlRequest | IntelRootCrlRequest
NvidiaRequest: TypeAlias = NvidiaRimRequest | NvidiaOcspRequest
EndorsementRequest: TypeAlias = AmdRequest | IntelRequest | NvidiaRequest
