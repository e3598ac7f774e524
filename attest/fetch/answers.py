"""Answers of services or caches, parsed and compared with their requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from attest.endorsements.bundle_records import BundleEntry, EntryKind
from attest.endorsements.intel import IntelDocument
from attest.endorsements.intel_answers import (
    MAX_CRL_ANSWER_BYTES,
    MAX_DOCUMENT_ANSWER_BYTES,
    parse_intel_crl,
    parse_intel_document,
)
from attest.endorsements.ocsp_answers import MAX_OCSP_BYTES, OcspAnswer, OcspStatus, parse_ocsp
from attest.endorsements.requests import (
    AmdChainRequest,
    AmdCrlRequest,
    AmdVcekRequest,
    EndorsementRequest,
    IntelPckCa,
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
    NvidiaOcspRequest,
    NvidiaRimRequest,
)
from attest.endorsements.rims import MAX_RIM_ANSWER_BYTES, RimDocument, parse_rim_answer
from attest.endorsements.x509 import MAX_CRL_BYTES, Certificate, Crl, parse_certificate, parse_crl, pem_blocks
from attest.errors import ChainError, EndorsementError, EvidenceError
from attest.evidence.gpu.rim import ParsedRim, read_rim
from attest.evidence.intel.qe_identity import EnclaveId, QeIdentity, parse_qe_identity
from attest.evidence.intel.tcb_info import TcbInfo, parse_tcb_info
from attest.evidence.snp.certificates import LeafKind, kind_of, read_leaf
from attest.evidence.snp.needs import KDS_SPL_NAMES
from attest.evidence.snp.tcb import SnpProduct

_Validity = tuple[datetime, datetime]
"""First and last moment of one piece."""


class _Form(NamedTuple):
    """Answers of one kind of request: their kind in bundles, the prefix of their errors, and their largest size."""

    kind: EntryKind
    service: str
    max_bytes: int
    read: Callable[[Any, CheckedAnswer], CheckedAnswer]  # Any: the request of that kind
    """Returns an answer to the request with its parts."""


RIM_DAYS = timedelta(days=7)
"""Life of a cached RIM: NVIDIA may issue the same id again with other reference values, without notice."""
EXPIRING_RIM_DAYS = timedelta(days=1)
"""Life of a RIM that ends within ``RENEWAL_DAYS``: NVIDIA has probably renewed it, or does so soon."""
RENEWAL_DAYS = timedelta(days=30)
_PCK_CAS: Mapping[IntelPckCa, str] = {
    "platform": "Intel SGX PCK Platform CA",
    "processor": "Intel SGX PCK Processor CA",
}
_ROOT_CA = "Intel SGX Root CA"
_DRIVER_IDS = ("NV_GPU_DRIVER_", "NV_GPU_CC_DRIVER_")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAnswer:
    """An answer that matches its request by its own content, without verification.

    Attributes:
        request: its request.
        source: its URL.
        data: as received; Intel's with its issuer chain.
        certificates: the VCEK; the intermediate, then the ARK; or an issuer chain of Intel's.
        crls: one list for a request of one.
        documents: one TCB info or QE identity for a request of one.
        rims: one RIM for a request of one.
        ocsp: one answer about a certificate for a request of one.
        dates: first and last moment of each part of an answer of Intel's, and of a RIM's signers; both included.
        issued: date of a list, document or answer, or start of a RIM signer's certificate; None for certificates.
        cached: from the cache.
        received: moment of appraisal of a RIM's fetch; None for answers that state their
            own validity.
    """

    request: EndorsementRequest
    source: str
    data: bytes
    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    documents: tuple[IntelDocument, ...] = ()
    rims: tuple[RimDocument, ...] = ()
    ocsp: tuple[OcspAnswer, ...] = ()
    dates: tuple[_Validity, ...] = ()
    issued: datetime | None = None
    cached: bool = False
    received: datetime | None = None

    def entry(self) -> BundleEntry:
        """Return it as an entry of a bundle."""
        return BundleEntry(kind=kind_of_request(self.request), source=self.source, data=self.data)

    def is_current(self, at: datetime) -> bool:
        """Return whether it can be used at ``at`` without another request.

        AMD's certificates always, and its lists before their nextUpdate. A RIM for some days. An OCSP answer
        if it is good: other states may have changed.
        """
        if isinstance(self.request, AmdCrlRequest):
            return all(crl.is_current(at) for crl in self.crls)
        if isinstance(self.request, NvidiaOcspRequest):
            return all(answer.status is OcspStatus.GOOD and answer.is_current(at) for answer in self.ocsp)
        valid = all(begins <= at <= ends for begins, ends in self.dates)
        return valid and (not isinstance(self.request, NvidiaRimRequest) or self._is_recent(at))

    def _is_recent(self, at: datetime) -> bool:
        expiring = any(ends - at < RENEWAL_DAYS for _, ends in self.dates)
        days = EXPIRING_RIM_DAYS if expiring else RIM_DAYS
        return self.received is not None and self.received <= at < self.received + days


def kind_of_request(request: EndorsementRequest) -> EntryKind:
    """Return the kind of a request."""
    return _FORMS[type(request)].kind


def max_answer_bytes(request: EndorsementRequest) -> int:
    """Return the largest size of an answer."""
    return _FORMS[type(request)].max_bytes


def describe(request: EndorsementRequest) -> str:
    """Return a description of a request, for people."""
    match request:
        case AmdVcekRequest():
            levels = ", ".join(f"{name} {level}" for name, level in request.spls)
            return f"VCEK of {request.product} chip {request.hwid.hex()} at {levels}"
        case AmdChainRequest():
            return f"{request.kind.upper()} certificate chain of {request.product}"
        case AmdCrlRequest():
            return f"revocation list of {request.product}"
        case IntelTcbInfoRequest():
            return f"TCB info of {request.tee.upper()}, FMSPC {request.fmspc.hex()}"
        case IntelQeIdentityRequest():
            return f"QE identity of {request.tee.upper()}"
        case IntelPckCrlRequest():
            return f"revocation list of {_PCK_CAS[request.ca]}"
        case NvidiaRimRequest():
            return f"RIM {request.id}"
        case NvidiaOcspRequest():
            return f"revocation status of {request.name}, serial {request.serial:x}"
        case _:  # IntelRootCrlRequest
            return f"revocation list of {_ROOT_CA}"


def read_answer(
    request: EndorsementRequest,
    data: bytes,
    *,
    source: str,
    cached: bool = False,
    received: datetime | None = None,
) -> CheckedAnswer:
    """Parse an answer and require the requested kind, platform, chip and TCB.

    This detects mix-ups, so that no useless answer is kept; verification alone establishes trust.

    Raises:
        EndorsementError: ``kds-answer-invalid``, ``pcs-answer-invalid``, ``rim-answer-invalid`` or
            ``ocsp-answer-invalid``.
        ConfigurationError: ``rim-library-missing``.
        ValueError: the request has an unknown product line.
    """
    kept = received if isinstance(request, NvidiaRimRequest) else None
    answer = CheckedAnswer(request=request, source=source, data=data, cached=cached, received=kept)
    if len(data) > max_answer_bytes(request):
        raise _invalid(answer, f"{len(data)} bytes, more than {max_answer_bytes(request)}")
    try:
        return _FORMS[type(request)].read(request, answer)
    except (EvidenceError, ChainError) as exc:
        raise _invalid(answer, exc.message) from exc


# -- AMD's


def _vcek(request: AmdVcekRequest, answer: CheckedAnswer) -> CheckedAnswer:
    certificate = parse_certificate(answer.data)
    if kind_of(certificate) is not LeafKind.VCEK:
        raise _invalid(answer, f"the certificate of {certificate.name}")
    leaf = read_leaf(certificate)
    spls = tuple((KDS_SPL_NAMES[name], level) for name, level in leaf.tcb.components().items())
    if (leaf.product, leaf.hwid, spls) != (request.product, request.hwid, request.spls):
        raise _invalid(answer, "the VCEK of another chip or TCB")
    return replace(answer, certificates=(certificate,))


def _chain(request: AmdChainRequest, answer: CheckedAnswer) -> CheckedAnswer:
    blocks = pem_blocks(answer.data)
    certificates = tuple(parse_certificate(der) for label, der in blocks if label == "CERTIFICATE")
    wanted = (LeafKind(request.kind).issuer_common_name(SnpProduct(request.product)), f"ARK-{request.product}")
    names = tuple(certificate.name for certificate in certificates)
    if names != wanted or len(blocks) != len(wanted):
        found = ", ".join(names) or "no PEM certificate"
        raise _invalid(answer, f"{found}, expected {' and '.join(wanted)}")
    return replace(answer, certificates=certificates)


def _crl(request: AmdCrlRequest, answer: CheckedAnswer) -> CheckedAnswer:
    crl = parse_crl(answer.data)
    if crl.issuer_common_name != f"ARK-{request.product}":
        raise _invalid(answer, f"a list of {crl.issuer_common_name}")
    return replace(answer, crls=(crl,), issued=crl.this_update)


# -- Intel's


def _tcb_info(request: IntelTcbInfoRequest, answer: CheckedAnswer) -> CheckedAnswer:
    document, chain = parse_intel_document(answer.data, kind="tcb-info")
    info = parse_tcb_info(document.body)
    if (info.tee, info.fmspc) != (request.tee, request.fmspc):
        raise _invalid(answer, f"the TCB info of {info.tee.upper()}, FMSPC {info.fmspc.hex()}")
    return _signed(answer, document, info, chain)


def _qe_identity(request: IntelQeIdentityRequest, answer: CheckedAnswer) -> CheckedAnswer:
    document, chain = parse_intel_document(answer.data, kind="qe-identity")
    identity = parse_qe_identity(document.body)
    if identity.id is not (EnclaveId.TD_QE if request.tee == "tdx" else EnclaveId.QE):
        raise _invalid(answer, f"the identity of {identity.id}")
    return _signed(answer, document, identity, chain)


def _signed(
    answer: CheckedAnswer, document: IntelDocument, content: TcbInfo | QeIdentity, chain: tuple[Certificate, ...]
) -> CheckedAnswer:
    """Require a document and the chain that signed it: apart, neither is of use."""
    if not any(document.is_signed_by(certificate.spki) for certificate in chain):
        raise _invalid(answer, "a document that none of its issuer chain signed")
    dates = ((content.issue_date, content.next_update), *_dates_of(chain))
    return replace(answer, certificates=chain, documents=(document,), dates=dates, issued=content.issue_date)


def _intel_crl(request: IntelPckCrlRequest | IntelRootCrlRequest, answer: CheckedAnswer) -> CheckedAnswer:
    crl, chain = parse_intel_crl(answer.data)
    wanted = _PCK_CAS[request.ca] if isinstance(request, IntelPckCrlRequest) else _ROOT_CA
    if crl.issuer_common_name != wanted:
        raise _invalid(answer, f"a list of {crl.issuer_common_name}")
    if isinstance(request, IntelPckCrlRequest) and not any(crl.is_signed_by(ca.as_issuer()) for ca in chain):
        raise _invalid(answer, "a list that none of its issuer chain signed")
    dates = ((crl.this_update, crl.next_update), *_dates_of(chain))
    return replace(answer, certificates=chain, crls=(crl,), dates=dates, issued=crl.this_update)


def _dates_of(chain: tuple[Certificate, ...]) -> tuple[_Validity, ...]:
    return tuple((certificate.not_before, certificate.not_after) for certificate in chain)


# -- NVIDIA's


def _rim(request: NvidiaRimRequest, answer: CheckedAnswer) -> CheckedAnswer:
    parsed = parse_rim_answer(answer.data)
    if parsed.id != request.id:
        raise _invalid(answer, f"the RIM {parsed.id}")
    rim = read_rim(parsed.document)
    if not _can_be(rim, request.id):
        raise _invalid(answer, f"a RIM of {rim.product}, version {rim.version}")
    # Without the embedded root: its pin replaces it.
    signers = rim.certificates[:-1]
    issued = signers[0].not_before if signers else None
    return replace(answer, rims=(parsed.document,), dates=_dates_of(signers), issued=issued)


def _can_be(rim: ParsedRim, name: str) -> bool:
    """Return whether a RIM can have this id. Project and SKU occur in the id only; the document has the rest."""
    version = rim.version if name.startswith(_DRIVER_IDS) else rim.version.replace(".", "").upper()
    return name.endswith(f"_{version}")


def _status(request: NvidiaOcspRequest, answer: CheckedAnswer) -> CheckedAnswer:
    status = parse_ocsp(answer.data)
    if not status.concerns(request.serial, request.issuer):
        raise _invalid(answer, f"an answer about serial {status.serial:x} of an issuer, one of them another")
    return replace(answer, ocsp=(status,), issued=status.this_update)


def _invalid(answer: CheckedAnswer, got: str) -> EndorsementError:
    wanted = describe(answer.request)
    return EndorsementError(
        f"the answer of {answer.source} is not the {wanted}: {got}",
        code=f"{_FORMS[type(answer.request)].service}-answer-invalid",
        expected=wanted,
        got=got,
        hint="check for a proxy or mirror that answers instead of the service",
    )


_FORMS: Mapping[type[EndorsementRequest], _Form] = {
    AmdVcekRequest: _Form("amd-vcek", "kds", 16 * 1024, _vcek),
    AmdChainRequest: _Form("amd-chain", "kds", 64 * 1024, _chain),
    AmdCrlRequest: _Form("amd-crl", "kds", MAX_CRL_BYTES, _crl),
    IntelTcbInfoRequest: _Form("intel-tcb-info", "pcs", MAX_DOCUMENT_ANSWER_BYTES, _tcb_info),
    IntelQeIdentityRequest: _Form("intel-qe-identity", "pcs", MAX_DOCUMENT_ANSWER_BYTES, _qe_identity),
    IntelPckCrlRequest: _Form("intel-crl", "pcs", MAX_CRL_ANSWER_BYTES, _intel_crl),
    IntelRootCrlRequest: _Form("intel-crl", "pcs", MAX_CRL_ANSWER_BYTES, _intel_crl),
    NvidiaRimRequest: _Form("nvidia-rim", "rim", MAX_RIM_ANSWER_BYTES, _rim),
    NvidiaOcspRequest: _Form("nvidia-ocsp", "ocsp", MAX_OCSP_BYTES, _status),
}
"""AMD's certificates have 1.4 KiB, its PEM chains 5 KiB, its lists 1 KiB; Intel's documents 16 KiB, its lists 4;
NVIDIA's RIM answers 35 KiB, its OCSP answers 1 to 2."""
