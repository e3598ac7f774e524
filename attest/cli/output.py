"""The output of ``verify`` and ``appraise``: a document for programs or a page for people, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from attest.appraisal import AttestationResult, Judgement
from attest.checks import Check, Unchecked
from attest.cli.documents import mapping_of, mappings_of, print_document
from attest.cli.options import VerificationOptions
from attest.cli.reference_log import ReferenceLog, compared_document
from attest.encoding import JsonValue
from attest.errors import AttestError, EndorsementError, EvidenceError, VerificationError
from attest.results.document import appraised_document, refused_document, verified_document
from attest.terminal.boundary import report_error
from attest.terminal.display import Display
from attest.verification import VerifiedEvidence

EXIT_NOT_AFFIRMED = 1


REFUSALS: Final = (EvidenceError, VerificationError, EndorsementError)
"""Refusals of evidence, exit 3, 4 or 5. Wrong usage is no refusal: it goes to the boundary."""


def show_refusal(
    error: AttestError,
    *,
    command: str,
    at: datetime,
    question: VerificationOptions,
    unchecked: tuple[Unchecked, ...] | None = None,
    reference: ReferenceLog | None = None,
    opinion: Mapping[str, JsonValue] = MappingProxyType({}),
) -> int:
    """Print the reason of a refusal, and return 3, 4 or 5.

    ``unchecked`` are the relaxations, by default those of the command line. An opinion is another verifier's, printed
    besides.
    """
    relaxed = question.unchecked if unchecked is None else unchecked
    document = refused_document(error, command=command, at=at, unchecked=relaxed)
    show_result({**document, **_compared(reference, verified=False), **opinion}, display=question.display)
    report_error(error.message, error.hint)
    return error.exit_code


def show_verified(
    verified: VerifiedEvidence,
    *,
    question: VerificationOptions,
    reference: ReferenceLog | None = None,
    opinion: Mapping[str, JsonValue] = MappingProxyType({}),
) -> int:
    """Print that the evidence is genuine, and return 0. An opinion is another verifier's, printed besides."""
    document = {**verified_document(verified), **_compared(reference, verified=True), **opinion}
    return show_result(document, display=question.display)


def show_result(document: dict[str, JsonValue], *, display: Display) -> int:
    """Show a document for programs or for people; return 0 for the outcome ``verified`` or ``affirmed``, else 1."""
    if display.json:
        print_document(document)
    elif not display.quiet:
        from attest.cli.page import print_result

        print_result(document, display=display)
    return 0 if document["outcome"] in ("verified", "affirmed") else EXIT_NOT_AFFIRMED


def show_appraised(
    results: tuple[AttestationResult, ...],
    *,
    question: VerificationOptions,
    reference: ReferenceLog | None = None,
    warnings: Sequence[tuple[str, str]] = (),
) -> int:
    """Print the outcome of each policy, and return 0 when all of them affirm, else 1.

    ``warnings`` are codes and messages about what no policy judged; they change no outcome.
    """
    document = appraised_documents(results) | _compared(reference, verified=True)
    for _, message in warnings:
        question.display.warn(message)
    if warnings:
        found: list[JsonValue] = [{"code": code, "message": message} for code, message in warnings]
        document["warnings"] = [*mappings_of(document.get("warnings", [])), *found]
    return show_result(document, display=question.display)


def _compared(reference: ReferenceLog | None, *, verified: bool) -> dict[str, JsonValue]:
    return {} if reference is None else {"reference_log": compared_document(reference, verified=verified)}


def appraised_documents(results: tuple[AttestationResult, ...]) -> dict[str, JsonValue]:
    """Put the results of several policies into one document; that of one policy is the library's own.

    With several, ``policies`` takes the place of ``policy`` and ``trustworthiness``: each with its own outcome, status
    and vector. Equal checks of verification occur once; those of a policy have its name.
    """
    documents = [appraised_document(result) for result in results]
    return combined_documents(documents, results, [check for result in results for check in result.verified.checks])


def combined_documents(
    documents: Sequence[dict[str, JsonValue]], judgements: Sequence[Judgement], verification: Iterable[Check]
) -> dict[str, JsonValue]:
    """Put documents about one evidence or token into one; arguments in the same order, at least one of each."""
    if len(documents) == 1:
        return documents[0]
    worst = next((d for d, r in zip(documents, judgements, strict=True) if not r.affirmed), documents[0])
    unchecked = dict.fromkeys(entry for judgement in judgements for entry in judgement.unchecked)
    verified = {check.id for check in verification} - {"freshness"}
    checks: list[JsonValue] = []
    for document, judgement in zip(documents, judgements, strict=True):
        for check in mappings_of(document["checks"]):
            named = check if check.get("id") in verified else {**check, "policy": judgement.policy.name}
            if named not in checks:  # a relaxation of one policy may change what verification found under it
                checks.append(named)
    combined = {name: value for name, value in worst.items() if name not in ("policy", "trustworthiness")}
    combined["unchecked"] = [{"check": entry.check, "reason": entry.reason} for entry in unchecked]
    combined["policies"] = [_policy_of(document) for document in documents]
    combined["checks"] = checks
    return combined


def _policy_of(document: dict[str, JsonValue]) -> JsonValue:
    outcome = {name: document[name] for name in ("outcome", "status", "trustworthiness")}
    return {**mapping_of(document["policy"]), **outcome}
