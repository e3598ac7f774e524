"""Inputs of ``verify`` and ``appraise``: files and endorsements in, one verification out.

Nothing is concluded here. Missing endorsements are fetched at most once, after a verification that lacks them; the
answers are verified like any other input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.appraisal import AttestationResult, appraise
from attest.checks import Unchecked
from attest.cli.endorsement_inputs import read_anchors, read_pool
from attest.cli.files import read_file, read_inputs
from attest.cli.options import VerificationOptions
from attest.cli.policies import relaxations
from attest.cli.reference_log import ReferenceLog, read_reference_log
from attest.cli.tokens import AnyTokenCase, open_token, read_trust
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.bundle import read_bundle_key
from attest.endorsements.bundle_records import BundleKeys, BundleTrust, UnsignedBundles
from attest.endorsements.pool import Endorsements
from attest.errors import ConfigurationError, EndorsementError
from attest.evidence.azure.forms import AZURE_PARSERS
from attest.evidence.dstack.structure import is_dstack_log
from attest.evidence.envelope import (
    MAX_ITEM_BYTES,
    MEDIA_BINDING,
    MEDIA_DSTACK_LOG,
    MEDIA_EVENT_LOG,
    Evidence,
    EvidenceItem,
)
from attest.evidence.freshness import DEVICE_NONCE_BYTES
from attest.evidence.input_file import MAX_FILE_BYTES
from attest.evidence.input_files import read_evidence
from attest.evidence.providers.families import is_document
from attest.evidence.registry import FORMATS
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances
from attest.policy.loader import Policy
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify

MAX_KEY_BYTES = 1024 * 1024
REPORT_DATA_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Evidence with the endorsements, anchors, moment and options of its verification."""

    evidence: Evidence
    endorsements: Endorsements
    anchors: TrustAnchors
    expected: ExpectedFreshness | None
    at: datetime
    question: VerificationOptions
    reference: ReferenceLog | None = None


def open_case(question: VerificationOptions, *, at: datetime) -> Case | AnyTokenCase:
    """Read everything that the command line names.

    Raises:
        ConfigurationError: a file, or a combination of options, is wrong.
        EvidenceError: the evidence is in no known form, or malformed.
        ChainError: a certificate that came with the evidence cannot be read.
    """
    read_trust(question)
    anchors = read_anchors(question.anchors, simulated=question.allow_simulated)
    if question.allow_simulated:
        question.display.warn("SIMULATED evidence is accepted (--allow-simulated); it proves nothing about hardware")
    bundle_keys = read_bundle_keys(question.bundle_keys)
    files = read_inputs(question.inputs, limit=MAX_FILE_BYTES)
    nonce = one_nonce(question.nonce, question.nonce_text)
    token = open_token(files, question, nonce=nonce, at=at)
    if token is not None:
        return token
    _refuse_token_options(question)
    recognised = read_evidence(files, form=question.form)
    evidence = _with_log(recognised.evidence, question.eventlog)
    for (name, _), label in zip(files, recognised.forms, strict=True):
        question.display.note(f"{name}: {label}")
    return Case(
        evidence=evidence,
        expected=_expected(nonce, question.report_data, evidence),
        reference=read_reference_log(question.reference_log, evidence),
        endorsements=read_pool(question.endorsements, at=at, display=question.display, bundle_keys=bundle_keys),
        anchors=anchors,
        at=at,
        question=question,
    )


def verify_case(
    case: Case, *, unchecked: tuple[Unchecked, ...], tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES
) -> VerifiedEvidence:
    """Verify; fetch what is missing unless offline, and verify again.

    Raises:
        EvidenceError: as ``attest.verification.verify``.
        VerificationError: as above.
        EndorsementError: as above, after every permitted request.
    """
    try:
        return _verify(case, unchecked, tolerances)
    except EndorsementError:
        from attest.fetch import can_be_fetched

        if case.question.offline or not can_be_fetched(case.evidence):
            raise
    return _verify(replace(case, endorsements=case.endorsements.merged(_fetch(case))), unchecked, tolerances)


def appraise_case(case: Case, policy: Policy) -> AttestationResult:
    """Verify evidence under the caller's and the policy's relaxations, and appraise it; errors as ``verify_case``."""
    unchecked = relaxations(case.question, policy)
    verified = verify_case(case, unchecked=unchecked, tolerances=policy.tolerances)
    return appraise(verified, policy=policy, at=case.at)


def verify_machine(question: VerificationOptions, *, at: datetime) -> VerifiedEvidence:
    """Read and verify the evidence of a machine, of which a token has no measurements; errors as the two steps."""
    case = open_case(question, at=at)
    if not isinstance(case, Case):
        raise click.UsageError("a token has no measurements of its own; use the evidence")
    return verify_case(case, unchecked=question.unchecked)


def _verify(case: Case, unchecked: tuple[Unchecked, ...], tolerances: DeviceTolerances) -> VerifiedEvidence:
    return verify(
        case.evidence,
        endorsements=case.endorsements,
        anchors=case.anchors,
        at=case.at,
        expected=case.expected,
        unchecked=unchecked,
        tolerances=tolerances,
    )


def _fetch(case: Case) -> Endorsements:
    from attest.cli.endorsement_fetch import fetched_endorsements

    question = case.question
    return fetched_endorsements(
        case.evidence, at=case.at, network=question.network, display=question.display, pool=case.endorsements
    )


# -- the options


def _refuse_token_options(question: VerificationOptions) -> None:
    if question.audience is not None:
        raise ConfigurationError(
            "--audience is only for tokens",
            code="option-not-applicable",
            field="--audience",
            hint="use --nonce or --report-data: a value that you issued shows that the evidence was made for you",
        )
    if question.trust:
        question.display.note("--trust is only for tokens")


def read_bundle_keys(files: tuple[str, ...]) -> BundleTrust:
    """Read the keys that may sign bundles; without a file, no signature is demanded.

    Raises:
        ConfigurationError: ``file-unreadable`` or ``bundle-key-invalid``.
    """
    return BundleKeys(keys=tuple(map(_read_bundle_key, files))) if files else UnsignedBundles.ACCEPTED


def _read_bundle_key(file: str) -> Ed25519PublicKey:
    data = read_file(file, limit=MAX_KEY_BYTES, what="--bundle-key")
    try:
        return read_bundle_key(data)
    except ConfigurationError as exc:
        raise ConfigurationError(
            f"{file}: {exc.message}",
            code=exc.code,
            expected=exc.expected,
            hint="'openssl pkey -in bundle-key.pem -pubout' prints the public key of a private key",
        ) from exc


def _expected(nonce: bytes | None, report_data: bytes | None, evidence: Evidence) -> ExpectedFreshness | None:
    """Return the expected freshness. With a binding, nonce and REPORT_DATA are two fields; without, they are one."""
    if nonce is None and report_data is None:
        return None
    if not any(item.essence == MEDIA_BINDING for item in evidence.items):
        if not any(item.essence in AZURE_PARSERS for item in evidence.items):  # which has a field for each
            _require_agreement(nonce, report_data)
        _require_fitting(nonce, report_data, evidence)
    return ExpectedFreshness(nonce=nonce, report_data=report_data)


def _require_fitting(nonce: bytes | None, report_data: bytes | None, evidence: Evidence) -> None:
    """Refuse a question that no device of this evidence could answer."""
    kinds, document = {item.essence for item in evidence.items}, is_document(evidence)
    sized = document or any(kind in kinds and form.nonce_bytes for kind, form in FORMATS.peripherals.items())
    if nonce is not None and len(nonce) != DEVICE_NONCE_BYTES and sized:
        raise ConfigurationError(
            f"the nonce of a {'service' if document else 'GPU or switch'} has {DEVICE_NONCE_BYTES} bytes",
            code="nonce-length",
            field="--nonce",
            expected=f"{DEVICE_NONCE_BYTES} bytes, {2 * DEVICE_NONCE_BYTES} hex digits",
            got=f"{len(nonce)} bytes",
        )
    if report_data is not None and document:
        raise ConfigurationError(
            "--report-data: the report data of a service's machines follow from their keys",
            code="option-not-applicable",
            field="--report-data",
            hint="give --nonce: the one that was sent to the service",
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
            "--nonce and --nonce-text are two different values", code="nonce-ambiguous", hint="use only one of them"
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
            hint="a nonce is left-aligned in REPORT_DATA, followed by zeros",
        )


def _with_log(evidence: Evidence, file: str | None) -> Evidence:
    """Add the event log to the evidence whose registers it must replay to."""
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
    if any(item.essence in {MEDIA_EVENT_LOG, MEDIA_DSTACK_LOG} for item in evidence.items):
        raise ConfigurationError(
            "--eventlog: this evidence carries its own event log",
            code="option-not-applicable",
            field="--eventlog",
            hint="leave out --eventlog: the included log must replay to the registers",
        )
    media_type = MEDIA_DSTACK_LOG if is_dstack_log(log) else MEDIA_EVENT_LOG
    item = EvidenceItem(name="eventlog", media_type=media_type, value=log)
    return replace(evidence, items=(*evidence.items, item))
