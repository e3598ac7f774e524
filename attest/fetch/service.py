"""Common base of the clients of vendors' services: an address, an HTTP client, and for NVIDIA's an API key."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

from attest.context_managers import ClosedOnExit
from attest.endorsements.requests import EndorsementRequest
from attest.errors import ConfigurationError
from attest.fetch.answers import describe, max_answer_bytes
from attest.fetch.client import FetchClocks, HttpClient, Progress, ServiceWords, require_base_url

MAX_SERVICE_KEY_BYTES: Final = 4096
"""NVIDIA's keys have some 70 characters."""

_KEY = re.compile(rb"[A-Za-z0-9._~+/=-]{1,%d}" % MAX_SERVICE_KEY_BYTES)


@dataclass(kw_only=True, eq=False, repr=False)
class ServiceClient(ClosedOnExit):
    """A client of one service, the base of the vendors' clients; ``client.py`` has retries and limits.

    Args:
        timing: sources of time.
        base_url: ``https://host[:port][/path]``; plain http is for the loopback address only. None is the vendor's own.
        trust_env: honour the environment's proxies and certificate stores; see ``client.py``.

    Raises:
        ConfigurationError: ``…-url-invalid``.
    """

    default_url: ClassVar[str]
    words: ClassVar[ServiceWords]

    timing: FetchClocks
    base_url: str | None = None
    trust_env: bool = True

    def __post_init__(self) -> None:
        url = self.default_url if self.base_url is None else self.base_url
        require_base_url(url, self.words)
        self._base_url = url.rstrip("/")
        self._headers: dict[str, str] = {}
        self._http = HttpClient(timing=self.timing, words=self.words, trust_env=self.trust_env)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self._http.close()

    @property
    def service(self) -> str:
        """Identity of the service, which separates answers in a cache."""
        return self._base_url

    @abstractmethod
    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL for a request.

        Raises:
            TypeError: the request is for another service.
        """
        ...

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the body of the service's answer, unparsed.

        Raises:
            EndorsementError: ``…-not-found``, ``…-throttled``, ``…-unreachable`` or ``…-answer-invalid``.
            ConfigurationError: ``…-url-invalid``, an invalid host; or ``network-settings-invalid``.
            TypeError: as ``url_of``.
            ValueError: as ``url_of``.
        """
        url, limit = self.url_of(request), max_answer_bytes(request)
        return self._http.ask(url, what=describe(request), limit=limit, progress=progress, headers=self._headers).body


@dataclass(kw_only=True, eq=False, repr=False)
class NvidiaServiceClient(ServiceClient):
    """A client of one of NVIDIA's services, which allow more requests with an API key; without one, use is anonymous.

    Raises:
        ConfigurationError: ``…-url-invalid``.
    """

    service_key: ApiKey | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.service_key is not None:
            self._headers |= self.service_key.headers()


class ApiKey:
    """An API key, the text after ``Bearer``. Its repr omits the text, and it cannot be pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "ApiKey(…)"

    def __reduce__(self) -> str:
        raise TypeError("a service key cannot be pickled")

    def headers(self) -> dict[str, str]:
        """Return the header with the key (RFC 6750, section 2.1)."""
        return {"Authorization": f"Bearer {self._text}"}


def read_service_key(content: bytes) -> ApiKey:
    """Parse the content of a key file; surrounding blanks are ignored.

    Raises:
        ConfigurationError: ``service-key-invalid``; the content is not shown.
    """
    text = content.strip()
    if not _KEY.fullmatch(text):
        raise ConfigurationError(
            "the file of the service key does not contain exactly one key",
            code="service-key-invalid",
            expected=f"one word of at most {MAX_SERVICE_KEY_BYTES} letters, digits and -._~+/=",
            got=f"{len(content)} bytes of other content",
        )
    return ApiKey(text.decode("ascii"))
