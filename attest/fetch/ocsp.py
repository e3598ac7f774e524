"""Client of NVIDIA's OCSP responder: the revocation status of one certificate, for a fresh nonce.

Each request has a nonce, and an answer without it is refused as a possible replay. The answer is
cached until its nextUpdate (``cache.py``); then its dates count, without a nonce.

Spec: RFC 6960, sections 4.1 and 4.4.1; RFC 9654; specs/nvidia-gpu.md, section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import OCSPNonce, ocsp

from attest.endorsements.ocsp_answers import cert_id, parse_ocsp, refusal_of
from attest.endorsements.requests import EndorsementRequest, NvidiaOcspRequest
from attest.errors import ChainError, EndorsementError, EvidenceError
from attest.fetch.answers import describe, max_answer_bytes
from attest.fetch.client import HttpAnswer, Progress, ServiceWords, answer_invalid
from attest.fetch.service import NvidiaServiceClient

OCSP_URL: Final = "https://ocsp.ndis.nvidia.com"
NONCE_BYTES: Final = 32
"""The limit of RFC 8954, and the recommendation of RFC 9654."""

_REQUEST_TYPE = "application/ocsp-request"
_ANSWER_TYPE = "application/ocsp-response"
_WORDS = ServiceWords(
    prefix="ocsp",
    name="an OCSP responder",
    known="an answer about certificates of this issuer",
    unknown="the responder does not serve this issuer: the certificate may not be NVIDIA's",
)

RandomBytes = Callable[[int], bytes]
"""Returns so many unpredictable bytes, such as ``secrets.token_bytes``."""


@dataclass(kw_only=True, eq=False, repr=False)
class OcspClient(NvidiaServiceClient):
    """Client of NVIDIA's OCSP responder, or of another one that repeats nonces, which come from ``random``.

    Raises:
        ConfigurationError: ``ocsp-url-invalid``.
    """

    default_url = OCSP_URL
    words = _WORDS

    random: RandomBytes

    def __post_init__(self) -> None:
        super().__post_init__()
        self._headers |= {"Content-Type": _REQUEST_TYPE, "Accept": _ANSWER_TYPE}

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL, the same for all requests.

        Raises:
            TypeError: the request is for another service.
        """
        if not isinstance(request, NvidiaOcspRequest):
            raise TypeError(f"NVIDIA's OCSP responder does not answer {type(request).__name__}")
        return self._base_url

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the responder's answer, an OCSPResponse with the nonce of this request; errors as the base."""
        if not isinstance(request, NvidiaOcspRequest):
            raise TypeError(self.url_of(request))
        nonce = self.random(NONCE_BYTES)
        answer = self._http.ask(
            self._base_url,
            body=_request_bytes(request, nonce),
            what=describe(request),
            limit=max_answer_bytes(request),
            progress=progress,
            headers=self._headers,
        )
        self._require_answer(answer, nonce)
        return answer.body

    def _require_answer(self, answer: HttpAnswer, nonce: bytes) -> None:
        """Require an OCSP answer with this nonce, without verification."""
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media_type != _ANSWER_TYPE:
            raise answer_invalid(_WORDS, self._base_url, _ANSWER_TYPE, repr(media_type[:40]))
        refusal = refusal_of(answer.body)
        if refusal is not None:
            raise self._refused(refusal)
        try:
            repeated = parse_ocsp(answer.body).nonce
        except EvidenceError as exc:
            raise answer_invalid(_WORDS, self._base_url, "an OCSP answer", exc.message) from exc
        if repeated is None or not compare_digest(repeated, nonce):
            got = "none" if repeated is None else "another"
            raise answer_invalid(_WORDS, self._base_url, "the nonce of the request", f"{got}, as a stored answer has")

    def _refused(self, refusal: str) -> EndorsementError:
        later = refusal in {"tryLater", "internalError"}
        return EndorsementError(
            f"{self._base_url} refused to answer: {refusal}",
            code=f"{_WORDS.prefix}-throttled" if later else f"{_WORDS.prefix}-not-found",
            expected=_WORDS.known,
            got=refusal,
            hint="try again later" if later else _WORDS.unknown,
            retryable=later,
        )


def _request_bytes(request: NvidiaOcspRequest, nonce: bytes) -> bytes:
    """Return an OCSPRequest for one certificate, identified with SHA-384 as in NVIDIA's own tools."""
    try:
        name_hash, key_hash = cert_id(request.issuer, "sha384")
        builder = ocsp.OCSPRequestBuilder().add_certificate_by_hash(name_hash, key_hash, request.serial, SHA384())
        return builder.add_extension(OCSPNonce(nonce), critical=False).build().public_bytes(Encoding.DER)
    except (ChainError, ValueError, OverflowError) as exc:
        raise EndorsementError(
            f"there is no request for {request.name}: {exc}",
            code=f"{_WORDS.prefix}-not-found",
            expected=_WORDS.known,
            got=f"serial {request.serial:#x}"[:80],
        ) from exc
