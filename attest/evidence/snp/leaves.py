"""Candidates for the signing certificate of a report: of the kind that it names, the best fitting first."""

from __future__ import annotations

from datetime import datetime

from attest.checks import Check, Outcome
from attest.endorsements.candidates import MAX_CANDIDATES
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, parse_certificate
from attest.errors import AttestError, ChainError, EndorsementError, EvidenceError, SignatureError
from attest.evidence.snp.certificates import LeafKind, SnpLeaf, read_leaf
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.structure import ParsedSnpReport

LEAF_KINDS = {0: LeafKind.VCEK, 1: LeafKind.VLEK}
"""Values of SIGNING_KEY that have a certificate."""


def signing_kind(report: ParsedSnpReport) -> LeafKind:
    """S02: the firmware signed, and with a key that has a certificate."""
    kind = LEAF_KINDS.get(report.signing_key)
    if kind is None or report.mask_chip_key:
        got = f"SIGNING_KEY {report.signing_key}, MASK_CHIP_KEY {int(report.mask_chip_key)}"
        raise _alone(
            SignatureError(
                f"the firmware did not sign this report: KEY_INFO says {got} (offset 0x048)",
                code="snp-report-unsigned",
                check="snp.signing_key",
                field="KEY_INFO",
                offset=0x048,
                expected="SIGNING_KEY 0 (VCEK) or 1 (VLEK), MASK_CHIP_KEY 0",
                got=got,
                clause="AMD 56860, KEY_INFO",
                hint="the host must not mask the chip key (SNP_CONFIG)",
            )
        )
    return kind


def candidates(
    evidence: ParsedSnpEvidence, kind: LeafKind, pool: Endorsements, at: datetime
) -> list[SnpLeaf | AttestError]:
    """Return leaves of the kind that SIGNING_KEY names, those first whose HWID, SPLs and dates fit.

    The refusals of unreadable ones come last.
    """
    presented: tuple[bytes | Certificate, ...] = (*evidence.leaves, *pool.with_common_name(kind.common_name))
    found = [_read(leaf) for leaf in presented]
    readable = [leaf for leaf in found if isinstance(leaf, SnpLeaf) and leaf.kind is kind]
    if len(readable) > 1:
        readable.sort(key=lambda leaf: _misfit(evidence.report, leaf, at))
    refused = [error for error in found if isinstance(error, AttestError)]
    ordered: list[SnpLeaf | AttestError] = [*readable, *refused]
    return ordered[:MAX_CANDIDATES]


def _read(leaf: bytes | Certificate) -> SnpLeaf | AttestError:
    try:
        return read_leaf(parse_certificate(leaf) if isinstance(leaf, bytes) else leaf)
    except (EvidenceError, ChainError) as exc:
        return ChainError(exc.message, code=exc.code, expected=exc.expected, got=exc.got, field=exc.field)


def _misfit(report: ParsedSnpReport, leaf: SnpLeaf, at: datetime) -> int:
    """Return the misfit of a leaf, judged without any signature; it decides only the order of the attempts."""
    chip = leaf.hwid is not None and report.chip_id[: len(leaf.hwid)] != leaf.hwid
    tcb = leaf.tcb.to_bytes() != report.reported_tcb
    dates = not leaf.certificate.not_before <= at <= leaf.certificate.not_after
    return 8 * chip + 4 * tcb + 2 * dates + bool(leaf.spares)


def no_leaf(evidence: ParsedSnpEvidence, kind: LeafKind, pool: Endorsements) -> AttestError:
    """S03 and S04: only leaves of the other kind are available, or none at all."""
    other = LeafKind.VLEK if kind is LeafKind.VCEK else LeafKind.VCEK
    if evidence.leaves or pool.with_common_name(other.common_name):
        error: AttestError = ChainError(
            f"KEY_INFO names a {kind.upper()} as the signer and the certificate is a {other.upper()}",
            code="snp-signer-kind-mismatch",
            check="snp.leaf",
            field="KEY_INFO",
            offset=0x048,
            expected=kind.common_name,
            got=other.common_name,
            clause="AMD 57230, extensions",
        )
    else:
        error = EndorsementError(
            f"no {kind.upper()} certificate for this report is available",
            code="snp-leaf-missing",
            check="snp.leaf",
            expected=f"a {kind.common_name} certificate",
            got="none",
            clause="AMD 57230, certificates",
            hint="give it with --endorsements PATH, or fetch it with 'attest endorsements fetch'",
            retryable=True,
        )
    return _alone(error)


def _alone(error: AttestError) -> AttestError:
    """Give a refusal its check: no procedure has begun that could list others."""
    expected, got, clause = error.expected or "", error.got or "", error.clause or ""
    error.checks = (Check(id=error.check or "", outcome=Outcome.FAIL, expected=expected, got=got, clause=clause),)
    return error
