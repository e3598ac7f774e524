"""Demands on the firmware levels (TCBs) of a SEV-SNP Attester: at least these, or exactly these.

A minimum accepts newer firmware without a review. A list of exact TCBs accepts only the levels in it: before the host's
firmware is replaced, the list has to have both levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from attest.encoding import JsonValue
from attest.evidence.claims import Claim, ClaimType, ClaimValue, StatedClaims
from attest.evidence.snp.claims import snp_claim
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.decoder import Section, integer, list_of, refuse, table_of
from attest.policy.rules import Test

_T = TypeVar("_T")
_PARTS = ("bootloader", "tee", "snp", "microcode")
TcbMinimums = Mapping[SnpProduct, SnpTcbVersion]
ExactTcbs = Mapping[SnpProduct, tuple[SnpTcbVersion, ...]]

TCB_DEMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "reported_tcb": ("minimum_tcb", "exact_tcb"),
        "committed_tcb": ("minimum_committed_tcb", "exact_committed_tcb"),
        "launch_tcb": ("minimum_launch_tcb", "exact_launch_tcb"),
    }
)
"""Each TCB of a report, with the key that demands a minimum of it and the one that demands exact levels."""


# -- reading


def minimum_tcbs(value: JsonValue, path: str) -> TcbMinimums:
    """Read one TCB for each product line."""
    return _by_product(_tcb, value, path)


def exact_tcbs(value: JsonValue, path: str) -> ExactTcbs:
    """Read a list of TCBs for each product line; none of them twice."""
    return _by_product(_distinct_tcbs, value, path)


def _by_product(
    member: Callable[[JsonValue, str, SnpProduct], _T], value: JsonValue, path: str
) -> Mapping[SnpProduct, _T]:
    lines = table_of(lambda member, _: member, keys=SnpProduct)(value, path)
    return {SnpProduct(line): member(below, f"{path}.{line}", SnpProduct(line)) for line, below in lines.items()}


def _distinct_tcbs(value: JsonValue, path: str, product: SnpProduct) -> tuple[SnpTcbVersion, ...]:
    found = list_of(lambda member, at: _tcb(member, at, product))(value, path)
    seen = set[SnpTcbVersion]()
    for index, tcb in enumerate(found):
        if tcb in seen:
            raise refuse(f"{path}[{index}]", "a TCB that is not listed already", str(tcb))
        seen.add(tcb)
    return found


def _tcb(value: JsonValue, path: str, product: SnpProduct) -> SnpTcbVersion:
    """Decode all components of the product line: an omitted one would silently be zero."""
    section, level = Section(value, path), integer(0, 255)
    tcb = SnpTcbVersion(
        fmc=section.required("fmc", level) if product.has_fmc else None,
        **{part: section.required(part, level) for part in _PARTS},
    )
    section.finish()
    return tcb


# -- rules


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTcb:
    """A TCB with its product line, without which its levels mean nothing; some Verifiers do not state the line."""

    product: SnpProduct | None
    tcb: SnpTcbVersion

    def __str__(self) -> str:
        return f"{self.tcb} on {self.product or 'an unnamed product line'}"


def tcb_of_product(which: str) -> Claim:
    """Return a claim of a report (``reported_tcb``) together with the product line."""
    plain = snp_claim(which)

    def stated(subject: StatedClaims) -> ClaimValue:
        levels = subject.values.get(which)
        line = subject.values.get("product")
        if not isinstance(levels, Mapping) or not all(type(level) is int for level in levels.values()):
            return None
        if not set(_PARTS) <= set(levels) <= {"fmc", *_PARTS} or line not in (None, *SnpProduct):
            return None
        tcb = SnpTcbVersion(**{"fmc": None, **levels})  # type: ignore[arg-type]  # integers, as just required
        product = None if line is None else SnpProduct(str(line))
        return ProductTcb(product=product, tcb=tcb)  # type: ignore[return-value]  # for the tests below

    return replace(
        plain,
        type=ClaimType.TCB,
        get=lambda v: ProductTcb(product=v.product, tcb=getattr(v, which)),  # type: ignore[arg-type,return-value]  # for the tests below
        stated=stated,
    )


def covers(minimums: TcbMinimums) -> Test:
    """Test that a TCB covers the minimum of its own product line; a line without one is refused.

    A TCB without a stated product line has to cover every minimum.
    """

    def holds(value: ProductTcb, _at: datetime) -> bool:
        if value.product is None:
            return all(value.tcb.covers(minimum) for minimum in minimums.values())
        minimum = minimums.get(value.product)
        return minimum is not None and value.tcb.covers(minimum)

    return holds


def shortfall(minimums: TcbMinimums) -> Callable[[ProductTcb], str]:
    """Return how a TCB below its minimum is written: with the components that are too low."""

    def text(value: ProductTcb) -> str:
        if value.product is None:
            return str(value)
        if value.product not in minimums:
            return f"{value}, for which no minimum is stated"
        levels = value.tcb.components()
        low = (
            f"{part} {levels[part]} is below {least}"
            for part, least in minimums[value.product].components().items()
            if part in levels and levels[part] < least
        )
        return ": ".join(filter(None, (str(value), ", ".join(low))))

    return text


def is_one_of(exact: ExactTcbs) -> Test:
    """Test that a TCB is one of those of its own product line, every component equal; a line without any is refused.

    A TCB without a stated product line has to be among those of every line.
    """

    def holds(value: ProductTcb, _at: datetime) -> bool:
        lines = exact.values() if value.product is None else [exact.get(value.product, ())]
        return all(value.tcb in tcbs for tcbs in lines)

    return holds


def minimum_tcbs_text(minimums: TcbMinimums) -> str:
    """Write minimums for people."""
    return "; ".join(f"at least {tcb} on {product}" for product, tcb in minimums.items())


def exact_tcbs_text(exact: ExactTcbs) -> str:
    """Write exact TCBs for people."""
    return "; ".join(f"exactly {' or '.join(map(str, tcbs))} on {product}" for product, tcbs in exact.items())
