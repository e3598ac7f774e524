"""Findings in demands on firmware that accept levels without a bulletin's fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from attest.evidence.snp.tcb import SnpTcbVersion
from attest.policy.authoring.comparison import spans
from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.decoder import stated
from attest.policy.firmware_table import FirmwareEntry, FirmwareTable, ranked
from attest.policy.floors import read_floor_demand
from attest.policy.gpu import GpuDemands
from attest.policy.model import PolicyBody
from attest.policy.snp import SnpDemands
from attest.policy.versions import Version, VersionRange


def firmware_findings_of(
    body: PolicyBody, path: str, context: LintContext, table: FirmwareTable
) -> Iterator[LintFinding]:
    """Return the findings in one body and its branches."""
    start = f"{path}." if path else ""
    if body.snp is not None:
        yield from _snp(body.snp, f"{start}snp", context, table)
    if body.gpu is not None:
        yield from _gpu(body.gpu, f"{start}gpu", context, table)
    for _, place, branch in body.branches(path):
        yield from firmware_findings_of(branch, place, context, table)


def _snp(snp: SnpDemands, path: str, context: LintContext, table: FirmwareTable) -> Iterator[LintFinding]:
    for product, tcb in (stated(snp.minimum_tcb) or {}).items():
        yield from _tcb(str(product), tcb, f"{path}.minimum_tcb.{product}", context, table)
    for product, tcbs in (stated(snp.exact_tcb) or {}).items():
        for index, tcb in enumerate(tcbs):
            yield from _tcb(str(product), tcb, f"{path}.exact_tcb.{product}[{index}]", context, table)


def _tcb(
    product: str, tcb: SnpTcbVersion, path: str, context: LintContext, table: FirmwareTable
) -> Iterator[LintFinding]:
    for component, level in tcb.components().items():
        found = read_floor_demand(product, component, str(level))
        least = _least(table.of(product.lower(), component))
        whole = ranked(one for one in least if one.line.everything and not found.covers(one.demand))
        lines = ranked(one for one in least if not one.line.everything and not found.covers(one.demand))
        for entries, severity in ((whole, Severity.WARNING), (lines, Severity.NOTE)):
            if entries:
                yield _finding(f"{path}.{component}", f"{component} {level}", entries, context.in_production(severity))


def _least(entries: Iterable[FirmwareEntry]) -> list[FirmwareEntry]:
    """Return of each bulletin the entry with the lowest level: a policy does not know the line of a processor."""
    by_advisory = groupby(sorted(entries, key=lambda one: one.advisory), key=lambda one: one.advisory)
    return [ranked(of)[-1] for _, of in by_advisory]


def _gpu(gpu: GpuDemands, path: str, context: LintContext, table: FirmwareTable) -> Iterator[LintFinding]:
    for component, name in (("driver", "driver_versions"), ("vbios", "vbios_versions")):
        ranges = stated(getattr(gpu, name))
        architectures = stated(gpu.architectures)
        for index, one in enumerate(ranges or ()):
            accepted = (e for kind in architectures or () for e in table.of(kind, component) if _accepts(one, e))
            entries = ranked({entry.advisory: entry for entry in accepted}.values())
            if entries:
                severity = context.in_production(Severity.WARNING)
                yield _finding(f"{path}.{name}[{index}]", f"{component} {one}", entries, severity)


def _accepts(one: VersionRange, entry: FirmwareEntry) -> bool:
    """Return True if a range has a version that the entry covers and that lacks its fix."""
    level: Version = entry.demand.value
    ((low, high),) = spans([one])
    since = () if entry.since is None else entry.since.value.components
    return max(low, (since, 0)) < min(high, (level.components, 0))


def _finding(path: str, accepted: str, entries: Iterable[FirmwareEntry], severity: Severity) -> LintFinding:
    found = tuple(entries)
    return LintFinding(
        rule="firmware-below-bulletin",
        severity=severity,
        path=path,
        why=f"{accepted} accepts firmware older than the fix of {', '.join(map(str, found))}",
        remedy=f"demand {found[0].demand.text} or newer, once your machines have it",
    )
