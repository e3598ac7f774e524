"""SEV-SNP verification against the bare P-384 verification that it cannot do without.

Warm: the chain was seen before, the report is read and verified anew each time, through the public ``verify``. Cold:
every remembered certificate and signature is forgotten before each call. Real recorded evidence is used where it is
at hand (ATTEST_VECTORS), simulated evidence elsewhere; the arithmetic is the same.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.checks import Unchecked
from attest.endorsements import chains, signatures, x509
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.envelope import MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.snp import certificates, tcb
from attest.evidence.snp.structure import parse_report
from attest.evidence.snp.tcb import SnpProduct
from attest.verification import VerifiedEvidence, verify
from attest_simulator import SimulatedChip, SimulatedGuest
from benchmarks.measure import Figure, interleaved_ratio

__all__ = ["cold", "warm"]

_REMEMBERING = (
    chains.require_ca,
    chains.require_understood,
    x509.parse_certificate,
    x509.parse_crl,
    x509._common_name,  # noqa: SLF001  a cold start forgets everything
    certificates.read_leaf,
    tcb.tcb_from_bytes,
)


class _Sample:
    """One report with its certificates, and the bare verification of its signature."""

    def __init__(self) -> None:
        real = Path(os.environ.get("ATTEST_VECTORS", "../shared/vectors")) / "sev-snp"
        if real.is_dir():
            self.origin = "a recorded Milan report"
            self.report = (real / "milan-v2-vcek/report.bin").read_bytes()
            self.ders = [(real / f).read_bytes() for f in ("milan-v2-vcek/vcek.der", "certs/milan/ask.der")]
            self.crl = (real / "crl/milan-2022-05.der").read_bytes()
            self.at, self.anchors = datetime(2023, 3, 1, tzinfo=UTC), TrustAnchors.vendors()
            self.unchecked: tuple[Unchecked, ...] = ()
        else:
            chip = SimulatedChip.of(SnpProduct.MILAN, report_version=2)
            self.origin = "a simulated Milan report"
            self.report = SimulatedGuest(chip=chip).report(bytes(64))
            self.ders = list(chip.certificates())
            self.at, self.anchors = datetime(2026, 6, 1, tzinfo=UTC), TrustAnchors.simulation()
            self.crl = chip.endorsements(at=self.at).crls[0].der
            self.unchecked = ()
        parsed = parse_report(self.report)
        leaf = x509.parse_certificate(self.ders[0])
        key = signatures.load_public_key(leaf.spki)
        if not isinstance(key, ec.EllipticCurvePublicKey):
            msg = "the leaf's key is not elliptic"
            raise TypeError(msg)
        self.key = key
        self.signature = encode_dss_signature(
            int.from_bytes(parsed.signature_r, "little"), int.from_bytes(parsed.signature_s, "little")
        )
        self.signed = parsed.signed_bytes
        self.endorsements = self.pool()

    def bare(self) -> None:
        """Verify the report's signature and nothing else."""
        self.key.verify(self.signature, self.signed, ec.ECDSA(hashes.SHA384()))

    def pool(self) -> Endorsements:
        """Read the certificates and the CRL."""
        return Endorsements(
            certificates=tuple(x509.parse_certificate(der) for der in self.ders), crls=(x509.parse_crl(self.crl),)
        )

    def verify(self, endorsements: Endorsements) -> VerifiedEvidence:
        """Read the report and verify it in full, revocation included."""
        item = EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=self.report)
        return verify(
            Evidence(items=(item,)),
            endorsements=endorsements,
            anchors=self.anchors,
            at=self.at,
            unchecked=self.unchecked,
        )


def warm() -> Figure:
    """Measure verification with a chain that was seen before."""
    sample = _Sample()
    ratio, bare, full = interleaved_ratio(sample.bare, lambda: sample.verify(sample.endorsements))
    detail = f"{sample.origin}: bare P-384 {bare * 1e6:.0f} us, verify() with chain and CRL seen {full * 1e6:.0f} us"
    return Figure(id="snp-verify-warm", value=ratio, bar=0.90, better="higher", detail=detail)


def cold() -> Figure:
    """Measure verification without caches: certificates and CRL are parsed and verified too."""
    sample = _Sample()

    def forgetful() -> None:
        signatures.forget()
        for remembered in _REMEMBERING:
            remembered.cache_clear()
        sample.verify(sample.pool())

    ratio, bare, full = interleaved_ratio(sample.bare, forgetful)
    detail = f"{sample.origin}: bare P-384 {bare * 1e6:.0f} us, everything from bytes {full * 1e6:.0f} us"
    return Figure(id="snp-verify-cold", value=ratio, bar=0.35, better="higher", detail=detail)
