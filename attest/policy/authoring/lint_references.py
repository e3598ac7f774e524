"""Lint of a policy's reference values: probable mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from attest.policy.authoring.demands import names_in_use
from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.azure import PCR_KEYS
from attest.policy.references import ReferenceValues

_MAY_BE_ZERO: frozenset[str] = frozenset({"rtmr3", *PCR_KEYS[8:]})
"""Registers of what runs after the firmware, which nothing may have extended."""


def reference_findings(context: LintContext) -> Iterator[LintFinding]:
    """Find values that no demand uses, that have expired, that nothing has, or that are repeated.

    For values of a document, ``lint_documents`` reports the expiry, and the values that no demand uses.
    """
    policy = context.policy
    used, seen = names_in_use(policy), dict[bytes, str]()
    may_be_zero = names_in_use(policy, keys=_MAY_BE_ZERO)
    for name, reference in policy.reference_values.items():
        own = reference.document is None
        path = f"reference_values.{name}" if own else f"references.{reference.document}.{name}"
        if own and name not in used:
            yield LintFinding(
                rule="reference-unused",
                severity=Severity.WARNING,
                path=path,
                why="no demand refers to it",
                remedy="remove it, or name it in the demand that it is for",
            )
        elif own:
            yield from _end(reference, path, context)
        if name not in may_be_zero:
            yield from _zeros(reference, path)
        yield from _same_digest(name, reference, path, seen)


def _end(reference: ReferenceValues, path: str, context: LintContext) -> Iterator[LintFinding]:
    if reference.expires is None:
        yield LintFinding(
            rule="reference-without-end",
            severity=Severity.NOTE,
            path=path,
            why="it never expires, although flaws of its image become known in time",
            remedy="add expires",
        )
    else:
        yield from context.expiry("reference", path, reference.expires, "measure a current build")


def _zeros(reference: ReferenceValues, path: str) -> Iterator[LintFinding]:
    """Find values of zeros, which no measurement has; some registers have them until a guest extends them."""
    for index, value in enumerate(reference.values):
        if not any(value):
            placeholder = reference.origin.startswith("placeholder")
            yield LintFinding(
                rule="placeholder" if placeholder else "value-of-zeros",
                severity=Severity.WARNING if placeholder else Severity.ERROR,
                path=f"{path}.values[{index}]",
                why="no guest has a measurement of zeros, so this accepts no guest",
                remedy="put the measurement of your guest here ('attest measure', 'attest verify --verbose')",
            )


def _same_digest(name: str, reference: ReferenceValues, path: str, seen: dict[bytes, str]) -> Iterator[LintFinding]:
    for index, value in enumerate(reference.values):
        other = seen.setdefault(value, name)
        if any(value) and (other != name or value in reference.values[:index]):
            yield LintFinding(
                rule="value-repeated",
                severity=Severity.WARNING,
                path=f"{path}.values[{index}]",
                why=f"{value.hex()} is already listed in {other}",
                remedy="keep it in one place: if you remove it there, it is still accepted here",
            )
