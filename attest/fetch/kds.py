"""Client of AMD's key distribution service (KDS): one request at a time, patient and suspicious.

The service hands out few answers per client and then says 429; whoever asks again at once waits longer. So answers
are cached (``cache.py``), and a refusal is waited out for as long as the service says, within bounds.

What is deliberate here:

* The host is configured. No address is taken from evidence or certificates (CRL distribution points included), and
  redirects are refused.
* The environment's proxies and certificate stores (``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``) are honoured:
  sites without them cannot reach AMD, and they can withhold an answer but not forge one, since every certificate and
  list is signed by AMD. What they see is which chip is asked for. ``trust_env=False`` turns this off.
* Answers are read as they are sent, without content coding, up to a limit of bytes and of time.

Spec: AMD 57230, chapter 4; specs/sev-snp.md, section 11.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode, urlsplit

from attest.endorsements.requests import AmdChainRequest, AmdVcekRequest, EndorsementRequest
from attest.errors import ConfigurationError, EndorsementError
from attest.fetch.answers import describe, max_answer_bytes

if TYPE_CHECKING:
    import httpx

__all__ = ["KDS_URL", "KdsClient", "Progress", "Timing"]

KDS_URL = "https://kdsintf.amd.com"

MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS = 1.0
"""Doubles with each attempt, where the service does not say how long to wait."""
MAX_WAIT_SECONDS = 60.0
"""A service that asks for more is taken at its word: nothing is sent before, and the caller hears of it."""
MAX_TOTAL_WAIT_SECONDS = 120.0
CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
"""Between two pieces of an answer."""
TRANSFER_SECONDS = 60.0
"""For one whole answer, so that one byte now and then does not hold the caller for ever."""

_PRODUCT = re.compile(r"[A-Za-z]{1,16}")
_SECONDS = re.compile(r"[0-9]{1,9}")
_NOT_FOUND = frozenset({400, 404})
_THROTTLED = frozenset({429, 503})
_UNWELL = frozenset({500, 502, 504})

Progress = Callable[[str], None]
"""Takes a line for people, such as how long the service asked to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Clocks and patience, given by the caller.

    Attributes:
        now: the time of day, aware; only a ``Retry-After`` that states a date is compared with it.
        monotonic: seconds that never run backwards.
        sleep: waits for that many seconds.
    """

    now: Callable[[], datetime]
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """A refusal after which the same request may be sent once more.

    Attributes:
        error: what to raise when it is not.
        wait: seconds that the service asked for, if it did.
    """

    error: EndorsementError
    wait: float | None = None


class KdsClient:
    """Ask a KDS, or a mirror of it, for certificates and revocation lists.

    Args:
        timing: clocks and sleep.
        base_url: ``https://host[:port][/path]``; plain http is for the loopback address only.
        trust_env: honour the environment's proxies and certificate stores; see the module.

    Raises:
        ConfigurationError: ``kds-url-invalid``.
    """

    def __init__(self, *, timing: Timing, base_url: str = KDS_URL, trust_env: bool = True) -> None:
        """Prepare a client; nothing is sent and httpx is not loaded before the first request."""
        _require_base_url(base_url)
        self._base_url = base_url.rstrip("/")
        self._timing = timing
        self._trust_env = trust_env
        self._client: httpx.Client | None = None

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
        if self._client is not None:
            self._client.close()
            self._client = None

    @property
    def service(self) -> str:
        """Whose answers these are: answers of two services are never mixed in a cache."""
        return self._base_url

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the address that answers a request.

        Raises:
            ValueError: the product's name is no word.
        """
        if not _PRODUCT.fullmatch(request.product):
            msg = f"{request.product!r} is no product line"
            raise ValueError(msg)
        match request:
            case AmdVcekRequest():
                query = urlencode([(name, f"{level:02d}") for name, level in request.spls])
                return f"{self._base_url}/vcek/v1/{request.product}/{request.hwid.hex()}?{query}"
            case AmdChainRequest():
                return f"{self._base_url}/{request.kind}/v1/{request.product}/cert_chain"
            case _:  # AmdCrlRequest
                return f"{self._base_url}/{request.kind}/v1/{request.product}/crl"

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the body of the service's answer, not read yet.

        Raises:
            EndorsementError: ``kds-not-found``, ``kds-throttled``, ``kds-unreachable`` or ``kds-answer-invalid``.
            ConfigurationError: ``kds-url-invalid``, a host that cannot be; or ``network-settings-invalid``.
            ValueError: as ``url_of``.
        """
        url = self.url_of(request)
        waited = 0.0
        attempt = 1
        while True:
            progress(f"fetching the {describe(request)} from {self._base_url}")
            outcome = self._once(url, limit=max_answer_bytes(request))
            if isinstance(outcome, bytes):
                return outcome
            wait = FIRST_WAIT_SECONDS * 2 ** (attempt - 1) if outcome.wait is None else outcome.wait
            if attempt == MAX_ATTEMPTS or wait > MAX_WAIT_SECONDS or waited + wait > MAX_TOTAL_WAIT_SECONDS:
                raise outcome.error
            progress(f"{outcome.error.message}; waiting {wait:.0f} s")
            self._timing.sleep(wait)
            waited += wait
            attempt += 1

    def _once(self, url: str, *, limit: int) -> bytes | _Again:
        """Send one request and read its answer."""
        import httpx

        started = self._timing.monotonic()
        body = b""
        try:
            with self._connected().stream("GET", url) as response:
                refusal = self._refusal(url, response.status_code, response.headers)
                if refusal is not None:
                    return refusal
                for piece in response.iter_raw():
                    body += piece
                    if len(body) > limit:
                        raise _invalid(url, f"at most {limit} bytes", "more")
                    if self._timing.monotonic() - started > TRANSFER_SECONDS:
                        return _Again(error=_unreachable(url, f"no whole answer within {TRANSFER_SECONDS:.0f} s"))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as exc:
            raise _unreachable(url, str(exc) or type(exc).__name__) from exc  # seldom better a second later
        except httpx.InvalidURL as exc:
            raise _bad_url(self._base_url) from exc
        except httpx.TransportError as exc:
            return _Again(error=_unreachable(url, str(exc) or type(exc).__name__))
        return body

    def _connected(self) -> httpx.Client:
        import httpx

        if self._client is None:
            try:
                self._client = httpx.Client(
                    trust_env=self._trust_env,
                    follow_redirects=False,
                    timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                    headers={"User-Agent": "attest", "Accept-Encoding": "identity"},
                )
            except (ValueError, OSError, ImportError) as exc:  # a proxy or certificate store that is none
                raise ConfigurationError(
                    f"the environment's proxy or certificate settings cannot be used: {exc}",
                    code="network-settings-invalid",
                    hint="look at HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
                ) from exc
        return self._client

    def _refusal(self, url: str, status: int, headers: Mapping[str, str]) -> _Again | None:
        """Judge status and headers: None to read on, or what may be tried again.

        Raises:
            EndorsementError: ``kds-not-found`` or ``kds-answer-invalid``.
        """
        if status in _THROTTLED:
            wait = _retry_after(headers.get("Retry-After"), now=self._timing.now)
            return _Again(error=_throttled(url, status, wait), wait=wait)
        if status in _UNWELL:
            return _Again(error=_unreachable(url, f"status {status}"))
        if status in _NOT_FOUND:
            raise EndorsementError(
                f"{url} does not exist (status {status})",
                code="kds-not-found",
                expected="an answer for this product line, chip and TCB",
                got=f"status {status}",
                hint="the product line may be another one, or the service does not know this chip at this TCB",
            )
        if status != 200:
            got = f"status {status}" + (", a redirect" if 300 <= status < 400 else "")
            raise _invalid(url, "status 200", got)
        coding = headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            raise _invalid(url, "an answer without content coding", coding[:40])
        return None


def _retry_after(value: str | None, *, now: Callable[[], datetime]) -> float | None:
    """Seconds that ``Retry-After`` asks for, at least one; None when it is absent or says nothing.

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
        moment = moment.replace(tzinfo=UTC)  # "-0000": a time in UTC of an unknown place
    return max((moment - now()).total_seconds(), 1.0)


def _require_base_url(base_url: str) -> None:
    """Refuse what would send requests elsewhere than its reader thinks, or unprotected over a network."""
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as exc:
        raise _bad_url(base_url) from exc
    plain = parts.scheme == "http" and _is_loopback(host)
    if (parts.scheme != "https" and not plain) or not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise _bad_url(base_url)
    if not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise _bad_url(base_url)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bad_url(base_url: str) -> ConfigurationError:
    return ConfigurationError(
        f"{base_url!r} cannot be the address of a key distribution service",
        code="kds-url-invalid",
        expected="https://host[:port][/path] without user, query or fragment; http for the loopback address only",
        got=base_url,
    )


def _throttled(url: str, status: int, wait: float | None) -> EndorsementError:
    asked = "" if wait is None else f" and asks to wait {wait:.0f} s"
    return EndorsementError(
        f"{url} is too busy (status {status}){asked}",
        code="kds-throttled",
        expected="status 200",
        got=f"status {status}",
        hint="ask again later; an answer that was received once is cached and not asked for again",
        retryable=True,
    )


def _unreachable(url: str, problem: str) -> EndorsementError:
    return EndorsementError(
        f"{url} cannot be reached: {problem}",
        code="kds-unreachable",
        expected="an answer",
        got=problem,
        hint="check the network and HTTPS_PROXY, or work from files with --offline and --endorsements PATH",
        retryable=True,
    )


def _invalid(url: str, expected: str, got: str) -> EndorsementError:
    return EndorsementError(
        f"{url} answered with {got}, expected {expected}",
        code="kds-answer-invalid",
        expected=expected,
        got=got,
        hint="look for a proxy or mirror that answers in the place of the service",
    )
