"""Files of one Attester as one ``Evidence``.

Each file is recognised by content (``recognition.py`` has the table). One of them is the evidence: a report, an
envelope, or another form of ``FORMS``. The others accompany it.

Forms that this version recognises and does not verify are refused as ``evidence-unsupported``, by name.

Spec: CLI.md, Inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attest.endorsements.pool import Endorsements
from attest.errors import UnsupportedError
from attest.evidence.envelope import (
    MEDIA_ENDORSEMENTS,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
)
from attest.evidence.recognition import (
    CLAUSE,
    FORMS,
    HINT,
    MAX_CERTIFICATES,
    MAX_FILE_BYTES,
    FileContent,
    RecognisedFile,
    recognise,
    refuse,
)

__all__ = ["FORMS", "MAX_CERTIFICATES", "MAX_FILES", "MAX_FILE_BYTES", "RecognisedEvidence", "read_evidence"]

MAX_FILES = 64
"""A report and its chain are four files; a machine with eight devices, each with a chain, has forty."""

_ENDORSEMENTS_INDICATOR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedEvidence:
    """Files of one Attester as one piece of evidence. Nothing of it is trusted.

    Attributes:
        evidence: what the files hold.
        forms: what each file was recognised as, for people, in the order of the files.
    """

    evidence: Evidence
    forms: tuple[str, ...]


def read_evidence(files: Sequence[tuple[str, bytes]], *, form: str | None = None) -> RecognisedEvidence:
    """Recognise files of one Attester and put them together.

    One file is the evidence: a report, an envelope, or another form of ``FORMS``. The others accompany it:
    certificates and CRLs, which become ``Evidence.presented``; an endorsement bundle, which becomes an item; the
    certificate table of a plain report, which becomes an extended report.

    Args:
        files: name (for messages) and content of each file; in any order.
        form: what the evidence must be recognised as, one of ``FORMS``; None takes any.

    Raises:
        EvidenceError: ``evidence-empty`` (no file, an empty one, or none that is evidence),
            ``evidence-unrecognised``, ``evidence-ambiguous`` (two that could be the evidence, or two tables or
            bundles), ``evidence-form-mismatch``, ``evidence-too-large``, or a defect of the recognised form.
        UnsupportedError: ``evidence-unsupported``, a form that this version does not verify, or
            ``snp-version-unsupported``.
        ChainError: ``certificate-malformed``, a certificate that came with the evidence cannot be read.
        ValueError: ``form`` is not one of ``FORMS``.
    """
    if form is not None and form not in FORMS:
        msg = f"no form is called {form!r}: expected one of {', '.join(FORMS)}"
        raise ValueError(msg)
    if not files:
        raise refuse("evidence-empty", "no file was given", expected="evidence", got="nothing")
    if len(files) > MAX_FILES:
        raise refuse("evidence-too-large", f"{len(files)} files, more than {MAX_FILES}", expected=f"{MAX_FILES} files")
    recognised = [recognise(name, data) for name, data in files]
    evidence = _the_evidence(recognised, form)
    contents = [_read(file) for file in recognised]
    return RecognisedEvidence(
        evidence=_together(contents[recognised.index(evidence)], recognised, contents),
        forms=tuple(content.label for content in contents),
    )


def _read(file: RecognisedFile) -> FileContent:
    if file.read is None:
        raise UnsupportedError(
            f"{file.file} looks like this: {file.label}; this version does not verify that",
            code="evidence-unsupported",
            field=file.file,
            expected="SEV-SNP, TDX or SGX evidence, or an envelope",
            got=file.label,
            clause=CLAUSE,
            hint="SEV-SNP reports, TDX and SGX quotes, and envelopes with one of them are verified",
        )
    return file.read(file)


def _the_evidence(recognised: list[RecognisedFile], form: str | None) -> RecognisedFile:
    """Return the one file that is evidence, of the form that was asked for."""
    found = [file for file in recognised if file.form is not None]
    if not found:
        labels = ", ".join(f"{file.file}: {file.label}" for file in recognised)
        raise refuse(
            "evidence-empty", f"no file is evidence ({labels})", expected="evidence", got="endorsements", hint=HINT
        )
    if len(found) > 1:
        labels = " and ".join(f"{file.file} ({file.label})" for file in found[:2])
        raise refuse(
            "evidence-ambiguous",
            f"{labels} are both evidence",
            expected="one, with the certificates that belong to it",
            got=f"{len(found)}",
            hint="verify each on its own; several devices of one machine go into one envelope",
        )
    evidence = found[0]
    if form is not None and evidence.form != form:
        raise refuse(
            "evidence-form-mismatch",
            f"{evidence.file} was to be {form} and looks like {evidence.form} ({evidence.label})",
            file=evidence.file,
            expected=form,
            got=evidence.form,
            hint=f"leave --form out, or say --form {evidence.form}",
        )
    return evidence


def _together(evidence: FileContent, recognised: list[RecognisedFile], contents: list[FileContent]) -> Evidence:
    """Put what accompanies the evidence in its places."""
    certificates = tuple(certificate for content in contents for certificate in content.certificates)
    crls = tuple(crl for content in contents for crl in content.crls)
    if len(certificates) + len(crls) > MAX_CERTIFICATES:
        raise refuse(
            "evidence-too-large",
            f"{len(certificates) + len(crls)} certificates and CRLs came with the evidence",
            expected=f"at most {MAX_CERTIFICATES}",
        )
    items = evidence.items
    table = _at_most_one(recognised, [content.table for content in contents])
    if table is not None:
        items = _with_table(items, table)
    bundle = _at_most_one(recognised, [content.bundle for content in contents])
    if bundle is not None:
        items = (*items, _bundle_item(bundle, taken=[item.name for item in items]))
    return Evidence(
        items=items,
        collection_type=evidence.collection_type,
        presented=Endorsements(certificates=certificates, crls=crls),
    )


def _at_most_one(recognised: list[RecognisedFile], values: list[bytes | None]) -> bytes | None:
    there = [(file, value) for file, value in zip(recognised, values, strict=True) if value is not None]
    if len(there) > 1:
        names = " and ".join(file.file for file, _ in there[:2])
        raise refuse(
            "evidence-ambiguous", f"{names} are both: {there[0][0].label}", expected="one", got=f"{len(there)}"
        )
    return there[0][1] if there else None


def _with_table(items: tuple[EvidenceItem, ...], table: bytes) -> tuple[EvidenceItem, ...]:
    """Make a plain report and a table an extended report; anything else has its certificates already."""
    if len(items) != 1 or items[0].essence != MEDIA_SNP_REPORT:
        raise refuse(
            "evidence-ambiguous",
            "a certificate table came beside evidence that is not a plain SNP report",
            expected="a plain report, or no table",
            got=", ".join(repr(item.media_type) for item in items),
            hint="certificates for other evidence go to --endorsements",
        )
    return (replace(items[0], media_type=MEDIA_SNP_EXTENDED, value=items[0].value + table),)


def _bundle_item(bundle: bytes, *, taken: list[str]) -> EvidenceItem:
    names = ("endorsements", *(f"endorsements{number}" for number in range(len(taken) + 1)))
    name = next(name for name in names if name not in taken)
    return EvidenceItem(name=name, media_type=MEDIA_ENDORSEMENTS, value=bundle, indicator=_ENDORSEMENTS_INDICATOR)
