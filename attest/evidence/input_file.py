"""Recognised files, their contents, and their refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from attest.encoding import JsonValue
from attest.endorsements.x509 import Certificate, Crl, parse_certificate
from attest.errors import ChainError, EvidenceError
from attest.evidence.envelope import MAX_ENVELOPE_BYTES, EvidenceItem, parse_envelope

FORMS = (
    "envelope",
    "snp-report",
    "snp-extended",
    "tdx-quote",
    "sgx-quote",
    "nvidia-report",
    "nvidia-json",
    "azure-json",
    "hcl",
    "ccel",
    "coco-json",
    "dstack-json",
    "provider-json",
    "token",
)
"""Every name that ``form`` may have. What configfs-tsm and go-sev-guest write counts as ``snp-extended``, a report
with its certificates; the JSON of Trustee and attestation-rs counts as ``coco-json``; the answers and the
event log of dstack as ``dstack-json``, and the whole document of a service as ``provider-json``."""

MAX_FILE_BYTES = 2 * MAX_ENVELOPE_BYTES
"""The largest envelope, as hex text."""
MAX_CERTIFICATES = 64
"""Certificates and revocation lists that come as files of their own."""

_Seen = TypeVar("_Seen")
CLAUSE = "docs/cli-verify.md"
HINT = "give a report, an envelope or another form of --form; pass what vendors publish with --endorsements"


Piece = Literal["table", "bundle", "hcl", "tpm-quote", "dstack-answer", "dstack-info", "app-compose", "provider-keys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """Contents of one file: evidence, or something that accompanies evidence.

    Attributes:
        pieces: parts of the evidence that need others: a certificate table, an endorsement bundle, the raw pieces of
            an Azure VM, and what dstack states beside a quote.
    """

    label: str
    items: tuple[EvidenceItem, ...] = ()
    collection_type: str | None = None
    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    pieces: Mapping[Piece, bytes] = field(default_factory=dict["Piece", bytes])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedFile:
    """The recognised form of one file, before it is read.

    Attributes:
        data: its content, hex or base64 decoded.
        form: its name in ``FORMS``; None for what only accompanies evidence.
        read: its parser; None for a form that this version does not verify.
    """

    file: str
    data: bytes
    form: str | None
    label: str
    read: Callable[[RecognisedFile], FileContent] | None
    document: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind(Generic[_Seen]):
    """One form of a file; ``looks`` recognises its bytes, or its value when it is JSON."""

    form: str | None
    label: str
    looks: Callable[[_Seen], bool]
    read: Callable[[RecognisedFile], FileContent] | None

    def recognised(self, file: str, data: bytes, *, encoding: str = "", document: JsonValue = None) -> RecognisedFile:
        """Return a file of this form."""
        label = f"{self.label}, {encoding}" if encoding else self.label
        return RecognisedFile(file=file, data=data, form=self.form, label=label, read=self.read, document=document)


# -- reading what several forms hold


def as_piece(piece: Piece, file: RecognisedFile) -> FileContent:
    """Take a file as a part that needs others."""
    return FileContent(label=file.label, pieces={piece: file.data})


def as_item(media_type: str, file: RecognisedFile, name: str = "cpu") -> FileContent:
    """Take a file as one item of evidence."""
    item = EvidenceItem(name=name, media_type=media_type, value=file.data)
    return FileContent(label=file.label, items=(item,))


def as_envelope(file: RecognisedFile) -> FileContent:
    """Read an envelope, in CBOR or JSON."""
    evidence = parse_envelope(file.data)
    return FileContent(label=file.label, items=evidence.items, collection_type=evidence.collection_type)


def certificate_of_evidence(der: bytes, file: str) -> Certificate:
    """Read a certificate that came with the evidence; one that is unreadable is a defect of the evidence's chain."""
    try:
        return parse_certificate(der)
    except EvidenceError as exc:
        raise ChainError(
            f"{file} has a certificate that cannot be read: {exc.message}",
            code=exc.code,
            field=file,
            clause="docs/forms.md",
        ) from exc


# -- refusals


def refuse(
    code: str,
    problem: str,
    *,
    file: str | None = None,
    expected: str | None = None,
    got: str | None = None,
    hint: str | None = None,
) -> EvidenceError:
    """Build the refusal of a file, or of files that do not belong together."""
    return EvidenceError(problem, code=code, field=file, expected=expected, got=got, hint=hint, clause=CLAUSE)
