"""The procedure for sample evidence: no signature, so that only anchors for simulated evidence let it pass.

Spec: specs/kbs-protocol.md, section 10.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from attest.checks import Check, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import VerificationError
from attest.evidence.procedure import Findings, Procedure, Step
from attest.evidence.sample.structure import ParsedSample
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances


class SampleSteps(NamedTuple):
    """Every check of sample evidence."""

    format: Step = Step("sample.format", "Confidential Containers, sample attester")
    accepted: Step = Step("sample.accepted", "docs/threat-model.md")


_STEPS = SampleSteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSample:
    """Sample evidence where simulated evidence is accepted. Built by ``verify_sample`` only."""

    evidence: ParsedSample
    findings: Findings = field(repr=False)

    @property
    def simulated(self) -> bool:
        """True: any program can write such evidence."""
        return True

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure."""
        return self.findings.checks


def verify_sample(
    evidence: ParsedSample,
    /,
    *,
    endorsements: Endorsements,  # noqa: ARG001  none exist
    anchors: TrustAnchors,
    at: datetime,  # noqa: ARG001  nothing in it ends
    unchecked: tuple[Unchecked, ...] = (),  # noqa: ARG001  nothing can be relaxed
    tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES,  # noqa: ARG001
) -> VerifiedSample:
    """Accept sample evidence where the anchors include the simulator's.

    Raises:
        VerificationError: ``sample-refused``.
    """
    procedure = Procedure(_STEPS)
    procedure.parsed(_STEPS.format, "svn and at most 64 bytes of report data", "as expected")
    with procedure.step(_STEPS.accepted):
        if not anchors.accept_simulated:
            raise VerificationError(
                "sample evidence proves nothing about a machine and is refused",
                code="sample-refused",
                expected="evidence that hardware signed",
                got="sample evidence, which any program can write",
                hint="run this on a confidential machine; to try it without one, add --allow-simulated",
            )
        procedure.record("simulated evidence is accepted", "no signature")
    return VerifiedSample(evidence=evidence, findings=procedure.finish())
