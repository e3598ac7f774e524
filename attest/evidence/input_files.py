"""Files of one Attester as one ``Evidence``.

Each file is recognised by content (``recognition.py`` has the table). One of them is the evidence: a report, an
envelope, or another form of ``FORMS``; of an Azure VM in raw pieces the paravisor's report is it, the TPM's quote and
perhaps a TD quote belong to it. Devices of the same machine may come beside it or alone, in any number of
NVIDIA's files. The others accompany it.

Forms that this version recognises and does not verify are refused as ``evidence-unsupported``, by name.

Spec: CLI.md, Inputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attest.endorsements.pool import Endorsements
from attest.errors import UnsupportedError
from attest.evidence.azure.forms import azure_json, raw_tpm_quote
from attest.evidence.dstack.forms import statements_json
from attest.evidence.envelope import (
    MEDIA_AZURE_CVM,
    MEDIA_DSTACK_STATEMENTS,
    MEDIA_ENDORSEMENTS,
    MEDIA_PROVIDER_KEYS,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
)
from attest.evidence.input_file import CLAUSE, FORMS, HINT, MAX_CERTIFICATES, FileContent, Piece, RecognisedFile, refuse
from attest.evidence.recognition import recognise

MAX_FILES = 64
"""A report and its chain are four files; a machine with eight devices, each with a chain, has forty."""

_ENDORSEMENTS_INDICATOR = 2
_OF_DEVICES = ("nvidia-report", "nvidia-json")
"""Forms of which several files may come together: a machine has one kind of CPU evidence, and many devices."""
_HCL, _TD_QUOTE = "hcl", "tdx-quote"
_DIGITS = re.compile(r"\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedEvidence:
    """Files of one Attester as one piece of evidence. Nothing of it is trusted.

    Attributes:
        forms: description of the recognised form of each file, in the order of the files.
    """

    evidence: Evidence
    forms: tuple[str, ...]


def read_evidence(files: Sequence[tuple[str, bytes]], *, form: str | None = None) -> RecognisedEvidence:
    """Recognise files of one Attester and put them together.

    NVIDIA's devices are numbered in the order of the files (``gpu0``, ``gpu1``, ``nvswitch0``); an envelope's items
    keep their names. Certificates and CRLs become ``Evidence.presented``, an endorsement bundle becomes an item, and a
    plain report with a certificate table becomes an extended report.

    Args:
        files: name (for messages) and content of each file; in any order.
        form: the required form of the evidence, one of ``FORMS``; None takes any. Beside a CPU's evidence or an
            envelope, NVIDIA's files are not meant by it.

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
        raise ValueError(f"no form is called {form!r}: expected one of {', '.join(FORMS)}")
    if not files:
        raise refuse("evidence-empty", "no file was given", expected="evidence", got="nothing")
    if len(files) > MAX_FILES:
        raise refuse("evidence-too-large", f"{len(files)} files, more than {MAX_FILES}", expected=f"{MAX_FILES} files")
    recognised = [recognise(name, data) for name, data in files]
    _require_evidence(recognised, form)
    contents = [_read(file) for file in recognised]
    return RecognisedEvidence(
        evidence=_together(recognised, contents), forms=tuple(content.label for content in contents)
    )


def _read(file: RecognisedFile) -> FileContent:
    if file.read is None:
        raise UnsupportedError(
            f"{file.file} is recognised as {file.label}, which this version does not verify",
            code="evidence-unsupported",
            field=file.file,
            expected="SEV-SNP, TDX, SGX, Azure or NVIDIA evidence, or an envelope",
            got=file.label,
            clause=CLAUSE,
            hint="SEV-SNP reports, TDX and SGX quotes, evidence of Azure confidential VMs, NVIDIA's reports, and "
            "envelopes of them are verified",
        )
    return file.read(file)


def _is_cpu(file: RecognisedFile) -> bool:
    """Return True if a file holds the evidence of the machine, and not of a device alone."""
    return file.form is not None and file.form not in _OF_DEVICES


def _require_evidence(recognised: list[RecognisedFile], form: str | None) -> None:
    """Refuse files that hold no evidence, two that could be meant, or evidence of another form than requested."""
    found = [file for file in recognised if file.form is not None]
    if not found:
        labels = ", ".join(f"{file.file}: {file.label}" for file in recognised)
        raise refuse(
            "evidence-empty", f"no file is evidence ({labels})", expected="evidence", got="endorsements", hint=HINT
        )
    one = [file for file in found if _is_cpu(file)]
    if any(file.form == _HCL for file in one):
        one = [file for file in one if file.form != _TD_QUOTE]  # which belongs to the HCL report
    if len(one) > 1:
        labels = " and ".join(f"{file.file} ({file.label})" for file in one[:2])
        raise refuse(
            "evidence-ambiguous",
            f"{labels} are both evidence",
            expected="one, with the certificates that belong to it and NVIDIA's devices beside it",
            got=f"{len(one)}",
            hint="verify each on its own; several devices of one machine go into one envelope",
        )
    for file in one or found:
        _require_form(file, form)


def _require_form(evidence: RecognisedFile, form: str | None) -> None:
    if form is not None and evidence.form != form:
        raise refuse(
            "evidence-form-mismatch",
            f"{evidence.file} was to be {form} and looks like {evidence.form} ({evidence.label})",
            file=evidence.file,
            expected=form,
            got=evidence.form,
            hint=f"leave --form out, or say --form {evidence.form}",
        )


def _together(recognised: list[RecognisedFile], contents: list[FileContent]) -> Evidence:
    cpu = next((content for file, content in zip(recognised, contents, strict=True) if _is_cpu(file)), None)
    items = cpu.items if cpu is not None else ()
    hcl, quote = _at_most_one(recognised, contents, "hcl"), _at_most_one(recognised, contents, "tpm-quote")
    if hcl is not None or quote is not None:
        pairs = zip(recognised, contents, strict=True)
        items = (_azure_item(hcl, quote, [item for file, c in pairs if file.form == _TD_QUOTE for item in c.items]),)
    table = _at_most_one(recognised, contents, "table")
    if table is not None:
        items = _with_table(items, table)
    items = _with_statements(items, recognised, contents)
    for file, content in zip(recognised, contents, strict=True):
        if file.form in _OF_DEVICES:
            items = _with_devices(items, content.items)
    keys = _at_most_one(recognised, contents, "provider-keys")
    if keys is not None:
        items = (*items, EvidenceItem(name="keys", media_type=MEDIA_PROVIDER_KEYS, value=keys))
    bundle = _at_most_one(recognised, contents, "bundle")
    if bundle is not None:
        items = (*items, _bundle_item(bundle, taken=[item.name for item in items]))
    collection_type = cpu.collection_type if cpu is not None else None
    return Evidence(items=items, collection_type=collection_type, presented=_presented(contents))


def _presented(contents: list[FileContent]) -> Endorsements:
    certificates = tuple(certificate for content in contents for certificate in content.certificates)
    crls = tuple(crl for content in contents for crl in content.crls)
    if len(certificates) + len(crls) > MAX_CERTIFICATES:
        raise refuse(
            "evidence-too-large",
            f"{len(certificates) + len(crls)} certificates and CRLs came with the evidence",
            expected=f"at most {MAX_CERTIFICATES}",
        )
    return Endorsements(certificates=certificates, crls=crls)


def _azure_item(hcl: bytes | None, quote: bytes | None, td_quotes: list[EvidenceItem]) -> EvidenceItem:
    """Put the raw pieces of an Azure VM together; neither report nor TPM quote counts without the other."""
    if hcl is None or quote is None:
        missing = "HCL report" if hcl is None else "TPM quote"
        raise refuse(
            "azure-incomplete",
            f"an Azure VM's evidence came without its {missing}",
            expected="the HCL report, the TPM quote, and of a VM on TDX the TD quote",
            got=f"no {missing}",
            hint="give the files together: hcl-report.bin, quote.bin and perhaps td-quote.bin or the VCEK",
        )
    td_quote = td_quotes[0].value if td_quotes else None
    value = azure_json(hcl=hcl, tpm=raw_tpm_quote(quote), td_quote=td_quote)
    return EvidenceItem(name="cpu", media_type=MEDIA_AZURE_CVM, value=value)


def _with_statements(
    items: tuple[EvidenceItem, ...], recognised: list[RecognisedFile], contents: list[FileContent]
) -> tuple[EvidenceItem, ...]:
    """Append the statements of dstack's services beside a quote, if there are any."""
    answer = _at_most_one(recognised, contents, "dstack-answer")
    info = _at_most_one(recognised, contents, "dstack-info")
    app_compose = _at_most_one(recognised, contents, "app-compose")
    if answer is None and info is None and app_compose is None:
        return items
    value = statements_json(answer=answer, info=info, app_compose=app_compose)
    return (*items, EvidenceItem(name="dstack", media_type=MEDIA_DSTACK_STATEMENTS, value=value))


def _with_devices(items: tuple[EvidenceItem, ...], devices: tuple[EvidenceItem, ...]) -> tuple[EvidenceItem, ...]:
    """Append devices under the next free number each; a binding knows items by name, so no other one is renamed."""
    found = list(items)
    for device in devices:
        prefix = _DIGITS.sub("", device.name)
        taken = {item.name for item in found}
        number = next(number for number in range(len(found) + 1) if f"{prefix}{number}" not in taken)
        found.append(replace(device, name=f"{prefix}{number}"))
    return tuple(found)


def _at_most_one(recognised: list[RecognisedFile], contents: list[FileContent], piece: Piece) -> bytes | None:
    pairs = zip(recognised, contents, strict=True)
    found = [(file, content.pieces[piece]) for file, content in pairs if piece in content.pieces]
    if len(found) > 1:
        names = " and ".join(file.file for file, _ in found[:2])
        raise refuse(
            "evidence-ambiguous", f"{names} are both: {found[0][0].label}", expected="one", got=f"{len(found)}"
        )
    return found[0][1] if found else None


def _with_table(items: tuple[EvidenceItem, ...], table: bytes) -> tuple[EvidenceItem, ...]:
    """Make a plain report and a table an extended report; anything else has its certificates already."""
    if len(items) != 1 or items[0].essence != MEDIA_SNP_REPORT:
        raise refuse(
            "evidence-ambiguous",
            "a certificate table came beside evidence that is not a plain SNP report",
            expected="a plain report, or no table",
            got=", ".join(repr(item.media_type) for item in items),
            hint="pass certificates for other evidence with --endorsements",
        )
    return (replace(items[0], media_type=MEDIA_SNP_EXTENDED, value=items[0].value + table),)


def _bundle_item(bundle: bytes, *, taken: list[str]) -> EvidenceItem:
    names = ("endorsements", *(f"endorsements{number}" for number in range(len(taken) + 1)))
    name = next(name for name in names if name not in taken)
    return EvidenceItem(name=name, media_type=MEDIA_ENDORSEMENTS, value=bundle, indicator=_ENDORSEMENTS_INDICATOR)
