"""Common base of the clients of vendors' services: an address, an HTTP client, and optionally an API key."""

from __future__ import annotations

import re
from typing import Final

from attest.context_managers import ClosedOnExit
from attest.errors import ConfigurationError
from attest.fetch.client import FetchClocks, HttpClient, ServiceWords, require_base_url

MAX_SERVICE_KEY_BYTES: Final = 4096
"""NVIDIA's keys have some 70 characters."""

_KEY = re.compile(rb"[A-Za-z0-9._~+/=-]{1,%d}" % MAX_SERVICE_KEY_BYTES)


class ServiceClient(ClosedOnExit):
    """A client of one service, the base of the vendors' clients.

    Args:
        timing: sources of time.
        base_url: ``https://host[:port][/path]``; plain http is for the loopback address only.
        words: codes and texts of errors.
        trust_env: honour the environment's proxies and certificate stores; see ``client.py``.

    Raises:
        ConfigurationError: ``…-url-invalid``.
    """

    def __init__(self, *, timing: FetchClocks, base_url: str, words: ServiceWords, trust_env: bool) -> None:
        """Keep the settings; httpx is loaded with the first request."""
        require_base_url(base_url, words)
        self._base_url = base_url.rstrip("/")
        self._http = HttpClient(timing=timing, words=words, trust_env=trust_env)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self._http.close()

    @property
    def service(self) -> str:
        """Identity of the service, which separates answers in a cache."""
        return self._base_url


class ApiKey:
    """An API key. Its repr omits the text, and it cannot be pickled.

    Args:
        text: value after ``Bearer``.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self._text = text

    def __repr__(self) -> str:
        """Return a text without the key."""
        return "ApiKey(…)"

    def __reduce__(self) -> str:
        """Refuse pickling."""
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
            "the file of the service key does not hold one key and nothing else",
            code="service-key-invalid",
            expected=f"one word of at most {MAX_SERVICE_KEY_BYTES} letters, digits and -._~+/=",
            got=f"{len(content)} bytes of other content",
        )
    return ApiKey(text.decode("ascii"))
