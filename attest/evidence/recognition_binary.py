"""Binary evidence by its first bytes: lines 0 to 9 of ``recognition``."""

from __future__ import annotations

import re
from functools import partial

from attest.endorsements.bundle_reader import is_bundle
from attest.endorsements.x509 import Certificate, parse_certificate, parse_crl
from attest.errors import EvidenceError
from attest.evidence.attachment.certificate import carried_quote, carries_evidence
from attest.evidence.azure.forms import is_raw_tpm_quote
from attest.evidence.dstack.forms import is_packed_attestation
from attest.evidence.envelope import (
    MEDIA_ATTESTED_CERTIFICATE,
    MEDIA_INTEL_QUOTE,
    MEDIA_NVIDIA_REPORT,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    EvidenceItem,
)
from attest.evidence.input_file import (
    FileContent,
    FileKind,
    RecognisedFile,
    as_envelope,
    as_item,
    as_piece,
    certificate_of_evidence,
)
from attest.evidence.open_enclave import is_open_enclave
from attest.evidence.quote_forms import TEES, Tee, read_open_enclave_items
from attest.evidence.snp.certificate_table import KINDS
from attest.evidence.snp.peer_protobuf import read_protobuf
from attest.evidence.snp.structure import REPORT_BYTES


def binary_kind(data: bytes) -> FileKind[bytes] | None:
    """Return the first form that fits, or None."""
    return next((kind for kind in BINARY_KINDS if kind.looks(data)), None)


def has_version(data: bytes) -> bool:
    """Return True if data begins as an SNP report does."""
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
    return has_version(data) and (_is_table(table) or inside)


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


def _protobuf(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, items=(read_protobuf(file.data).to_item(),))


def _is_attested_certificate(tee: Tee, data: bytes) -> bool:
    return _is_der(b"\xa0", data) and attested_tee(data) == tee


def attested_tee(der: bytes) -> Tee | None:
    """Return the TEE whose quote a certificate carries; SGX for evidence that cannot be read, None without any."""
    try:
        certificate = parse_certificate(der)
    except EvidenceError:
        return None
    if not carries_evidence(certificate):
        return None
    try:
        quote = carried_quote(certificate).quote
    except EvidenceError:
        return "sgx"
    return "tdx" if _is_quote((4, 5), 0x81, quote) else "sgx"


def attested_certificate_items(certificate: Certificate) -> tuple[EvidenceItem, ...]:
    """Return the quote in a certificate, and the certificate, whose key the quote must commit to."""
    quote = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=carried_quote(certificate).quote)
    return (quote, EvidenceItem(name="certificate", media_type=MEDIA_ATTESTED_CERTIFICATE, value=certificate.der))


def _attested_certificate(file: RecognisedFile) -> FileContent:
    certificate = certificate_of_evidence(file.data, file.file)
    return FileContent(label=file.label, items=attested_certificate_items(certificate))


def _open_enclave(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, items=read_open_enclave_items(file.data).items)


def _is_nitro(data: bytes) -> bool:
    """Recognise COSE_Sign1 of ES384, tagged or not, over a map whose first name is of a Nitro enclave."""
    head = re.match(rb"\xd2?\x84\x44\xa1\x01\x38\x22\xa0\x59..[\xa0-\xbf]", data, re.DOTALL)
    return head is not None and b"module_id" in data[:512]


def _certificate(file: RecognisedFile) -> FileContent:
    certificate = certificate_of_evidence(file.data, file.file)
    return FileContent(label=f"{file.label} ({certificate.name})", certificates=(certificate,))


def _crl(file: RecognisedFile) -> FileContent:
    return FileContent(label=file.label, crls=(parse_crl(file.data),))


_QUOTE = partial(as_item, MEDIA_INTEL_QUOTE)

BINARY_KINDS: tuple[FileKind[bytes], ...] = (
    FileKind(form="sgx-quote", label="Open Enclave evidence", looks=is_open_enclave, read=_open_enclave),
    FileKind(
        form="snp-report",
        label="SEV-SNP report",
        looks=lambda data: len(data) == REPORT_BYTES and has_version(data),
        read=partial(as_item, MEDIA_SNP_REPORT),
    ),
    FileKind(
        form="snp-extended",
        label="SEV-SNP extended report",
        looks=_is_extended,
        read=partial(as_item, MEDIA_SNP_EXTENDED),
    ),
    FileKind(form=None, label="SEV-SNP certificate table", looks=_is_table, read=partial(as_piece, "table")),
    FileKind(form=None, label="endorsement bundle", looks=is_bundle, read=partial(as_piece, "bundle")),
    FileKind(form="snp-extended", label="go-sev-guest attestation (protobuf)", looks=_is_protobuf, read=_protobuf),
    *(
        FileKind(
            form=f"{tee}-quote",
            label=f"X.509 certificate with a quote of {tee.upper()}",
            looks=partial(_is_attested_certificate, tee),
            read=_attested_certificate,
        )
        for tee in TEES
    ),
    FileKind(form=None, label="X.509 certificate", looks=partial(_is_der, b"\xa0"), read=_certificate),
    FileKind(form=None, label="certificate revocation list", looks=partial(_is_der, b"\x02\x01\x01\x30"), read=_crl),
    FileKind(form="tdx-quote", label="TDX quote", looks=partial(_is_quote, (4, 5), 0x81), read=_QUOTE),
    FileKind(form="sgx-quote", label="SGX quote", looks=partial(_is_quote, (3, 4, 5), 0), read=_QUOTE),
    FileKind(form="hcl", label="Azure HCL report", looks=_is_hcl, read=partial(as_piece, "hcl")),
    FileKind(form=None, label="quote of Azure's vTPM", looks=is_raw_tpm_quote, read=partial(as_piece, "tpm-quote")),
    FileKind(form="ccel", label="TCG event log", looks=_is_ccel, read=None),
    FileKind(
        form="nvidia-report",
        label="NVIDIA attestation report",
        looks=lambda data: data[:2] == b"\x11\xe0",
        read=partial(as_item, MEDIA_NVIDIA_REPORT, name="gpu0"),  # of a switch too, which only its certificate shows
    ),
    FileKind(form="envelope", label="AWS Nitro Enclaves attestation document", looks=_is_nitro, read=None),
    FileKind(
        form="envelope",
        label="Arm CCA attestation token",
        looks=lambda data: data[:3] in (b"\xd9\x01\x8f", b"\xd9\x03\x8b"),
        read=None,
    ),
    FileKind(form="dstack-json", label="dstack attestation (msgpack)", looks=is_packed_attestation, read=None),
    FileKind(
        form="envelope",
        label="evidence envelope (CBOR)",
        looks=lambda data: data[:1] in (b"\x82", b"\x83") or b"\xa0" <= data[:1] <= b"\xbb",
        read=as_envelope,
    ),
)
