"""Baseline appraisal of a genuine EAR: everything affirmed, on hardware."""

from __future__ import annotations

from collections.abc import Iterator

from attest.checks import Check, Outcome, Tier
from attest.results.ear_verify import VerifiedEar

_CLAUSE = "eat-ear.md 9; must-check.md 16"


def appraise_ear(token: VerifiedEar, *, simulated: str | None = None) -> tuple[Check, ...]:
    """Return the EAR's statements as checks: the overall status, that of each submodule, and that it is of hardware.

    ``simulated`` is the reason to tolerate simulated evidence, or None to refuse it. ``freshness_check`` of
    ``attest.appraisal`` makes the check of freshness.
    """
    return tuple(_checks(token, simulated))


def _checks(token: VerifiedEar, simulated: str | None) -> Iterator[Check]:
    yield _status("policy.token.status", token.status, None)
    for label, one in token.ear.submods.items():
        # An affirming status without a vector never verifies, so what is stated here is founded.
        yield _status("policy.token.submodule", one.status, label)
    if token.simulated is not None:  # other Verifiers do not state it; trust in their keys includes this
        outcome, expected, got = Outcome.PASS, "hardware", "the vendor's root"
        if token.simulated:
            got = "SIMULATED: the simulator's root"
            outcome = Outcome.FAIL if simulated is None else Outcome.NOT_EVALUATED
            expected = "hardware" if simulated is None else f"unchecked: {simulated}"
        yield Check(
            id="policy.token.not_simulated",
            outcome=outcome,
            expected=expected,
            got=got,
            clause="DESIGN 5; must-check.md 17",
        )


def _status(check_id: str, status: Tier, item: str | None) -> Check:
    outcome = Outcome.PASS if status is Tier.AFFIRMING else Outcome.FAIL
    return Check(id=check_id, outcome=outcome, expected=str(Tier.AFFIRMING), got=str(status), clause=_CLAUSE, item=item)
