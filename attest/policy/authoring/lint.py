"""Lint of a policy: findings about probable mistakes, each with its place, reason and remedy.

A policy that loads is well formed; lint finds unwise demands in it. It decides nothing about evidence.

A policy that accepts simulated evidence is a laboratory's: what would be an error in production is a note there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import cast

from attest.policy.accepted_values import ACCEPTED_VALUES
from attest.policy.authoring.comparison import Effect, shown
from attest.policy.authoring.demands import demands_of
from attest.policy.authoring.lint_documents import document_findings
from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.authoring.lint_firmware import firmware_findings_of
from attest.policy.authoring.lint_references import reference_findings
from attest.policy.authoring.lint_sections import section_findings
from attest.policy.authoring.policy_diff import diff_bodies
from attest.policy.authoring.unsatisfiable import contradictions
from attest.policy.decoder import RelaxedDemand
from attest.policy.firmware_table import FirmwareTable
from attest.policy.model import PolicyBody, PolicyDocument
from attest.policy.reference_values.reference_documents import NO_REFERENCE_DOCUMENTS, ReferenceDocument
from attest.policy.references import ReferenceValues

_GRAVE_UNCHECKED = ("revocation", "freshness")
_GRAVE = {
    "debug": "the operator of the machine can read the guest's memory",
    "dev_tools_mode": "the operator of the machine can read the GPU's memory",
    "bound": "a GPU of another machine can be presented instead of this machine's",
}
_WEIGHTY = frozenset(
    {
        "products",
        "minimum_tcb",
        "exact_tcb",
        "vmpl",
        "migrate_ma",
        "migratable",
        "provisional_firmware",
        "masked_chip_id",
        "rollback_protection",
        "rolled_back_since_launch",
        "service_td",
        "tcb_status",
        "accepted_advisories",
        "architectures",
        "driver_versions",
        "vbios_versions",
        "rim",
        "environment",
        "cc_mode",
        "locked",
        "required",
    }
)


def lint_policy(
    policy: PolicyDocument,
    *,
    at: datetime,
    documents: Mapping[str, ReferenceDocument] = NO_REFERENCE_DOCUMENTS,
    firmware: FirmwareTable | None = None,
) -> tuple[LintFinding, ...]:
    """Return the findings, the worst first, then in the order of the document.

    ``documents`` are the available documents of reference values, by name. A demand that cannot be evaluated without
    one is a finding. ``firmware`` is the table of bulletins for demands on firmware; None: no table. The demands of a
    laboratory's policy are not compared with it: simulated machines have no firmware.
    """
    context = LintContext(policy=policy, at=at)
    found = (
        *_top(context),
        *reference_findings(context),
        *document_findings(context, documents),
        *_demands(context),
        *_bodies(policy, "", context),
        *contradictions(policy),
        *(() if firmware is None or context.laboratory else firmware_findings_of(policy, "", context, firmware)),
    )
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.severity.rank))


# -- the top level


def _top(context: LintContext) -> Iterator[LintFinding]:
    policy = context.policy
    if isinstance(policy.simulated.value, RelaxedDemand):
        yield LintFinding(
            rule="simulated-tolerated",
            severity=Severity.NOTE if "simulated" in policy.name else Severity.WARNING,
            path="simulated",
            why="evidence that anyone can produce is accepted",
            remedy="remove it; or include 'simulated' in the policy's name, so that it is not mistaken for another",
        )
    for entry in policy.unchecked:
        grave = entry.check in _GRAVE_UNCHECKED
        yield LintFinding(
            rule="unchecked",
            severity=context.in_production(Severity.ERROR if grave else Severity.WARNING),
            path=f"unchecked.{entry.check}",
            why=f"{entry.check} need not be evaluated: {entry.reason}",
            remedy="remove it, and give --unchecked with a reason to the one command that needs it",
        )


# -- single demands


def _demands(context: LintContext) -> Iterator[LintFinding]:
    for path, name, value in demands_of(context.policy):
        if isinstance(value, RelaxedDemand):
            yield _relaxed(path, name, value, context)
        elif isinstance(value, tuple):
            yield from _repeated(path, cast("tuple[object, ...]", value))
        elif name in ACCEPTED_VALUES:
            yield from _accepted(path, value)


def _accepted(path: str, values: Mapping[str, str]) -> Iterator[LintFinding]:
    for value, reason in values.items():
        yield LintFinding(
            rule="value-not-understood",
            severity=Severity.WARNING,
            path=f"{path}.{value}",
            why=f"a value without a known meaning is accepted: {reason}",
            remedy="remove it once a newer version of this program knows the value",
        )


def _relaxed(path: str, name: str, value: RelaxedDemand, context: LintContext) -> LintFinding:
    grave = _GRAVE.get(name)
    severity = Severity.ERROR if grave else Severity.WARNING if name in _WEIGHTY else Severity.NOTE
    if name == "rim" and any(entry.check == "rim" for entry in context.policy.unchecked):
        severity = Severity.NOTE  # reported once, where it was written
    return LintFinding(
        rule="relaxed",
        severity=context.in_production(severity),
        path=path,
        why=f"unchecked: {value.reason}" + (f"; {grave}" if grave else ""),
        remedy="demand it if the reason no longer applies",
    )


def _repeated(path: str, members: tuple[object, ...]) -> Iterator[LintFinding]:
    for index, member in enumerate(members):
        if member in members[:index]:
            yield LintFinding(
                rule="value-repeated",
                severity=Severity.WARNING,
                path=f"{path}[{index}]",
                why=f"{shown(member)} occurs twice",
                remedy="remove one; perhaps another value was meant",
            )


# -- bodies and branches


def _bodies(
    body: PolicyBody, path: str, context: LintContext, *, identified: frozenset[str] = frozenset()
) -> Iterator[LintFinding]:
    """Return the findings in a body and its branches; outer bodies demand the identity of the ``identified`` kinds."""
    yield from section_findings(body, path, context, identified=identified)
    inner_kinds = identified | context.identified(body)
    start = f"{path}." if path else ""
    for index, branch in enumerate(body.all_of):
        yield from _bodies(branch, f"{start}all_of[{index}]", context, identified=inner_kinds)
    yield from _choices(body.any_of, f"{start}any_of", context, inner_kinds)
    if body.at_least is not None:
        yield from _some(body.at_least.count, body.at_least.of, f"{start}at_least", context, inner_kinds)


def _choices(
    branches: tuple[PolicyBody, ...], path: str, context: LintContext, identified: frozenset[str]
) -> Iterator[LintFinding]:
    if len(branches) == 1:
        yield _pointless(path, "a choice with one branch has no effect", "write its demands without any_of")
    yield from _implied(branches, path, context.policy.reference_values)
    for index, branch in enumerate(branches):
        yield from _bodies(branch, f"{path}[{index}]", context, identified=identified)


def _some(
    count: int, branches: tuple[PolicyBody, ...], path: str, context: LintContext, identified: frozenset[str]
) -> Iterator[LintFinding]:
    if count == len(branches):
        yield _pointless(f"{path}.count", "all branches must hold", "write all_of")
    elif count == 1:
        yield _pointless(f"{path}.count", "one of the branches must hold", "write any_of")
    for index, branch in enumerate(branches):
        place = f"{path}.of[{index}]"
        if any(
            _effects(earlier, branch, context.policy.reference_values) <= {Effect.LABEL} for earlier in branches[:index]
        ):
            yield LintFinding(
                rule="branch-repeated",
                severity=Severity.ERROR,
                path=place,
                why="an earlier branch has the same demands: one fact counts twice",
                remedy="remove one of them",
            )
        yield from _bodies(branch, place, context, identified=identified)


def _pointless(path: str, why: str, remedy: str) -> LintFinding:
    return LintFinding(rule="choice-of-one", severity=Severity.NOTE, path=path, why=why, remedy=remedy)


def _implied(
    branches: tuple[PolicyBody, ...], path: str, references: Mapping[str, ReferenceValues]
) -> Iterator[LintFinding]:
    """Find branches whose accepted evidence another branch accepts too."""
    implied: set[int] = set()
    for second in range(len(branches)):
        for first in range(second):
            effects = _effects(branches[first], branches[second], references)
            inner = second if effects <= {Effect.STRICTER, Effect.LABEL} else first
            outer = first if inner == second else second
            if (inner == second or effects <= {Effect.LOOSER, Effect.LABEL}) and inner not in implied:
                implied.add(inner)
                yield LintFinding(
                    rule="branch-implied",
                    severity=Severity.WARNING,
                    path=f"{path}[{inner}]",
                    why=f"{path}[{outer}] accepts the same and more: this branch has no effect",
                    remedy="remove it, or make the other one stricter",
                )


def _effects(old: PolicyBody, new: PolicyBody, references: Mapping[str, ReferenceValues]) -> set[Effect]:
    return {change.effect for change in diff_bodies(old, new, old_references=references, new_references=references)}
