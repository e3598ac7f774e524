"""HTTP requests to a key-release service, blocking and for asyncio.

httpx belongs to the extra ``cli``; it is imported for the first request, so that verification works without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attest.encoding import json_value
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
_OK = 200
_PLAIN: Final = {"Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time limits of one request.

    Attributes:
        seconds: for each wait.
        connect_seconds: for the connection.
        left: returns the seconds left for the whole operation, zero or negative at its end; None means no limit.
    """

    seconds: float = TIMEOUT_SECONDS
    connect_seconds: float = TIMEOUT_SECONDS
    left: Callable[[], float] | None = None

    def require_time(self) -> None:
        """Require time left.

        Raises:
            EndorsementError: ``service-unreachable``.
        """
        if self.left is not None and self.left() <= 0:
            raise _unreachable("the time for it is over")

    def timeout(self) -> httpx.Timeout:
        """Return the limits of a request that starts now."""
        import httpx  # noqa: PLC0415  see the module

        seconds = self.seconds if self.left is None else max(0.001, min(self.seconds, self.left()))
        return httpx.Timeout(seconds, connect=min(seconds, self.connect_seconds))


PATIENT = Timeouts()


def send(http: httpx.Client, ask: Ask, *, patience: Timeouts = PATIENT) -> AttestationAnswer:
    """Send a request, and return the whole answer.

    The total time is checked between pieces of the body, and bounds each wait before it: a peer that sends headers
    byte by byte gains nothing over one that sends nothing.

    Raises:
        EndorsementError: ``service-unreachable``.
        ConfigurationError: ``url-invalid``.
        BindingError: ``service-answer-invalid``.
        EvidenceError: the answer is not JSON.
    """
    import httpx  # noqa: PLC0415  see the module

    patience.require_time()
    try:
        with http.stream(ask.method, ask.path, json=ask.body, headers=_PLAIN, timeout=patience.timeout()) as answer:
            tls_key = tls_key_seen(answer)
            content = b""
            if _is_plain(answer):
                for piece in answer.iter_bytes():
                    content = _longer(content, piece, patience)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise _translated(exc) from exc
    return _answer(answer, content, ask, tls_key)


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
                    content = _longer(content, piece, patience)
    except TimeoutError as exc:
        raise _unreachable("the time for it is over") from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise _translated(exc) from exc
    return _answer(answer, content, ask, tls_key)


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


def _longer(content: bytes, piece: bytes, patience: Timeouts) -> bytes:
    patience.require_time()
    if len(content) + len(piece) > MAX_ANSWER_BYTES:
        raise strange_answer(f"longer than {MAX_ANSWER_BYTES} bytes")
    return content + piece


def _answer(answer: httpx.Response, content: bytes, ask: Ask, tls_key: bytes | None) -> AttestationAnswer:
    try:
        document = json_value(content, what=f"answer of {ask.path.partition('?')[0]}")
    except EvidenceError:
        if answer.status_code == _OK:
            raise
        document = None  # such as a proxy's error page; its status suffices
    return AttestationAnswer(
        status=answer.status_code,
        document=document,
        tls_key=tls_key,
        retry_after=_retry_after(answer.headers.get("Retry-After", "")),
    )


def _retry_after(text: str) -> float | None:
    """Parse a number of seconds; dates would need the service's clock, and are ignored."""
    return min(float(text), MAX_RETRY_AFTER_SECONDS) if text.isascii() and text.isdecimal() else None


def _translated(exc: Exception) -> AttestError:
    import httpx  # noqa: PLC0415  see the module

    if isinstance(exc, httpx.InvalidURL):
        return ConfigurationError(f"not a URL: {exc}", code="url-invalid")
    if isinstance(exc, httpx.UnsupportedProtocol):
        return ConfigurationError(
            "the address of the key-release service does not begin with https:// or http://",
            code="url-invalid",
            hint="such as https://kms.example",
        )
    return _unreachable(str(exc) or type(exc).__name__)


def _unreachable(problem: str) -> EndorsementError:
    return EndorsementError(
        f"the key-release service cannot be reached: {problem}",
        code="service-unreachable",
        hint="is 'kms serve' running there?",
        retryable=True,
    )
