"""Findings in the demands on firmware levels (TCBs): product lines left out, levels that no machine reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.authoring.lint_findings import LintFinding, Severity
from attest.policy.decoder import stated
from attest.policy.snp import SnpDemands
from attest.policy.snp_tcb import TCB_DEMANDS, ExactTcbs, TcbMinimums

MANY_TCBS = 4
"""A roll-out goes from one level to the next; a longer list no longer demands exact levels."""


def tcb_findings(snp: SnpDemands, products: tuple[object, ...], path: str) -> Iterator[LintFinding]:
    """Return the findings in every demand on a TCB; without ``products`` no product line is demanded."""
    for keys in TCB_DEMANDS.values():
        for name, what in zip(keys, ("minimum", "exact TCB"), strict=True):
            listed = stated(getattr(snp, name))
            if listed is not None and products:
                yield from _lines(products, listed, f"{path}.{name}", path, what)
        minimums, exact = (stated(getattr(snp, name)) for name in keys)
        if exact is not None:
            yield from _levels(exact, minimums or {}, f"{path}.{keys[1]}", keys[0])
    yield from _rolled_back(snp, path)


def _lines(
    products: tuple[object, ...], listed: Mapping[SnpProduct, Any], path: str, section: str, what: str
) -> Iterator[LintFinding]:
    """Compare the product lines that are accepted with those that something is demanded of."""
    for product in products:
        if product not in listed:
            yield LintFinding(
                rule="never-matches",
                severity=Severity.ERROR,
                path=path,
                why=f"{product} has no {what} here, so it is refused, though {section}.products accepts it",
                remedy=f"add the {what} of {product}, or remove it from products",
            )
    for product in listed:
        if product not in products:
            yield LintFinding(
                rule="unreachable",
                severity=Severity.WARNING,
                path=f"{path}.{product}",
                why=f"{section}.products does not accept {product}",
                remedy="remove it, or accept the product line",
            )


def _levels(exact: ExactTcbs, minimums: TcbMinimums, path: str, minimum: str) -> Iterator[LintFinding]:
    """Return the findings in the levels of each product line."""
    for line, tcbs in exact.items():
        if line in minimums:
            yield from _below(tcbs, minimums[line], f"{path}.{line}", minimum)
        if len(tcbs) > MANY_TCBS:
            yield LintFinding(
                rule="over-broad",
                severity=Severity.WARNING,
                path=f"{path}.{line}",
                why=f"{len(tcbs)} levels are accepted at once; a roll-out needs two",
                remedy=f"remove the levels that no host has, or demand {minimum}",
            )


def _below(tcbs: tuple[SnpTcbVersion, ...], least: SnpTcbVersion, path: str, minimum: str) -> Iterator[LintFinding]:
    """Find levels that the minimum beside them refuses."""
    below = [index for index, tcb in enumerate(tcbs) if not tcb.covers(least)]
    everything = len(below) == len(tcbs)
    for index in below:
        yield LintFinding(
            rule="never-matches" if everything else "unreachable",
            severity=Severity.ERROR if everything else Severity.WARNING,
            path=f"{path}[{index}]",
            why=f"{minimum} refuses it" + (", as all the others: the product line is refused" if everything else ""),
            remedy=f"remove it, or lower {minimum}",
        )


def _rolled_back(snp: SnpDemands, path: str) -> Iterator[LintFinding]:
    """Find product lines that rollback_protection refuses: no listed COMMITTED_TCB covers a listed REPORTED_TCB."""
    reported: ExactTcbs | None = stated(snp.exact_tcb)
    committed: ExactTcbs | None = stated(snp.exact_committed_tcb)
    if reported is None or committed is None or stated(snp.rollback_protection) is None:
        return
    for line, tcbs in committed.items():
        if line in reported and not any(tcb.covers(other) for tcb in tcbs for other in reported[line]):
            yield LintFinding(
                rule="contradictory",
                severity=Severity.ERROR,
                path=f"{path}.exact_committed_tcb.{line}",
                why="no TCB here covers one of exact_tcb, which rollback_protection demands",
                remedy="list the committed levels of the hosts that you have, or relax rollback_protection",
            )
