"""Client of NVIDIA's RIM service: reference integrity manifests of drivers, VBIOSes and switch BIOSes by id.

``client.py`` has retries and limits. The service needs no authentication beyond TLS:
all trust in a RIM comes from its signature.

Spec: specs/nvidia-gpu.md, section 9.1.
"""

from __future__ import annotations

from typing import Final

from attest.endorsements.requests import EndorsementRequest, NvidiaRimRequest
from attest.endorsements.rims import is_rim_id
from attest.errors import EndorsementError
from attest.fetch.answers import describe, max_answer_bytes
from attest.fetch.client import FetchClocks, Progress, ServiceWords
from attest.fetch.service import ApiKey, ServiceClient

RIM_URL: Final = "https://rim.attestation.nvidia.com"

_WORDS = ServiceWords(
    not_found="rim-not-found",
    throttled="rim-throttled",
    unreachable="rim-unreachable",
    answer_invalid="rim-answer-invalid",
    url_invalid="rim-url-invalid",
    name="a RIM service",
    known="a RIM with this id",
    unknown="NVIDIA publishes no RIM for a driver or VBIOS that is not for confidential computing, or withdrew it",
)


class RimServiceClient(ServiceClient):
    """Client of NVIDIA's RIM service, or of a mirror of it.

    Args:
        timing: sources of time.
        base_url: ``https://host[:port][/path]``; plain http is for the loopback address only.
        service_key: an API key of NVIDIA's, for more requests; None means anonymous use.
        trust_env: honour the environment's proxies and certificate stores; see ``client.py``.

    Raises:
        ConfigurationError: ``rim-url-invalid``.
    """

    def __init__(
        self,
        *,
        timing: FetchClocks,
        base_url: str = RIM_URL,
        service_key: ApiKey | None = None,
        trust_env: bool = True,
    ) -> None:
        """Keep the settings; httpx is loaded with the first request."""
        super().__init__(timing=timing, base_url=base_url, words=_WORDS, trust_env=trust_env)
        self._headers = {} if service_key is None else service_key.headers()

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL for a request.

        Raises:
            EndorsementError: ``rim-not-found``, an impossible id, from odd versions in the evidence.
            TypeError: the request is for another service.
        """
        if not isinstance(request, NvidiaRimRequest):
            raise TypeError(f"NVIDIA's RIM service does not answer {type(request).__name__}")
        if not is_rim_id(request.id):
            raise EndorsementError(
                f"{request.id[:64]!r} is not the id of a RIM",
                code=_WORDS.not_found,
                expected="NV_ with letters, digits, dots, hyphens and underscores",
                got=repr(request.id[:64]),
            )
        return f"{self._base_url}/v1/rim/{request.id}"

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the body of the service's answer, JSON, unparsed.

        Raises:
            EndorsementError: ``rim-not-found``, ``rim-throttled``, ``rim-unreachable`` or ``rim-answer-invalid``.
            ConfigurationError: ``rim-url-invalid``, an invalid host; or ``network-settings-invalid``.
            TypeError: as ``url_of``.
        """
        url, limit = self.url_of(request), max_answer_bytes(request)
        return self._http.get(url, what=describe(request), limit=limit, progress=progress, headers=self._headers).body
