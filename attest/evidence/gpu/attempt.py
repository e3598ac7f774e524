"""One device on its way through the checks: what each check needs, does and finds, and how its success is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from attest.checks import Outcome, Unchecked
from attest.encoding import rfc3339_text
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.ocsp import OcspAnswer, OcspStatus
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate
from attest.errors import AttestError, EndorsementError
from attest.evidence.gpu.certificates import DeviceIdentity, DeviceModel, GpuLeaf
from attest.evidence.gpu.chain import DevicePath, DeviceRoot, find_path
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.measurements import MeasurementComparison, MeasurementSource
from attest.evidence.gpu.references import JudgedRim, Status, WantedRim
from attest.evidence.gpu.rim import ParsedRim
from attest.evidence.gpu.tolerances import DeviceTolerances, GpuTolerances

__all__ = ["Attempt", "Step", "Told", "tell_statuses", "there"]

_T = TypeVar("_T")
Told = tuple[str, str] | tuple[str, str, Outcome]
"""What a passed check demanded and what it found; with an outcome where that is not a plain pass."""


class Attempt:
    """One device's evidence, with what the checks find; a thing that was not found is None or missing."""

    def __init__(
        self,
        evidence: ParsedGpuEvidence,
        *,
        pool: Endorsements,
        anchors: TrustAnchors,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
        tolerances: DeviceTolerances,
    ) -> None:
        """Start with what was presented; the path is only found, not judged."""
        self.evidence = evidence
        self.report = evidence.report
        self.pool = pool
        self.anchors = anchors
        self.at = at
        self.unchecked = unchecked
        self._tolerances = tolerances
        self.path: DevicePath = find_path(evidence, pool)
        self.leaf: GpuLeaf | None = None
        self.identity: DeviceIdentity | None = None
        self.model: DeviceModel | None = None
        self.root: DeviceRoot | None = None
        self.statuses: tuple[Status, ...] = ()
        self.wanted: dict[MeasurementSource, WantedRim] = {}
        self.rims: dict[MeasurementSource, JudgedRim] = {}
        self.put_aside: set[MeasurementSource] = set()
        self.comparison: MeasurementComparison | None = None
        self.used: dict[str, tuple[Unchecked, ...]] = {}
        self.skipped: dict[str, str] = {}

    @property
    def tolerances(self) -> GpuTolerances:
        """What is let pass in a device of this kind; one of no known kind is refused, whatever is let pass here."""
        is_switch = self.model is not None and self.model.kind == "nvidia-switch"
        return self._tolerances.switches if is_switch else self._tolerances.gpus

    def allows(self, name: str) -> tuple[Unchecked, ...]:
        """Return the decisions to leave this unchecked."""
        return tuple(u for u in self.unchecked if u.check == name)

    def tolerate(self, failure: AttestError, *names: str) -> str:
        """Raise a failure, unless it only says that something is missing or stale and one of the names allows that."""
        for name in names:
            if isinstance(failure, EndorsementError) and (decisions := self.allows(name)):
                self.used[name] = decisions
                return name
        raise failure

    def reasons(self, *names: str) -> str:
        """Say why something was left unchecked."""
        decisions = [u.reason for name in names for u in self.used.get(name, ())]
        return f"unchecked: {'; '.join(decisions)}"

    def comparable(self, source: MeasurementSource) -> ParsedRim | None:
        """Return the RIM whose values are compared: NVIDIA's, be it stale."""
        judged = self.rims.get(source)
        rim = None if judged is None else judged.comparable
        return None if rim is None else rim.parsed

    def usable(self, source: MeasurementSource) -> ParsedRim | None:
        """Return the RIM whose values are relied on."""
        return None if source in self.put_aside else self.comparable(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One check.

    Attributes:
        id: stable dotted name.
        clause: where it is specified.
        lacks: why it cannot be evaluated, or None.
        run: raises, or lets the evidence pass and keeps what it found.
        tell: what was demanded and what was found, once it passed.
    """

    id: str
    clause: str
    lacks: Callable[[Attempt], str | None]
    run: Callable[[Attempt], None]
    tell: Callable[[Attempt], Told]


def there(found: _T | None) -> _T:
    """Return what an earlier check found; a step runs only when nothing is lacking.

    Raises:
        TypeError: it was not found, so the table of steps is wrong.
    """
    if found is None:
        msg = "a step ran without what it needs"
        raise TypeError(msg)
    return found


def tell_statuses(
    attempt: Attempt, certificates: tuple[Certificate, ...], statuses: tuple[Status, ...], *names: str
) -> Told:
    """Tell what shows that certificates are not revoked, or which decision left it unchecked."""
    expected = f"not revoked: {', '.join(certificate.name for certificate in certificates)}"
    if not statuses:
        return expected, attempt.reasons(*names), Outcome.NOT_EVALUATED
    held = any(isinstance(status, OcspAnswer) and status.status is not OcspStatus.GOOD for status in statuses)
    got = "; ".join(_status_text(status) for status in statuses)
    if held:
        return expected, f"{got}; a hold is tolerated: {attempt.tolerances.held_rim_signers}", Outcome.WARNING
    return expected, got


def _status_text(status: Status) -> str:
    moment = rfc3339_text(status.this_update)
    if isinstance(status, OcspAnswer):
        return f"{status.status} by OCSP of {moment}"
    return f"not listed by CRL of {moment}"
