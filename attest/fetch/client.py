"""HTTP client for all vendors' services, with retries and limits.

Services limit requests per client with status 429, and extend the limit for immediate retries. Answers are therefore
cached (``cache.py``), and a refusal is waited out for as long as the service states, within bounds.

Deliberate choices:

* Hosts are configured. No URL comes from evidence or certificates (CRL distribution points included), and
  redirects are refused.
* The environment's proxies and certificate stores (``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``) are honoured:
  sites without direct access need them, and they can withhold an answer but not forge one, since the vendor signs
  everything. They can observe the requests. ``trust_env=False`` turns this off.
* Answers are read without content coding, up to a limit of bytes and of time.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from attest.errors import ConfigurationError, EndorsementError

if TYPE_CHECKING:
    import httpx

MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS = 1.0
"""Doubles with each attempt if the service states no time."""
MAX_WAIT_SECONDS = 60.0
"""If the service states a longer time, no request is sent, and the caller gets an error."""
MAX_TOTAL_WAIT_SECONDS = 120.0
CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
"""Between two pieces of an answer."""
TRANSFER_SECONDS = 60.0
"""Time limit for one whole answer, so that a slow server does not stall the caller."""

_SECONDS = re.compile(r"[0-9]{1,9}")
_NOT_FOUND = frozenset({400, 404})
_THROTTLED = frozenset({429, 503})
_UNWELL = frozenset({500, 502, 504})

Progress = Callable[[str], None]
"""Called with lines for people, such as a waiting time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchClocks:
    """Sources of time: of day, aware, for a ``Retry-After`` with a date; seconds that never run backwards; a pause."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceWords:
    """Texts of errors of a service, and the prefix of their codes.

    After status 404, ``known`` is the missing item and ``unknown`` the remedy.
    """

    prefix: str
    name: str
    known: str
    unknown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A whole answer of status 200; the names of headers are in any case."""

    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """A retryable refusal, with the seconds that the service asks to wait, if any."""

    error: EndorsementError
    wait: float | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class HttpClient:
    """Client of one service; httpx is loaded with the first request."""

    timing: FetchClocks
    words: ServiceWords
    trust_env: bool
    _client: httpx.Client | None = field(default=None, init=False)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(
        self,
        url: str,
        *,
        what: str,
        limit: int,
        progress: Progress,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpAnswer:
        """Return the service's answer, unparsed; retry until there is one or the attempts are used up.

        ``what`` describes the request for people, ``limit`` is the largest size of the answer's body in bytes, and
        ``body`` makes a POST, which may be repeated.

        Raises:
            EndorsementError: ``…-not-found``, ``…-throttled``, ``…-unreachable`` or ``…-answer-invalid``.
            ConfigurationError: ``…-url-invalid``, an invalid host; or ``network-settings-invalid``.
        """
        waited = 0.0
        attempt = 1
        while True:
            progress(f"fetching the {what} from {_host_of(url)}")
            outcome = self._once(url, headers or {}, body, limit=limit)
            if isinstance(outcome, HttpAnswer):
                return outcome
            wait = FIRST_WAIT_SECONDS * 2 ** (attempt - 1) if outcome.wait is None else outcome.wait
            if attempt == MAX_ATTEMPTS or wait > MAX_WAIT_SECONDS or waited + wait > MAX_TOTAL_WAIT_SECONDS:
                raise outcome.error
            progress(f"{outcome.error.message}; waiting {wait:.0f} s")
            self.timing.sleep(wait)
            waited += wait
            attempt += 1

    def _once(self, url: str, headers: Mapping[str, str], body: bytes | None, *, limit: int) -> HttpAnswer | _Again:
        """Send one request and read its answer."""
        import httpx

        sent = self._connected().stream("GET" if body is None else "POST", url, headers=headers, content=body)
        started = self.timing.monotonic()
        received = b""
        try:
            with sent as response:
                refusal = self._refusal(url, response.status_code, response.headers)
                if refusal is not None:
                    return refusal
                for piece in response.iter_raw():
                    received += piece
                    if len(received) > limit:
                        raise answer_invalid(self.words, url, f"at most {limit} bytes", "more")
                    if self.timing.monotonic() - started > TRANSFER_SECONDS:
                        return _Again(error=self._unreachable(url, f"no whole answer within {TRANSFER_SECONDS:.0f} s"))
                return HttpAnswer(body=received, headers=response.headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as exc:
            raise self._unreachable(url, str(exc) or type(exc).__name__) from exc  # a second attempt seldom helps
        except httpx.InvalidURL as exc:
            raise _bad_url(self.words, _host_of(url)) from exc
        except httpx.TransportError as exc:
            return _Again(error=self._unreachable(url, str(exc) or type(exc).__name__))

    def _connected(self) -> httpx.Client:
        import httpx

        if self._client is None:
            try:
                self._client = httpx.Client(
                    trust_env=self.trust_env,
                    follow_redirects=False,
                    timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                    headers={"User-Agent": "attest", "Accept-Encoding": "identity"},
                )
            except (ValueError, OSError, ImportError) as exc:  # an invalid proxy or certificate store
                raise ConfigurationError(
                    f"the environment's proxy or certificate settings cannot be used: {exc}",
                    code="network-settings-invalid",
                    hint="look at HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
                ) from exc
        return self._client

    def _refusal(self, url: str, status: int, headers: Mapping[str, str]) -> _Again | None:
        """Check status and headers: return None to read on, or a retryable refusal."""
        if status in _THROTTLED:
            wait = _retry_after(headers.get("Retry-After"), now=self.timing.now)
            return _Again(error=self._throttled(url, status, wait), wait=wait)
        if status in _UNWELL:
            return _Again(error=self._unreachable(url, f"status {status}"))
        if status in _NOT_FOUND:
            raise EndorsementError(
                f"{url} does not exist (status {status})",
                code=f"{self.words.prefix}-not-found",
                expected=self.words.known,
                got=f"status {status}",
                hint=self.words.unknown,
            )
        if status != 200:
            got = f"status {status}" + (", a redirect" if 300 <= status < 400 else "")
            raise answer_invalid(self.words, url, "status 200", got)
        coding = headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            raise answer_invalid(self.words, url, "an answer without content coding", coding[:40])
        return None

    def _throttled(self, url: str, status: int, wait: float | None) -> EndorsementError:
        advice = "" if wait is None else f" and asks to wait {wait:.0f} s"
        return EndorsementError(
            f"{url} is too busy (status {status}){advice}",
            code=f"{self.words.prefix}-throttled",
            expected="status 200",
            got=f"status {status}",
            hint="try again later; a received answer is cached",
            retryable=True,
        )

    def _unreachable(self, url: str, problem: str) -> EndorsementError:
        return EndorsementError(
            f"{url} cannot be reached: {problem}",
            code=f"{self.words.prefix}-unreachable",
            expected="an answer",
            got=problem,
            hint="check the network and HTTPS_PROXY, or work from files with --offline and --endorsements PATH",
            retryable=True,
        )


def answer_invalid(words: ServiceWords, url: str, expected: str, got: str) -> EndorsementError:
    """Return the error for an answer that the service cannot have sent."""
    return EndorsementError(
        f"{url} answered with {got}, expected {expected}",
        code=f"{words.prefix}-answer-invalid",
        expected=expected,
        got=got,
        hint="check for a proxy or mirror that answers instead of the service",
    )


# -- addresses


def require_base_url(base_url: str, words: ServiceWords) -> None:
    """Refuse ambiguous base URLs, and unprotected ones over a network.

    Raises:
        ConfigurationError: ``…-url-invalid``.
    """
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as exc:
        raise _bad_url(words, base_url) from exc
    plain = parts.scheme == "http" and _is_loopback(host)
    if (parts.scheme != "https" and not plain) or not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise _bad_url(words, base_url)
    if not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise _bad_url(words, base_url)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _bad_url(words: ServiceWords, base_url: str) -> ConfigurationError:
    return ConfigurationError(
        f"{base_url!r} cannot be the address of {words.name}",
        code=f"{words.prefix}-url-invalid",
        expected="https://host[:port][/path] without user, query or fragment; http for the loopback address only",
        got=base_url,
        hint="expected https://HOST[:PORT][/PATH]; http is for the loopback address",
    )


# -- waiting


def _retry_after(value: str | None, *, now: Callable[[], datetime]) -> float | None:
    """Return the seconds of ``Retry-After``, at least one; None if it is absent or invalid.

    Spec: RFC 9110, section 10.2.3: seconds, or an HTTP date.
    """
    if value is None:
        return None
    if _SECONDS.fullmatch(value.strip()):
        return max(float(value), 1.0)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)  # "-0000": UTC without a known place
    return max((moment - now()).total_seconds(), 1.0)
