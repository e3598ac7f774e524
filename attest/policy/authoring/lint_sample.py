"""Findings in the section ``sample`` of a policy."""

from __future__ import annotations

from collections.abc import Iterator

from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity


def sample_findings(path: str, context: LintContext) -> Iterator[LintFinding]:
    """Return the finding that such a section always is, in a laboratory too."""
    if context.laboratory:
        severity, why = Severity.WARNING, "sample evidence is accepted, which any program can write without a machine"
    else:
        severity, why = Severity.ERROR, "simulated evidence is refused, and sample evidence is simulated"
    yield LintFinding(
        rule="sample-accepted",
        severity=severity,
        path=path,
        why=why,
        remedy="remove the section; keep it only in a policy for trials, which guards nothing of value",
    )
