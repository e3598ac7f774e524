"""The paths of the vendors' services, as requests, and the answers as these services send them.

Spec: AMD 57230, chapter 4; Intel's API for SGX and TDX Provisioning Certification Service, version 4, as a PCCS serves
it (``rootcacrl``, lists in hex by default); NVIDIA's RIM service.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_der_x509_crl

from attest.endorsements.intel_answers import body_and_chain
from attest.endorsements.requests import (
    AmdChainRequest,
    AmdCrlRequest,
    AmdKeyKind,
    AmdVcekRequest,
    EndorsementRequest,
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
    IntelTee,
    NvidiaRimRequest,
)
from attest.endorsements.rims import is_rim_id
from attest.evidence.snp.needs import KDS_SPL_NAMES

OCSP_REQUEST_TYPE = "application/ocsp-request"
_SPL_ORDER = tuple(KDS_SPL_NAMES.values())
_AMD = re.compile(
    r"/(?P<kind>vcek|vlek)/v1/(?P<product>Milan|Genoa|Turin)/(?P<what>cert_chain|crl|[0-9A-Fa-f]{16,128})"
)
_INTEL = re.compile(r"/(?P<tee>sgx|tdx)/certification/v4/(?P<what>tcb|qe/identity|pckcrl|rootcacrl)")
_RIM = re.compile(r"/v1/rim/(?P<id>[^/]{1,256})")
_CHAIN_HEADERS: Mapping[type[IntelRequest], str] = {
    IntelTcbInfoRequest: "TCB-Info-Issuer-Chain",
    IntelQeIdentityRequest: "SGX-Enclave-Identity-Issuer-Chain",
    IntelPckCrlRequest: "SGX-PCK-CRL-Issuer-Chain",
}
_MAX_PARAMETERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPath:
    """A path of a vendor's service.

    Attributes:
        request: what it names.
        encoding: of a list of Intel's: ``hex``, ``der`` or ``pem``.
    """

    request: EndorsementRequest
    encoding: str = "der"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireAnswer:
    """An answer as the vendor's service sends it."""

    body: bytes
    media_type: str
    headers: tuple[tuple[str, str], ...] = ()


def read_path(target: str) -> MirrorPath | None:
    """Return what a path with its query names, or None if no service of the vendors has it."""
    path, _, query = target.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        return None
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        return None
    if match := _AMD.fullmatch(path):
        return _amd(match, parameters)
    if match := _INTEL.fullmatch(path):
        return _intel(match["tee"], match["what"], parameters)
    match = _RIM.fullmatch(path)
    if match is None or parameters or not is_rim_id(match["id"]):
        return None
    return MirrorPath(request=NvidiaRimRequest(id=match["id"]))


def _amd(match: re.Match[str], parameters: Mapping[str, str]) -> MirrorPath | None:
    product, what = match["product"], match["what"]
    kind: AmdKeyKind = "vcek" if match["kind"] == "vcek" else "vlek"
    if what in ("cert_chain", "crl"):
        made = AmdChainRequest if what == "cert_chain" else AmdCrlRequest
        return None if parameters else MirrorPath(request=made(product=product, kind=kind))
    levels = {name: int(value) for name, value in parameters.items() if re.fullmatch(r"[0-9]{1,3}", value)}
    if kind != "vcek" or len(what) % 2 or len(levels) != len(parameters) or not set(levels) <= set(_SPL_ORDER):
        return None
    spls = tuple((name, levels[name]) for name in _SPL_ORDER if name in levels)
    return MirrorPath(request=AmdVcekRequest(product=product, hwid=bytes.fromhex(what), spls=spls))


def _intel(tee: str, what: str, parameters: dict[str, str]) -> MirrorPath | None:
    named: IntelTee = "tdx" if tee == "tdx" else "sgx"
    if what == "tcb":
        fmspc = parameters.pop("fmspc", "")
        known = re.fullmatch(r"[0-9A-Fa-f]{12}", fmspc) and _is_update(parameters)
        return MirrorPath(request=IntelTcbInfoRequest(tee=named, fmspc=bytes.fromhex(fmspc))) if known else None
    if what == "qe/identity":
        return MirrorPath(request=IntelQeIdentityRequest(tee=named)) if _is_update(parameters) else None
    if named == "tdx":
        return None
    if what == "rootcacrl":
        return None if parameters else MirrorPath(request=IntelRootCrlRequest(), encoding="hex")
    ca, encoding = parameters.pop("ca", ""), parameters.pop("encoding", "hex").lower()
    request = IntelPckCrlRequest(ca="platform" if ca == "platform" else "processor")
    known = ca in ("platform", "processor") and encoding in ("hex", "der", "pem") and not parameters
    return MirrorPath(request=request, encoding=encoding) if known else None


def _is_update(parameters: Mapping[str, str]) -> bool:
    """Return whether nothing else is asked for than Intel's standard update: what a mirror has says of no other."""
    return dict(parameters) in ({}, {"update": "standard"})


def wire_answer(path: MirrorPath, data: bytes) -> WireAnswer:
    """Return an answer in the form of bundles as the vendor's service sends it."""
    match path.request:
        case AmdVcekRequest() | AmdCrlRequest():
            return WireAnswer(
                body=data, media_type="application/pkix-crl" if _is_list(path) else "application/pkix-cert"
            )
        case AmdChainRequest():
            return WireAnswer(body=data, media_type="application/x-pem-file")
        case NvidiaRimRequest():
            return WireAnswer(body=data, media_type="application/json")
    body, chain = body_and_chain(data)
    header = _CHAIN_HEADERS.get(type(path.request))  # type: ignore[arg-type]  # by now it is one of Intel's
    headers = ((header, quote(chain.decode("ascii", "replace"), safe="")),) if header else ()
    return _intel_answer(path, body, headers)


def _is_list(path: MirrorPath) -> bool:
    return isinstance(path.request, AmdCrlRequest | IntelPckCrlRequest | IntelRootCrlRequest)


def _intel_answer(path: MirrorPath, body: bytes, headers: tuple[tuple[str, str], ...]) -> WireAnswer:
    if not _is_list(path):
        return WireAnswer(body=body, media_type="application/json", headers=headers)
    match path.encoding:
        case "hex":
            return WireAnswer(body=body.hex().encode(), media_type="text/plain; charset=utf-8", headers=headers)
        case "pem":
            pem = load_der_x509_crl(body).public_bytes(Encoding.PEM)
            return WireAnswer(body=pem, media_type="application/x-pem-file", headers=headers)
    return WireAnswer(body=body, media_type="application/pkix-crl", headers=headers)
