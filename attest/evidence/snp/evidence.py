"""SEV-SNP evidence: one report, and the certificates that came with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from attest.encoding import base64url_bytes, json_value
from attest.endorsements.x509 import Certificate, Crl, parse_certificate, parse_crl
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.envelope import MEDIA_CONFIGFS_TSM, MEDIA_SNP_EXTENDED, MEDIA_SNP_REPORT
from attest.evidence.snp.certificate_table import TableEntry, parse_certificate_table
from attest.evidence.snp.structure import REPORT_BYTES, ParsedSnpReport, parse_report

SHORTEST_TABLE_BYTES = 24
"""The all-zero entry that ends every table."""

_LEAVES = ("VCEK", "VLEK")


class ParsedSnpEvidence(NamedTuple):
    """A report with what the Attester presented beside it. Nothing of it is trusted yet.

    Attributes:
        leaves: DER of the certificates presented as VCEK or VLEK; one that cannot be read refuses.
        issuers: other certificates that could be read.
        crls: revocation lists that could be read.
        skipped: accompanying pieces that could not be read, for ``--verbose``.
    """

    report: ParsedSnpReport
    leaves: tuple[bytes, ...] = ()
    issuers: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    skipped: tuple[str, ...] = ()


def parse_snp_evidence(data: bytes) -> ParsedSnpEvidence:
    """Read a raw report, or an extended report: the report followed by its certificate table.

    Raises:
        EvidenceError: as ``parse_report`` and ``parse_certificate_table``.
    """
    if len(data) < REPORT_BYTES + SHORTEST_TABLE_BYTES:  # a few bytes more than a report are no table but a defect
        return ParsedSnpEvidence(report=parse_report(data))
    report = parse_report(data[:REPORT_BYTES])
    return _with_table(report, parse_certificate_table(data[REPORT_BYTES:]))


def parse_configfs_tsm(data: bytes) -> ParsedSnpEvidence:
    """Read the output of configfs-tsm, as JSON with base64url members ``provider``, ``outblob`` and ``auxblob``.

    Raises:
        EvidenceError: ``configfs-tsm-invalid``, ``json-invalid``, ``base64-invalid``, or as ``parse_snp_evidence``.
        UnsupportedError: ``evidence-unsupported``, another provider than ``sev_guest``.
    """
    document = json_value(data, what="configfs-tsm evidence")
    members = document if isinstance(document, dict) else {}
    texts = {name: value for name, value in members.items() if isinstance(value, str)}
    if not {"provider", "outblob"} <= set(texts) <= {"provider", "outblob", "auxblob"} or len(texts) != len(members):
        raise EvidenceError(
            "configfs-tsm evidence has the texts provider, outblob and perhaps auxblob, and nothing else",
            code="configfs-tsm-invalid",
        )
    if texts["provider"] != "sev_guest":
        raise UnsupportedError(
            f"configfs-tsm provider {texts['provider'][:40]!r} is not verified by this version",
            code="evidence-unsupported",
            expected="sev_guest",
        )
    report = parse_report(base64url_bytes(texts["outblob"], what="outblob"))
    return _with_table(report, parse_certificate_table(base64url_bytes(texts.get("auxblob", ""), what="auxblob")))


def _with_table(report: ParsedSnpReport, entries: tuple[TableEntry, ...]) -> ParsedSnpEvidence:
    """Put a report and the entries of its certificate table together."""
    issuers: list[Certificate] = []
    crls: list[Crl] = []
    skipped: list[str] = []
    for entry in entries:
        try:
            if entry.kind in ("ASK", "ARK"):
                issuers.append(parse_certificate(entry.data))
            elif entry.kind == "CRL":
                crls.append(parse_crl(entry.data))
        except EvidenceError as exc:
            skipped.append(f"{entry.kind} of the certificate table: {exc.message}")
    return ParsedSnpEvidence(
        report=report,
        leaves=tuple(entry.data for entry in entries if entry.kind in _LEAVES),
        issuers=tuple(issuers),
        crls=tuple(crls),
        skipped=tuple(skipped),
    )


SNP_PARSERS: Mapping[str, Callable[[bytes], ParsedSnpEvidence]] = {
    MEDIA_SNP_REPORT: parse_snp_evidence,
    MEDIA_SNP_EXTENDED: parse_snp_evidence,
    MEDIA_CONFIGFS_TSM: parse_configfs_tsm,
}
"""Parsers of an item of evidence by its media type; any other type is not SEV-SNP evidence."""
