"""Product lines of AMD EPYC, and the two layouts of TCB_VERSION."""

from __future__ import annotations

import enum
import operator
from dataclasses import dataclass
from functools import lru_cache

from attest.errors import EvidenceError, UnsupportedError


class SnpProduct(enum.StrEnum):
    """Product lines, by the name that AMD's key distribution service uses."""

    MILAN = "Milan"
    GENOA = "Genoa"
    TURIN = "Turin"

    @property
    def has_fmc(self) -> bool:
        """True if the TCB has an FMC component, which also moves the others (family 0x1A)."""
        return self is SnpProduct.TURIN

    @property
    def hwid_bytes(self) -> int:
        """Significant bytes of CHIP_ID."""
        return 8 if self is SnpProduct.TURIN else 64


_MODELS: tuple[tuple[int, range, SnpProduct], ...] = (
    (0x19, range(0x10), SnpProduct.MILAN),
    (0x19, range(0x10, 0x20), SnpProduct.GENOA),
    (0x19, range(0xA0, 0xB0), SnpProduct.GENOA),  # Bergamo and Siena, with Genoa's chain and layout
    (0x1A, range(0x12), SnpProduct.TURIN),
)


def product_of_cpuid(family: int, model: int) -> SnpProduct:
    """Return the product line of a combined CPUID family and model (specs/sev-snp.md, section 6).

    Raises:
        UnsupportedError: ``snp-product-unknown``; a pair outside the table is not guessed.
    """
    for known_family, models, product in _MODELS:
        if family == known_family and model in models:
            return product
    raise UnsupportedError(
        f"CPUID family {family:#04x} model {model:#04x} is of an unknown product line",
        code="snp-product-unknown",
        check="snp.format",
        field="CPUID_FAM_ID",
        offset=0x188,
        expected="Milan, Genoa (Bergamo, Siena) or Turin",
        got=f"family {family:#04x} model {model:#04x}",
        clause="AMD 56860, CPUID_FAM_ID",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnpTcbVersion:
    """Security patch levels of the firmware parts, 0 to 255 each.

    A TCB is a vector: ``a.covers(b)`` holds when no component of ``a`` is below that of ``b``. Two TCBs can be
    incomparable, so there is no ``<``, and never a comparison as one integer.

    Attributes:
        fmc: FMC, on Turin only.
    """

    bootloader: int
    tee: int
    snp: int
    microcode: int
    fmc: int | None = None

    def components(self) -> dict[str, int]:
        """Name and level of each component that this product line has, in AMD's order."""
        parts = {"bootloader": self.bootloader, "tee": self.tee, "snp": self.snp, "microcode": self.microcode}
        return parts if self.fmc is None else {"fmc": self.fmc, **parts}

    def covers(self, other: SnpTcbVersion) -> bool:
        """Return True if every component is at least that of ``other``; never across the two layouts."""
        if (self.fmc is None) is not (other.fmc is None):
            return False
        return all(map(operator.ge, self._levels(), other._levels()))

    def _levels(self) -> tuple[int, ...]:
        return self.fmc or 0, self.bootloader, self.tee, self.snp, self.microcode

    def __str__(self) -> str:
        return " ".join(f"{name} {level}" for name, level in self.components().items())

    def to_bytes(self) -> bytes:
        """Return the 8 bytes of TCB_VERSION in the layout that ``fmc`` implies."""
        if self.fmc is None:
            return bytes([self.bootloader, self.tee, 0, 0, 0, 0, self.snp, self.microcode])
        return bytes([self.fmc, self.bootloader, self.tee, self.snp, 0, 0, 0, self.microcode])


@lru_cache(maxsize=512)
def tcb_from_bytes(raw: bytes, product: SnpProduct, field: str) -> SnpTcbVersion:
    """Read the 8 bytes of TCB_VERSION in the layout of a product line (AMD 56860, TCB_VERSION; specs/sev-snp.md, 3).

    Raises:
        EvidenceError: ``reserved-not-zero``, the usual result for bytes in the layout of the other family.
    """
    spare = raw[4:7] if product.has_fmc else raw[2:6]
    if spare.strip(b"\0"):
        raise EvidenceError(
            f"{field} has reserved bytes that are not zero in the layout of {product}",
            code="reserved-not-zero",
            check="snp.format",
            field=field,
            expected="zero",
            got=raw.hex(),
            clause="AMD 56860, TCB_VERSION",
        )
    if product.has_fmc:
        return SnpTcbVersion(fmc=raw[0], bootloader=raw[1], tee=raw[2], snp=raw[3], microcode=raw[7])
    return SnpTcbVersion(bootloader=raw[0], tee=raw[1], snp=raw[6], microcode=raw[7])
