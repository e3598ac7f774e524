"""What is this file? One file of evidence, recognised by content.

A file is looked at in this order, and the first line that fits decides. What a line looks for is enough to tell its
form from every other; no decoder is run to see whether it works. Once a form is decided, a defect is a defect of that
form and nothing further is tried.

==  ==================================================================================  ========================
 #  What the file begins with, or consists of                                            It is (``--form``)
==  ==================================================================================  ========================
 1  1,184 bytes, a little-endian u32 from 1 to 255 in front                              SNP report (snp-report)
 2  the same u32; at 1184 a GUID of the certificate table, an entry that points into     extended report
    what follows, or only zeros                                                          (snp-extended)
 3  a GUID of the certificate table, or only zeros                                       certificate table
 4  CBOR map that begins with the format of an endorsement bundle                        endorsement bundle
 5  protobuf field 1, a length of two or three bytes, then protobuf field 1, a number    go-sev-guest (snp-extended)
 6  DER SEQUENCE of a SEQUENCE that begins with [0], or with INTEGER 1                   certificate, CRL
 7  quote header: version 3 to 5, key type 2 or 3, TEE type 0x81 or 0                    tdx-quote, sgx-quote
 8  ``HCLA`` and a version; ``Spec ID Event03`` at 32; SPDM GET_MEASUREMENTS; a u64      hcl, ccel, nvidia-report,
    length and, behind as many bytes and another length, what a TPM's message begins     quote of Azure's vTPM
    with
 9  CBOR array of two or three, CBOR map                                                 envelope
10  ``{`` or ``[`` after white space: JSON, by its members, see ``_JSON``                envelope, snp-extended,
                                                                                         coco-json, azure-json, …
11  a line ``-----BEGIN``                                                                certificates, CRLs
12  three base64url words with dots between, the first one that of an object             token
13  64 or more hex digits, perhaps with white space, perhaps ``0x`` in front             lines 1 to 9 in hex
14  64 or more letters of base64 or base64url, perhaps with line breaks                  lines 1 to 9 in base64
==  ==================================================================================  ========================

Text is decoded once and what comes out is looked at by lines 1 to 9: there is no hex of base64 and no base64 of JSON.

Spec: CLI.md, Inputs; specs/formats.md, section 3; specs/sev-snp.md, sections 2, 13 and 18; specs/nvidia-gpu.md,
section 16.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from attest.encoding import JsonValue, hex_bytes, json_value
from attest.endorsements.bundle import is_bundle
from attest.endorsements.x509 import Certificate, Crl, parse_certificate, parse_crl, pem_blocks
from attest.errors import ChainError, EvidenceError
from attest.evidence.azure.forms import is_azure_json, is_raw_tpm_quote
from attest.evidence.envelope import (
    MAX_DEPTH,
    MAX_ENVELOPE_BYTES,
    MEDIA_AZURE_CVM,
    MEDIA_CONFIGFS_TSM,
    MEDIA_INTEL_QUOTE,
    MEDIA_NVIDIA_DEVICE,
    MEDIA_NVIDIA_REPORT,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    EvidenceItem,
    parse_envelope,
)
from attest.evidence.gpu.evidence import is_nvidia_json, split_nvidia_json
from attest.evidence.snp.certificate_table import KINDS
from attest.evidence.snp.peer_forms import (
    PeerSnpEvidence,
    base64_of_either_alphabet,
    read_attestation_rs,
    read_report_json,
    read_tinfoil,
)
from attest.evidence.snp.peer_protobuf import read_protobuf
from attest.evidence.snp.structure import REPORT_BYTES

__all__ = [
    "CLAUSE",
    "FORMS",
    "HINT",
    "MAX_CERTIFICATES",
    "MAX_FILE_BYTES",
    "FileContent",
    "RecognisedFile",
    "recognise",
    "refuse",
]

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
    "token",
)
"""Every name that ``form`` may have. What configfs-tsm and go-sev-guest write counts as ``snp-extended``, a report
with its certificates; the JSON of Trustee, attestation-rs and tinfoil counts as ``coco-json``."""

MAX_FILE_BYTES = 2 * MAX_ENVELOPE_BYTES
"""The largest envelope, as hex text."""
MAX_CERTIFICATES = 64
"""Certificates and revocation lists that come as files of their own."""

CLAUSE = "CLI.md, Inputs"
HINT = "give a report, an envelope or another form of --form; what vendors publish goes to --endorsements"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """What one file holds: evidence, or something that accompanies evidence."""

    label: str
    items: tuple[EvidenceItem, ...] = ()
    collection_type: str | None = None
    table: bytes | None = None
    bundle: bytes | None = None
    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    hcl: bytes | None = None
    tpm_quote: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedFile:
    """What one file is, before it is read.

    Attributes:
        file: its name.
        data: its content, hex or base64 decoded.
        form: its name in ``FORMS``; None for what only accompanies evidence.
        label: what it is, for people.
        read: how to read it; None for a form that this version does not verify.
        document: the value, when it is JSON.
    """

    file: str
    data: bytes
    form: str | None
    label: str
    read: Callable[[RecognisedFile], FileContent] | None
    document: JsonValue = None


def recognise(file: str, data: bytes) -> RecognisedFile:
    """Say what one file is; only JSON is parsed for that, and only hex and base64 are decoded.

    Args:
        file: its name, for messages.
        data: its content, at most ``MAX_FILE_BYTES``.

    Raises:
        EvidenceError: ``evidence-empty``, ``evidence-too-large``, ``evidence-unrecognised``, ``json-invalid``,
            ``hex-invalid`` or ``base64-invalid``.
    """
    if len(data) > MAX_FILE_BYTES:
        raise refuse(
            "evidence-too-large",
            f"{file} has more than {MAX_FILE_BYTES} bytes",
            file=file,
            expected=f"at most {MAX_FILE_BYTES} bytes",
            hint="evidence is much smaller: give the report, quote or envelope itself",
        )
    text = data.strip()
    if not text:
        raise refuse(
            "evidence-empty",
            f"{file} is empty",
            file=file,
            expected="evidence",
            got=f"{len(data)} bytes",
            hint="collect it anew: whatever wrote this file has failed",
        )
    # Lines 1 to 9: binary. None of them can be mistaken for text, which has no zero bytes and nothing above 0x7f.
    kind = _binary_kind(data)
    if kind is not None:
        return RecognisedFile(file=file, data=data, form=kind.form, label=kind.label, read=kind.read)
    if text[:1] in (b"{", b"["):
        return _recognise_json(file, data)
    if not text.isascii():
        raise _unrecognised(file, data, "binary data")
    if _PEM_BEGIN.search(data):
        return RecognisedFile(file=file, data=data, form=None, label="PEM", read=_pem)
    if _JWT.fullmatch(text):
        return RecognisedFile(file=file, data=data, form="token", label="token (JWT)", read=None)
    return _recognise_encoded(file, text.decode("ascii"))


def _recognise_json(file: str, data: bytes) -> RecognisedFile:
    document = json_value(data, what=file)
    for kind in _JSON:
        if kind.looks(document):
            return RecognisedFile(
                file=file, data=data, form=kind.form, label=kind.label, read=kind.read, document=document
            )
    members = ", ".join(map(repr, sorted(document)[:8])) if isinstance(document, dict) else "an array"
    raise _unrecognised(file, data, f"JSON of no known kind ({members[:120]})")


def _recognise_encoded(file: str, text: str) -> RecognisedFile:
    """Decode hex or base64 once. Digits that could be either are hex: no base64 of a report has no other letter."""
    if len(text) < _SHORTEST_ENCODED_CHARACTERS:
        raise _unrecognised(file, text.encode(), "text")
    if _HEX_TEXT.fullmatch(text):
        data, encoding = hex_bytes("".join(text.removeprefix("0x").split()), what=file), "hex text"
    elif _BASE64_TEXT.fullmatch(text):
        data, encoding = base64_of_either_alphabet("".join(text.split()), what=file), "base64 text"
    else:
        raise _unrecognised(file, text.encode(), "text")
    kind = _binary_kind(data)
    if kind is None:
        raise _unrecognised(file, data, f"{encoding} of something else")
    return RecognisedFile(file=file, data=data, form=kind.form, label=f"{kind.label}, {encoding}", read=kind.read)


_PEM_BEGIN = re.compile(rb"^-----BEGIN ", re.MULTILINE)
_JWT = re.compile(rb"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_SHORTEST_ENCODED_CHARACTERS = 64
"""Shorter than any evidence; a word or two is not told that it is bad base64."""
_HEX_TEXT = re.compile(r"(?:0x)?[0-9a-fA-F\s]+")
_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/_\r\n-]++=?[\r\n]*+=?")


# -- lines 1 to 9: binary


@dataclass(frozen=True, slots=True, kw_only=True)
class _Binary:
    form: str | None
    label: str
    looks: Callable[[bytes], bool]
    read: Callable[[RecognisedFile], FileContent] | None


def _binary_kind(data: bytes) -> _Binary | None:
    return next((kind for kind in _BINARY if kind.looks(data)), None)


def _has_version(data: bytes) -> bool:
    # The header of an event log begins with a register index, often 1, and an area of any size follows.
    return data[:1] != b"\0" and data[1:4] == bytes(3) and not _is_ccel(data)


_GUIDS = frozenset(guid.bytes for guid in KINDS)
_SHORTEST_LIST_BYTES = 48
"""One entry of a certificate table, and the entry of zeros that ends its list."""


def _is_table(data: bytes) -> bool:
    return data[:16] in _GUIDS or (len(data) >= 24 and not any(data))


def _is_extended(data: bytes) -> bool:
    """Recognise a report by its version, and behind it a table by its first entry, of a known kind or not."""
    table = data[REPORT_BYTES:]
    begin, length = (int.from_bytes(table[at : at + 4], "little") for at in (16, 20))
    inside = _SHORTEST_LIST_BYTES <= begin <= len(table) and begin + length <= len(table)
    return _has_version(data) and (_is_table(table) or inside)


def _is_protobuf(data: bytes) -> bool:
    return re.match(rb"\x0a[\x80-\xff]{1,2}[\x01-\x7f]\x08", data) is not None


def _is_der(tbs_begins: bytes, data: bytes) -> bool:
    heads = rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...)"
    return re.match(heads + heads + re.escape(tbs_begins), data, re.DOTALL) is not None


def _is_quote(versions: tuple[int, ...], tee_type: int, data: bytes) -> bool:
    """Quote header: version u16, attestation key type u16, TEE type u32."""
    head = [int.from_bytes(data[at:end], "little") for at, end in ((0, 2), (2, 4), (4, 8))]
    return len(data) >= 48 and head[0] in versions and head[1] in (2, 3) and head[2] == tee_type


def _is_hcl(data: bytes) -> bool:
    return data[:4] == b"HCLA" and data[5:8] == bytes(3)


def _is_ccel(data: bytes) -> bool:
    """Recognise the header of an event log; no SNP report has the zeros, whose POLICY would be there."""
    return data[4:28] == b"\3".ljust(24, b"\0") and data[32:48] == b"Spec ID Event03\0"


def _item(media_type: str, file: RecognisedFile, name: str = "cpu") -> FileContent:
    item = EvidenceItem(name=name, media_type=media_type, value=file.data)
    return FileContent(label=file.label, items=(item,))


def _envelope(file: RecognisedFile) -> FileContent:
    evidence = parse_envelope(file.data)
    return FileContent(label=file.label, items=evidence.items, collection_type=evidence.collection_type)


def _protobuf(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, items=(read_protobuf(file.data).to_item(),))


def _table(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, table=file.data)


def _bundle(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, bundle=file.data)


def _certificate(file: RecognisedFile) -> FileContent:
    certificate = _certificate_of_evidence(file.data, file.file)
    return FileContent(label=f"{file.label} ({certificate.name})", certificates=(certificate,))


def _crl(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, crls=(parse_crl(file.data),))


def _certificate_of_evidence(der: bytes, file: str) -> Certificate:
    """Read a certificate that came with the evidence; one that is unreadable is a defect of the evidence's chain."""
    try:
        return parse_certificate(der)
    except EvidenceError as exc:
        raise ChainError(
            f"{file} has a certificate that cannot be read: {exc.message}",
            code=exc.code,
            field=file,
            clause="sev-snp.md 19",
        ) from exc


def _hcl(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, hcl=file.data)


def _tpm_quote(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, tpm_quote=file.data)


_QUOTE = partial(_item, MEDIA_INTEL_QUOTE)

_BINARY: tuple[_Binary, ...] = (
    _Binary(
        form="snp-report",
        label="SEV-SNP report",
        looks=lambda data: len(data) == REPORT_BYTES and _has_version(data),
        read=partial(_item, MEDIA_SNP_REPORT),
    ),
    _Binary(
        form="snp-extended",
        label="SEV-SNP extended report",
        looks=_is_extended,
        read=partial(_item, MEDIA_SNP_EXTENDED),
    ),
    _Binary(form=None, label="SEV-SNP certificate table", looks=_is_table, read=_table),
    _Binary(form=None, label="endorsement bundle", looks=is_bundle, read=_bundle),
    _Binary(form="snp-extended", label="go-sev-guest attestation (protobuf)", looks=_is_protobuf, read=_protobuf),
    _Binary(form=None, label="X.509 certificate", looks=partial(_is_der, b"\xa0"), read=_certificate),
    _Binary(form=None, label="certificate revocation list", looks=partial(_is_der, b"\x02\x01\x01\x30"), read=_crl),
    _Binary(form="tdx-quote", label="TDX quote", looks=partial(_is_quote, (4, 5), 0x81), read=_QUOTE),
    _Binary(form="sgx-quote", label="SGX quote", looks=partial(_is_quote, (3, 4, 5), 0), read=_QUOTE),
    _Binary(form="hcl", label="Azure HCL report", looks=_is_hcl, read=_hcl),
    _Binary(form=None, label="quote of Azure's vTPM", looks=is_raw_tpm_quote, read=_tpm_quote),
    _Binary(form="ccel", label="TCG event log", looks=_is_ccel, read=None),
    _Binary(
        form="nvidia-report",
        label="NVIDIA attestation report",
        looks=lambda data: data[:2] == b"\x11\xe0",
        read=partial(_item, MEDIA_NVIDIA_REPORT, name="gpu0"),  # of a switch too: only its certificate would tell
    ),
    _Binary(
        form="envelope",
        label="evidence envelope (CBOR)",
        looks=lambda data: data[:1] in (b"\x82", b"\x83") or b"\xa0" <= data[:1] <= b"\xbb",
        read=_envelope,
    ),
)


# -- line 10: JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class _Json:
    form: str
    label: str
    looks: Callable[[JsonValue], bool]
    read: Callable[[RecognisedFile], FileContent] | None


_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}\s*(?:;.*)?")


def _is_record(value: JsonValue) -> bool:
    """``[media type, value]``; nothing else that is known here begins with a media type."""
    return (
        isinstance(value, list) and bool(value) and isinstance(value[0], str) and bool(_MEDIA_TYPE.fullmatch(value[0]))
    )


def _is_collection(value: JsonValue, depth: int = MAX_DEPTH) -> bool:
    """Say whether every member is a record or again a collection, as only an envelope has it."""
    if not isinstance(value, dict) or not value or not depth:
        return False
    if isinstance(value.get("__cmwc_t"), str):
        return True
    return all(_is_record(member) or _is_collection(member, depth - 1) for member in value.values())


def _has(*names: str) -> Callable[[JsonValue], bool]:
    """Recognise an object by members that it has, whatever else it has."""
    return lambda document: isinstance(document, dict) and set(names) <= set(document)


def _is_token(document: JsonValue) -> bool:
    """Recognise a signature in JSON, and NVIDIA's array of tokens."""
    if isinstance(document, list):
        return any(isinstance(part, list) and part[:1] == ["JWT"] for part in document[:1])
    return isinstance(document, dict) and "payload" in document and bool({"signature", "signatures"} & set(document))


def _peer(read: Callable[[JsonValue], PeerSnpEvidence], file: RecognisedFile) -> FileContent:
    evidence = read(file.document)
    return FileContent(label=evidence.form, items=(evidence.to_item(),))


def _nvidia(file: RecognisedFile) -> FileContent:
    """Make an item of each device, numbered among its like; ``forms.py`` numbers those of several files."""
    items: list[EvidenceItem] = []
    for prefix, value in split_nvidia_json(file.document):
        number = sum(item.name.startswith(prefix) for item in items)
        items.append(EvidenceItem(name=f"{prefix}{number}", media_type=MEDIA_NVIDIA_DEVICE, value=value))
    return FileContent(label=file.label, items=tuple(items))


_JSON: tuple[_Json, ...] = (
    _Json(
        form="envelope",
        label="evidence envelope (JSON)",
        looks=lambda document: _is_record(document) or _is_collection(document),
        read=_envelope,
    ),
    _Json(
        form="snp-extended",
        label="configfs-tsm report (JSON)",
        looks=_has("provider", "outblob"),
        read=partial(_item, MEDIA_CONFIGFS_TSM),
    ),
    _Json(
        form="coco-json",
        label="SEV-SNP evidence (JSON)",
        looks=_has("attestation_report"),
        read=partial(_peer, read_report_json),
    ),
    _Json(
        form="azure-json",
        label="Azure confidential VM evidence (JSON)",
        looks=is_azure_json,
        read=partial(_item, MEDIA_AZURE_CVM),
    ),
    _Json(
        form="coco-json",
        label="attestation-rs evidence (JSON)",
        looks=_has("platform", "evidence"),
        read=partial(_peer, read_attestation_rs),
    ),
    _Json(
        form="coco-json",
        label="tinfoil attestation document (JSON)",
        looks=_has("format", "body"),
        read=partial(_peer, read_tinfoil),
    ),
    _Json(form="nvidia-json", label="NVIDIA evidence (JSON)", looks=is_nvidia_json, read=_nvidia),
    _Json(form="token", label="token (JSON)", looks=_is_token, read=None),
    _Json(form="coco-json", label="Trustee evidence with a quote (JSON)", looks=_has("quote"), read=None),
    _Json(form="coco-json", label="Trustee sample evidence (JSON)", looks=_has("svn", "report_data"), read=None),
)


# -- line 11: PEM


def _pem(file: RecognisedFile) -> FileContent:
    """Read certificates and CRLs, in order; another block is refused by its label, its content is not shown."""
    blocks = pem_blocks(file.data)
    if not blocks or len(blocks) != len(_PEM_BEGIN.findall(file.data)):
        raise _unrecognised(file.file, file.data, "PEM with a block that does not end as it begins")
    if len(blocks) > MAX_CERTIFICATES:
        raise refuse(
            "evidence-too-large",
            f"{file.file} has {len(blocks)} PEM blocks",
            file=file.file,
            expected=f"{MAX_CERTIFICATES}",
        )
    certificates: list[Certificate] = []
    crls: list[Crl] = []
    for label, content in blocks:
        if label == "CERTIFICATE":
            certificates.append(_certificate_of_evidence(content, file.file))
        elif label == "X509 CRL":
            crls.append(parse_crl(content))
        else:
            raise refuse(
                "evidence-unrecognised",
                f"{file.file} has a PEM block {label}",
                file=file.file,
                expected="CERTIFICATE or X509 CRL",
                got=label,
                hint="only certificates and CRLs accompany evidence",
            )
    names = [certificate.name for certificate in certificates] + ["CRL"] * len(crls)
    return FileContent(label=f"PEM: {', '.join(names)}", certificates=tuple(certificates), crls=tuple(crls))


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


def _unrecognised(file: str, data: bytes, what: str) -> EvidenceError:
    size = f"{len(data)} bytes"
    if _has_version(data):
        size += f"; an SNP report has {REPORT_BYTES}, an extended one a certificate table behind it"
    return refuse(
        "evidence-unrecognised",
        f"{file} is in no known form: {what}, {size}",
        file=file,
        expected=f"one of {', '.join(FORMS)}",
        got=what,
        hint=HINT,
    )
