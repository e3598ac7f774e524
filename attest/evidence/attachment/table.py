"""The table of attachments by media type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attest.errors import EvidenceError
from attest.evidence.attachment.certificate import ATTESTED_CERTIFICATE
from attest.evidence.attachment.committed_data import COMMITTED_DATA
from attest.evidence.attachment.record import AttachmentFormat, ParsedAttachment, require_attested
from attest.evidence.attachment.uvm_endorsement import UVM_ENDORSEMENT
from attest.evidence.envelope import (
    MEDIA_ATTESTED_CERTIFICATE,
    MEDIA_COMMITTED_DATA,
    MEDIA_UVM_ENDORSEMENT,
    EvidenceItem,
)

ATTACHMENTS: Mapping[str, AttachmentFormat] = {
    MEDIA_ATTESTED_CERTIFICATE: ATTESTED_CERTIFICATE,
    MEDIA_COMMITTED_DATA: COMMITTED_DATA,
    MEDIA_UVM_ENDORSEMENT: UVM_ENDORSEMENT,
}
"""Formats of attachments by media type, in lower case and without parameters."""


def read_attachments(items: Iterable[EvidenceItem], kind: str | None) -> tuple[ParsedAttachment, ...]:
    """Read the attachments among items of evidence of this kind; None is evidence without a CPU report.

    Raises:
        EvidenceError: ``evidence-ambiguous``, two of one type, or as the format's parser.
        UnsupportedError: ``attachment-without-report-data``.
    """
    found: dict[str, ParsedAttachment] = {}
    for item in items:
        format_ = ATTACHMENTS.get(item.essence)
        if format_ is None:
            continue
        require_attested(kind, format_.name)
        if format_.name in found:
            raise EvidenceError(
                f"the evidence carries two items of the kind {format_.name}",
                code="evidence-ambiguous",
                field=item.name,
            )
        found[format_.name] = ParsedAttachment(format_, format_.parse(item.value))
    return tuple(found.values())
