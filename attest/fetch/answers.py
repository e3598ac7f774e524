"""What a service or a cache answered to a request: read, and compared with what was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from attest.endorsements.bundle import BundleEntry, EntryKind
from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdVcekRequest, EndorsementRequest
from attest.endorsements.x509 import MAX_CRL_BYTES, Certificate, Crl, parse_certificate, parse_crl, pem_blocks
from attest.errors import ChainError, EndorsementError, EvidenceError
from attest.evidence.snp.certificates import LeafKind, kind_of, read_leaf
from attest.evidence.snp.needs import KDS_SPL_NAMES
from attest.evidence.snp.tcb import SnpProduct

__all__ = ["Answer", "describe", "kind_of_request", "max_answer_bytes", "read_answer"]

_KINDS: dict[type[EndorsementRequest], EntryKind] = {
    AmdVcekRequest: "amd-vcek",
    AmdChainRequest: "amd-chain",
    AmdCrlRequest: "amd-crl",
}
_MAX_BYTES: dict[EntryKind, int] = {"amd-vcek": 16 * 1024, "amd-chain": 64 * 1024, "amd-crl": MAX_CRL_BYTES}
"""AMD's certificates have 1.4 KiB, its chains in PEM 5 KiB, its lists 1 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is what was asked for, by its own words. No signature has been verified.

    Attributes:
        request: what was asked.
        source: the address that it came from.
        data: as received.
        certificates: the VCEK; or the intermediate, then the ARK.
        crls: one list for a request of one.
        cached: it comes from the cache.
    """

    request: EndorsementRequest
    source: str
    data: bytes
    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    cached: bool = False

    def entry(self) -> BundleEntry:
        """Return it in the form of a bundle."""
        return BundleEntry(kind=kind_of_request(self.request), source=self.source, data=self.data)


def kind_of_request(request: EndorsementRequest) -> EntryKind:
    """Return the name of a request's kind."""
    return _KINDS[type(request)]


def max_answer_bytes(request: EndorsementRequest) -> int:
    """Return how long an answer may be."""
    return _MAX_BYTES[kind_of_request(request)]


def describe(request: EndorsementRequest) -> str:
    """Name what is asked for, for people."""
    match request:
        case AmdVcekRequest():
            levels = ", ".join(f"{name} {level}" for name, level in request.spls)
            return f"VCEK of {request.product} chip {request.hwid.hex()} at {levels}"
        case AmdChainRequest():
            return f"{request.kind.upper()} certificate chain of {request.product}"
        case _:  # AmdCrlRequest
            return f"revocation list of {request.product}"


def read_answer(request: EndorsementRequest, data: bytes, *, source: str, cached: bool = False) -> Answer:
    """Read an answer and require that it is of the kind, product line, chip and TCB that were asked for.

    This is a guard against mix-ups, so that nothing useless is kept; trust comes from verification alone.

    Raises:
        EndorsementError: ``kds-answer-invalid``.
        ValueError: the request names a product line that does not exist.
    """
    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    if len(data) > max_answer_bytes(request):
        raise _invalid(request, source, f"{len(data)} bytes, more than {max_answer_bytes(request)}")
    try:
        match request:
            case AmdVcekRequest():
                certificates = (_vcek(request, data, source),)
            case AmdChainRequest():
                certificates = _chain(request, data, source)
            case _:  # AmdCrlRequest
                crls = (_crl(request, data, source),)
    except (EvidenceError, ChainError) as exc:
        raise _invalid(request, source, exc.message) from exc
    return Answer(request=request, source=source, data=data, certificates=certificates, crls=crls, cached=cached)


def _vcek(request: AmdVcekRequest, data: bytes, source: str) -> Certificate:
    certificate = parse_certificate(data)
    if kind_of(certificate) is not LeafKind.VCEK:
        raise _invalid(request, source, f"the certificate of {certificate.name}")
    leaf = read_leaf(certificate)
    spls = tuple((KDS_SPL_NAMES[name], level) for name, level in leaf.tcb.components().items())
    if (leaf.product, leaf.hwid, spls) != (request.product, request.hwid, request.spls):
        raise _invalid(request, source, "the VCEK of another chip or TCB")
    return certificate


def _chain(request: AmdChainRequest, data: bytes, source: str) -> tuple[Certificate, ...]:
    blocks = pem_blocks(data)
    certificates = tuple(parse_certificate(der) for label, der in blocks if label == "CERTIFICATE")
    wanted = (LeafKind(request.kind).issuer_common_name(SnpProduct(request.product)), f"ARK-{request.product}")
    names = tuple(certificate.name for certificate in certificates)
    if names != wanted or len(blocks) != len(wanted):
        found = ", ".join(names) or "no PEM certificate"
        raise _invalid(request, source, f"{found}, expected {' and '.join(wanted)}")
    return certificates


def _crl(request: AmdCrlRequest, data: bytes, source: str) -> Crl:
    crl = parse_crl(data)
    if crl.issuer_common_name != f"ARK-{request.product}":
        raise _invalid(request, source, f"a list of {crl.issuer_common_name}")
    return crl


def _invalid(request: EndorsementRequest, source: str, got: str) -> EndorsementError:
    return EndorsementError(
        f"the answer of {source} is not the {describe(request)}: {got}",
        code="kds-answer-invalid",
        expected=describe(request),
        got=got,
        hint="look for a proxy or mirror that answers in the place of the service",
    )
