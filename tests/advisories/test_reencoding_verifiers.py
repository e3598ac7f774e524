"""virtee/sev: a report that is decoded and encoded again before hashing hides changes in reserved bytes.

The signature is checked over the bytes as received, and reserved bytes must be zero in any case.
"""

import pytest

from attest.errors import EvidenceError, SignatureError
from attest.evidence.snp.evidence import ParsedSnpEvidence, parse_snp_evidence
from tests.samples import scene

HONEST = scene()


def test_a_changed_reserved_byte_is_refused_when_it_is_read() -> None:
    altered = bytearray(HONEST.report)
    altered[0x4C] = 1
    with pytest.raises(EvidenceError) as outcome:
        parse_snp_evidence(bytes(altered))
    assert outcome.value.code == "reserved-not-zero"


def test_a_parsed_report_whose_bytes_were_changed_does_not_verify() -> None:
    """Should a parser ever let one pass: the fields are right, the bytes are not."""
    report = parse_snp_evidence(HONEST.report).report
    altered = bytearray(report.raw)
    altered[0x4C] = 1
    with pytest.raises(SignatureError):
        HONEST.verify(ParsedSnpEvidence(report=report._replace(raw=bytes(altered))))
