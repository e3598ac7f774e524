"""Verification of SEV-SNP reports: genuine, whole, current, unrevoked. Checks S01 to S13 of specs/sev-snp.md.

``SnpSteps`` is the clause list, and ``_verify_with`` the procedure that takes its steps in order. Steps whose refusal
would be a missing endorsement (exit 5) come last, so that a report that is plainly false is called false.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.checks import Check, Outcome, Unchecked
from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.chains import require_anchor_valid, require_current_crl, require_valid
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
from attest.evidence.procedure import Fact, Findings, Procedure, Step, reasons, tolerated
from attest.evidence.snp.certificates import SnpLeaf
from attest.evidence.snp.chain import find_issuer, find_root
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.leaves import candidates, no_leaf, signing_kind
from attest.evidence.snp.structure import ParsedSnpReport
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion, tcb_from_bytes
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, AcceptedValue, DeviceTolerances, require_named

_COORDINATE_BYTES = 48
_ECDSA = ec.ECDSA(hashes.SHA384())


class SnpSteps(NamedTuple):
    """Every check of a report, in order. Nothing of the report is used before the last one has passed."""

    format: Step = Step("snp.format", "AMD 56860, ATTESTATION_REPORT")
    signing_key: Step = Step("snp.signing_key", "AMD 56860, KEY_INFO")
    leaf: Step = Step("snp.leaf", "AMD 57230, extensions")
    product: Step = Step("snp.product", "AMD 56860, CPUID_FAM_ID; AMD 57230, product name")
    tcb: Step = Step("snp.tcb", "AMD 57230, SPL extensions")
    chip_id: Step = Step("snp.chip_id", "AMD 57230, HWID")
    signature: Step = Step("snp.signature", "AMD 56860, SIGNATURE")
    tcb_order: Step = Step("snp.tcb_order", "AMD 56860, COMMITTED_TCB")
    leaf_validity: Step = Step("snp.leaf_validity", "RFC 5280, 4.1.2.5")
    chain: Step = Step("snp.chain", "AMD 57230")
    root: Step = Step("snp.root", "AMD 57230, ARK and ASK")
    chain_validity: Step = Step("snp.chain_validity", "RFC 5280, 4.1.2.5")
    revocation: Step = Step("snp.revocation", "RFC 5280, 6.3")


_STEPS = SnpSteps()


class VerifiedSnpReport(NamedTuple):
    """A report that AMD hardware signed, with everything that authenticates it. Built by ``verify_snp_evidence`` only.

    Attributes:
        report: the report; its fields may be relied on.
        intermediate: ASK or ASVK.
        anchor: the pinned root that the chain reaches.
        crl: the current revocation list, or None when revocation was left unchecked and none was available.
        unchecked: the relaxations that this verification made use of.
        accepted: levels in the certificate that are not understood, and were accepted by name.
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
    accepted: tuple[AcceptedValue, ...]
    findings: Findings

    @property
    def simulated(self) -> bool:
        """True for a report under the simulator's root, which proves nothing about hardware."""
        return self.anchor.simulated

    @property
    def provisional_firmware(self) -> bool:
        """True if the firmware can still be rolled back: committed and current TCB or version differ."""
        report = self.report
        committed = (report.committed_major, report.committed_minor, report.committed_build)
        current = (report.current_major, report.current_minor, report.current_build)
        return self.committed_tcb != self.current_tcb or committed != current

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure with what it demanded and what it found."""
        return self.findings.checks


def verify_snp_evidence(
    evidence: ParsedSnpEvidence,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
    tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES,
) -> VerifiedSnpReport:
    """Verify that AMD hardware signed this report, and the chain of its certificates.

    Args:
        evidence: a report and the certificates that came with it; nothing of it is trusted yet.
        endorsements: certificates and CRLs from elsewhere; not trusted either.
        anchors: the AMD root keys that the Verifier Owner accepts; an empty set accepts nothing.
        at: moment of appraisal, aware; certificate bounds are inclusive, a CRL's nextUpdate is exclusive.
        unchecked: ``revocation`` tolerates that no current CRL is available, nothing else matters here.
        tolerances: levels in the certificate that need not be understood.

    Raises:
        SignatureError: P-384 / SHA-384 over bytes 0x000 to 0x29F does not verify, or the report is unsigned.
        ChainError: no path to an anchor, or a certificate does not fit the report, its place or the moment.
        RevokedError: a genuine CRL of the root lists the intermediate.
        BindingError: REPORTED_TCB or CHIP_ID is not what the certificate carries, or the TCBs contradict each other.
        EndorsementError: VCEK or VLEK, intermediate, root or CRL is missing, or the CRL is not current.

    Spec: AMD 56860 (report), AMD 57230 (VCEK), AMD 58369 (VLEK); specs/sev-snp.md, section 19.
    """
    kind = signing_kind(evidence.report)
    pool = endorsements.with_certificates(evidence.issuers)
    crls = (*evidence.crls, *endorsements.crls)
    verify_with = partial(
        _verify_with, pool=pool, crls=crls, anchors=anchors, at=at, unchecked=unchecked, spls=tolerances.spls
    )
    refusals: list[AttestError] = []
    for leaf in candidates(evidence, kind, pool, at):
        try:
            return verify_with(leaf, evidence.report)
        except (VerificationError, EndorsementError) as exc:
            refusals.append(exc)
    # Of several, the certificate that got furthest is the report's, and the others are of no account.
    raise max(refusals, key=_progress) if refusals else no_leaf(evidence, kind, pool)


def _progress(refusal: AttestError) -> int:
    """Return the number of the step that failed."""
    return [check.outcome for check in refusal.checks].index(Outcome.FAIL)


def _verify_with(
    candidate: SnpLeaf | AttestError,
    report: ParsedSnpReport,
    *,
    pool: Endorsements,
    crls: tuple[Crl, ...],
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...],
    spls: tuple[AcceptedValue, ...],
) -> VerifiedSnpReport:
    procedure = Procedure(_STEPS)
    leaf, accepted = _judge_leaf(procedure, report, candidate, spls)
    tcbs = _judge_report(procedure, report, leaf)
    with procedure.step(_STEPS.leaf_validity):
        require_valid(leaf.certificate, at=at)
        procedure.record(at, _dates(leaf.certificate))
    with procedure.step(_STEPS.chain):
        issuer_name = leaf.certificate.issuer_common_name
        rooted = partial(find_root, product=leaf.product, pool=pool, anchors=anchors, at=at)
        intermediate = find_issuer(
            leaf.certificate,
            pool.named(leaf.certificate.issuer),
            rooted,
            partial(require_valid, at=at),
            lambda each: _find_crl(crls, rooted(each)[1], each, at=at, unchecked=unchecked),
        )
        procedure.record(("issued by {}", issuer_name), ("signature of {} verifies", intermediate.name))
    with procedure.step(_STEPS.root):
        anchor, root = rooted(intermediate)
        procedure.record(("a pinned root of {}", leaf.product), ("{}, key {}", anchor.name, anchor.spki_sha256))
    with procedure.step(_STEPS.chain_validity):
        require_valid(intermediate, at=at)
        require_anchor_valid(anchor, at=at)
        procedure.record(at, _dates(intermediate))
    with procedure.step(_STEPS.revocation):
        # Only intermediates can be revoked by number: every VCEK and VLEK has serial 0.
        crl, used = _find_crl(crls, root, intermediate, at=at, unchecked=unchecked)
        _record_revocation(procedure, intermediate, anchor, crl, used)
    return VerifiedSnpReport(
        report=report,
        product=leaf.product,
        reported_tcb=tcbs.reported,
        current_tcb=tcbs.current,
        committed_tcb=tcbs.committed,
        launch_tcb=tcbs.launch,
        leaf=leaf,
        intermediate=intermediate,
        anchor=anchor,
        crl=crl,
        at=at,
        unchecked=used,
        accepted=accepted,
        findings=procedure.finish(),
    )


def _record_revocation(
    procedure: Procedure, intermediate: Certificate, anchor: Anchor, crl: Crl | None, used: tuple[Unchecked, ...]
) -> None:
    if crl is None:
        procedure.record(("a current CRL of {}", anchor.name), reasons(used), Outcome.NOT_EVALUATED)
    else:
        procedure.record(
            ("serial {} not listed by {}", intermediate.serial, anchor.name),
            ("not listed, CRL of {} to {}", crl.this_update, crl.next_update),
        )


def _judge_leaf(
    procedure: Procedure, report: ParsedSnpReport, candidate: SnpLeaf | AttestError, spls: tuple[AcceptedValue, ...]
) -> tuple[SnpLeaf, tuple[AcceptedValue, ...]]:
    """Take the steps before those that compare the report with the certificate of its key."""
    procedure.parsed(
        _STEPS.format, "1184 bytes of a known version, reserved bytes zero", ("version {}", report.version)
    )
    procedure.parsed(
        _STEPS.signing_key, "SIGNING_KEY 0 (VCEK) or 1 (VLEK), MASK_CHIP_KEY 0", ("KEY_INFO {:#x}", report.key_info)
    )
    with procedure.step(_STEPS.leaf):
        if isinstance(candidate, AttestError):
            raise candidate
        accepted = require_named(candidate.unknown_values, spls)
        expected: Fact = ("a {} with AMD's extensions", candidate.kind.upper())
        if accepted:
            got: Fact = ("{}; not understood, and accepted: {}", candidate.product_name, "; ".join(map(str, accepted)))
            procedure.record(expected, got, Outcome.WARNING)
        else:
            procedure.record(expected, candidate.product_name)
    return candidate, accepted


def _judge_report(procedure: Procedure, report: ParsedSnpReport, leaf: SnpLeaf) -> _Tcbs:
    """Take the steps that compare the report with the certificate of its key."""
    with procedure.step(_STEPS.product):
        _require_product(report, leaf.product)
        tcbs = _read_tcbs(report, leaf.product)
        procedure.record(leaf.product, ("CPUID: {}", report.product or "not in version 2"))
    with procedure.step(_STEPS.tcb):
        _require_tcb(leaf.tcb, tcbs.reported)
        procedure.record(leaf.tcb, tcbs.reported)
    with procedure.step(_STEPS.chip_id):
        if leaf.hwid is None:
            procedure.record("HWID of a VCEK", "a VLEK has none", Outcome.NOT_EVALUATED)
        elif not any(report.chip_id):  # appraisal judges a masked CHIP_ID
            procedure.record(leaf.hwid, "CHIP_ID is masked (all zero)", Outcome.NOT_EVALUATED)
        else:
            _require_chip_id(leaf.hwid, report.chip_id)
            procedure.record(leaf.hwid, report.chip_id)
    with procedure.step(_STEPS.signature):
        _require_signature(report, leaf.certificate)
        procedure.record(
            "ECDSA P-384 with SHA-384 over bytes 0x000 to 0x29f", ("verifies with {}", leaf.certificate.name)
        )
    with procedure.step(_STEPS.tcb_order):
        _require_tcb_order(tcbs)
        procedure.record(
            ("REPORTED_TCB and COMMITTED_TCB at most {}", tcbs.current),
            ("reported {}; committed {}", tcbs.reported, tcbs.committed),
        )
    return tcbs


# -- what the steps require


class _Tcbs(NamedTuple):
    reported: SnpTcbVersion
    current: SnpTcbVersion
    committed: SnpTcbVersion
    launch: SnpTcbVersion


def _require_product(report: ParsedSnpReport, product: SnpProduct) -> None:
    if report.product is not None and report.product is not product:
        raise ChainError(
            f"the report is of {report.product} by its CPUID and the certificate of {product}",
            code="snp-product-mismatch",
            field="CPUID_FAM_ID",
            offset=0x188,
            expected=str(product),
            got=str(report.product),
        )


def _read_tcbs(report: ParsedSnpReport, product: SnpProduct) -> _Tcbs:
    try:
        return _Tcbs(
            reported=tcb_from_bytes(report.reported_tcb, product, "REPORTED_TCB"),
            current=tcb_from_bytes(report.current_tcb, product, "CURRENT_TCB"),
            committed=tcb_from_bytes(report.committed_tcb, product, "COMMITTED_TCB"),
            launch=tcb_from_bytes(report.launch_tcb, product, "LAUNCH_TCB"),
        )
    except EvidenceError as exc:  # version 2 only: the other versions were read with this layout before
        raise ChainError(
            f"the report's TCBs do not have the layout of {product}, which the certificate is for",
            code="snp-product-mismatch",
            field=exc.field,
            expected=f"TCB_VERSION of {product}",
            got=exc.got,
        ) from exc


def _require_tcb(certified: SnpTcbVersion, reported: SnpTcbVersion) -> None:
    if certified != reported:
        raise BindingError(
            f"the certificate is for TCB {certified}, the report says {reported} (REPORTED_TCB, offset 0x180)",
            code="snp-tcb-mismatch",
            field="REPORTED_TCB",
            offset=0x180,
            expected=str(certified),
            got=str(reported),
        )


def _require_chip_id(hwid: bytes, chip_id: bytes) -> None:
    if chip_id != hwid.ljust(len(chip_id), b"\0"):
        raise BindingError(
            "the certificate belongs to another chip than the report (CHIP_ID, offset 0x1a0)",
            code="snp-chip-id-mismatch",
            field="CHIP_ID",
            offset=0x1A0,
            expected=hwid.hex(),
            got=chip_id.hex(),
        )


def _require_signature(report: ParsedSnpReport, certificate: Certificate) -> None:
    r, s = report.signature_r, report.signature_s
    key = load_public_key(certificate.spki)
    try:
        if r[_COORDINATE_BYTES:].strip(b"\0") or s[_COORDINATE_BYTES:].strip(b"\0"):
            raise InvalidSignature  # noqa: TRY301  longer numbers than the curve has: the same refusal
        signature = encode_dss_signature(int.from_bytes(r, "little"), int.from_bytes(s, "little"))
        key.verify(signature, report.signed_bytes, _ECDSA)  # type: ignore[call-arg,arg-type]  # read_leaf: P-384
    except InvalidSignature as exc:
        raise SignatureError(
            "the report's signature does not verify with the key of its certificate",
            code="snp-signature-invalid",
            field="SIGNATURE",
            offset=0x2A0,
            expected=f"ECDSA P-384 with SHA-384 by {certificate.name} over bytes 0x000 to 0x29f",
            got="a signature that does not verify",
        ) from exc


def _require_tcb_order(tcbs: _Tcbs) -> None:
    for name, tcb in (("REPORTED_TCB", tcbs.reported), ("COMMITTED_TCB", tcbs.committed)):
        if not tcbs.current.covers(tcb):
            raise BindingError(
                f"{name} {tcb} is above CURRENT_TCB {tcbs.current}",
                code="snp-tcb-inconsistent",
                field=name,
                expected=f"no component above {tcbs.current}",
                got=str(tcb),
            )


def _find_crl(
    crls: tuple[Crl, ...], root: Issuer, intermediate: Certificate, *, at: datetime, unchecked: tuple[Unchecked, ...]
) -> tuple[Crl | None, tuple[Unchecked, ...]]:
    """Return the current CRL, or none and the decisions that tolerate it."""
    try:
        return require_current_crl(crls, root, serials=(intermediate.serial,), at=at), ()
    except EndorsementError as exc:
        return None, tolerated(exc, unchecked, "revocation")


def _dates(certificate: Certificate) -> Fact:
    return "{}: {} to {}", certificate.name, certificate.not_before, certificate.not_after
