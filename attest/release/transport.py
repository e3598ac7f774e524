"""HTTP requests to a key-release service, blocking and for asyncio.

httpx belongs to the extra ``cli``; it is imported for the first request, so that verification works without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attest.encoding import JsonValue, json_value
from attest.errors import AttestError, ConfigurationError, EndorsementError, EvidenceError
from attest.release.exchange import Ask, strange_answer
from attest.release.mutual_attestation import AttestationAnswer, tls_key_seen

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 4 * 1024 * 1024
TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS: Final = 5.0
"""A running service accepts a connection in milliseconds; an absent one must not use up the whole time."""
MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
TIME_OVER: Final = "the time for it is over"
"""Problem of a request for which no time was left; an earlier attempt has the cause."""
_OK = 200
_PLAIN: Final = {"Accept-Encoding": "identity"}
_JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A service, as errors name it, with the remedy if it cannot be reached."""

    name: str = "the key-release service"
    hint: str = "is 'kms serve' running there?"


KEY_RELEASE_SERVICE: Final = Peer()


def peer_of_others(name: str, url: str) -> Peer:
    """Return a service of another party at an address."""
    return Peer(name=f"{name} at {url}", hint="check the address, and the authority of its certificate (--tls-ca)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time limits of one request.

    Attributes:
        seconds: for each wait.
        connect_seconds: for the connection.
        left: returns the seconds left for the whole operation, zero or negative at its end; None means no limit.
        peer: the service, for errors.
    """

    seconds: float = TIMEOUT_SECONDS
    connect_seconds: float = TIMEOUT_SECONDS
    left: Callable[[], float] | None = None
    peer: Peer = KEY_RELEASE_SERVICE

    def require_time(self) -> None:
        """Require time left.

        Raises:
            EndorsementError: ``service-unreachable``.
        """
        if self.left is not None and self.left() <= 0:
            raise _unreachable(TIME_OVER, self.peer)

    def timeout(self) -> httpx.Timeout:
        """Return the limits of a request that starts now."""
        import httpx  # noqa: PLC0415  see the module

        seconds = self.seconds if self.left is None else max(0.001, min(self.seconds, self.left()))
        return httpx.Timeout(seconds, connect=min(seconds, self.connect_seconds))


PATIENT = Timeouts()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A whole answer of any status, unparsed; names of headers are in lower case, in the order of arrival.

    Attributes:
        tls_key: SHA-256 of the SubjectPublicKeyInfo of the peer's certificate; None without TLS.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    content: bytes
    tls_key: bytes | None

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of a header."""
        return tuple(value for one, value in self.headers if one == name)

    @property
    def retry_after(self) -> float | None:
        """Seconds in ``Retry-After``; None without it."""
        return _retry_after((*self.values("retry-after"), "")[0])


def request(
    http: httpx.Client,
    method: str,
    path: str,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    patience: Timeouts = PATIENT,
    limit: int = MAX_ANSWER_BYTES,
) -> HttpAnswer:
    """Send one request, and return the whole answer, of at most ``limit`` bytes. Redirects are answers.

    The total time is checked between pieces of the body, and bounds each wait before it: a peer that sends headers
    byte by byte gains nothing over one that sends nothing.

    Raises:
        EndorsementError: ``service-unreachable``.
        ConfigurationError: ``url-invalid``.
        BindingError: ``service-answer-invalid``.
    """
    import httpx  # noqa: PLC0415  see the module

    patience.require_time()
    sent = {**_PLAIN, **(headers or {})}
    try:
        with http.stream(
            method, path, content=content, headers=sent, timeout=patience.timeout(), follow_redirects=False
        ) as answer:
            tls_key = tls_key_seen(answer)
            received = b""
            if _is_plain(answer):
                for piece in answer.iter_bytes():
                    received = _longer(received, piece, patience, limit)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise _translated(exc, patience.peer) from exc
    named = tuple((name.lower(), value) for name, value in answer.headers.multi_items())
    return HttpAnswer(status=answer.status_code, headers=named, content=received, tls_key=tls_key)


def send(http: httpx.Client, ask: Ask, *, patience: Timeouts = PATIENT) -> AttestationAnswer:
    """Send a request in JSON, and return the answer, as ``request``.

    Raises:
        AttestError: as ``request``.
        EvidenceError: the answer is not JSON.
    """
    content, headers = (None, {}) if ask.body is None else (_json_bytes(ask.body), _JSON)
    answer = request(http, ask.method, ask.path, content=content, headers=headers, patience=patience)
    return _answer(answer.status, answer.retry_after, answer.content, ask, answer.tls_key)


async def send_async(http: httpx.AsyncClient, ask: Ask, *, patience: Timeouts = PATIENT) -> AttestationAnswer:
    """Send a request without blocking the event loop; otherwise as ``send``."""
    import httpx  # noqa: PLC0415  see the module

    patience.require_time()
    try:
        async with (
            asyncio.timeout(None if patience.left is None else max(0.001, patience.left())),
            http.stream(ask.method, ask.path, json=ask.body, headers=_PLAIN, timeout=patience.timeout()) as answer,
        ):
            tls_key = tls_key_seen(answer)
            content = b""
            if _is_plain(answer):
                async for piece in answer.aiter_bytes():
                    content = _longer(content, piece, patience, MAX_ANSWER_BYTES)
    except TimeoutError as exc:
        raise _unreachable(TIME_OVER, patience.peer) from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise _translated(exc, patience.peer) from exc
    retry_after = _retry_after(answer.headers.get("Retry-After", ""))
    return _answer(answer.status_code, retry_after, content, ask, tls_key)


def _is_plain(answer: httpx.Response) -> bool:
    """Return True for a body that may be read. Compressed bodies are refused: some expand a thousandfold.

    Raises:
        BindingError: ``service-answer-invalid``: a success is compressed.
    """
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding.lower() == "identity":
        return True
    if answer.status_code == _OK:
        raise strange_answer(f"with an unexpected content coding ({coding[:40]})")
    return False


def _longer(content: bytes, piece: bytes, patience: Timeouts, limit: int) -> bytes:
    patience.require_time()
    if len(content) + len(piece) > limit:
        raise strange_answer(f"longer than {limit} bytes")
    return content + piece


def _json_bytes(body: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _answer(
    status: int, retry_after: float | None, content: bytes, ask: Ask, tls_key: bytes | None
) -> AttestationAnswer:
    try:
        document = json_value(content, what=f"answer of {ask.path.partition('?')[0]}")
    except EvidenceError:
        if status == _OK:
            raise
        document = None  # such as a proxy's error page; its status suffices
    return AttestationAnswer(status=status, document=document, tls_key=tls_key, retry_after=retry_after)


def _retry_after(text: str) -> float | None:
    """Parse a number of seconds; dates would need the service's clock, and are ignored."""
    return min(float(text), MAX_RETRY_AFTER_SECONDS) if text.isascii() and text.isdecimal() else None


def _translated(exc: Exception, peer: Peer) -> AttestError:
    import httpx  # noqa: PLC0415  see the module

    if isinstance(exc, httpx.InvalidURL):
        return ConfigurationError(f"not a URL: {exc}", code="url-invalid")
    if isinstance(exc, httpx.UnsupportedProtocol):
        return ConfigurationError(
            f"the address of {peer.name} does not begin with https:// or http://",
            code="url-invalid",
            hint="such as https://kms.example",
        )
    return _unreachable(str(exc) or type(exc).__name__, peer)


def _unreachable(problem: str, peer: Peer) -> EndorsementError:
    return EndorsementError(
        f"{peer.name} cannot be reached: {problem}",
        code="service-unreachable",
        got=problem,
        hint=peer.hint,
        retryable=True,
    )
