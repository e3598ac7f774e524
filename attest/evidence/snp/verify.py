"""Is this report genuine: made by AMD hardware, whole, current, unrevoked? Checks S01 to S13 of specs/sev-snp.md.

``PROCEDURE`` is the numbered procedure. Each step either lets the report pass or raises; the same table renders
the list of checks, afterwards and only when somebody asks. Steps whose refusal would be a missing endorsement
(exit 5) come last, so that a report that is plainly false is called false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import rfc3339_text
from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.chains import require_current_crl, require_valid
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import load_public_key
from attest.endorsements.x509 import Certificate, Crl, Issuer
from attest.errors import (
    AttestError,
    BindingError,
    ChainError,
    EndorsementError,
    EvidenceError,
    SignatureError,
    VerificationError,
)
from attest.evidence.snp.certificates import SnpLeaf
from attest.evidence.snp.chain import find_issuer, find_root, require_anchor_valid
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.leaves import LEAF_KINDS, candidates, no_leaf, signing_kind
from attest.evidence.snp.structure import ParsedSnpReport
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion, tcb_from_bytes

__all__ = ["PROCEDURE", "VerifiedSnpReport", "verify_snp_evidence"]

_COORDINATE_BYTES = 48
_ECDSA = ec.ECDSA(hashes.SHA384())


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSnpReport:
    """A report that AMD hardware signed, with everything that vouches for it. Built by ``verify_snp_evidence`` only.

    Attributes:
        report: the report; its fields may be relied on.
        leaf: the VCEK or VLEK.
        intermediate: ASK or ASVK.
        anchor: the pinned root that the chain reaches.
        crl: the current revocation list, or None when revocation was left unchecked and none was at hand.
        at: the moment for which all this holds.
        unchecked: the relaxations that this verification made use of.
    """

    report: ParsedSnpReport
    product: SnpProduct
    reported_tcb: SnpTcbVersion
    current_tcb: SnpTcbVersion
    committed_tcb: SnpTcbVersion
    launch_tcb: SnpTcbVersion
    leaf: SnpLeaf
    intermediate: Certificate
    anchor: Anchor
    crl: Crl | None
    at: datetime
    unchecked: tuple[Unchecked, ...]

    @property
    def simulated(self) -> bool:
        """Whether all this rests on the simulator's root and says nothing about hardware."""
        return self.anchor.simulated

    @property
    def provisional_firmware(self) -> bool:
        """Whether the firmware can still be rolled back: committed and current TCB or version differ."""
        report = self.report
        committed = (report.committed_major, report.committed_minor, report.committed_build)
        current = (report.current_major, report.current_minor, report.current_build)
        return self.committed_tcb != self.current_tcb or committed != current

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure with what it demanded and what it found."""
        return tuple(_render(self, None))


def verify_snp_evidence(
    evidence: ParsedSnpEvidence,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
) -> VerifiedSnpReport:
    """Check that AMD hardware signed this report and that its certificates speak for it.

    Args:
        evidence: a report and the certificates that came with it; nothing of it is trusted yet.
        endorsements: certificates and CRLs from elsewhere; not trusted either.
        anchors: the AMD root keys that the Verifier Owner accepts; an empty set accepts nothing.
        at: moment of appraisal, aware; certificate bounds are inclusive, a CRL's nextUpdate is exclusive.
        unchecked: ``revocation`` tolerates that no current CRL is at hand, nothing else matters here.

    Raises:
        SignatureError: P-384 / SHA-384 over bytes 0x000 to 0x29F does not verify, or nobody signed.
        ChainError: no path to an anchor, or a certificate does not fit the report, its place or the moment.
        RevokedError: a genuine CRL of the root lists the intermediate.
        BindingError: REPORTED_TCB or CHIP_ID is not what the certificate carries, or the TCBs contradict each other.
        EndorsementError: VCEK or VLEK, intermediate, root or CRL is missing, or the CRL is not current.

    Spec: AMD 56860 (report), AMD 57230 (VCEK), AMD 58369 (VLEK); specs/sev-snp.md, section 19.
    """
    kind = signing_kind(evidence.report)
    pool = endorsements.with_certificates(evidence.issuers)
    crls = (*evidence.crls, *endorsements.crls)
    best: AttestError | None = None
    for leaf in candidates(evidence, kind, pool, at):
        attempt = _Attempt(evidence.report, leaf, pool=pool, crls=crls, anchors=anchors, at=at, unchecked=unchecked)
        try:
            return attempt.run()
        except (VerificationError, EndorsementError) as exc:
            best = best or exc
    raise best or no_leaf(evidence, kind, pool)


class _Attempt:
    """One report with one candidate leaf, filled in step by step."""

    def __init__(
        self,
        report: ParsedSnpReport,
        leaf: SnpLeaf | AttestError,
        *,
        pool: Endorsements,
        crls: tuple[Crl, ...],
        anchors: TrustAnchors,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
    ) -> None:
        self.report = report
        self.candidate = leaf
        self.pool = pool
        self.crls = crls
        self.anchors = anchors
        self.at = at
        self.may_skip_revocation = tuple(u for u in unchecked if u.check == "revocation")
        self.unchecked: tuple[Unchecked, ...] = ()
        self.crl: Crl | None = None
        self.leaf: SnpLeaf
        self.product: SnpProduct
        self.reported_tcb: SnpTcbVersion
        self.current_tcb: SnpTcbVersion
        self.committed_tcb: SnpTcbVersion
        self.launch_tcb: SnpTcbVersion
        self.intermediate: Certificate
        self.anchor: Anchor
        self.root: Issuer

    def run(self) -> VerifiedSnpReport:
        """Take every step, or raise the refusal of the first that fails, with all checks up to it."""
        for step in PROCEDURE:
            try:
                step.run(self)
            except AttestError as exc:
                exc.check, exc.clause = step.id, exc.clause or step.clause
                exc.checks = tuple(_render(self, exc))
                raise
        return VerifiedSnpReport(
            report=self.report,
            product=self.product,
            reported_tcb=self.reported_tcb,
            current_tcb=self.current_tcb,
            committed_tcb=self.committed_tcb,
            launch_tcb=self.launch_tcb,
            leaf=self.leaf,
            intermediate=self.intermediate,
            anchor=self.anchor,
            crl=self.crl,
            at=self.at,
            unchecked=self.unchecked,
        )


# -- the steps


def _leaf(attempt: _Attempt) -> None:
    if isinstance(attempt.candidate, AttestError):
        raise attempt.candidate
    attempt.leaf = attempt.candidate


def _product(attempt: _Attempt) -> None:
    report, product = attempt.report, attempt.leaf.product
    if report.product is not None and report.product is not product:
        raise ChainError(
            f"the report is of {report.product} by its CPUID and the certificate of {product}",
            code="snp-product-mismatch",
            field="CPUID_FAM_ID",
            offset=0x188,
            expected=str(product),
            got=str(report.product),
        )
    attempt.product = product
    try:
        attempt.reported_tcb = tcb_from_bytes(report.reported_tcb, product, field="REPORTED_TCB")
        attempt.current_tcb = tcb_from_bytes(report.current_tcb, product, field="CURRENT_TCB")
        attempt.committed_tcb = tcb_from_bytes(report.committed_tcb, product, field="COMMITTED_TCB")
        attempt.launch_tcb = tcb_from_bytes(report.launch_tcb, product, field="LAUNCH_TCB")
    except EvidenceError as exc:  # version 2 only: the other versions were read with this layout before
        raise ChainError(
            f"the report's TCBs do not have the layout of {product}, which the certificate is for",
            code="snp-product-mismatch",
            field=exc.field,
            expected=f"TCB_VERSION of {product}",
            got=exc.got,
        ) from exc


def _tcb(attempt: _Attempt) -> None:
    if attempt.leaf.tcb != attempt.reported_tcb:
        raise BindingError(
            f"the certificate is for TCB {attempt.leaf.tcb}, the report says {attempt.reported_tcb} "
            "(REPORTED_TCB, offset 0x180)",
            code="snp-tcb-mismatch",
            field="REPORTED_TCB",
            offset=0x180,
            expected=str(attempt.leaf.tcb),
            got=str(attempt.reported_tcb),
        )


def _chip_id(attempt: _Attempt) -> None:
    hwid, chip_id = attempt.leaf.hwid, attempt.report.chip_id
    if hwid is None or not any(chip_id):
        return  # nothing to compare: the check says so, and appraisal judges a masked CHIP_ID
    if chip_id != hwid.ljust(len(chip_id), b"\0"):
        raise BindingError(
            "the certificate belongs to another chip than the report (CHIP_ID, offset 0x1a0)",
            code="snp-chip-id-mismatch",
            field="CHIP_ID",
            offset=0x1A0,
            expected=hwid.hex(),
            got=chip_id.hex(),
        )


def _signature(attempt: _Attempt) -> None:
    report = attempt.report
    r, s = report.signature_r, report.signature_s
    key = load_public_key(attempt.leaf.certificate.spki)
    try:
        if any(r[_COORDINATE_BYTES:]) or any(s[_COORDINATE_BYTES:]):
            raise InvalidSignature  # noqa: TRY301  longer numbers than the curve has: the same refusal
        signature = encode_dss_signature(int.from_bytes(r, "little"), int.from_bytes(s, "little"))
        key.verify(signature, report.signed_bytes, _ECDSA)  # type: ignore[call-arg,arg-type]  # read_leaf: P-384
    except InvalidSignature as exc:
        raise SignatureError(
            "the report's signature does not verify with the key of its certificate",
            code="snp-signature-invalid",
            field="SIGNATURE",
            offset=0x2A0,
            expected=f"ECDSA P-384 with SHA-384 by {attempt.leaf.certificate.name} over bytes 0x000 to 0x29f",
            got="a signature that does not verify",
        ) from exc


def _tcb_order(attempt: _Attempt) -> None:
    for name, tcb in (("REPORTED_TCB", attempt.reported_tcb), ("COMMITTED_TCB", attempt.committed_tcb)):
        if not attempt.current_tcb.covers(tcb):
            raise BindingError(
                f"{name} {tcb} is above CURRENT_TCB {attempt.current_tcb}",
                code="snp-tcb-inconsistent",
                field=name,
                expected=f"no component above {attempt.current_tcb}",
                got=str(tcb),
            )


def _leaf_validity(attempt: _Attempt) -> None:
    require_valid(attempt.leaf.certificate, at=attempt.at)


def _chain(attempt: _Attempt) -> None:
    attempt.intermediate = find_issuer(attempt.leaf.certificate, attempt.pool.named(attempt.leaf.certificate.issuer))


def _root(attempt: _Attempt) -> None:
    attempt.anchor, attempt.root = find_root(
        attempt.intermediate, product=attempt.product, pool=attempt.pool, anchors=attempt.anchors, at=attempt.at
    )


def _chain_validity(attempt: _Attempt) -> None:
    require_valid(attempt.intermediate, at=attempt.at)
    require_anchor_valid(attempt.anchor, at=attempt.at)


def _revocation(attempt: _Attempt) -> None:
    """Only intermediates can be revoked by number: every VCEK and VLEK has serial 0."""
    try:
        attempt.crl = require_current_crl(
            attempt.crls, attempt.root, serials=(attempt.intermediate.serial,), at=attempt.at
        )
    except EndorsementError:
        if not attempt.may_skip_revocation:
            raise
        attempt.unchecked = attempt.may_skip_revocation


# -- the numbered procedure, and how each step is told

_State = _Attempt | VerifiedSnpReport
_Told = tuple[str, str] | tuple[str, str, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One check: its id, its clause, what it does, and how its success is told."""

    id: str
    clause: str
    run: Callable[[_Attempt], None]
    tell: Callable[[_State], _Told]


def _tell_chip_id(state: _State) -> _Told:
    if state.leaf.hwid is None:
        return "HWID of a VCEK", "a VLEK has none", Outcome.NOT_EVALUATED
    if not any(state.report.chip_id):
        return state.leaf.hwid.hex(), "CHIP_ID is masked (all zero)", Outcome.NOT_EVALUATED
    return state.leaf.hwid.hex(), state.report.chip_id.hex()


def _tell_revocation(state: _State) -> _Told:
    if state.crl is None:
        reason = "; ".join(u.reason for u in state.unchecked)
        return f"a current CRL of {state.anchor.name}", f"unchecked: {reason}", Outcome.NOT_EVALUATED
    crl = state.crl
    return (
        f"serial {state.intermediate.serial} not listed by {state.anchor.name}",
        f"not listed, CRL of {rfc3339_text(crl.this_update)} to {rfc3339_text(crl.next_update)}",
    )


def _dates(certificate: Certificate) -> str:
    return f"{certificate.name}: {rfc3339_text(certificate.not_before)} to {rfc3339_text(certificate.not_after)}"


PROCEDURE: tuple[Step, ...] = (
    Step(
        id="snp.leaf",
        clause="AMD 57230, extensions; sev-snp.md S03, S04",
        run=_leaf,
        tell=lambda s: (f"a {LEAF_KINDS[s.report.signing_key].upper()} with AMD's extensions", s.leaf.product_name),
    ),
    Step(
        id="snp.product",
        clause="sev-snp.md S09",
        run=_product,
        tell=lambda s: (str(s.product), f"CPUID: {s.report.product or 'not in version 2'}"),
    ),
    Step(
        id="snp.tcb",
        clause="AMD 57230, SPL extensions; sev-snp.md S11",
        run=_tcb,
        tell=lambda s: (str(s.leaf.tcb), str(s.reported_tcb)),
    ),
    Step(id="snp.chip_id", clause="AMD 57230, HWID; sev-snp.md S12", run=_chip_id, tell=_tell_chip_id),
    Step(
        id="snp.signature",
        clause="AMD 56860, SIGNATURE; sev-snp.md S10",
        run=_signature,
        tell=lambda s: (
            "ECDSA P-384 with SHA-384 over bytes 0x000 to 0x29f",
            f"verifies with {s.leaf.certificate.name}",
        ),
    ),
    Step(
        id="snp.tcb_order",
        clause="sev-snp.md S13",
        run=_tcb_order,
        tell=lambda s: (
            f"REPORTED_TCB and COMMITTED_TCB at most {s.current_tcb}",
            f"reported {s.reported_tcb}; committed {s.committed_tcb}",
        ),
    ),
    Step(
        id="snp.leaf_validity",
        clause="RFC 5280, 4.1.2.5; sev-snp.md S07",
        run=_leaf_validity,
        tell=lambda s: (rfc3339_text(s.at), _dates(s.leaf.certificate)),
    ),
    Step(
        id="snp.chain",
        clause="AMD 57230; sev-snp.md S06",
        run=_chain,
        tell=lambda s: (
            f"issued by {s.leaf.certificate.issuer_common_name}",
            f"signature of {s.intermediate.name} verifies",
        ),
    ),
    Step(
        id="snp.root",
        clause="sev-snp.md S05, S06, S09",
        run=_root,
        tell=lambda s: (f"a pinned root of {s.product}", f"{s.anchor.name}, key {s.anchor.spki_sha256.hex()}"),
    ),
    Step(
        id="snp.chain_validity",
        clause="RFC 5280, 4.1.2.5; sev-snp.md S07",
        run=_chain_validity,
        tell=lambda s: (rfc3339_text(s.at), _dates(s.intermediate)),
    ),
    Step(
        id="snp.revocation",
        clause="RFC 5280, 6.3; sev-snp.md S08",
        run=_revocation,
        tell=_tell_revocation,
    ),
)
"""What ``verify_snp_evidence`` does, in order. Nothing of a report is used before the last step has passed."""


def _render(state: _State, failure: AttestError | None) -> Iterator[Check]:
    """Tell the steps: all of them passed, or those before the failed one did and the rest were not reached."""
    report = state.report
    yield Check(
        id="snp.format",
        outcome=Outcome.PASS,
        expected="1184 bytes of a known version, reserved bytes zero",
        got=f"version {report.version}",
        clause="AMD 56860, ATTESTATION_REPORT; sev-snp.md S01",
    )
    yield Check(
        id="snp.signing_key",
        outcome=Outcome.PASS,
        expected="SIGNING_KEY 0 (VCEK) or 1 (VLEK), MASK_CHIP_KEY 0",
        got=f"KEY_INFO {report.key_info:#x}",
        clause="AMD 56860, KEY_INFO; sev-snp.md S02",
    )
    reached = True
    for step in PROCEDURE:
        if failure is not None and failure.check == step.id:
            reached = False
            yield Check(
                id=step.id,
                outcome=Outcome.FAIL,
                expected=failure.expected or "",
                got=failure.got or failure.message,
                clause=step.clause,
            )
        elif reached:
            expected, got, *outcome = step.tell(state)
            told = outcome[0] if outcome else Outcome.PASS
            yield Check(id=step.id, outcome=told, expected=expected, got=got, clause=step.clause)
        else:
            missing = "an earlier check failed"
            yield Check(id=step.id, outcome=Outcome.NOT_EVALUATED, expected="", got=missing, clause=step.clause)
