"""Every byte, and in the slow suite every bit, of a signed report: changed means refused."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, parse_crl
from attest.errors import AttestError, EvidenceError
from attest.evidence.snp.evidence import parse_snp_evidence
from attest.evidence.snp.structure import REPORT_BYTES
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.snp.verify import verify_snp_evidence
from attest.verification import ExpectedFreshness, verify
from tests.samples import AT, NO_CRL, Scene, report_evidence, scene

DOCUMENTED = {3, 4, 5}


def refusal(honest: Scene, report: bytes) -> AttestError:
    """The refusal of an altered report; a report that verifies fails the test."""
    try:
        honest.verify(report)
    except AttestError as exc:
        return exc
    pytest.fail("an altered report was verified")


def flipped(data: bytes, bit: int) -> bytes:
    """Data with one bit changed."""
    altered = bytearray(data)
    altered[bit // 8] ^= 1 << bit % 8
    return bytes(altered)


@pytest.mark.parametrize("product", list(SnpProduct))
def test_a_report_with_any_byte_changed_is_refused(product: SnpProduct) -> None:
    honest = scene(product)
    report = honest.report
    for offset in range(REPORT_BYTES):
        assert refusal(honest, flipped(report, 8 * offset + offset % 8)).exit_code in DOCUMENTED, hex(offset)


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3, 5])
def test_a_report_with_any_bit_changed_is_refused(version: int) -> None:
    honest = scene(SnpProduct.MILAN, report_version=version)
    report = honest.report
    for bit in range(8 * REPORT_BYTES):
        assert refusal(honest, flipped(report, bit)).exit_code in DOCUMENTED, hex(bit // 8)


@pytest.mark.slow
def test_a_real_report_with_any_bit_changed_is_refused(vectors_dir: Path) -> None:
    root = vectors_dir / "sev-snp"
    manifest = json.loads((root / "MANIFEST.json").read_text())
    vector = next(v for v in manifest["vectors"] if v["id"] == "genoa-v5-vcek")
    files = (vector["endorsement_cert"], "certs/genoa/ask.der")
    pool = Endorsements(certificates=tuple(parse_certificate((root / f).read_bytes()) for f in files))
    report = (root / vector["report"]).read_bytes()
    at = datetime.fromisoformat(vector["verify_time"])

    def check(data: bytes) -> None:
        evidence = parse_snp_evidence(data)
        verify_snp_evidence(evidence, endorsements=pool, anchors=TrustAnchors.vendors(), at=at, unchecked=NO_CRL)

    check(report)
    for bit in range(8 * REPORT_BYTES):
        with pytest.raises(AttestError):
            check(flipped(report, bit))


def test_a_report_cut_at_any_length_or_longer_by_one_byte_is_malformed() -> None:
    honest = scene()
    report = honest.report
    for length in range(REPORT_BYTES):
        with pytest.raises(EvidenceError):
            honest.verify(report[:length])
    with pytest.raises(EvidenceError):
        honest.verify(report + b"\0")


def test_a_certificate_of_the_chain_with_any_byte_changed_is_refused() -> None:
    """The signed part, both algorithm identifiers, the signature and the DER around them."""
    honest = scene()
    chain = honest.endorsements.certificates
    for position, name in enumerate(("leaf", "intermediate", "root")):
        der = chain[position].der
        for offset in range(len(der)):
            altered = flipped(der, 8 * offset + offset % 8)
            try:
                certificate = parse_certificate(altered)
            except EvidenceError:
                continue  # not a certificate any more, so it is missing from the chain
            others = tuple(c for i, c in enumerate(chain) if i != position)
            pool = Endorsements(certificates=(certificate, *others), crls=honest.endorsements.crls)
            assert _is_refused(honest, pool), f"{name} with byte {offset} changed was accepted"


def _is_refused(honest: Scene, pool: Endorsements) -> bool:
    try:
        honest.verify(endorsements=pool)
    except AttestError:
        return True
    return False


def test_a_crl_with_any_byte_changed_counts_for_nothing() -> None:
    honest = scene()
    der = honest.endorsements.crls[0].der
    for offset in range(len(der)):
        try:
            crl = parse_crl(flipped(der, 8 * offset + offset % 8))
        except EvidenceError:
            continue
        pool = Endorsements(certificates=honest.endorsements.certificates, crls=(crl,))
        with pytest.raises(AttestError):
            honest.verify(endorsements=pool)


def test_each_required_certificate_removed_in_turn_is_missed() -> None:
    honest = scene()
    for certificate in honest.endorsements.certificates:
        with pytest.raises(AttestError) as outcome:
            honest.verify(endorsements=honest.without(certificate.common_name or ""))
        assert outcome.value.exit_code == 5


def test_report_data_expected_with_any_bit_changed_is_a_mismatch() -> None:
    honest = scene()
    data = bytes(range(64))
    evidence = report_evidence(honest.guest.report(data))
    for bit in range(512):
        with pytest.raises(AttestError) as outcome:
            verify(
                evidence,
                endorsements=honest.endorsements,
                anchors=TrustAnchors.simulation(),
                at=AT,
                expected=ExpectedFreshness(report_data=flipped(data, bit)),
            )
        assert outcome.value.code == "report-data-mismatch"
