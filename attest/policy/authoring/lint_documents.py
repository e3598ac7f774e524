"""Lint of the documents of reference values that a policy names: probable mistakes, and documents not available."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from attest.encoding import rfc3339_text
from attest.errors import ConfigurationError
from attest.policy.authoring.demands import names_in_use
from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.decoder import RelaxedDemand
from attest.policy.reference_values.accepted_documents import accept_document
from attest.policy.reference_values.reference_documents import DocumentState, ReferenceDocument
from attest.policy.references import ReferenceValues

_Documents = Mapping[str, ReferenceDocument]


def document_findings(context: LintContext, documents: _Documents) -> Iterator[LintFinding]:
    """Return the findings in each document that the policy names, and those that it does not name."""
    accepted: list[ReferenceDocument] = []
    for index, row in enumerate(context.policy.references):
        path = f"references[{index}]"
        try:
            document = accept_document(row, documents)
        except ConfigurationError as exc:
            yield _not_there(exc, row.document, path)
        else:
            accepted.append(document)
            yield from _document(document, path, context)
    yield from _revoked(accepted, context)
    yield from _unnamed(context, documents)


def _unnamed(context: LintContext, documents: _Documents) -> Iterator[LintFinding]:
    named = {row.document for row in context.policy.references}
    for name in documents:
        if name not in named:
            yield LintFinding(
                rule="references-not-named",
                severity=Severity.WARNING,
                path="references",
                why=f"document {name!r} has no effect: the policy does not name it",
                remedy="name it under references, by its digest or by its signers",
            )


def _not_there(problem: ConfigurationError, name: str, path: str) -> LintFinding:
    """Distinguish a document that is not available from one that the policy refuses."""
    if problem.code == "references-missing":
        why = f"document {name!r} was not given: the expiry and the revocations of its values were not checked"
        return LintFinding(
            rule=problem.code,
            severity=Severity.WARNING,
            path=path,
            why=why,
            remedy="give it with --references, and with its signatures and keys if the policy names signers",
        )
    return LintFinding(
        rule=problem.code,
        severity=Severity.ERROR,
        path=path,
        why=f"{problem.message}: expected {problem.expected}, got {problem.got}",
        remedy="give the document that the policy names, with the signatures of its signers; or change the policy",
    )


def _document(document: ReferenceDocument, path: str, context: LintContext) -> Iterator[LintFinding]:
    end = document.expires.value
    if isinstance(end, RelaxedDemand):
        yield LintFinding(
            rule="references-without-end",
            severity=Severity.NOTE,
            path=path,
            why=f"document {document.name!r} has no end: {end.reason}",
            remedy="ask its author to add 'expires'",
        )
    else:
        yield from context.expiry("references", path, end, f"take a newer version of document {document.name!r}")
    if document.state(context.at) is DocumentState.NOT_YET_ISSUED:
        yield LintFinding(
            rule="references-not-issued",
            severity=Severity.WARNING,
            path=path,
            why=f"document {document.name!r} is issued {rfc3339_text(document.issued)}, which is in the future",
            remedy="ask its author; a service does not accept it before that time",
        )
    yield from _names(document, path, context)


def _names(document: ReferenceDocument, path: str, context: LintContext) -> Iterator[LintFinding]:
    """Check the names: a document may have more of them than one policy uses."""
    used = names_in_use(context.policy)
    unused = [name for name in document.entries if name not in used]
    every = len(unused) == len(document.entries)
    if unused:
        yield LintFinding(
            rule="references-unused",
            severity=Severity.WARNING if every and not document.revoked else Severity.NOTE,
            path=path,
            why=f"no demand refers to {'any name' if every else ', '.join(unused)} of document {document.name!r}",
            remedy="name it in the demand that it is for" + (", or leave the document out" if every else ""),
        )
    whole = document.expires.value
    for name, entry in document.entries.items():
        sooner = entry.expires is not None and (not isinstance(whole, datetime) or entry.expires < whole)
        if name in used and sooner and entry.expires is not None:
            place = f"references.{document.name}.{name}"
            yield from context.expiry("reference", place, entry.expires, "measure a current build")


def _revoked(accepted: list[ReferenceDocument], context: LintContext) -> Iterator[LintFinding]:
    """Find the values that a document revokes, of the policy and of every document."""
    withdrawn = {one.value: (document.name, one.reason) for document in accepted for one in document.revoked}
    used = names_in_use(context.policy)
    for name, reference in context.policy.reference_values.items():
        revoked_here = [value for value in reference.values if value in withdrawn]
        for value in revoked_here:
            document, reason = withdrawn[value]
            every = len(revoked_here) == len(reference.values)
            yield LintFinding(
                rule="reference-revoked",
                severity=Severity.ERROR if every and name in used else Severity.WARNING,
                path=_place(name, reference),
                why=f"document {document!r} revokes {value.hex()}: {reason}"
                + (f"; no value of {name} is left, so the policy does not load" if every else ""),
                remedy="remove it, and measure a current build",
            )


def _place(name: str, reference: ReferenceValues) -> str:
    return f"reference_values.{name}" if reference.document is None else f"references.{reference.document}.{name}"
