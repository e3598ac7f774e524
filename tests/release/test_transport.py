"""One request over HTTP: what counts as an answer, how long it may take, and what a refusal becomes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest

from attest.errors import (
    AttestError,
    ConfigurationError,
    EndorsementError,
    EvidenceError,
    KeyUnknownError,
    LeaseEndedError,
    PolicyNotMetError,
    ReleaseRefusedError,
)
from attest.release.exchange import Ask
from attest.release.mutual_attestation import AttestationAnswer
from attest.release.refusals import refused
from attest.release.transport import MAX_ANSWER_BYTES, PATIENT, Timeouts, send, send_async

ASK = Ask(method="POST", path="/v1/challenges", body={"a": 1})
Handler = Callable[[httpx.Request], httpx.Response]
Send = Callable[..., AttestationAnswer]


def blocking(handler: Handler, patience: Timeouts = PATIENT) -> AttestationAnswer:
    with httpx.Client(base_url="http://kms.test", transport=httpx.MockTransport(handler)) as http:
        return send(http, ASK, patience=patience)


def awaiting(handler: Handler, patience: Timeouts = PATIENT) -> AttestationAnswer:
    async def program() -> AttestationAnswer:
        async with httpx.AsyncClient(base_url="http://kms.test", transport=httpx.MockTransport(handler)) as http:
            return await send_async(http, ASK, patience=patience)

    return asyncio.run(program())


BOTH = pytest.mark.parametrize("ask", [blocking, awaiting])


def answering(status: int = 200, content: bytes = b'{"b": 2}', *, retry_after: str | None = None) -> Handler:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return lambda _: httpx.Response(status, content=content, headers=headers)


@BOTH
def test_what_is_asked_is_sent_and_what_is_answered_comes_back(ask: Send) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answering()(request)

    assert ask(handler) == AttestationAnswer(status=200, document={"b": 2}, tls_key=None, retry_after=None)
    assert (seen[0].method, seen[0].url.path, seen[0].content) == ("POST", "/v1/challenges", b'{"a":1}')


@BOTH
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("9" * 30, 86_400.0),
        ("-1", None),
        ("1.5", None),
        ("1e3", None),
        ("", None),
        ("soon", None),
        ("Sun, 06 Nov 2050 08:49:37 GMT", None),
    ],
)
def test_when_to_ask_again_is_a_number_of_seconds(ask: Send, text: str, seconds: float | None) -> None:
    assert ask(answering(429, retry_after=text)).retry_after == seconds


@BOTH
def test_only_a_success_has_to_be_readable(ask: Send) -> None:
    assert ask(answering(502, b"<html>")).document is None
    with pytest.raises(EvidenceError):
        ask(answering(200, b"<html>"))


@BOTH
def test_an_answer_has_a_longest_length(ask: Send) -> None:
    whole = b"[" + b" " * (MAX_ANSWER_BYTES - 2) + b"]"
    assert ask(answering(content=whole)).document == []
    with pytest.raises(AttestError) as caught:
        ask(answering(content=whole + b" "))
    assert caught.value.code == "service-answer-invalid"


@BOTH
@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "identity, gzip", "unheard-of"])
def test_an_answer_that_is_coded_is_not_read_because_a_short_one_may_become_long(ask: Send, coding: str) -> None:
    asked: list[httpx.Request] = []

    class Unread(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            pytest.fail("read")

        def __aiter__(self) -> AsyncIterator[bytes]:
            pytest.fail("read")

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, stream=Unread(), headers={"Content-Encoding": coding})

    status = 200
    with pytest.raises(AttestError) as caught:
        ask(handler)
    assert caught.value.code == "service-answer-invalid"
    status = 503
    assert (ask(handler).status, ask(handler).document) == (503, None)
    assert {one.headers["Accept-Encoding"] for one in asked} == {"identity"}


@BOTH
def test_without_time_nothing_is_asked_and_time_that_is_over_ends_an_answer(ask: Send) -> None:
    left = [0.0]
    with pytest.raises(EndorsementError) as caught:
        ask(lambda _: pytest.fail("asked"), Timeouts(left=lambda: left[0]))
    assert (caught.value.code, caught.value.retryable) == ("service-unreachable", True)

    def slow(request: httpx.Request) -> httpx.Response:
        left[0] = -1.0
        return answering()(request)

    left[0] = 5.0
    with pytest.raises(EndorsementError, match="time for it is over"):
        ask(slow, Timeouts(left=lambda: left[0]))


def test_no_wait_is_longer_than_what_is_left() -> None:
    assert Timeouts(seconds=30, connect_seconds=5).timeout() == httpx.Timeout(30, connect=5)
    assert Timeouts(seconds=30, connect_seconds=5, left=lambda: 2.0).timeout() == httpx.Timeout(2, connect=2)
    assert Timeouts(left=lambda: -1.0).timeout() == httpx.Timeout(0.001)


@BOTH
@pytest.mark.parametrize("exc", [httpx.ConnectError("refused"), httpx.ReadTimeout(""), httpx.RemoteProtocolError("x")])
def test_whatever_breaks_is_one_error(ask: Send, exc: httpx.HTTPError) -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        raise exc

    with pytest.raises(EndorsementError) as caught:
        ask(handler)
    assert caught.value.code == "service-unreachable"
    assert (str(exc) or type(exc).__name__) in caught.value.message


@BOTH
def test_an_address_that_is_none_is_a_setting(ask: Send) -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        msg = "no host"
        raise httpx.InvalidURL(msg)

    with pytest.raises(ConfigurationError) as caught:
        ask(handler)
    assert caught.value.code == "url-invalid"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("policy-not-met", PolicyNotMetError),
        ("below-floor", PolicyNotMetError),
        ("key-unknown", KeyUnknownError),
        ("lease-stopped", LeaseEndedError),
        ("lease-of-another-holder", LeaseEndedError),
        ("key-disabled", ReleaseRefusedError),
        (None, ReleaseRefusedError),
    ],
)
def test_a_refusal_has_the_type_of_what_is_done_next(code: str | None, kind: type[ReleaseRefusedError]) -> None:
    error = refused({"code": code, "detail": "no", "hint": "ask"}, 403)
    assert type(error) is kind
    assert (error.message, str(error.hint)[-3:], error.code) == ("no", "ask", code or "service-error")


@pytest.mark.parametrize(
    "document", [None, [], "x", {}, {"failed_checks": 1}, {"failed_checks": [1, {"id": 2}]}, {"hint": 1}]
)
def test_a_refusal_of_any_shape_is_a_refusal(document: object) -> None:
    error = refused(document, 500)  # type: ignore[arg-type]  # of any shape
    assert (error.message, error.code, error.status) == ("no reason given", "service-error", 500)
    assert error.failed_check_ids == ()


@pytest.mark.parametrize(
    ("status", "again"), [(403, False), (409, True), (410, True), (429, True), (500, False), (503, True)]
)
def test_what_may_be_asked_again_is_told_by_the_status(status: int, again: bool) -> None:
    assert refused({}, status, retry_after=3).retryable is again
    assert refused({}, status, retry_after=3).retry_after == 3
