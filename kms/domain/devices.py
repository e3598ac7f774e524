"""Products and chips of the devices in verified evidence.

Both come from the vendor's hardware and certificates; the guest cannot choose them. Names are in lower case.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from attest.evidence import FORMATS, SnpProduct, VerifiedGpu, VerifiedIntelQuote, VerifiedSnpReport
from attest.verification import VerifiedItem

_NVIDIA: Final = ("hopper", "blackwell", "ls10")
PRODUCT_NAMES: Final = (*(form.kind for form in FORMATS.kinds), *(str(one).lower() for one in SnpProduct), *_NVIDIA)
"""Kinds of TEE (``tdx``), AMD's product lines (``milan``) and NVIDIA's architectures (``hopper``)."""
_FMSPC: Final = re.compile(r"fmspc:[0-9a-f]{12}")


class VerifiedDevices(Protocol):
    """Verified evidence, or a passport, which has no devices."""

    @property
    def items(self) -> tuple[VerifiedItem, ...]:
        """The devices."""


def is_product(name: str) -> bool:
    """Return True for a name that evidence can have: of ``PRODUCT_NAMES``, or ``fmspc:`` and 12 hex digits."""
    return name in PRODUCT_NAMES or _FMSPC.fullmatch(name) is not None


def products_of(verified: VerifiedDevices) -> frozenset[str]:
    """Return every product name of every device.

    An Azure VM has its own kind and that of its CPU, so that a freeze of ``tdx`` also stops ``azure-tdx``.
    """
    return frozenset().union(*map(_products, verified.items))


def _products(item: VerifiedItem) -> frozenset[str]:
    silicon = item.silicon
    found = {item.kind}
    if isinstance(silicon, VerifiedSnpReport):
        found |= {"sev-snp", str(silicon.product)}
    elif isinstance(silicon, VerifiedIntelQuote):
        found |= {silicon.quote.tee, f"fmspc:{silicon.pck.fmspc.hex()}"}
    elif isinstance(silicon, VerifiedGpu):
        found |= {silicon.architecture}
    return frozenset(name.lower() for name in found)


def device_chips(verified: VerifiedDevices) -> tuple[str | None, ...]:
    """Return the identities of GPUs and switches: ``nvidia:`` and the identity in the device's certificates, in hex."""
    silicon = (item.silicon for item in verified.items)
    return tuple(f"nvidia:{one.chain.identity.text}" for one in silicon if isinstance(one, VerifiedGpu))
