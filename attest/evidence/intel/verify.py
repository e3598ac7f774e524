"""Is this quote genuine: made on Intel hardware, whole, unrevoked, of a platform that Intel knows? Checks T02 to T12.

First what needs no collateral, in an order in which a forged quote is called false before anything is called
missing; then what Intel's collateral says, every step of it, so that a stale document hides no revocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import rfc3339_text
from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, EndorsementError
from attest.evidence.intel.authenticity import AuthenticQuote, authenticate_quote
from attest.evidence.intel.evaluation import ModuleFacts, PlatformFacts, TcbEvaluation
from attest.evidence.intel.judgement import STEPS, CollateralJudgement, VerifiedCollateral
from attest.evidence.intel.pck import PckCertificate
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.tdx.structure import ParsedTdReport

__all__ = ["VerifiedIntelQuote", "verify_intel_quote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedIntelQuote:
    """A TDX or SGX quote that an Intel platform made, with everything that vouches for it.

    Built by ``verify_intel_quote`` only.

    Attributes:
        authentic: the quote with its certificate chain.
        collateral: what Intel's documents say about the platform.
        at: the moment for which all this holds.
    """

    authentic: AuthenticQuote
    collateral: VerifiedCollateral
    at: datetime

    @property
    def quote(self) -> ParsedQuote:
        """The quote; its fields may be relied on."""
        return self.authentic.quote

    @property
    def pck(self) -> PckCertificate:
        """The certificate of the platform's provisioning key."""
        return self.authentic.pck

    @property
    def anchor(self) -> Anchor:
        """The pinned root that everything reaches."""
        return self.authentic.anchor

    @property
    def evaluation(self) -> TcbEvaluation | None:
        """The TCB's status; None when the TCB was left unchecked."""
        return self.collateral.evaluation

    @property
    def simulated(self) -> bool:
        """Whether all this rests on the simulator's root."""
        return self.anchor.simulated

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure with what it demanded and what it found."""
        return tuple(_passed(self))


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
        unchecked: ``revocation`` and ``tcb`` matter here; what is at hand and negative refuses all the same.

    Raises:
        AttestError: as ``authenticate_quote`` and ``judge_collateral``; the error carries all checks.

    Spec: specs/intel-tdx-sgx.md, section 21, T02 to T12.
    """
    # (1) T02 to T06: signatures and chain.
    try:
        authentic = authenticate_quote(quote, endorsements=endorsements, anchors=anchors, at=at)
    except AttestError as exc:
        exc.checks = tuple(_refused(quote, {exc.check or "": exc}, reached=_AUTHENTICITY))
        raise
    # (2) T07 to T12: every step speaks; a missing piece does not keep a later one from being called false.
    judgement = _judgement(authentic, endorsements, at, unchecked)
    failures: dict[str, AttestError] = {}
    for step in STEPS:
        try:
            step.run(judgement)
        except AttestError as exc:
            exc.check = f"{quote.tee}.{step.name}"
            failures[exc.check] = exc
            if not isinstance(exc, EndorsementError):
                break
    if failures:
        worst = min(failures.values(), key=lambda failure: failure.exit_code)
        worst.checks = tuple(_refused(quote, failures, reached=_ORDER, left_out=_left_out(quote, judgement)))
        raise worst
    return VerifiedIntelQuote(authentic=authentic, collateral=judgement.outcome(), at=at)


def _judgement(
    authentic: AuthenticQuote, endorsements: Endorsements, at: datetime, unchecked: tuple[Unchecked, ...]
) -> CollateralJudgement:
    quote, pck, chain = authentic.quote, authentic.pck, authentic.chain
    return CollateralJudgement(
        platform=PlatformFacts(
            tee=quote.tee,
            fmspc=pck.fmspc,
            pce_id=pck.pce_id,
            component_svns=pck.component_svns,
            pce_svn=pck.pce_svn,
            module=_module(quote),
        ),
        qe=quote.qe_report,
        pck=pck.certificate,
        ca=chain.issuer,
        root=chain.root,
        endorsements=endorsements,
        at=at,
        unchecked=unchecked,
    )


def _module(quote: ParsedQuote) -> ModuleFacts | None:
    body = quote.body
    if not isinstance(body, ParsedTdReport):
        return None
    return ModuleFacts(
        tee_tcb_svn=body.tee_tcb_svn,
        tee_tcb_svn_2=body.tee_tcb_svn_2,
        mr_signer_seam=body.mr_signer_seam,
        seam_attributes=body.seam_attributes,
    )


# -- how each step is told

_Told = tuple[str, str] | tuple[str, str, Outcome]
_NO_MODULE = "SGX has none"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Telling:
    """One check: its clause, and how its success is told."""

    name: str
    clause: str
    tell: Callable[[VerifiedIntelQuote], _Told]


def _tell_revocation(v: VerifiedIntelQuote) -> _Told:
    crls = v.collateral.crls
    if crls is None:
        return "current CRLs of the PCK's CA and of the root", _reasons(v, "revocation"), Outcome.NOT_EVALUATED
    dates = "; ".join(f"{rfc3339_text(c.this_update)} to {rfc3339_text(c.next_update)}" for c in (crls.pck, crls.root))
    return "PCK certificate and its CA not listed", f"not listed, CRLs of {dates}"


def _tell_tcb_info(v: VerifiedIntelQuote) -> _Told:
    document = v.collateral.tcb_info
    if document is None:
        return "a current TCB info of the platform", _reasons(v, "tcb"), Outcome.NOT_EVALUATED
    content = document.content
    dates = f"{rfc3339_text(content.issue_date)} to {rfc3339_text(content.next_update)}"
    return (
        f"signed for FMSPC {v.pck.fmspc.hex()}",
        f"evaluation data number {content.evaluation_data_number}, {dates}",
    )


def _tell_qe_identity(v: VerifiedIntelQuote) -> _Told:
    document = v.collateral.qe_identity
    if document is None:
        return "Intel's Quoting Enclave", f"compared with constants: {_reasons(v, 'tcb')}"
    content = document.content
    dates = f"{rfc3339_text(content.issue_date)} to {rfc3339_text(content.next_update)}"
    return f"MRSIGNER {v.quote.qe_report.mr_signer.hex()}", f"as the identity says, {dates}"


def _tell_module(v: VerifiedIntelQuote) -> _Told:
    body = v.quote.body
    if not isinstance(body, ParsedTdReport):
        return "a TDX module", _NO_MODULE, Outcome.NOT_EVALUATED
    version = f"version {body.tee_tcb_svn[1]}, SVN {body.tee_tcb_svn[0]}"
    if v.collateral.tcb_info is None:
        return "the module that TCB info describes", _reasons(v, "tcb"), Outcome.NOT_EVALUATED
    return "the module that TCB info describes", version


def _tell_tcb(v: VerifiedIntelQuote) -> _Told:
    evaluation = v.evaluation
    if evaluation is None:
        return "a TCB level that covers the platform", _reasons(v, "tcb"), Outcome.NOT_EVALUATED
    advisories = ", ".join(evaluation.advisory_ids) or "no advisories"
    return "a level that covers the platform, not Revoked", f"{evaluation.tcb_status}, {advisories}"


def _reasons(v: VerifiedIntelQuote, check: str) -> str:
    return _why(u for u in v.collateral.unchecked if u.check == check)


def _why(unchecked: Iterable[Unchecked]) -> str:
    return "unchecked: " + "; ".join(u.reason for u in unchecked)


_TELLINGS: tuple[_Telling, ...] = (
    _Telling(
        name="pck_certificate",
        clause="Intel SGX PCK certificate; intel-tdx-sgx.md T02, T03",
        tell=lambda v: ("a PCK certificate with all TCB members", f"FMSPC {v.pck.fmspc.hex()}, {v.pck.ca} CA"),
    ),
    _Telling(
        name="qe_report_signature",
        clause="intel-tdx-sgx.md T04",
        tell=lambda _: ("ECDSA P-256 by the PCK over the QE report", "verifies"),
    ),
    _Telling(
        name="attestation_key",
        clause="intel-tdx-sgx.md T05",
        tell=lambda v: ("REPORTDATA of the QE report commits to the attestation key", v.quote.attestation_key.hex()),
    ),
    _Telling(
        name="quote_signature",
        clause="intel-tdx-sgx.md T06",
        tell=lambda v: (f"ECDSA P-256 over {len(v.quote.signed_bytes)} bytes", "verifies with the attestation key"),
    ),
    _Telling(
        name="pck_chain",
        clause="intel-tdx-sgx.md T02",
        tell=lambda v: ("a pinned Intel SGX Root CA", f"{v.anchor.name}, key {v.anchor.spki_sha256.hex()}"),
    ),
    _Telling(name="revocation", clause="intel-tdx-sgx.md T07", tell=_tell_revocation),
    _Telling(name="tcb_info", clause="intel-tdx-sgx.md T08, T09", tell=_tell_tcb_info),
    _Telling(name="qe_identity", clause="intel-tdx-sgx.md T08, T10", tell=_tell_qe_identity),
    _Telling(name="module", clause="intel-tdx-sgx.md T11", tell=_tell_module),
    _Telling(name="tcb", clause="intel-tdx-sgx.md T12", tell=_tell_tcb),
)
_ORDER = tuple(telling.name for telling in _TELLINGS)
_AUTHENTICITY = _ORDER[: _ORDER.index("revocation")]


def _format(quote: ParsedQuote) -> Check:
    return Check(
        id=f"{quote.tee}.format",
        outcome=Outcome.PASS,
        expected="a quote of a known version, every length exact",
        got=f"version {quote.version}, {len(quote.padding)} bytes of padding",
        clause="intel-tdx-sgx.md T01",
    )


def _passed(verified: VerifiedIntelQuote) -> Iterator[Check]:
    quote = verified.quote
    yield _format(quote)
    for telling in _TELLINGS:
        expected, got, *outcome = telling.tell(verified)
        yield Check(
            id=f"{quote.tee}.{telling.name}",
            outcome=outcome[0] if outcome else Outcome.PASS,
            expected=expected,
            got=got,
            clause=telling.clause,
        )


def _left_out(quote: ParsedQuote, judgement: CollateralJudgement) -> dict[str, str]:
    """Return the steps that judged nothing although they were taken, each with the reason."""
    why = {} if judgement.crls is not None else {"revocation": _why(judgement.may_skip_revocation)}
    if judgement.skip_tcb:
        why |= dict.fromkeys(("tcb_info", "module", "tcb"), _why(judgement.skip_tcb))
    return why if isinstance(quote.body, ParsedTdReport) else {**why, "module": _NO_MODULE}


def _refused(
    quote: ParsedQuote,
    failures: dict[str, AttestError],
    *,
    reached: tuple[str, ...],
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Check]:
    """Tell the failed steps; of the others, those before the first failure judged, and nothing is said of the rest."""
    yield _format(quote)
    before = True
    for telling in _TELLINGS:
        check = f"{quote.tee}.{telling.name}"
        failure = failures.get(check)
        before = before and failure is None and telling.name in reached
        if failure is not None:
            outcome, expected, got = Outcome.FAIL, failure.expected or "", failure.got or failure.message
        elif before and telling.name in left_out:
            outcome, expected, got = Outcome.NOT_EVALUATED, "", left_out[telling.name]
        elif before:
            outcome, expected, got = Outcome.PASS, "", "holds"
        else:
            outcome, expected, got = Outcome.NOT_EVALUATED, "", "an earlier check failed"
        yield Check(id=check, outcome=outcome, expected=expected, got=got, clause=telling.clause)
