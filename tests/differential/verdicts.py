"""The verdict of this verifier and that of dcap-qvl about one case, in one form."""

import json
from dataclasses import dataclass

import dcap_qvl  # type: ignore[import-untyped]  # its stubs are not marked as such

from attest.endorsements.anchors import TrustAnchors
from attest.errors import AttestError
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.intel.quote import parse_quote
from attest.evidence.intel.verify import verify_intel_quote
from attest_simulator.intel import IntelAuthority
from attest_simulator.intel.certificates import authority_certificate
from tests.differential.mutations import Case

SIMULATED_ROOT = authority_certificate(IntelAuthority.ROOT)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Accepted with a status and advisories, or refused for a reason.

    Attributes:
        status: None when the quote was refused.
        advisory_ids: sorted, none twice.
        reason: why it was refused, in the words of who refused: for people, and to explain differences.
    """

    status: str | None
    advisory_ids: tuple[str, ...] = ()
    reason: str = ""

    @property
    def outcome(self) -> tuple[str | None, tuple[str, ...]]:
        """What has to be equal."""
        return self.status, self.advisory_ids

    def __str__(self) -> str:
        """Tell it in a few words."""
        return f"refused, {self.reason}" if self.status is None else f"{self.status} {list(self.advisory_ids)}"


def ours(case: Case) -> Verdict:
    """Judge a case as the command line would; the reason is the code of the refusal."""
    collateral = json.dumps(dict(case.collateral)).encode()
    endorsements = read_endorsements([("collateral.json", collateral)], at=case.at).endorsements
    anchors = TrustAnchors.simulation() if case.simulated else TrustAnchors.vendors()
    try:
        quote = parse_quote(case.quote)
        verified = verify_intel_quote(quote, endorsements=endorsements, anchors=anchors, at=case.at)
    except AttestError as exc:
        return Verdict(status=None, reason=exc.code)
    evaluation = verified.evaluation
    assert evaluation is not None  # nothing was left unchecked
    return Verdict(status=str(evaluation.tcb_status), advisory_ids=evaluation.advisory_ids)


def theirs(case: Case) -> Verdict:
    """Let dcap-qvl judge; the reason is its message."""
    try:
        collateral = dcap_qvl.QuoteCollateralV3.from_json(json.dumps(dict(case.collateral)))
        moment = int(case.at.timestamp())
        if case.simulated:
            report = dcap_qvl.verify_with_root_ca(case.quote, collateral, SIMULATED_ROOT, moment)
        else:
            report = dcap_qvl.verify(case.quote, collateral, moment)
    except ValueError as exc:
        return Verdict(status=None, reason=str(exc))
    return Verdict(status=report.status, advisory_ids=tuple(sorted(set(report.advisory_ids))))
