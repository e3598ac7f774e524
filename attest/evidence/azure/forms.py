"""Azure evidence as it is written down: the JSON of Trustee and attestation-rs, and the raw pieces of the vTPM.

=======================  ============================================================================================
Form                     Members
=======================  ============================================================================================
Trustee, no version      integer arrays: ``quote`` {``signature``, ``message``, ``pcrs``}, ``report``, and ``vcek`` in
(az-snp)                 PEM, perhaps followed by its issuers
Trustee, no version      integer arrays: ``tpm_quote``, ``hcl_report``, ``td_quote``
(az-tdx)
Trustee, 1 and 2         ``tpm_quote`` in hex, ``hcl_report`` and ``vcek`` (DER) or ``td_quote`` in base64; in 2 the
                         user data repeats the quote's extraData
attestation-rs           version 1, perhaps within ``{"platform": "az-snp" or "az-tdx", "evidence": …}``
raw                      ``hcl-report.bin``, and ``quote.bin``: u64 length and signature, u64 length and message, u64
                         count and 32 bytes each, little-endian
=======================  ============================================================================================

A VCEK is a hint, like every endorsement that an Attester presents, and may be left out: AMD has it too. A TD quote is
the evidence itself. All statements of the platform must agree.

Spec: specs/azure-cvm.md, sections 5 and 9.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from attest.encoding import JsonValue, base64url_text, hex_bytes, json_value
from attest.endorsements.x509 import Certificate, parse_certificate, pem_blocks
from attest.errors import BindingError, EvidenceError, UnsupportedError
from attest.evidence.azure.runtime import parse_runtime_claims
from attest.evidence.azure.structure import HclReportType, ParsedHclReport, parse_hcl_report
from attest.evidence.envelope import MEDIA_AZURE_CVM
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.json_form import JsonForm
from attest.evidence.reader import ByteReader
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.structure import parse_report
from attest.evidence.tpm.quote import require_pcr_values
from attest.evidence.tpm.structure import MAX_PCRS, SHA256_BYTES, parse_tpm_quote

_MAX_SIGNATURE_BYTES = 512
"""RSA-4096; real ones have 256."""
_MAX_MESSAGE_BYTES = 1024
_MAX_CERTIFICATES = 8
_SIGNATURE_BYTES = (256, 384, 512)
_MESSAGE_BEGINS = b"\xffTCG"
_CLAUSE = "docs/azure.md"
_FORM = JsonForm(code="azure-form-malformed", clause=_CLAUSE)
_PLATFORMS = tuple(kind.platform for kind in HclReportType)


class RawTpmQuote(NamedTuple):
    """The pieces of a quote, none of them read: signature, TPMS_ATTEST, values of the registers."""

    signature: bytes
    message: bytes
    pcrs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAzureEvidence:
    """Azure evidence as presented. Nothing of it is trusted yet.

    Attributes:
        form_version: 0, 1 or 2; from 2 on the user data repeats the quote's extraData.
        cpu: evidence of the CPU: the SNP report in the HCL report with its certificates, or the TD quote beside it.
    """

    form_version: int
    hcl: ParsedHclReport
    cpu: ParsedSnpEvidence | ParsedQuote
    tpm: RawTpmQuote

    @property
    def cpu_report_data(self) -> bytes:
        """REPORT_DATA of what the CPU made, 64 bytes: the commitment to the runtime claims."""
        return self.cpu.report.report_data if isinstance(self.cpu, ParsedSnpEvidence) else self.cpu.body.report_data

    @property
    def stated_user_data(self) -> bytes:
        """The 64 bytes that the guest wrote beside the claims; empty when there are none, or none that can be read.

        For comparisons, before verification; the procedure refuses claims that cannot be read.
        """
        try:
            return parse_runtime_claims(self.hcl.runtime_data).user_data or b""
        except EvidenceError:
            return b""

    @property
    def stated_extra_data(self) -> bytes:
        """The nonce in the TPM's message; empty for a message that cannot be read, too."""
        try:
            return parse_tpm_quote(self.tpm.message).extra_data
        except EvidenceError:
            return b""

    @property
    def stated_pcrs(self) -> tuple[tuple[int, bytes], ...]:
        """The registers that the quote is over, ascending, with their values; none where the two do not agree.

        For comparisons, before verification; the procedure refuses a quote that is not over these values.
        """
        try:
            return require_pcr_values(parse_tpm_quote(self.tpm.message), self.tpm.pcrs)
        except (BindingError, EvidenceError):
            return ()


def is_azure_json(document: JsonValue) -> bool:
    """Recognise the paravisor's evidence by members: alone, of no version, or in the outer object of attestation-rs."""
    if not isinstance(document, dict):
        return False
    inner = document.get("evidence") if document.get("platform") in _PLATFORMS else document
    if not isinstance(inner, dict):
        return False
    return "tpm_quote" in inner or "hcl_report" in inner or ("report" in inner and isinstance(inner.get("quote"), dict))


def parse_azure_evidence(data: bytes) -> ParsedAzureEvidence:
    """Read Azure evidence in JSON, of every version.

    Raises:
        EvidenceError: ``json-invalid``, ``azure-form-malformed``, ``hcl-report-type-mismatch``, ``hex-invalid``,
            ``base64-invalid``, ``certificate-malformed``, or as ``parse_hcl_report``, ``parse_report`` of SEV-SNP and
            ``parse_quote`` of Intel.
        UnsupportedError: ``azure-form-unsupported``, another version; and as these.

    Spec: specs/azure-cvm.md, section 9.
    """
    document = json_value(data, what="Azure evidence")
    platform, inner = _unwrapped(document)
    form = _form_of(inner)
    members = _FORM.object_of(inner, "evidence", members=form.members)
    hcl = parse_hcl_report(form.read_bytes(members.get(form.report), form.report))
    _require_one_platform(platform, members, hcl.report_type)
    tpm = _FORM.object_of(members.get(form.quote), form.quote, members=frozenset({"signature", "message", "pcrs"}))
    return ParsedAzureEvidence(
        form_version=form.version,
        hcl=hcl,
        cpu=_quote(members, form) if hcl.report_type is HclReportType.TDX else _report(hcl, members, form),
        tpm=_tpm_quote(tpm, form),
    )


AZURE_PARSERS: Mapping[str, Callable[[bytes], ParsedAzureEvidence]] = {MEDIA_AZURE_CVM: parse_azure_evidence}
"""Parsers of an item of evidence by its media type."""
_PLATFORM_OF_MEMBER = {"vcek": HclReportType.SNP.platform, "td_quote": HclReportType.TDX.platform}


def _require_one_platform(platform: str | None, members: dict[str, JsonValue], report_type: HclReportType) -> None:
    """Require that everything that states the platform agrees with the HCL report."""
    stated = {name: found for name, found in _PLATFORM_OF_MEMBER.items() if name in members}
    if len(stated) > 1:
        raise _FORM.malformed("evidence", "either vcek or td_quote", "both")
    if platform is not None:
        stated["platform"] = platform
    for source, found in stated.items():
        if found != report_type.platform:
            raise _type_mismatch(source, found, report_type)


# -- the pieces as they leave the vTPM


def is_raw_tpm_quote(data: bytes) -> bool:
    """Recognise a serialised quote by the length of its signature and by what the message begins with."""
    length = int.from_bytes(data[:8], "little")
    return length in _SIGNATURE_BYTES and data[length + 16 : length + 20] == _MESSAGE_BEGINS


def raw_tpm_quote(data: bytes) -> RawTpmQuote:
    """Read a quote as az-cvm-vtpm serialises it.

    Raises:
        EvidenceError: ``truncated``, ``trailing-bytes`` or ``azure-form-malformed``.
    """
    reader = ByteReader(data, what="TPM quote of the vTPM")
    signature = reader.take(_bounded(reader, "signature", _MAX_SIGNATURE_BYTES), "signature")
    message = reader.take(_bounded(reader, "message", _MAX_MESSAGE_BYTES), "message")
    count = _bounded(reader, "pcrs", MAX_PCRS)
    pcrs = tuple(reader.take(SHA256_BYTES, f"pcrs[{index}]") for index in range(count))
    reader.finish()
    return RawTpmQuote(signature, message, pcrs)


def raw_tpm_quote_bytes(quote: RawTpmQuote) -> bytes:
    """Serialise a quote in the same form."""
    sized = (len(part).to_bytes(8, "little") + part for part in (quote.signature, quote.message))
    return b"".join((*sized, len(quote.pcrs).to_bytes(8, "little"), *quote.pcrs))


def _bounded(reader: ByteReader, field: str, most: int) -> int:
    length = reader.unsigned(8, f"{field}, length")
    if length > most:
        raise _FORM.malformed(field, f"at most {most}", str(length))
    return length


def azure_json(
    *, hcl: bytes, tpm: RawTpmQuote, td_quote: bytes | None = None, vcek: bytes | None = None, version: int = 1
) -> bytes:
    """Write evidence in JSON, version 1 or 2: the item of ``MEDIA_AZURE_CVM``.

    ``hcl`` is the paravisor's report, as NV index 0x01400001 holds it; ``vcek`` is DER. Version 2 states that the user
    data repeats the quote's extraData.
    """
    members: dict[str, JsonValue] = {
        "version": version,
        "tpm_quote": {
            "signature": tpm.signature.hex(),
            "message": tpm.message.hex(),
            "pcrs": [value.hex() for value in tpm.pcrs],
        },
        "hcl_report": base64url_text(hcl),
    }
    for name, value in (("vcek", vcek), ("td_quote", td_quote)):
        if value is not None:
            members[name] = base64url_text(value)
    return json.dumps(members).encode()


# -- the generations of the JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """Names and encodings of the members in one generation.

    Attributes:
        version: its number; 0 for the one without.
    """

    version: int
    quote: str
    report: str
    read_bytes: Callable[[JsonValue, str], bytes]
    read_tpm: Callable[[JsonValue, str], bytes]

    @property
    def members(self) -> frozenset[str]:
        """Every member that may be there."""
        versioned = {"version"} if self.version else set[str]()
        return frozenset({self.quote, self.report, "vcek", "td_quote"} | versioned)


def _hex_of(value: JsonValue, path: str) -> bytes:
    return hex_bytes(_FORM.text_of(value, path, expected="hex"), what=path)


def _unwrapped(document: JsonValue) -> tuple[str | None, JsonValue]:
    """Return the platform that an outer object states, and the inner value."""
    if not isinstance(document, dict) or "platform" not in document:
        return None, document
    members = _FORM.object_of(document, "evidence", members=frozenset({"platform", "evidence"}))
    platform = members["platform"]
    if not isinstance(platform, str) or platform not in _PLATFORMS:
        raise _FORM.malformed("platform", " or ".join(_PLATFORMS), "another value")
    return platform, members.get("evidence")


def _form_of(inner: JsonValue) -> _Form:
    if not isinstance(inner, dict):
        raise _FORM.mistyped("evidence", "an object", inner)
    if "version" not in inner:
        names = ("quote", "report") if "quote" in inner else ("tpm_quote", "hcl_report")
        return _Form(version=0, quote=names[0], report=names[1], read_bytes=_FORM.bytes_of, read_tpm=_FORM.bytes_of)
    version = inner["version"]
    if isinstance(version, bool) or version not in (1, 2):
        raise UnsupportedError(
            "Azure evidence of a version that is not verified",
            code="azure-form-unsupported",
            field="version",
            expected="1, 2 or no version",
            got=repr(version)[:40],
            clause=_CLAUSE,
        )
    return _Form(
        version=int(version), quote="tpm_quote", report="hcl_report", read_bytes=_FORM.base64_of, read_tpm=_hex_of
    )


def _tpm_quote(members: dict[str, JsonValue], form: _Form) -> RawTpmQuote:
    pcrs: list[bytes] = []
    for index, value in enumerate(_FORM.array_of(members.get("pcrs"), f"{form.quote}.pcrs", most=MAX_PCRS)):
        path = f"{form.quote}.pcrs[{index}]"
        pcr = form.read_tpm(value, path)
        if len(pcr) != SHA256_BYTES:
            raise _FORM.malformed(path, f"{SHA256_BYTES} bytes", f"{len(pcr)}")
        pcrs.append(pcr)
    parts: list[bytes] = []
    for name, most in (("signature", _MAX_SIGNATURE_BYTES), ("message", _MAX_MESSAGE_BYTES)):
        part = form.read_tpm(members.get(name), f"{form.quote}.{name}")
        if len(part) > most:
            raise _FORM.malformed(f"{form.quote}.{name}", f"at most {most} bytes", f"{len(part)}")
        parts.append(part)
    return RawTpmQuote(parts[0], parts[1], tuple(pcrs))


def _quote(members: dict[str, JsonValue], form: _Form) -> ParsedQuote:
    """Read a TD quote; a quote of SGX is refused, whatever its REPORTDATA."""
    quote = parse_quote(form.read_bytes(members.get("td_quote"), "td_quote"))
    if quote.tee != "tdx":
        raise _type_mismatch("td_quote", quote.tee.upper(), HclReportType.TDX)
    return quote


def _report(hcl: ParsedHclReport, members: dict[str, JsonValue], form: _Form) -> ParsedSnpEvidence:
    leaf, issuers = _certificates(members["vcek"], form) if "vcek" in members else (None, ())
    leaves = () if leaf is None else (leaf,)
    return ParsedSnpEvidence(report=parse_report(hcl.hardware_report), leaves=leaves, issuers=issuers)


def _certificates(value: JsonValue, form: _Form) -> tuple[bytes, tuple[Certificate, ...]]:
    """Return the DER of the VCEK, and the certificates that stand behind it in PEM."""
    if form.version:
        return _FORM.base64_of(value, "vcek"), ()
    blocks = pem_blocks(_FORM.text_of(value, "vcek", expected="certificates in PEM").encode("utf-8"))
    if not 0 < len(blocks) <= _MAX_CERTIFICATES or any(label != "CERTIFICATE" for label, _ in blocks):
        raise _FORM.malformed("vcek", f"1 to {_MAX_CERTIFICATES} certificates in PEM", f"{len(blocks)} blocks")
    return blocks[0][1], tuple(parse_certificate(der) for _, der in blocks[1:])


def _type_mismatch(source: str, stated: str, found: HclReportType) -> EvidenceError:
    return EvidenceError(
        f"{source} states {stated} and the HCL report is of type {int(found)} ({found.platform})",
        code="hcl-report-type-mismatch",
        check="azure.format",
        field="report_type",
        offset=0x4C8,
        expected=stated,
        got=found.platform,
        clause="Microsoft Azure, guest attestation, HCL report",
    )
