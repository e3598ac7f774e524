"""What can be needed to verify evidence: typed requests that name a thing, not where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["AmdChainRequest", "AmdCrlRequest", "AmdKeyKind", "AmdVcekRequest", "EndorsementRequest"]

AmdKeyKind = Literal["vcek", "vlek"]


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


EndorsementRequest: TypeAlias = AmdVcekRequest | AmdChainRequest | AmdCrlRequest
