"""Verification of a receipt with its chain: one numbered procedure, offline.

Cheap steps come first, and each step relies on the previous ones: the claims are the machine's only once its evidence
is appraised, and the model is the owner's only once its manifest is verified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, NoReturn

from cryptography.hazmat.primitives.asymmetric import ec

from attest.appraisal import AttestationResult, appraise
from attest.channel.records import ROLE
from attest.checks import Check, Outcome, Unchecked
from attest.errors import AttestError, BindingError
from attest.evidence.binding import Binding
from attest.evidence.envelope import parse_envelope
from attest.evidence.freshness import ExpectedFreshness
from attest.evidence.procedure import Findings, Procedure, Step, require_equal
from attest.receipts.binding import CONTEXTS
from attest.receipts.claims import CHALLENGE_BYTES, ReceiptClaims
from attest.receipts.exchange_checks import (
    BodyDigest,
    require_body,
    require_challenge,
    require_complete,
    require_time,
    require_validity,
)
from attest.receipts.model_proof import VerifiedPart, verify_loaded, verify_manifests, verify_releases
from attest.receipts.receipt_file import ReceiptFile, present
from attest.receipts.release_proof import VerifiedRelease
from attest.receipts.statement import ModelRecord, ReceiptStatement, parse_statement, statement_digest
from attest.release.service_verification import MachineExpectation, verify_service
from attest.release.tlog import NO_WITNESSES, WitnessPolicy

HISTORY: Final = Unchecked(
    check="freshness", reason="the evidence of a receipt is older than the question, and its nonce was not given"
)


class _Steps(NamedTuple):
    """Steps of the procedure, in order."""

    format: Step = Step("receipt.format", "docs/receipts.md, the file")
    statement: Step = Step("receipt.statement", "docs/receipts.md, the statement")
    ed25519: Step = Step("receipt.ed25519", "RFC 9052, section 4.4; RFC 9864")
    ml_dsa_65: Step = Step("receipt.ml_dsa_65", "RFC 9052, section 4.4; FIPS 204")
    evidence: Step = Step("receipt.evidence", "RFC 9334, section 8")
    binding: Step = Step("receipt.binding", "docs/receipts.md, the binding")
    policy: Step = Step("receipt.policy", "docs/policy.md")
    model: Step = Step("receipt.model", "docs/receipts.md, the model")
    manifest: Step = Step("receipt.manifest", "docs/sealed-models.md")
    loaded: Step = Step("receipt.loaded", "docs/receipts.md, the model")
    release: Step = Step("receipt.release", "docs/receipts.md, the release")
    request: Step = Step("receipt.request", "docs/receipts.md, the bodies")
    response: Step = Step("receipt.response", "docs/receipts.md, the bodies")
    complete: Step = Step("receipt.complete", "docs/receipts.md, the bodies")
    challenge: Step = Step("receipt.challenge", "RFC 9711, section 4.1")
    time: Step = Step("receipt.time", "docs/receipts.md, time")


_STEPS: Final = _Steps()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptExpectation(MachineExpectation):
    """Demands of a person who checks a receipt; see ``MachineExpectation`` for those on the machine.

    Attributes:
        owners: keys that may have signed the model; none accepts nothing.
        model: identity of the sealing that has to answer, 16 bytes; None accepts every model of the owners, older ones
            included, and the result shows it.
        audience: name of the service; None accepts the name that the receipt states, which the result shows.
        nonce: that the client sent for the evidence; None leaves freshness not evaluated, which the result shows.
        challenge: that the client sent with the request, 8 to 64 bytes; None accepts any.
        max_age: of the receipt; None accepts any age.
        allow_incomplete: also accept an answer that was cut off; the result shows it.
        witnesses: that must have signed the checkpoints of the releases.
        unchecked: relaxations for the evidence, beside those of the policy.

    Raises:
        ValueError: a challenge that no receipt can have.
    """

    owners: tuple[ec.EllipticCurvePublicKey, ...]
    model: bytes | None = None
    audience: str | None = None
    nonce: bytes | None = None
    challenge: bytes | None = None
    max_age: timedelta | None = None
    allow_incomplete: bool = False
    witnesses: WitnessPolicy = NO_WITNESSES
    unchecked: tuple[Unchecked, ...] = ()

    def __post_init__(self) -> None:
        if self.challenge is not None and len(self.challenge) not in CHALLENGE_BYTES:
            raise ValueError("a challenge has 8 to 64 bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedReceipt:
    """A receipt whose chain holds. ``verify_receipt`` makes it.

    Attributes:
        record: the model that answered.
        parts: the model and its adapters, with their owners.
        result: the appraisal of the machine.
        findings: outcome of each step.
    """

    claims: ReceiptClaims
    statement: ReceiptStatement
    record: ModelRecord
    parts: tuple[VerifiedPart, ...]
    result: AttestationResult
    findings: Findings

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check: of the receipt, then of its evidence and the policy."""
        return (*self.findings.checks, *self.result.checks)

    @property
    def simulated(self) -> bool:
        """True if the chain rests on a simulator."""
        return self.result.verified.simulated

    @property
    def unchecked(self) -> tuple[Unchecked, ...]:
        """The relaxations in force."""
        return self.result.unchecked

    def __bool__(self) -> NoReturn:
        raise TypeError("a VerifiedReceipt is not a condition; verify_receipt raises for one that does not hold")


def verify_receipt(
    file: ReceiptFile,
    *,
    expect: ReceiptExpectation,
    at: datetime,
    request: BodyDigest | None = None,
    response: BodyDigest | None = None,
) -> VerifiedReceipt:
    """Check a receipt with its whole chain, and return it.

    Args:
        file: as parsed, with the parts that it names by digest; not trusted.
        expect: demands on machine, owner and exchange.
        at: moment of the check, aware. For a receipt of the past, a moment at which the endorsements are valid.
        request: body that was sent; None leaves it not evaluated.
        response: body that was received; None leaves it not evaluated.

    Raises:
        AttestError: the first step that does not hold, with the checks of all steps and those of the evidence. By
            kind: ``EvidenceError`` malformed, ``VerificationError`` or ``SealedFileError`` does not hold,
            ``EndorsementError`` a part or an endorsement is missing, ``AppraisalError`` the policy refuses.
    """
    beside: list[Callable[[], tuple[Check, ...]]] = []
    try:
        return _verify(file, expect=expect, at=at, request=request, response=response, beside=beside)
    except AttestError as exc:
        exc.checks = (*exc.checks, *(check for checks in beside for check in checks()))
        raise


def _verify(  # noqa: PLR0915  the numbered procedure
    file: ReceiptFile,
    *,
    expect: ReceiptExpectation,
    at: datetime,
    request: BodyDigest | None,
    response: BodyDigest | None,
    beside: list[Callable[[], tuple[Check, ...]]],
) -> VerifiedReceipt:
    procedure, claims = Procedure(_STEPS), file.receipt.claims
    # (1) COSE_Sign with two signers, and every part of the chain in its one spelling; parsing has required it.
    procedure.parsed(_STEPS.format, "COSE_Sign by Ed25519 and ML-DSA-65", str(claims))
    # (2) The receipt names this statement: stops keys and models of another machine.
    with procedure.step(_STEPS.statement):
        raw = present(file.statement, "statement")
        statement = parse_statement(raw)
        _require_statement(claims, raw)
        procedure.record(claims.statement, statement_digest(raw))
    # (3) Both keys of the statement signed the claims: stops every change, and the removal of one signature.
    with procedure.step(_STEPS.ed25519):
        file.receipt.require_ed25519(statement)
        procedure.record(file.receipt.ed25519_kid, "it verifies")
    with procedure.step(_STEPS.ml_dsa_65):
        file.receipt.require_ml_dsa_65(statement)
        procedure.record(file.receipt.ml_dsa_65_kid, "it verifies")
    # (4) The evidence is genuine.
    with procedure.step(_STEPS.evidence):
        result = _appraised(file, expect=expect, at=at, beside=beside)
        procedure.record("genuine evidence", ("genuine; freshness: {}", result.verified.freshness))
    # (5) Its report commits to the statement, for a service of this name: stops keys that no hardware certifies.
    with procedure.step(_STEPS.binding):
        binding = _require_binding(result, claims, expect.audience)
        procedure.record(("{} for {}", claims.statement, claims.issuer), ("{} for {}", binding, claims.issuer))
    # (6) The policy affirms the machine.
    with procedure.step(_STEPS.policy):
        result.require()
        procedure.record("affirmed", "SIMULATED, affirmed" if result.verified.simulated else "affirmed")
    # (7) The answering model is one that the machine had loaded when the evidence was made: stops exchanged models.
    with procedure.step(_STEPS.model):
        record = _require_model(claims, statement, expect.model)
        procedure.record(claims.model, record.digest)
    # (8) Owners signed the manifests that the record names: stops manifests of others, and adapters left out.
    with procedure.step(_STEPS.manifest):
        manifests = verify_manifests(file, record, owners=expect.owners)
        procedure.record("a signature of a given owner", ", ".join(signed.key for _, signed in manifests))
    # (9) What was decrypted is what the owners sealed.
    with procedure.step(_STEPS.loaded):
        partial = [verify_loaded(one, part) for (one, _), part in zip(manifests, record.parts, strict=True)]
        left = sum(map(len, partial))
        outcome = Outcome.WARNING if left else Outcome.PASS
        procedure.record("every file of the manifest", _decrypted(partial), outcome)
    # (10) The keys were released by the services that the owners named: stops keys from elsewhere.
    with procedure.step(_STEPS.release):
        releases = verify_releases([one for one, _ in manifests], file, record, witnesses=expect.witnesses)
        _require_same_reality(any(one is not None and one.simulated for one in releases), result)
        procedure.record("a logged release under the key's policy", *_released(releases))
    # (11) The bodies are those of this exchange: stops a receipt that is presented for another one.
    with procedure.step(_STEPS.request):
        stated = BodyDigest(size=claims.request.size, sha256=claims.request.sha256)
        require_body(procedure, request, stated, name="request", code="receipt-request-mismatch")
    with procedure.step(_STEPS.response):
        stated = BodyDigest(size=claims.response.size, sha256=claims.response.sha256)
        require_body(procedure, response, stated, name="response", code="receipt-response-mismatch")
    # (12) The end of the answer is the application's own: stops a part of an answer that is shown as all of it.
    with procedure.step(_STEPS.complete):
        require_complete(procedure, claims.response, allow_incomplete=expect.allow_incomplete)
    # (13) It answers the challenge of this client: tells two equal exchanges apart.
    with procedure.step(_STEPS.challenge):
        require_challenge(procedure, claims.challenge, expect.challenge)
    # (14) Its time is inside the life of its keys, not in the future, and not too long ago.
    with procedure.step(_STEPS.time):
        require_validity(claims, statement)
        require_time(claims, at, expect.max_age)
        procedure.record(("up to {}", at), claims.issued_at)
    parts = zip(manifests, partial, releases, strict=True)
    return VerifiedReceipt(
        claims=claims,
        statement=statement,
        record=record,
        parts=tuple(
            VerifiedPart(manifest=manifest, signed=signed, partial=files, release=release)
            for (manifest, signed), files, release in parts
        ),
        result=result,
        findings=procedure.finish(),
    )


def _require_statement(claims: ReceiptClaims, raw: bytes) -> None:
    require_equal(
        claims.statement,
        statement_digest(raw),
        "the receipt names another statement than the one in its chain",
        code="receipt-statement-mismatch",
        field="claims.statement",
        hint="the chain belongs to another machine, or to an earlier or later statement of it",
    )


def _appraised(
    file: ReceiptFile, *, expect: ReceiptExpectation, at: datetime, beside: list[Callable[[], tuple[Check, ...]]]
) -> AttestationResult:
    """Verify the evidence and apply the policy; ``beside`` gets what makes the checks of the evidence."""
    evidence = parse_envelope(present(file.evidence, "evidence"))
    expected = None if expect.nonce is None else ExpectedFreshness(nonce=expect.nonce)
    unchecked = (*expect.unchecked, *((HISTORY,) if expect.nonce is None else ()))
    try:
        verified = verify_service(evidence, expect=expect, binding=expected, at=at, unchecked=unchecked)
    except AttestError as exc:
        checks = exc.checks  # the runner replaces them
        beside.append(lambda: checks)
        raise
    result = appraise(verified, policy=expect.policy, at=at)
    beside.append(lambda: result.checks)
    return result


def _require_binding(result: AttestationResult, claims: ReceiptClaims, audience: str | None) -> bytes:
    """Return the digest that the evidence commits to, which must be that of the receipt's statement."""
    binding = result.verified.binding
    if binding is None:
        raise _unbound("the evidence carries no binding", "a binding", "none")
    _require_purpose(binding, claims.issuer)
    if audience is not None and audience != claims.issuer:
        raise _unbound(
            "the receipt is of another service",
            audience,
            claims.issuer,
            hint="give the name that this service has for its clients, or ask the wanted service for its receipt",
        )
    if binding.init_data is None:
        raise _unbound("the evidence commits to no statement of receipt keys", claims.statement.hex(), "none")
    require_equal(
        claims.statement,
        binding.init_data,
        "the evidence commits to another statement of receipt keys",
        code="receipt-binding-mismatch",
        field="binding.init_data",
        hint="the evidence is of another machine, or of other models",
    )
    return binding.init_data


def _require_purpose(binding: Binding, issuer: str) -> None:
    if binding.context not in CONTEXTS:
        raise _unbound("the evidence was made for another purpose", " or ".join(CONTEXTS), binding.context)
    if binding.role != ROLE:
        raise _unbound("the evidence was made by another role", ROLE, binding.role)
    if binding.audience != issuer:
        raise _unbound("the evidence is of another service than the receipt", issuer, binding.audience)


def _unbound(
    problem: str, expected: str, got: str, *, hint: str = "ask the service for the evidence of this receipt"
) -> BindingError:
    return BindingError(
        problem,
        code="receipt-binding-mismatch",
        field="binding",
        expected=expected,
        got=got,
        hint=hint,
    )


def _require_model(claims: ReceiptClaims, statement: ReceiptStatement, wanted: bytes | None) -> ModelRecord:
    record = statement.model(claims.model)
    if record is None:
        raise BindingError(
            "the receipt names a model that the machine had not loaded",
            code="receipt-model-mismatch",
            field="claims.model",
            expected=f"one of {len(statement.models)} records of the statement",
            got=claims.model.hex(),
            hint="the model was exchanged after the evidence was made",
        )
    if wanted is not None:
        require_equal(
            wanted,
            record.parts[0].model,
            "another model than the wanted one gave the answer",
            code="receipt-model-mismatch",
            field="model",
            hint="it is another sealing, perhaps an older one; 'attest sealed info' shows the identity of a sealing",
        )
    return record


def _decrypted(partial: list[tuple[str, ...]]) -> str:
    left = [path for paths in partial for path in paths]
    return f"not completely: {', '.join(left)}"[:400] if left else "all of them completely"


def _released(releases: tuple[VerifiedRelease | None, ...]) -> tuple[str, Outcome]:
    """Return the services that released the keys, and the outcome."""
    shown = [
        "no service is named" if one is None else one.service.name + " (break-glass)" * one.break_glass
        for one in releases
    ]
    if any(one is not None and one.break_glass for one in releases):
        return ", ".join(shown), Outcome.WARNING
    return ", ".join(shown), Outcome.NOT_EVALUATED if None in releases else Outcome.PASS


def _require_same_reality(simulated: bool, result: AttestationResult) -> None:  # noqa: FBT001  its only condition
    if simulated and not result.verified.simulated:
        raise BindingError(
            "the key was released to a simulated machine, and the evidence is of hardware",
            code="receipt-release-mismatch",
            field="release.simulated",
            expected="a release to hardware",
            got="SIMULATED",
            hint="the operator of the simulator knows the key of this model: seal it under another key",
        )
