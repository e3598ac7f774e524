"""Simulated Attesters that tests share: one honest guest, and everything a verifier needs to believe it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.snp.evidence import ParsedSnpEvidence, parse_snp_evidence
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence
from attest.evidence.tolerances import AcceptedValue, DeviceTolerances
from attest_simulator import SimulatedChip, SimulatedGuest

AT = datetime(2026, 6, 1, tzinfo=UTC)
NO_CRL = (Unchecked(check="revocation", reason="a test without a CRL"),)
NONCE = bytes(range(32))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A guest on a chip, judged at one moment under the simulator's anchors."""

    guest: SimulatedGuest
    endorsements: Endorsements
    at: datetime = AT

    @property
    def report(self) -> bytes:
        """A report over 64 zero bytes."""
        return self.guest.report(bytes(64))

    def verify(
        self,
        report: bytes | ParsedSnpEvidence | None = None,
        *,
        endorsements: Endorsements | None = None,
        anchors: TrustAnchors | None = None,
        unchecked: tuple[Unchecked, ...] = (),
        at: datetime | None = None,
        spls: tuple[str, ...] = (),
    ) -> VerifiedSnpReport:
        """Verify a report, by default the guest's own."""
        evidence = self.report if report is None else report
        return verify_snp_evidence(
            parse_snp_evidence(evidence) if isinstance(evidence, bytes) else evidence,
            endorsements=self.endorsements if endorsements is None else endorsements,
            anchors=TrustAnchors.simulation() if anchors is None else anchors,
            at=at or self.at,
            unchecked=unchecked,
            tolerances=DeviceTolerances(spls=tuple(AcceptedValue(value=spl, reason="reason") for spl in spls)),
        )

    def without(self, *common_names: str) -> Endorsements:
        """Return the endorsements less the certificates of these names."""
        kept = tuple(c for c in self.endorsements.certificates if c.common_name not in common_names)
        return Endorsements(certificates=kept, crls=self.endorsements.crls)


def scene(product: SnpProduct = SnpProduct.GENOA, *, at: datetime = AT, **chip: object) -> Scene:
    """Return an honest scene; keyword arguments change the chip."""
    machine = replace(SimulatedChip.of(product), **chip)  # type: ignore[arg-type]
    return Scene(guest=SimulatedGuest(chip=machine), endorsements=machine.endorsements(at=at), at=at)


def bound_evidence(guest: SimulatedGuest, binding: Binding, *others: EvidenceItem) -> Evidence:
    """Return evidence whose report commits to a binding."""
    return Evidence(
        items=(
            EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=guest.report(binding.report_data())),
            EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes()),
            *others,
        )
    )


def report_evidence(report: bytes) -> Evidence:
    """Return evidence that is one raw report."""
    return Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=report),))


def binding(**changes: object) -> Binding:
    """Return an ordinary binding with some members changed."""
    usual: dict[str, object] = {
        "context": "kms-release/v1",
        "role": "workload",
        "audience": "kms.example/prod+00000000+AAAA",
        "nonce": NONCE,
        "key": b"\x00\x20" + bytes(32),
    }
    return Binding(**(usual | changes))  # type: ignore[arg-type]
