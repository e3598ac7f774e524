"""Trustee's sample evidence: a JSON object that any program can write.

Spec: specs/kbs-protocol.md, section 10.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from attest.encoding import json_value
from attest.evidence.freshness import REPORT_DATA_BYTES
from attest.evidence.json_form import JsonForm

MAX_SVN_CHARACTERS = 64
CLAUSE = "Confidential Containers, sample attester"
_FORM = JsonForm(code="sample-malformed", clause=CLAUSE, check="sample.format")
_MEMBERS = frozenset({"svn", "report_data"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSample:
    """Sample evidence of a CPU or of a device.

    Attributes:
        report_data: the stated bytes, at most 64; empty when the member is absent.
    """

    svn: str
    report_data: bytes

    @property
    def padded_report_data(self) -> bytes:
        """The stated bytes with zeros up to 64; nothing when none are stated, which equals no report data."""
        return self.report_data.ljust(REPORT_DATA_BYTES, b"\0") if self.report_data else b""


def parse_sample(data: bytes) -> ParsedSample:
    """Read sample evidence.

    Raises:
        EvidenceError: ``sample-malformed``, ``json-invalid`` or ``base64-invalid``.
    """
    document = _FORM.object_of(json_value(data, what="sample evidence"), "sample", members=_MEMBERS)
    svn = _FORM.text_of(document.get("svn"), "sample.svn")
    if not 0 < len(svn) <= MAX_SVN_CHARACTERS or not svn.isprintable():
        raise _FORM.malformed("sample.svn", f"1 to {MAX_SVN_CHARACTERS} printable characters", f"{len(svn)}")
    report_data = b""
    if "report_data" in document:
        report_data = _FORM.base64_of(document["report_data"], "sample.report_data")
    if len(report_data) > REPORT_DATA_BYTES:
        expected = f"at most {REPORT_DATA_BYTES} bytes"
        raise _FORM.malformed("sample.report_data", expected, f"{len(report_data)} bytes")
    return ParsedSample(svn=svn, report_data=report_data)
