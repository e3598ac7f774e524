"""HTTP connections to web servers with sealed files: addresses, redirects, and errors by status."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from attest.errors import ConfigurationError, SealedSourceError
from attest.sealed.ranges import Interruption, Receive, RetryPolicy, receive_from, unreachable

if TYPE_CHECKING:
    import urllib3

    from attest.sealed.http_arrival import Arrival


MAX_REDIRECTS: Final = 5
MAX_SHOWN: Final = 300
"""Characters of an address in a message."""
BLOCK_BYTES: Final = 64 << 10
"""Most that is received at once as bytes."""
_SENT: Final = {"User-Agent": "attest", "Accept-Encoding": "identity"}
MAX_REASON_BYTES: Final = 4096
_REASON: Final = re.compile(r"[A-Za-z_]{1,60}")
_STATED_REASON: Final = re.compile(r'<Code>(?P<xml>[A-Za-z_]{1,60})</Code>|"code": ?"(?P<json>[A-Za-z_]{1,60})"')
"""The forms of object storage (XML) and of registries (JSON)."""
_REFUSALS: Final = frozenset({"ExpiredToken", "InvalidAuthenticationInfo", "InvalidToken", "PublicAccessNotPermitted"})
"""Of Amazon, Azure and Google, with other statuses than 401 and 403."""
_SECONDS: Final = re.compile(r"[0-9]{1,6}")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


HeaderSource = Callable[[], Mapping[str, str]]
"""Returns the caller's own headers, such as Authorization, for each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAccess:
    """Authorization of the requests to one service, and its way to name the version of a file.

    Attributes:
        headers: for the service's own origin, and for no other that it redirects to.
        query: signature that is appended to the address, for the same origin.
        versions: headers of an answer that name the version, best first, each with the header of a later request that
            asks for this version alone.
        hint: for a refused request.
    """

    headers: HeaderSource | None = None
    query: Callable[[], str] | None = None
    versions: tuple[tuple[str, str], ...] = (("ETag", "If-Range"), ("Last-Modified", "If-Range"))
    hint: str = "give the headers or credentials that the service requires, or a fresh signed address"


class HttpConnections:
    """Connections to web servers and their redirect targets; arguments as for ``HttpSource``."""

    def __init__(
        self, *, access: HttpAccess | None = None, patience: RetryPolicy | None = None, trust_env: bool = True
    ) -> None:
        self.patience = patience or RetryPolicy()
        self.access = access or HttpAccess()
        self._trust_env = trust_env
        self._lock = threading.Lock()
        self._pools: dict[str | None, urllib3.PoolManager] = {}
        self._closed = False

    def close(self) -> None:
        """Close the connections; repeated calls are harmless."""
        with self._lock:
            self._closed = True
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.clear()

    def _connected(self, url: str) -> urllib3.PoolManager:
        """Return the pool for an address: one for each proxy, and one without."""
        proxy = _proxy_for(url) if self._trust_env else None
        with self._lock:
            if self._closed:
                raise ValueError("the connections are closed")
            if proxy not in self._pools:
                self._pools[proxy] = self._connect(proxy)
            return self._pools[proxy]

    def _connect(self, proxy: str | None) -> urllib3.PoolManager:
        import httpx
        import urllib3

        from attest.sealed.http_arrival import show_arrivals

        patience = self.patience
        settings: dict[str, Any] = {  # Any: arguments of several types
            "timeout": urllib3.Timeout(connect=patience.connect_seconds, read=patience.read_seconds),
            "maxsize": patience.connections,
            "block": True,
        }
        try:
            context = httpx.create_ssl_context(trust_env=self._trust_env)
            if proxy is None:
                return show_arrivals(urllib3.PoolManager(ssl_context=context, **settings))
            user = urllib3.util.parse_url(proxy).auth
            named = urllib3.make_headers(proxy_basic_auth=None if user is None else unquote(user))
            pools = urllib3.ProxyManager(
                proxy, proxy_headers=named, proxy_ssl_context=context, ssl_context=context, **settings
            )
            return show_arrivals(pools)
        except (ValueError, OSError, urllib3.exceptions.HTTPError) as exc:  # an invalid proxy or certificate store
            raise ConfigurationError(
                "the environment's proxy or certificate settings cannot be used",
                code="network-settings-invalid",
                hint="look at HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
            ) from exc

    @contextmanager
    def get(self, url: str, headers: Mapping[str, str]) -> Iterator[urllib3.BaseHTTPResponse]:
        """Send a GET, follow redirects, and yield the unread answer; status 4xx and 5xx raise.

        Raises:
            Interruption: the service is busy or the connection failed.
            SealedSourceError: ``sealed-source-not-found``, ``-refused`` or ``-answer-invalid``.
            ConfigurationError: ``sealed-url-invalid`` or ``headers-invalid``.
        """
        from urllib3.exceptions import HTTPError, LocationValueError

        try:
            response = self._follow(url, headers)
            try:
                yield response
            finally:
                end(response)
        except LocationValueError as exc:
            raise bad_url(shown(url), "a valid host and path") from exc
        except HTTPError as exc:
            raise Interruption(unreachable(shown(url), str(exc) or type(exc).__name__)) from exc

    def _follow(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        place = url
        for _ in range(MAX_REDIRECTS + 1):
            own = self.access if _origin(place) == _origin(url) else HttpAccess()
            response = self.send(_signed(place, own), {**(own.headers() if own.headers else {}), **headers})
            if response.status not in _REDIRECTS:
                _require_no_refusal(place, response, hint=self.access.hint)
                return response
            end(response)
            place = _redirected(place, response.headers.get("Location"))
        raise answer_invalid(shown(url), f"at most {MAX_REDIRECTS} redirects", "more")

    def send(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Send one GET, and return the unread answer, whatever it is; the caller ends it.

        Raises:
            urllib3.exceptions.HTTPError: the connection failed, or an invalid host.
            ConfigurationError: ``headers-invalid``.
        """
        from urllib3.exceptions import LocationValueError

        pool = self._connected(url)
        try:
            return pool.request(
                "GET",
                url,
                headers={**_SENT, **headers},
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
            )
        except LocationValueError:
            raise
        except ValueError:  # The text of this exception shows the header.
            raise ConfigurationError(
                f"the headers for {shown(url)} cannot be sent",
                code="headers-invalid",
                expected="names and values without line breaks, in Latin-1",
            ) from None


def receiver_of(response: urllib3.BaseHTTPResponse, *, name: str) -> Receive:
    """Return the function that receives the body straight into memory."""
    body: Arrival | None = getattr(response.connection, "arrival", None)
    if body is None:  # no body, so urllib3 has already returned the connection to its pool
        return lambda _: 0

    if body.chunked:  # the standard library would wait for whole chunks, or lose a part of one
        return receive_from(blocks_of(response))

    def receive(view: memoryview) -> int:
        try:
            return body.readinto(view)
        except (OSError, HTTPException) as exc:
            raise Interruption(unreachable(name, str(exc) or type(exc).__name__)) from exc

    return receive


def blocks_of(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the body as it arrives; errors as ``HttpConnections.get``."""
    while block := response.read1(BLOCK_BYTES):
        yield block


def end(response: urllib3.BaseHTTPResponse) -> None:
    """Close an answer, and its connection if some of it is unread; the pool can use its place again."""
    arrival: Arrival | None = getattr(response.connection, "arrival", None)
    if arrival is not None and arrival.isclosed():
        response.release_conn()
    response.close()
    response.release_conn()


def _signed(url: str, access: HttpAccess) -> str:
    if access.query is None:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{access.query()}"


def _proxy_for(url: str) -> str | None:
    """Return the address of the environment's proxy for a URL."""
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def require_url(url: str) -> None:
    """Refuse an invalid address.

    Raises:
        ConfigurationError: ``sealed-url-invalid``.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        raise bad_url("the address", "a valid address") from exc
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise bad_url(shown(url), "https://host/path or http://host/path")
    if parts.username is not None or parts.password is not None:
        raise bad_url(shown(url), "no user or password in the address: give headers instead")
    if parts.fragment or not url.isascii() or any(ord(character) <= 32 for character in url):
        raise bad_url(shown(url), "neither blanks nor a fragment, and nothing that is not ASCII")


def shown(url: str) -> str:
    """Return an address for messages, without user information and query, which may be secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:MAX_SHOWN]


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _redirected(place: str, location: str | None) -> str:
    """Return the target of a redirect.

    Raises:
        SealedSourceError: ``sealed-source-answer-invalid``.
    """
    expected = "a redirect to an address that is as safe"
    if location is None:
        raise answer_invalid(shown(place), expected, "a redirect to nowhere")
    try:
        target = urljoin(place, location)
        require_url(target)
    except (ConfigurationError, ValueError) as exc:
        raise answer_invalid(shown(place), expected, "a redirect to an invalid address") from exc
    if urlsplit(place).scheme == "https" and urlsplit(target).scheme != "https":
        raise answer_invalid(shown(place), expected, f"a redirect to {shown(target)}")
    return target


def _require_no_refusal(place: str, response: urllib3.BaseHTTPResponse, *, hint: str) -> None:
    status, name = response.status, shown(place)
    if status < 400 or status == 416:
        return
    reason = reason_of(response)
    words = f"status {status}{reason and f', {reason}'}"
    end(response)
    if status in _AGAIN:
        pause = response.headers.get("Retry-After", "")
        wait = float(pause) if _SECONDS.fullmatch(pause) else None
        raise Interruption(unreachable(name, words), wait=wait)
    if status in {401, 403, 407} or reason in _REFUSALS:
        raise refused(name, words, hint=hint)
    if status in {404, 410}:
        raise not_found(name, words, hint="check the address")
    if status == 412:
        raise changed(name)
    raise answer_invalid(name, "status 206", words)


def reason_of(response: urllib3.BaseHTTPResponse) -> str:
    """Return the service's own code of an error, such as ``NoSuchBucket``, or nothing."""
    from urllib3.exceptions import HTTPError

    stated = response.headers.get("x-ms-error-code", "")
    if _REASON.fullmatch(stated):
        return stated
    try:
        body = response.read1(MAX_REASON_BYTES).decode("utf-8", "replace")
    except HTTPError:
        return ""
    match = _STATED_REASON.search(body)
    return match["xml"] or match["json"] if match else ""


def refused(name: str, got: str, *, hint: str) -> SealedSourceError:
    """Return the error for a service that refuses this reader."""
    message = f"{name} is refused to this reader ({got})"
    return SealedSourceError(message, code="sealed-source-refused", got=got, hint=hint)


def not_found(name: str, got: str, *, hint: str) -> SealedSourceError:
    """Return the error for a missing file."""
    return SealedSourceError(f"{name} does not exist ({got})", code="sealed-source-not-found", got=got, hint=hint)


def answer_invalid(name: str, expected: str, got: str) -> SealedSourceError:
    """Return the error for an answer that does not match its request."""
    return SealedSourceError(
        f"{name}: the server's answer cannot be used: expected {expected}, got {got}",
        code="sealed-source-answer-invalid",
        expected=expected,
        got=got,
        hint="a proxy between may have changed it; try another way to the file",
    )


def changed(name: str) -> SealedSourceError:
    """Return the error for a file that has changed."""
    return SealedSourceError(
        f"{name} changed while it was read",
        code="sealed-source-changed",
        hint="open it again; a published model should not be written over: give each version an address of its own",
    )


def bad_url(name: str, expected: str) -> ConfigurationError:
    """Return the error for an invalid address."""
    return ConfigurationError(
        f"{name} cannot be used: expected {expected}", code="sealed-url-invalid", expected=expected
    )
