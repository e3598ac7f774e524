"""Client of AMD's key distribution service (KDS): VCEKs, certificate chains and revocation lists.

``client.py`` has retries and limits.

Spec: AMD 57230, chapter 4; specs/sev-snp.md, section 11.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdVcekRequest, EndorsementRequest
from attest.fetch.answers import describe, max_answer_bytes
from attest.fetch.client import FetchClocks, Progress, ServiceWords
from attest.fetch.service import ServiceClient

KDS_URL: Final = "https://kdsintf.amd.com"

_PRODUCT = re.compile(r"[A-Za-z]{1,16}")
_WORDS = ServiceWords(
    not_found="kds-not-found",
    throttled="kds-throttled",
    unreachable="kds-unreachable",
    answer_invalid="kds-answer-invalid",
    url_invalid="kds-url-invalid",
    name="a key distribution service",
    known="an answer for this product line, chip and TCB",
    unknown="the product line may be another one, or the service does not know this chip at this TCB",
)


class KdsClient(ServiceClient):
    """Client of a KDS, or of a mirror of it.

    Args:
        timing: sources of time.
        base_url: ``https://host[:port][/path]``; plain http is for the loopback address only.
        trust_env: honour the environment's proxies and certificate stores; see ``client.py``.

    Raises:
        ConfigurationError: ``kds-url-invalid``.
    """

    def __init__(self, *, timing: FetchClocks, base_url: str = KDS_URL, trust_env: bool = True) -> None:
        """Keep the settings; httpx is loaded with the first request."""
        super().__init__(timing=timing, base_url=base_url, words=_WORDS, trust_env=trust_env)

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL for a request.

        Raises:
            TypeError: the request is for another vendor's service.
            ValueError: an invalid product name.
        """
        if not isinstance(request, AmdVcekRequest | AmdChainRequest | AmdCrlRequest):
            raise TypeError(f"AMD's service does not answer {type(request).__name__}")
        if not _PRODUCT.fullmatch(request.product):
            raise ValueError(f"{request.product!r} is no product line")
        match request:
            case AmdVcekRequest():
                query = urlencode([(name, f"{level:02d}") for name, level in request.spls])
                return f"{self._base_url}/vcek/v1/{request.product}/{request.hwid.hex()}?{query}"
            case AmdChainRequest():
                return f"{self._base_url}/{request.kind}/v1/{request.product}/cert_chain"
            case _:  # AmdCrlRequest
                return f"{self._base_url}/{request.kind}/v1/{request.product}/crl"

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the body of the service's answer, unparsed.

        Raises:
            EndorsementError: ``kds-not-found``, ``kds-throttled``, ``kds-unreachable`` or ``kds-answer-invalid``.
            ConfigurationError: ``kds-url-invalid``, an invalid host; or ``network-settings-invalid``.
            TypeError: as ``url_of``.
            ValueError: as ``url_of``.
        """
        url = self.url_of(request)
        limit = max_answer_bytes(request)
        return self._http.get(url, what=describe(request), limit=limit, progress=progress).body
