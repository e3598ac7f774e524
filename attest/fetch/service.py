"""What the clients of all vendors' services share: an address, a client underneath, and a key where one is wanted."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Final, Self

from attest.errors import ConfigurationError
from attest.fetch.client import FetchClocks, HttpClient, ServiceWords, require_base_url

__all__ = ["MAX_SERVICE_KEY_BYTES", "ApiKey", "ServiceClient", "read_service_key"]

MAX_SERVICE_KEY_BYTES: Final = 4096
"""NVIDIA's keys have some 70 characters."""

_KEY = re.compile(rb"[A-Za-z0-9._~+/=-]{1,%d}" % MAX_SERVICE_KEY_BYTES)


class ServiceClient:
    """A client of one service; the vendors' clients say what to ask it.

    Args:
        timing: clocks and sleep.
        base_url: ``https://host[:port][/path]``; plain http is for the loopback address only.
        words: how refusals speak of the service.
        trust_env: honour the environment's proxies and certificate stores; see ``client.py``.

    Raises:
        ConfigurationError: ``…-url-invalid``.
    """

    def __init__(self, *, timing: FetchClocks, base_url: str, words: ServiceWords, trust_env: bool) -> None:
        """Prepare a client; nothing is sent and httpx is not loaded before the first request."""
        require_base_url(base_url, words)
        self._base_url = base_url.rstrip("/")
        self._http = HttpClient(timing=timing, words=words, trust_env=trust_env)

    def __enter__(self) -> Self:
        """Return itself; leaving closes the connections."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self._http.close()

    @property
    def service(self) -> str:
        """Whose answers these are: answers of two services are never mixed in a cache."""
        return self._base_url


class ApiKey:
    """A key that tells a service who asks. It is shown nowhere and cannot be pickled.

    Args:
        text: as it goes behind ``Bearer``.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Keep the key."""
        self._text = text

    def __repr__(self) -> str:
        """Show that there is one."""
        return "ApiKey(…)"

    def __reduce__(self) -> str:
        """Refuse."""
        msg = "a service key cannot be pickled"
        raise TypeError(msg)

    def headers(self) -> dict[str, str]:
        """Return the header that carries it (RFC 6750, section 2.1)."""
        return {"Authorization": f"Bearer {self._text}"}


def read_service_key(content: bytes) -> ApiKey:
    """Take the content of a file for a service key; blanks around it do not count.

    Raises:
        ConfigurationError: ``service-key-invalid``; what was found is not shown.
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
