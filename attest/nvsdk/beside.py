"""NVIDIA's findings and our checks, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attest.checks import Check, Outcome
from attest.encoding import JsonValue
from attest.nvsdk.opinion import SecondOpinion

__all__ = ["Pair", "pair_documents", "pair_lines", "side_by_side"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One question, and both answers.

    Attributes:
        item: name of the device.
        question: name of their finding.
        ours: outcome of our checks about the same; None where we have none.
        theirs: outcome of theirs.
        detail: what they reported.
    """

    item: str
    question: str
    ours: Outcome | None
    theirs: Outcome
    detail: str

    @property
    def agree(self) -> bool | None:
        """Whether both say yes or both say no; None where one of them does not say."""
        said = {self.ours, self.theirs}
        if None in said or Outcome.NOT_EVALUATED in said:
            return None
        return (self.ours is Outcome.FAIL) == (self.theirs is Outcome.FAIL)


_OURS: Mapping[str, tuple[str, ...]] = {
    "parsed": ("nvidia.format",),
    "chain": ("nvidia.chain", "nvidia.chain_validity", "nvidia.fwid"),
    "signature": ("nvidia.signature",),
    "nonce": ("freshness",),
    "driver_rim.version": ("nvidia.driver_rim",),
    "driver_rim.chain": ("nvidia.driver_rim_chain",),
    "driver_rim.signature": ("nvidia.driver_rim_signature",),
    "vbios_rim.version": ("nvidia.vbios_rim",),
    "vbios_rim.chain": ("nvidia.vbios_rim_chain",),
    "vbios_rim.signature": ("nvidia.vbios_rim_signature",),
    "measurements": ("nvidia.measurements", "nvidia.rim_conflict"),
    "revocation": ("nvidia.revocation", "nvidia.driver_rim_revocation", "nvidia.vbios_rim_revocation"),
}
"""Their steps to our checks: the first decides, unless another fails (theirs too skip a firmware id that is absent).

The schema of a RIM has no check of ours: what a RIM may hold is read strictly.
"""


def side_by_side(opinion: SecondOpinion, checks: Sequence[Check]) -> tuple[Pair, ...]:
    """Put their findings beside our checks.

    Args:
        opinion: theirs.
        checks: ours, of the same evidence; a check without an item (``freshness``) counts for every device.
    """
    return tuple(
        Pair(
            item=device.name,
            question=finding.name,
            ours=_ours(ids, {check.id: check.outcome for check in checks if check.item in (None, device.name)}),
            theirs=finding.outcome,
            detail=finding.detail,
        )
        for device in opinion.devices
        for finding in device.findings
        for ids in (_OURS.get(finding.name, ()),)
    )


def _ours(ids: tuple[str, ...], outcomes: Mapping[str, Outcome]) -> Outcome | None:
    if any(outcomes.get(check_id) is Outcome.FAIL for check_id in ids):
        return Outcome.FAIL
    return outcomes.get(ids[0]) if ids else None


_SAME: Mapping[bool | None, str] = {True: "same", False: "DIFFERENT", None: ""}


def pair_documents(pairs: Sequence[Pair]) -> list[JsonValue]:
    """Return the pairs as JSON; ``ours`` and ``same`` are absent where there is nothing to compare."""
    return [
        {
            "item": pair.item,
            "question": pair.question,
            **({} if pair.ours is None else {"ours": str(pair.ours)}),
            "theirs": str(pair.theirs),
            **({} if pair.agree is None else {"same": pair.agree}),
            "detail": pair.detail,
        }
        for pair in pairs
    ]


def pair_lines(pairs: Sequence[Pair]) -> Iterator[str]:
    """Write the pairs as a table for people: item, question, our outcome, theirs, and whether they are the same."""
    rows = [("item", "question", "ours", "NVIDIA's SDK", "")]
    rows += [(p.item, p.question, str(p.ours or "-"), str(p.theirs), _SAME[p.agree]) for p in pairs]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
