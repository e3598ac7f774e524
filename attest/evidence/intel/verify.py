"""Verification of Intel quotes: genuine, whole, unrevoked, of a platform that Intel knows. Checks T01 to T12.

``IntelSteps`` is the clause list. First comes what needs no collateral, in an order in which a forged quote is called
false before anything is called missing; then every step that relies on Intel's collateral, so that a stale document
hides no revocation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from attest.checks import Check, Outcome, Unchecked
from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.intel.authenticity import (
    AuthenticQuote,
    certifying_pcks,
    find_chain,
    pck_candidates,
    require_attestation_key,
    require_quote_signature,
)
from attest.evidence.intel.collateral import SignedCollateral
from attest.evidence.intel.evaluation import (
    TcbEvaluation,
    evaluate_tcb,
    find_module,
    platform_facts,
)
from attest.evidence.intel.judgement import CollateralAtHand, PckCrls, VerifiedCollateral
from attest.evidence.intel.pck import PckCertificate
from attest.evidence.intel.qe_identity import QeIdentity
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.intel.quoting_enclave import require_intel_qe, require_qe
from attest.evidence.intel.tcb_info import ComponentLevel, TcbInfo, TdxModuleIdentity, Tee
from attest.evidence.procedure import Fact, Findings, Procedure, Step, reasons


class IntelSteps(NamedTuple):
    """Every check of a quote, in order; the ids of the checks begin with the TEE's name."""

    format: Step = Step("format", "Intel DCAP, ECDSA quote format")
    pck_certificate: Step = Step("pck_certificate", "Intel SGX PCK certificate")
    qe_report_signature: Step = Step("qe_report_signature", "Intel DCAP, QE report signature")
    attestation_key: Step = Step("attestation_key", "Intel DCAP, QE report data")
    quote_signature: Step = Step("quote_signature", "Intel DCAP, ECDSA quote signature")
    pck_chain: Step = Step("pck_chain", "Intel SGX PCK certificate and CRL profile; RFC 5280, 6.1")
    revocation: Step = Step("revocation", "Intel SGX PCK certificate and CRL profile; RFC 5280, 6.3")
    tcb_info: Step = Step("tcb_info", "Intel PCS, TCB info")
    qe_identity: Step = Step("qe_identity", "Intel PCS, QE identity")
    module: Step = Step("module", "Intel PCS, TDX module identities")
    tcb: Step = Step("tcb", "Intel PCS, TCB levels")


_STEPS = IntelSteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedIntelQuote:
    """A TDX or SGX quote that an Intel platform made, with everything that authenticates it.

    Built by ``verify_intel_quote`` only.
    """

    authentic: AuthenticQuote
    collateral: VerifiedCollateral
    at: datetime
    findings: Findings = field(repr=False)

    @property
    def quote(self) -> ParsedQuote:
        """The quote; its fields may be relied on."""
        return self.authentic.quote

    @property
    def pck(self) -> PckCertificate:
        """The certificate of the platform's provisioning key."""
        return self.authentic.chain.pck

    @property
    def anchor(self) -> Anchor:
        """The pinned root that everything reaches."""
        return self.authentic.chain.anchor

    @property
    def evaluation(self) -> TcbEvaluation | None:
        """The TCB's status; None when the TCB was left unchecked."""
        return self.collateral.evaluation

    @property
    def simulated(self) -> bool:
        """True for evidence under the simulator's root."""
        return self.anchor.simulated

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure with what it demanded and what it found."""
        return self.findings.checks


def verify_intel_quote(
    quote: ParsedQuote,
    /,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
) -> VerifiedIntelQuote:
    """Verify a TDX or SGX quote.

    Args:
        quote: a parsed quote; nothing of it is trusted yet.
        endorsements: certificates, CRLs and Intel's signed documents; not trusted either.
        anchors: the Intel root keys that the Verifier Owner accepts; an empty set accepts nothing.
        at: moment of appraisal, aware; both ends of every validity are included.
        unchecked: ``revocation`` and ``tcb`` matter here; an available negative answer is still refused.

    Raises:
        AttestError: as ``authenticate_quote`` and ``judge_collateral``; the error carries all checks.

    Spec: specs/intel-tdx-sgx.md, section 21, T02 to T12.
    """
    procedure = procedure_of(quote.tee)
    procedure.parsed(
        _STEPS.format,
        "a quote of a known version, every length exact",
        ("version {}, {} bytes of padding", quote.version, len(quote.padding)),
    )
    authentic = authenticate_quote(procedure, quote, endorsements=endorsements, anchors=anchors, at=at)
    chain = authentic.chain
    at_hand = CollateralAtHand(
        platform=platform_facts(quote, chain.pck),
        qe=quote.qe_report,
        pck=chain.pck.certificate,
        ca=chain.issuer,
        root=chain.root,
        endorsements=endorsements,
        at=at,
    )
    collateral = judge_collateral(procedure, at_hand, unchecked=unchecked)
    return VerifiedIntelQuote(authentic=authentic, collateral=collateral, at=at, findings=procedure.finish())


def procedure_of(tee: Tee) -> Procedure:
    """Begin the procedure for a quote of this TEE."""
    return Procedure(_STEPS, prefix=f"{tee}.")


def authenticate_quote(
    procedure: Procedure, quote: ParsedQuote, *, endorsements: Endorsements, anchors: TrustAnchors, at: datetime
) -> AuthenticQuote:
    """Check the signatures and the certificate chain of a quote; everything that needs no collateral.

    Raises:
        EvidenceError: ``certificate-malformed``, ``base64-invalid`` or ``pck-malformed``: the chain cannot be read.
        BindingError: ``attestation-key-mismatch``, the QE report commits to another attestation key.
        SignatureError: ``attestation-key-invalid``, ``quote-signature-invalid`` or ``qe-report-signature-invalid``.
        ChainError: no path to an anchor, a name or flag that does not fit, or a certificate not valid at ``at``.
        EndorsementError: ``pck-certificate-missing``, ``pck-issuer-missing`` or ``intel-root-missing``.

    Spec: specs/intel-tdx-sgx.md, sections 5 to 7, checks T02 to T06.
    """
    with procedure.step(_STEPS.pck_certificate):
        candidates = pck_candidates(quote, endorsements, at=at)
        procedure.record("a PCK certificate with all TCB members", _platforms(candidates))
    with procedure.step(_STEPS.qe_report_signature):
        certifying = certifying_pcks(quote, candidates)
        got = "verifies" if certifying else "no available PCK certificate contradicts it"
        procedure.record("ECDSA P-256 by the PCK over the QE report", got)
    with procedure.step(_STEPS.attestation_key):
        require_attestation_key(quote)
        procedure.record("REPORTDATA of the QE report commits to the attestation key", quote.attestation_key)
    with procedure.step(_STEPS.quote_signature):
        require_quote_signature(quote)
        procedure.record(("ECDSA P-256 over {} bytes", len(quote.signed_bytes)), "verifies with the attestation key")
    with procedure.step(_STEPS.pck_chain):
        chain = find_chain(quote, certifying, endorsements=endorsements, anchors=anchors, at=at)
        procedure.record("a pinned Intel SGX Root CA", ("{}, key {}", chain.anchor.name, chain.anchor.spki_sha256))
    return AuthenticQuote(quote=quote, chain=chain, at=at)


def _platforms(candidates: tuple[PckCertificate, ...]) -> str:
    return "; ".join(dict.fromkeys(f"FMSPC {pck.fmspc.hex()}, {pck.ca} CA" for pck in candidates)) or "none available"


def judge_collateral(
    procedure: Procedure, at_hand: CollateralAtHand, *, unchecked: tuple[Unchecked, ...] = ()
) -> VerifiedCollateral:
    """Judge a platform by Intel's collateral: T07 to T12.

    A missing or stale piece is held back until every other step was taken, so that evidence that is plainly false is
    called false (exit 4) and not merely unjudged (exit 5).

    Args:
        procedure: collects the outcome of each step, and the refusals held back.
        at_hand: the platform, and everything available about it.
        unchecked: ``revocation`` tolerates that no current list is available; ``tcb`` leaves out the TCB, and compares
            the quoting enclave with constants instead. An available revocation is still refused.

    Raises:
        RevokedError: ``certificate-revoked``.
        SignatureError: ``collateral-signature-invalid``.
        ChainError: ``crl-signature-invalid``, or a TCB Signing certificate that is not the root's.
        VerificationError: ``qe-identity-mismatch``, ``tdx-module-mismatch``, ``tdx-module-unknown``,
            ``tcb-not-supported`` or ``tcb-revoked``.
        EndorsementError: a piece is missing, of another platform, out of date or not valid yet.
    """
    crls: PckCrls | None = None
    used: tuple[Unchecked, ...] = ()
    with procedure.attempt(_STEPS.revocation):
        crls, used = at_hand.crls(unchecked)
        procedure.record(*_revocation_facts(crls, used))
    left_out = tuple(decision for decision in unchecked if decision.check == "tcb")
    tcb = _leave_tcb_out(procedure, at_hand, reasons(left_out)) if left_out else _judge_tcb(procedure, at_hand)
    procedure.finish()
    return VerifiedCollateral(
        crls=crls,
        tcb_info=tcb.info,
        qe_identity=tcb.identity,
        evaluation=tcb.evaluation,
        unchecked=(*used, *left_out),
    )


class _Tcb(NamedTuple):
    info: SignedCollateral[TcbInfo] | None = None
    identity: SignedCollateral[QeIdentity] | None = None
    evaluation: TcbEvaluation | None = None


def _judge_tcb(procedure: Procedure, at_hand: CollateralAtHand) -> _Tcb:
    """Take the steps that judge platform, enclave and module by Intel's signed documents."""
    platform, qe = at_hand.platform, at_hand.qe
    info: SignedCollateral[TcbInfo] | None = None
    identity: SignedCollateral[QeIdentity] | None = None
    qe_level: ComponentLevel | None = None
    module: TdxModuleIdentity | None = None
    evaluation: TcbEvaluation | None = None
    with procedure.attempt(_STEPS.tcb_info):
        info = at_hand.tcb_info()
        number = info.content.evaluation_data_number
        procedure.record(
            ("signed for FMSPC {}", platform.fmspc),
            ("evaluation data number {}, {} to {}", number, info.content.issue_date, info.content.next_update),
        )
    with procedure.attempt(_STEPS.qe_identity):
        identity = at_hand.qe_identity()
        qe_level = require_qe(identity.content, qe)
        dates = identity.content.issue_date, identity.content.next_update
        procedure.record(("MRSIGNER {}", qe.mr_signer), ("as the identity says, {} to {}", *dates))
    with procedure.attempt(_STEPS.module):
        if platform.module is None:
            procedure.record(*_NO_MODULE)
        else:
            module = find_module(procedure.need(info, _EARLIER).content, platform.module)
            svn = platform.module.tee_tcb_svn
            procedure.record("the module that TCB info describes", ("version {}, SVN {}", svn[1], svn[0]))
    with procedure.attempt(_STEPS.tcb):
        if info is None or identity is None:
            at_hand.require_nothing_negative()  # a piece that is missing or stale hides nothing that another one says
        evaluation = evaluate_tcb(
            info=procedure.need(info, _EARLIER).content,
            identity=procedure.need(identity, _EARLIER).content,
            platform=platform,
            module_identity=module,
            qe_level=procedure.need(qe_level, _EARLIER),
        )
        advisories = ", ".join(evaluation.advisory_ids) or "no advisories"
        procedure.record("a level that covers the platform, not Revoked", ("{}, {}", evaluation.tcb_status, advisories))
    return _Tcb(info, identity, evaluation)


def _leave_tcb_out(procedure: Procedure, at_hand: CollateralAtHand, why: str) -> _Tcb:
    """Take the same steps with the TCB left unchecked: only what is false refuses."""
    with procedure.attempt(_STEPS.tcb_info):
        procedure.record("a current TCB info of the platform", why, Outcome.NOT_EVALUATED)
    with procedure.attempt(_STEPS.qe_identity):
        require_intel_qe(at_hand.platform.tee, at_hand.qe)
        procedure.record("Intel's Quoting Enclave", f"compared with constants: {why}")
    with procedure.attempt(_STEPS.module):
        left_out = "the module that TCB info describes", why, Outcome.NOT_EVALUATED
        procedure.record(*(_NO_MODULE if at_hand.platform.module is None else left_out))
    with procedure.attempt(_STEPS.tcb):
        at_hand.require_nothing_negative()
        procedure.record("a TCB level that covers the platform", why, Outcome.NOT_EVALUATED)
    return _Tcb()


_EARLIER = "an earlier check failed"
_NO_MODULE = "a TDX module", "SGX has none", Outcome.NOT_EVALUATED


def _revocation_facts(crls: PckCrls | None, used: tuple[Unchecked, ...]) -> tuple[Fact, Fact, Outcome]:
    if crls is None:
        return "current CRLs of the PCK's CA and of the root", reasons(used), Outcome.NOT_EVALUATED
    dates = crls.pck.this_update, crls.pck.next_update, crls.root.this_update, crls.root.next_update
    return "PCK certificate and its CA not listed", ("not listed, CRLs of {} to {}; {} to {}", *dates), Outcome.PASS
