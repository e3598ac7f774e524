"""Places in object storage that is read over HTTP: the address that is asked, and the authorization."""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from attest.errors import ConfigurationError
from attest.sealed.http_connections import HttpAccess, bad_url, require_url, shown

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class HttpPlace(NamedTuple):
    """An address, and the authorization of requests to it."""

    url: str
    access: HttpAccess


def joined(endpoint: str, *parts: str) -> str:
    """Return the address below an endpoint to which credentials may be sent.

    Raises:
        ConfigurationError: ``sealed-url-invalid``: not a URL, or credentials would travel in clear.
    """
    require_url(endpoint)
    host = urlsplit(endpoint)
    if host.query or (host.scheme != "https" and host.hostname not in _LOOPBACK):
        raise bad_url(shown(endpoint), "an https endpoint without a query")
    return "/".join([endpoint.rstrip("/"), *(quote(part, safe="/") for part in parts if part)])


def setting(name: str) -> str | None:
    """Return a variable of the environment without blanks around it; None if there is nothing in it."""
    return os.environ.get(name, "").strip() or None


def extra_missing(service: str, *, extra: str, code: str) -> ConfigurationError:
    """Return the error for a service whose library is not installed."""
    return ConfigurationError(
        f"{service} needs the extra {extra!r}",
        code=code,
        hint=f"pip install 'attest-kms[{extra}]'",
    )
