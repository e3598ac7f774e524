"""Inputs of ``verify`` and ``appraise``: files and endorsements in, one verification out.

Nothing is concluded here. What is missing is fetched at most once, and only when verification says that it is
missing; the answers are verified like any other input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.checks import Unchecked
from attest.cli.ear import EarCase, open_ear
from attest.cli.files import read_file, read_inputs, walk_endorsements
from attest.cli.options import VerificationOptions
from attest.cli.reference_log import ReferenceLog, read_reference_log
from attest.cli.service_tokens import ServiceCase, open_service
from attest.cli.tokens import TokenCase, open_token, read_trust
from attest.endorsements.anchors import TrustAnchors, read_anchor_file
from attest.endorsements.bundle import read_bundle_key
from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES, BundleKeys, BundleTrust, UnsignedBundles
from attest.endorsements.pool import Endorsements
from attest.errors import ConfigurationError, EndorsementError
from attest.evidence.azure.forms import AZURE_PARSERS
from attest.evidence.composite import DEVICE_NONCE_BYTES
from attest.evidence.endorsement_files import MAX_FILE_BYTES as MAX_ENDORSEMENT_BYTES
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MAX_ITEM_BYTES, MEDIA_BINDING, MEDIA_EVENT_LOG, Evidence, EvidenceItem
from attest.evidence.input_file import MAX_FILE_BYTES
from attest.evidence.input_files import RecognisedEvidence, read_evidence
from attest.evidence.registry import FORMATS
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances
from attest.terminal.display import Display
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify

__all__ = ["Case", "one_nonce", "one_report_data", "open_case", "read_bundle_keys", "verify_case"]

MAX_SMALL_FILE_BYTES = 1024 * 1024
"""Anchor files, keys, token signers."""
REPORT_DATA_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Evidence with the endorsements, anchors, moment and options of its verification."""

    recognised: RecognisedEvidence
    endorsements: Endorsements
    anchors: TrustAnchors
    expected: ExpectedFreshness | None
    at: datetime
    question: VerificationOptions
    reference: ReferenceLog | None


def open_case(question: VerificationOptions, *, at: datetime) -> Case | TokenCase | ServiceCase | EarCase:
    """Read everything that the command line names.

    Raises:
        ConfigurationError: a file, or a combination of options, is wrong.
        EvidenceError: the evidence is in no known form, or malformed.
        ChainError: a certificate that came with the evidence cannot be read.
    """
    read_trust(question)
    anchors = _anchors(question)
    bundle_keys = read_bundle_keys(question.bundle_keys)
    files = read_inputs(question.inputs, limit=MAX_FILE_BYTES)
    nonce = one_nonce(question.nonce, question.nonce_text)
    token: TokenCase | ServiceCase | EarCase | None = open_service(files, question, nonce=nonce, at=at)
    token = token or open_ear(files, question, nonce=nonce, at=at, audience=question.audience)
    token = token or open_token(files, question, nonce=nonce, at=at)
    if token is not None:
        return token
    if question.audience is not None:
        raise ConfigurationError(
            "--audience is for tokens, and this is none",
            code="option-not-applicable",
            field="--audience",
            hint="give --nonce or --report-data: what you handed out yourself shows for whom the evidence was made",
        )
    if question.trust:
        question.display.note("--trust is for tokens, and this is none")
    recognised = read_evidence(files, form=question.form)
    recognised = replace(recognised, evidence=_with_log(recognised.evidence, question.eventlog))
    for (name, _), label in zip(files, recognised.forms, strict=True):
        question.display.note(f"{name}: {label}")
    expected = _expected(question, recognised.evidence)
    reference = read_reference_log(question.reference_log, recognised.evidence)
    endorsements = _endorsements(question, at=at, bundle_keys=bundle_keys)
    return Case(
        recognised=recognised,
        endorsements=endorsements,
        anchors=anchors,
        expected=expected,
        at=at,
        question=question,
        reference=reference,
    )


def verify_case(
    case: Case, *, unchecked: tuple[Unchecked, ...], tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES
) -> VerifiedEvidence:
    """Verify; fetch what is missing unless offline, and verify again.

    Raises:
        EvidenceError: as ``attest.verification.verify``.
        VerificationError: likewise.
        EndorsementError: likewise, after every permitted request.
    """
    try:
        return _verify(case, unchecked, tolerances)
    except EndorsementError:
        if case.question.offline or not _may_be_fetched(case.recognised.evidence):
            raise
    fetched = _fetch(case)
    return _verify(replace(case, endorsements=case.endorsements.merged(fetched)), unchecked, tolerances)


def _may_be_fetched(evidence: Evidence) -> bool:
    """Return True if a known service has the missing endorsement."""
    from attest.fetch import can_be_fetched

    return can_be_fetched(evidence)


def _verify(case: Case, unchecked: tuple[Unchecked, ...], tolerances: DeviceTolerances) -> VerifiedEvidence:
    return verify(
        case.recognised.evidence,
        endorsements=case.endorsements,
        anchors=case.anchors,
        at=case.at,
        expected=case.expected,
        unchecked=unchecked,
        tolerances=tolerances,
    )


def _fetch(case: Case) -> Endorsements:
    from attest.cli.endorsement_fetch import fetch_missing

    question = case.question
    gathered = fetch_missing(
        case.recognised.evidence,
        at=case.at,
        network=question.network,
        display=question.display,
        pool=case.endorsements,
    )
    for failure in gathered.failures:
        question.display.warn(failure.message)
    return gathered.endorsements


# -- the options


def _anchors(question: VerificationOptions) -> TrustAnchors:
    anchors = TrustAnchors.vendors()
    if question.anchors is not None:
        text = read_file(question.anchors, limit=MAX_SMALL_FILE_BYTES, what="--anchors")
        anchors = read_anchor_file(text, base=anchors)
    if question.allow_simulated:
        question.display.warn("SIMULATED evidence is accepted (--allow-simulated); it proves nothing about hardware")
        anchors = anchors.with_anchors(TrustAnchors.simulation().anchors)
    return anchors


def read_bundle_keys(files: tuple[str, ...]) -> BundleTrust:
    """Read the keys that may sign bundles; without a file, no signature is demanded.

    Raises:
        ConfigurationError: ``file-unreadable`` or ``bundle-key-invalid``.
    """
    if not files:
        return UnsignedBundles.ACCEPTED
    return BundleKeys(keys=tuple(map(_read_bundle_key, files)))


def _read_bundle_key(file: str) -> Ed25519PublicKey:
    data = read_file(file, limit=MAX_SMALL_FILE_BYTES, what="--bundle-key")
    try:
        return read_bundle_key(data)
    except ConfigurationError as exc:
        raise ConfigurationError(
            f"{file}: {exc.message}",
            code=exc.code,
            expected=exc.expected,
            hint="'openssl pkey -in bundle-key.pem -pubout' prints the public half of a private key",
        ) from exc


def _expected(question: VerificationOptions, evidence: Evidence) -> ExpectedFreshness | None:
    """Return the expected freshness. With a binding, nonce and REPORT_DATA are two fields; without, they are one."""
    nonce = one_nonce(question.nonce, question.nonce_text)
    report_data = question.report_data
    if nonce is None and report_data is None:
        return None
    if not any(item.essence == MEDIA_BINDING for item in evidence.items):
        if not any(item.essence in AZURE_PARSERS for item in evidence.items):  # which has a field for each
            _require_agreement(nonce, report_data)
        _require_fitting(nonce, report_data, evidence)
    return ExpectedFreshness(nonce=nonce, report_data=report_data)


def _require_fitting(nonce: bytes | None, report_data: bytes | None, evidence: Evidence) -> None:
    """Refuse a question that no device of this evidence could answer.

    Raises:
        ConfigurationError: ``nonce-length`` or ``option-not-applicable``.
    """
    kinds = {item.essence for item in evidence.items}
    if nonce is not None and len(nonce) != DEVICE_NONCE_BYTES and kinds & set(FORMATS.peripherals):
        raise ConfigurationError(
            f"the nonce of a GPU or switch has {DEVICE_NONCE_BYTES} bytes",
            code="nonce-length",
            field="--nonce",
            expected=f"{DEVICE_NONCE_BYTES} bytes, {2 * DEVICE_NONCE_BYTES} hex digits",
            got=f"{len(nonce)} bytes",
        )
    if report_data is not None and not kinds & set(FORMATS.cpus):
        raise ConfigurationError(
            "--report-data: this evidence has no CPU report, and so no REPORT_DATA",
            code="option-not-applicable",
            field="--report-data",
            hint="give --nonce: GPUs and switches answer under a nonce of 32 bytes",
        )


def one_report_data(*, nonce: bytes | None, nonce_text: bytes | None, report_data: bytes | None) -> bytes | None:
    """Return REPORT_DATA as the options name it, or None when none of them does.

    Raises:
        ConfigurationError: ``nonce-ambiguous``.
    """
    one = one_nonce(nonce, nonce_text)
    _require_agreement(one, report_data)
    return report_data if one is None else one.ljust(REPORT_DATA_BYTES, b"\0")


def one_nonce(nonce: bytes | None, nonce_text: bytes | None) -> bytes | None:
    """Return the nonce as one of two options gives it, or None when neither does.

    Raises:
        ConfigurationError: ``nonce-ambiguous``.
    """
    if nonce is not None and nonce_text is not None and nonce != nonce_text:
        raise ConfigurationError(
            "--nonce and --nonce-text are two different values", code="nonce-ambiguous", hint="give one of them"
        )
    return nonce if nonce is not None else nonce_text


def _require_agreement(nonce: bytes | None, report_data: bytes | None) -> None:
    if nonce is None or report_data is None:
        return
    padded = nonce.ljust(REPORT_DATA_BYTES, b"\0")
    if padded != report_data:
        raise ConfigurationError(
            "the nonce and --report-data name the same field and differ",
            code="nonce-ambiguous",
            field="REPORT_DATA",
            expected=padded.hex(),
            got=report_data.hex(),
            hint="a nonce stands left-aligned in REPORT_DATA, followed by zeros",
        )


def _with_log(evidence: Evidence, file: str | None) -> Evidence:
    """Add the event log to the evidence whose registers it must replay to.

    Raises:
        ConfigurationError: ``eventlog-without-registers``, or the file cannot be read.
        EvidenceError: the evidence is malformed.
    """
    if file is None:
        return evidence
    log = read_file(file, limit=MAX_ITEM_BYTES, what="--eventlog")
    kinds = [media.kind_of(media.parse(i.value)) for i in evidence.items if (media := FORMATS.cpus.get(i.essence))]
    if not any(kind.registers for kind in kinds):
        raise ConfigurationError(
            "--eventlog: this evidence has no registers that an event log could replay to",
            code="eventlog-without-registers",
            expected="evidence with registers that a boot is measured into: a TDX quote, an Azure VM's",
            got=", ".join(kind.kind for kind in kinds) or "none",
            hint="leave --eventlog out; 'attest inspect FILE' shows a log on its own",
        )
    return replace(
        evidence, items=(*evidence.items, EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=log))
    )


def _endorsements(question: VerificationOptions, *, at: datetime, bundle_keys: BundleTrust) -> Endorsements:
    display: Display = question.display
    limit = max(MAX_BUNDLE_BYTES, MAX_ENDORSEMENT_BYTES)
    files = walk_endorsements(question.endorsements, limit=limit, warn=display.warn)
    found = read_endorsements(files, at=at, bundle_keys=bundle_keys)
    for warning in found.warnings:
        display.warn(warning)
    for note in found.notes:
        display.note(note)
    return found.endorsements
