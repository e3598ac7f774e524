"""Sealed files on a web server: ranges over HTTP (RFC 9110 §14), pinned to the version at opening.

The server is not trusted with content: every segment is authenticated. These checks keep a faulty or malicious server
from wasting memory and time, and give precise errors in place of a failed decryption:

* the first answer fixes size and validator (a strong ETag, or else Last-Modified); each later request has it in
  ``If-Range``, and another size or validator is refused as a change;
* an answer has status 206, exactly the requested range, and no content coding; a server without ranges is
  refused before it sends the whole file;
* redirects are limited in number, never lead from https to http, and the caller's own headers stay with the
  original host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from attest.errors import SealedSourceError
from attest.sealed.http_connections import (
    HeaderSource,
    HttpAccess,
    HttpConnections,
    answer_invalid,
    bad_url,
    changed,
    receiver_of,
    require_url,
    shown,
)
from attest.sealed.ranges import Receive, RetryPolicy, receive_from
from attest.sealed.remote_source import RemoteSource, RemoteStore

if TYPE_CHECKING:
    import urllib3

MAX_SIZE: Final = 1 << 52
"""4 PiB, the largest sealed file."""


_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,16})-([0-9]{1,16})/([0-9]{1,16})")
_STRONG_ETAG: Final = re.compile(r'"[\x21\x23-\x7e\x80-\xff]{0,512}"')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pin:
    """Version of the file at opening: size in bytes, header that names it with its value, header that asks for it.

    The headers are empty for content that the address names by its digest.
    """

    size: int
    header: str = ""
    value: str = ""
    condition: str = ""


class HttpSource(RemoteSource):
    """One file on a web server, read by ranges; thread-safe.

    Args:
        url: ``https://…`` or ``http://…``, without user information. A query is sent, but never shown.
        headers: returns the caller's own headers; short for an ``access`` with them.
        trust_env: honour the environment's proxies and certificate stores.
        access: authorization of the requests, in place of ``headers``.
        over: shared connections in place of the previous arguments; their owner closes them.
        size: of content that the address names by its digest. No validator is asked for, and nothing is sent yet.

    Raises:
        ConfigurationError: ``sealed-url-invalid`` or ``network-settings-invalid``.
        SealedSourceError: ``sealed-source-…``: unreachable, not-found, refused, answer-invalid, unpinned.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: HeaderSource | None = None,
        patience: RetryPolicy | None = None,
        trust_env: bool = True,
        access: HttpAccess | None = None,
        over: HttpConnections | None = None,
        size: int | None = None,
    ) -> None:
        require_url(url)
        self.url = url
        self._pin = None if size is None else _Pin(size=size)
        self.client = over or HttpConnections(
            access=access or HttpAccess(headers=headers), patience=patience, trust_env=trust_env
        )
        super().__init__(shown(url), patience=self.client.patience, owned=None if over else self.client)

    @contextmanager
    def _ask_first(self, start: int, stop: int) -> Iterator[Receive]:
        if self._pin is not None:
            self.size = self._pin.size
            yield receive_from(iter((b"\0",)))
            return
        with self.client.get(self.url, {"Range": f"bytes={start}-{stop - 1}"}) as response:
            self._pin = _pin_of(self.name, response, self.client.access.versions)
            self.size = self._pin.size
            yield receiver_of(response, name=self.name) if self.size else receive_from(iter((b"\0",)))

    @contextmanager
    def _ask(self, start: int, stop: int) -> Iterator[Receive]:
        pin = self._pin or _Pin(size=self.size)
        headers = {"Range": f"bytes={start}-{stop - 1}"} | ({pin.condition: pin.value} if pin.condition else {})
        with self.client.get(self.url, headers) as response:
            _require_same(self.name, pin, response)
            _require_range(self.name, start, stop, response)
            yield receiver_of(response, name=self.name)


class HttpStore(RemoteStore):
    """A sealed directory below a URL, with or without a final slash, and without a query.

    The other arguments are those of ``HttpSource``. Nothing is sent yet.

    Raises:
        ConfigurationError: ``sealed-url-invalid``.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: HeaderSource | None = None,
        patience: RetryPolicy | None = None,
        trust_env: bool = True,
        access: HttpAccess | None = None,
    ) -> None:
        require_url(url)
        if urlsplit(url).query:
            raise bad_url(shown(url), "no query: it would not reach the files of the directory")
        self._base = url.rstrip("/") + "/"
        self._client = HttpConnections(
            access=access or HttpAccess(headers=headers), patience=patience, trust_env=trust_env
        )
        super().__init__(shown(self._base), patience=self._client.patience, owned=self._client)

    def open(self, name: str) -> HttpSource:
        """Open a file of the directory; errors as ``HttpSource``."""
        return HttpSource(self._base + quote(name, safe="/"), over=self._client)


def _pin_of(name: str, response: urllib3.BaseHTTPResponse, versions: tuple[tuple[str, str], ...]) -> _Pin:
    """Parse size and version from the answer to ``Range: bytes=0-0``.

    Raises:
        SealedSourceError: ``sealed-source-answer-invalid`` or ``sealed-source-unpinned``.
    """
    if response.status == 416 and response.headers.get("Content-Range") == "bytes */0":
        return _Pin(size=0)
    total = _require_range(name, 0, 1, response)
    for header, condition in versions:
        value = response.headers.get(header, "")
        if _STRONG_ETAG.fullmatch(value) if header == "ETag" else value:
            return _Pin(size=total, header=header, value=value, condition=condition)
    raise SealedSourceError(
        f"{name} comes without a strong ETag and without Last-Modified, so that a change could not be noticed",
        code="sealed-source-unpinned",
        expected="ETag or Last-Modified",
        hint="serve the file by a server that states one of them; most do",
    )


def _require_same(name: str, pin: _Pin, response: urllib3.BaseHTTPResponse) -> None:
    """Require the version that was opened.

    Raises:
        SealedSourceError: ``sealed-source-changed``.
    """
    versioned = bool(pin.header)
    if versioned and (response.status in {200, 416} or response.headers.get(pin.header, "") != pin.value):
        # The server supports ranges, or opening would have failed: a whole file means that If-Range did not match.
        raise changed(name)
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if match is not None and int(match[3]) != pin.size:
        raise changed(name)


def _require_range(name: str, start: int, stop: int, response: urllib3.BaseHTTPResponse) -> int:
    """Require an answer with exactly ``[start, stop)``, and return the size of the file.

    Raises:
        SealedSourceError: ``sealed-source-answer-invalid``.
    """
    headers = response.headers
    if response.status == 200:
        raise SealedSourceError(
            f"{name}: the server ignores ranges and would send the whole file",
            code="sealed-source-answer-invalid",
            expected="status 206",
            got="status 200",
            hint="serve the file by a server with support for Range (RFC 9110 section 14), or copy it here first",
        )
    if response.status != 206:
        raise answer_invalid(name, "status 206", f"status {response.status}")
    coding = headers.get("Content-Encoding", "identity")
    if coding.lower() != "identity":
        raise answer_invalid(name, "an answer without content coding", f"coding {coding[:40]}")
    stated = headers.get("Content-Range", "")
    match = _CONTENT_RANGE.fullmatch(stated)
    wanted = f"bytes {start}-{stop - 1}"
    if match is None or (int(match[1]), int(match[2])) != (start, stop - 1) or not stop <= int(match[3]) <= MAX_SIZE:
        raise answer_invalid(name, f"Content-Range: {wanted}/size", f"{stated[:80]!r}")
    length = headers.get("Content-Length")
    if length is not None and length != str(stop - start):
        raise answer_invalid(name, f"{stop - start} bytes", f"Content-Length {length[:20]}")
    return int(match[3])
