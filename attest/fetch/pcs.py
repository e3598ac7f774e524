"""Client of Intel's provisioning certification service (PCS), or of a data centre's cache of it (PCCS).

A document or list is in the body and its certificates are in a header; an answer has both, so that cached and bundled
ones can be verified offline.

Spec: Intel, API for SGX and TDX Provisioning Certification Service, version 4; specs/intel-tdx-sgx.md, section 17.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from attest.endorsements.intel import MAX_DOCUMENT_BYTES
from attest.endorsements.intel_answers import MAX_CHAIN_BYTES, intel_answer_bytes
from attest.endorsements.requests import (
    EndorsementRequest,
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
)
from attest.endorsements.x509 import MAX_CRL_BYTES
from attest.evidence.intel.collateral_forms import der_without_padding, hex_text_of, percent_decoded_chains
from attest.fetch.answers import describe
from attest.fetch.client import HttpAnswer, Progress, ServiceWords, answer_invalid
from attest.fetch.service import ServiceClient

PCS_URL: Final = "https://api.trustedservices.intel.com"
PCS_ROOT_CRL_URL: Final = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"
"""Intel has the root's list on another host; other services have it at ``rootcacrl``."""

PcsUpdate = Literal["standard", "early"]
"""TCB evaluation: ``early`` knows a TCB recovery at once, ``standard`` months later, when it becomes mandatory."""

_CERTIFICATION = "certification/v4"
_HEADERS: Mapping[type[IntelRequest], tuple[str, ...]] = {
    IntelTcbInfoRequest: ("TCB-Info-Issuer-Chain", "SGX-TCB-Info-Issuer-Chain"),
    IntelQeIdentityRequest: ("SGX-Enclave-Identity-Issuer-Chain",),
    IntelPckCrlRequest: ("SGX-PCK-CRL-Issuer-Chain",),
    IntelRootCrlRequest: (),
}
_WORDS = ServiceWords(
    prefix="pcs",
    name="a provisioning certification service",
    known="an answer for this FMSPC, TEE or CA",
    unknown="Intel publishes nothing for a platform that it does not support in production, and nothing of TDX for one "
    "that has only SGX; a PCCS may not know the platform yet",
)


@dataclass(kw_only=True, eq=False, repr=False)
class PcsClient(ServiceClient):
    """Client of Intel's PCS, or of a PCCS: any base URL but Intel's own, which also has the root's list.

    Raises:
        ConfigurationError: ``pcs-url-invalid``.
    """

    default_url = PCS_URL
    words = _WORDS

    update: PcsUpdate = "standard"

    @property
    def service(self) -> str:
        """Service and TCB evaluation, which separate answers in a cache."""
        return self._base_url if self.update == "standard" else f"{self._base_url}?update={self.update}"

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL for a request.

        Raises:
            TypeError: the request is for another vendor's service.
        """
        sgx = f"{self._base_url}/sgx/{_CERTIFICATION}"
        match request:
            case IntelTcbInfoRequest():
                early = "" if self.update == "standard" else f"&update={self.update}"
                return f"{self._base_url}/{request.tee}/{_CERTIFICATION}/tcb?fmspc={request.fmspc.hex()}{early}"
            case IntelQeIdentityRequest():
                early = "" if self.update == "standard" else f"?update={self.update}"
                return f"{self._base_url}/{request.tee}/{_CERTIFICATION}/qe/identity{early}"
            case IntelPckCrlRequest():
                return f"{sgx}/pckcrl?ca={request.ca}&encoding=der"
            case IntelRootCrlRequest():
                return PCS_ROOT_CRL_URL if self._base_url == PCS_URL else f"{sgx}/rootcacrl"
            case _:
                raise TypeError(f"Intel's service does not answer {type(request).__name__}")

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the service's answer with its issuer chain, in the form of ``attest.endorsements.intel_answers``.

        Raises:
            EndorsementError: ``pcs-not-found``, ``pcs-throttled``, ``pcs-unreachable`` or ``pcs-answer-invalid``.
            ConfigurationError: ``pcs-url-invalid``, an invalid host; or ``network-settings-invalid``.
            TypeError: as ``url_of``.
        """
        url = self.url_of(request)
        is_list = isinstance(request, IntelPckCrlRequest | IntelRootCrlRequest)
        limit = 2 * MAX_CRL_BYTES if is_list else MAX_DOCUMENT_BYTES  # a list may come as hex
        answer = self._http.ask(url, what=describe(request), limit=limit, progress=progress)
        body = _der(answer.body) if is_list else answer.body
        return intel_answer_bytes(body, issuer_chain=_issuer_chain(request, answer, url))


def _der(body: bytes) -> bytes:
    """Return a list as DER; a PCCS sends hex, which never starts like DER."""
    return der_without_padding(hex_text_of(body) or body)


def _issuer_chain(request: EndorsementRequest, answer: HttpAnswer, url: str) -> bytes:
    """Return the PEM certificates in the header for the request; the root's list has none."""
    names = _HEADERS.get(type(request), ())  # type: ignore[arg-type]  # by now it is one of Intel's
    if not names:
        return b""
    value = next((answer.headers[name] for name in names if name in answer.headers), "").encode("utf-8")
    chain = percent_decoded_chains(value) if len(value) <= MAX_CHAIN_BYTES else None
    if chain is None:
        got = "no certificates in it" if value else "none"
        raise answer_invalid(_WORDS, url, f"an issuer chain in the header {' or '.join(names)}", got)
    return chain
