"""Simulated TDX and SGX Attesters that tests share, and everything a verifier needs to believe them."""

from dataclasses import dataclass, replace
from typing import cast

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE, Evidence, EvidenceItem
from attest.evidence.intel.quote import Tee
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator.intel import SimulatedEnclave, SimulatedPlatform, SimulatedTd
from tests.samples import AT

NO_TCB = Unchecked(check="tcb", reason="a test without TCB info")
ZEROS = bytes(64)
OLD_COMPONENTS = (2, 2, 2, 2, 3, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0)
"""What the simulated TCB info calls OutOfDate."""


@dataclass(frozen=True, kw_only=True)
class IntelScene:
    """A TD and an enclave on one platform, judged at ``AT`` under the simulator's anchors."""

    platform: SimulatedPlatform

    @property
    def td(self) -> SimulatedTd:
        """An ordinary TD."""
        return SimulatedTd(platform=self.platform)

    @property
    def enclave(self) -> SimulatedEnclave:
        """An ordinary enclave."""
        return SimulatedEnclave(platform=self.platform)

    def endorsements(self, tee: Tee = "tdx") -> Endorsements:
        """Return Intel's collateral for this platform, current at ``AT``."""
        return self.platform.collateral(tee, at=AT).endorsements()

    def verify(
        self,
        evidence: Evidence | bytes,
        *,
        endorsements: Endorsements | None = None,
        anchors: TrustAnchors | None = None,
        expected: ExpectedFreshness | ExpectedBinding | None = None,
        unchecked: tuple[Unchecked, ...] = (),
    ) -> VerifiedEvidence:
        """Verify evidence, or a bare quote; by default with the collateral for TDX."""
        return verify(
            quote_evidence(evidence) if isinstance(evidence, bytes) else evidence,
            endorsements=self.endorsements() if endorsements is None else endorsements,
            anchors=TrustAnchors.simulation() if anchors is None else anchors,
            at=AT,
            expected=expected,
            unchecked=unchecked,
        )


def intel_scene(platform: SimulatedPlatform | None = None) -> IntelScene:
    """Return a scene on this platform, or on an ordinary one."""
    return IntelScene(platform=platform or SimulatedPlatform.of())


def old_platform(name: str = "platform 0") -> SimulatedPlatform:
    """Return a platform with firmware that Intel calls OutOfDate."""
    platform = SimulatedPlatform.of(name, components=OLD_COMPONENTS)
    return replace(platform, tee_tcb_svn=bytes((6, 1, 2)).ljust(16, b"\0"))


def quote_evidence(quote: bytes, *, log: bytes | None = None) -> Evidence:
    """Return evidence that is one quote, perhaps with an event log."""
    items = [EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote)]
    if log is not None:
        items.append(log_item(log))
    return Evidence(items=tuple(items))


def log_item(log: bytes) -> EvidenceItem:
    """Return an event log as an item."""
    return EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=log)


def bound_td(td: SimulatedTd, binding: Binding, *others: EvidenceItem, version: int = 4) -> Evidence:
    """Return evidence whose quote commits to a binding."""
    quote = td.quote(binding.report_data(), version=version)
    return Evidence(
        items=(
            EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote),
            EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes()),
            *others,
        )
    )


def quote_of(verified: VerifiedEvidence) -> VerifiedIntelQuote:
    """Return the verified quote of the one device."""
    (item,) = verified.items
    return cast("VerifiedIntelQuote", item.verified)  # what the rows of TDX and SGX return
