"""One request to a key-release service over HTTP, and what may come back; blocking, and for asyncio.

httpx is of the extra ``cli``; it is imported when something is asked, so that verifying needs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attest.encoding import json_value
from attest.errors import AttestError, ConfigurationError, EndorsementError, EvidenceError
from attest.release.exchange import Ask, strange_answer
from attest.release.mutual import AttestationAnswer, tls_key_seen

if TYPE_CHECKING:
    import httpx

__all__ = ["MAX_ANSWER_BYTES", "TIMEOUT_SECONDS", "Timeouts", "send", "send_async"]

MAX_ANSWER_BYTES = 4 * 1024 * 1024
TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS: Final = 5.0
"""A service that is there answers a connection in milliseconds; one that is not must not take all the time there is."""
MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
_OK = 200
_PLAIN: Final = {"Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long one request may take.

    Attributes:
        seconds: for each wait within it.
        connect_seconds: to be connected.
        left: returns the seconds that are left for all of it, not positive when there are none; None: no end.
    """

    seconds: float = TIMEOUT_SECONDS
    connect_seconds: float = TIMEOUT_SECONDS
    left: Callable[[], float] | None = None

    def require_time(self) -> None:
        """Make sure that there is time left.

        Raises:
            EndorsementError: ``service-unreachable``.
        """
        if self.left is not None and self.left() <= 0:
            raise _unreachable("the time for it is over")

    def timeout(self) -> httpx.Timeout:
        """Return the limits for a request that begins now."""
        import httpx  # noqa: PLC0415  see the module

        seconds = self.seconds if self.left is None else max(0.001, min(self.seconds, self.left()))
        return httpx.Timeout(seconds, connect=min(seconds, self.connect_seconds))


PATIENT = Timeouts()


def send(http: httpx.Client, ask: Ask, *, patience: Timeouts = PATIENT) -> AttestationAnswer:
    """Ask, and return the whole answer.

    The time is looked at between pieces of the body, and limits each wait before it: who sends the headers byte by byte
    can draw that out, and gains nothing that saying nothing would not give him.

    Raises:
        EndorsementError: ``service-unreachable``.
        ConfigurationError: ``url-invalid``.
        BindingError: ``service-answer-invalid``.
        EvidenceError: the answer is no JSON.
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
    """Do what ``send`` does, without blocking the loop; errors are the same."""
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
    """Say whether a body may be read. One that is coded is not: some of them become a thousand times longer.

    Raises:
        BindingError: ``service-answer-invalid``: a success is coded.
    """
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding.lower() == "identity":
        return True
    if answer.status_code == _OK:
        raise strange_answer(f"coded ({coding[:40]}), which was not asked for")
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
        document = None  # a page of a proxy, say; its status tells enough
    return AttestationAnswer(
        status=answer.status_code,
        document=document,
        tls_key=tls_key,
        retry_after=_retry_after(answer.headers.get("Retry-After", "")),
    )


def _retry_after(text: str) -> float | None:
    """Read a number of seconds; a date would be by the service's clock, and is passed over."""
    return min(float(text), MAX_RETRY_AFTER_SECONDS) if text.isascii() and text.isdecimal() else None


def _translated(exc: Exception) -> AttestError:
    import httpx  # noqa: PLC0415  see the module

    if isinstance(exc, httpx.InvalidURL):
        return ConfigurationError(f"not a URL: {exc}", code="url-invalid")
    if isinstance(exc, httpx.UnsupportedProtocol):
        return ConfigurationError(
            "the address of the key-release service begins with neither https:// nor http://",
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
