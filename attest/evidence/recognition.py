"""Recognition of one file of evidence by its content.

A file is looked at in this order, and the first line that fits decides. Each line suffices to distinguish its
form from every other; no decoder is run to see whether it works. Once a form is decided, a defect is a defect of that
form and nothing further is tried.

==  ==================================================================================  ========================
 #  What the file begins with, or consists of                                            It is (``--form``)
==  ==================================================================================  ========================
 0  header of Open Enclave, whose size fits what follows                                 sgx-quote
 1  1,184 bytes, a little-endian u32 from 1 to 255 in front                              SNP report (snp-report)
 2  the same u32; at 1184 a GUID of the certificate table, an entry that points into     extended report
    what follows, or only zeros                                                          (snp-extended)
 3  a GUID of the certificate table, or only zeros                                       certificate table
 4  CBOR map that begins with the format of an endorsement bundle                        endorsement bundle
 5  protobuf field 1, a length of two or three bytes, then protobuf field 1, a number    go-sev-guest (snp-extended)
 6  DER SEQUENCE of a SEQUENCE that begins with [0], or with INTEGER 1                   certificate, CRL; with an
                                                                                         extension for evidence a
                                                                                         tdx-quote or sgx-quote
 7  quote header: version 3 to 5, key type 2 or 3, TEE type 0x81 or 0                    tdx-quote, sgx-quote
 8  ``HCLA`` and a version; ``Spec ID Event03`` at 32; SPDM GET_MEASUREMENTS; a u64      hcl, ccel, nvidia-report,
    length and, behind as many bytes and another length, what a TPM's message begins     quote of Azure's vTPM
    with
 9  CBOR array of two or three, CBOR map; Nitro's and Arm CCA's, by their first bytes    envelope
10  ``{`` or ``[`` after white space: JSON, by its members, see ``JSON_KINDS``           envelope, snp-extended,
                                                                                         coco-json, azure-json, …
11  a line ``-----BEGIN``                                                                certificates, CRLs; see 6
12  three base64url words with dots between, the first one that of an object             token
13  64 or more hex digits, perhaps with white space, perhaps ``0x`` in front             lines 0 to 9 in hex
14  64 or more letters of base64 or base64url, perhaps with line breaks                  lines 0 to 9 in base64
==  ==================================================================================  ========================

Text is decoded once and what comes out is looked at by lines 0 to 9: there is no hex of base64 and no base64 of JSON.

Spec: CLI.md, Inputs; specs/formats.md, section 3; specs/sev-snp.md, sections 2, 13 and 18; specs/nvidia-gpu.md,
section 16.
"""

from __future__ import annotations

import re

from attest.encoding import hex_bytes, json_value
from attest.endorsements.x509 import parse_crl, pem_blocks
from attest.errors import EvidenceError
from attest.evidence.input_file import (
    FORMS,
    HINT,
    MAX_CERTIFICATES,
    MAX_FILE_BYTES,
    FileContent,
    RecognisedFile,
    certificate_of_evidence,
    refuse,
)
from attest.evidence.recognition_binary import attested_certificate_items, attested_tee, binary_kind, has_version
from attest.evidence.recognition_json import JSON_KINDS
from attest.evidence.snp.peer_forms import base64_of_either_alphabet
from attest.evidence.snp.structure import REPORT_BYTES


def recognise(file: str, data: bytes) -> RecognisedFile:
    """Recognise one file; only JSON is parsed for that, and only hex and base64 are decoded.

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
            hint="collect it again: the program that wrote this file failed",
        )
    # Lines 0 to 9: binary. None of them can be mistaken for text, which has no zero bytes and nothing above 0x7f.
    kind = binary_kind(data)
    if kind is not None:
        return kind.recognised(file, data)
    if text[:1] in (b"{", b"["):
        return _recognise_json(file, data)
    if not text.isascii():
        raise _unrecognised(file, data, "binary data")
    if _PEM_BEGIN.search(data):
        return RecognisedFile(file=file, data=data, form=_pem_form(data), label="PEM", read=_pem)
    if _JWT.fullmatch(text):
        return RecognisedFile(file=file, data=data, form="token", label="token (JWT)", read=None)
    return _recognise_encoded(file, text.decode("ascii"))


def _recognise_json(file: str, data: bytes) -> RecognisedFile:
    document = json_value(data, what=file)
    for kind in JSON_KINDS:
        if kind.looks(document):
            return kind.recognised(file, data, document=document)
    members = ", ".join(map(repr, sorted(document)[:8])) if isinstance(document, dict) else "an array"
    raise _unrecognised(file, data, f"JSON of an unknown kind ({members[:120]})")


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
    kind = binary_kind(data)
    if kind is None:
        raise _unrecognised(file, data, f"{encoding} of something else")
    return kind.recognised(file, data, encoding=encoding)


_PEM_BEGIN = re.compile(rb"^-----BEGIN ", re.MULTILINE)
_FIRST_PEM = re.compile(rb"^-----BEGIN [^-]*+-----[^-]*+-----END [^-]*+-----", re.MULTILINE)
_JWT = re.compile(rb"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_SHORTEST_ENCODED_CHARACTERS = 64
"""Length below that of any evidence: the error for a word or two does not mention base64."""
_HEX_TEXT = re.compile(r"(?:0x)?[0-9a-fA-F\s]+", re.ASCII)
_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/_\r\n-]++=?[\r\n]*+=?")


# -- line 11: PEM

_CERTIFICATE, _CRL = "CERTIFICATE", "X509 CRL"


def _pem(file: RecognisedFile) -> FileContent:
    """Read certificates and CRLs, in order; another block is refused by its label, its content is not shown."""
    blocks = pem_blocks(file.data)
    if not blocks or len(blocks) != len(_PEM_BEGIN.findall(file.data)):
        raise _unrecognised(file.file, file.data, "PEM with a block whose BEGIN and END labels differ")
    if len(blocks) > MAX_CERTIFICATES:
        raise refuse(
            "evidence-too-large",
            f"{file.file} has {len(blocks)} PEM blocks",
            file=file.file,
            expected=f"{MAX_CERTIFICATES}",
        )
    for label, _ in blocks:
        _require_known_label(label, file.file)
    certificates = tuple(certificate_of_evidence(der, file.file) for label, der in blocks if label == _CERTIFICATE)
    crls = tuple(parse_crl(der) for label, der in blocks if label == _CRL)
    names = [certificate.name for certificate in certificates] + ["CRL"] * len(crls)
    items = () if file.form is None else attested_certificate_items(certificates[0])
    presented = certificates if file.form is None else certificates[1:]
    return FileContent(label=f"PEM: {', '.join(names)}", items=items, certificates=presented, crls=crls)


def _pem_form(data: bytes) -> str | None:
    """Return the form of the evidence in the first certificate, the leaf of a chain; None without any."""
    head = _FIRST_PEM.search(data)
    try:
        blocks = () if head is None else pem_blocks(head[0])
    except EvidenceError:
        return None
    tee = attested_tee(blocks[0][1]) if blocks and blocks[0][0] == _CERTIFICATE else None
    return None if tee is None else f"{tee}-quote"


def _require_known_label(label: str, file: str) -> None:
    if label not in (_CERTIFICATE, _CRL):
        raise refuse(
            "evidence-unrecognised",
            f"{file} has a PEM block {label}",
            file=file,
            expected=f"{_CERTIFICATE} or {_CRL}",
            got=label,
            hint="only certificates and CRLs accompany evidence",
        )


def _unrecognised(file: str, data: bytes, what: str) -> EvidenceError:
    size = f"{len(data)} bytes"
    if has_version(data):
        size += f"; an SNP report has {REPORT_BYTES}, an extended one has a certificate table after it"
    return refuse(
        "evidence-unrecognised",
        f"{file} has no known form: {what}, {size}",
        file=file,
        expected=f"one of {', '.join(FORMS)}",
        got=what,
        hint=HINT,
    )
