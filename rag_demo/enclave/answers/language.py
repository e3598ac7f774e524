"""A server of a language model with OpenAI's protocol, inside the boundary of the TEE.

It receives questions and passages in the clear. Its address is therefore a literal loopback address, since a name
depends on a resolver, or the settings give the reason why another address is inside the boundary. Proxies of the
environment and redirections are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from ipaddress import ip_address

import httpx

from attest.errors import ConfigurationError
from rag_demo.enclave.answers.chunks import Chunk, EventLines, malformed, parse_chunk
from rag_demo.enclave.answers.extracts import Writer
from rag_demo.enclave.answers.prompt import Message
from rag_demo.enclave.errors import LanguageModelError

WEIGHTS_UNKNOWN = "not known: its server alone says which model it is"
MIN_REASON_CHARACTERS = 10
MAX_PORT = 65_535
_DONE = b"[DONE]"
_FINISHED = frozenset({"stop", "length", "eos", "end_turn"})
"""Why an answer may end. Another reason (a filter, a call of a tool) does not end an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelLimits:
    """Limits of one answer, in time and size.

    Attributes:
        quiet_seconds: without a byte. The first token of a long prompt takes longest.
    """

    connect_seconds: float = 5.0
    quiet_seconds: float = 60.0
    whole_seconds: float = 300.0
    stream_bytes: int = 4 * 1024 * 1024
    text_characters: int = 32 * 1024
    tokens: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """Address of the server, and options of its requests.

    Attributes:
        url: of its API, commonly ending in ``/v1``.
        inside_boundary: why an address that is none of this machine's own is inside the boundary of the TEE, in words.
        token: of the server; none of a user's.
        weights: how its weights are known, in words, for the readers of its answers.

    Raises:
        ConfigurationError: ``rag-llm-url`` or ``rag-llm-outside``: it is no such address.
    """

    url: str
    model: str
    inside_boundary: str | None = None
    token: str | None = field(default=None, repr=False)
    limits: LanguageModelLimits = LanguageModelLimits()
    weights: str = WEIGHTS_UNKNOWN

    @property
    def writer(self) -> Writer:
        """The model, for the readers of its answers."""
        parsed = httpx.URL(self.url)
        here = f"in this machine, at {parsed.netloc.decode('ascii', 'replace')}"
        where = here if _is_loopback(parsed.host) else f"at {parsed.host}: {self.inside_boundary}"
        return Writer(name=self.model, where=where, weights=self.weights)

    def __post_init__(self) -> None:
        _check_url(self.url, self.inside_boundary)

    async def stream(
        self, messages: list[Message], *, transport: httpx.AsyncBaseTransport | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """Yield an answer as it comes; the last chunk says why it ends.

        Raises:
            LanguageModelError: it cannot be reached, refuses, breaks off, is too slow, says too much, or says
                what is no answer.
        """
        async with aclosing(self._events(messages, transport)) as events:
            length, finish = 0, None
            async for data in events:
                if data == _DONE:
                    break
                chunk = parse_chunk(data)
                finish = chunk.finish or finish
                length += len(chunk.text)
                if length > self.limits.text_characters:
                    raise _too_long("characters", self.limits.text_characters)
                if chunk.text:
                    yield Chunk(text=chunk.text, finish=None)
            # Some servers give the reason of the end, some only a mark. A connection that ends without either was cut.
            else:
                if finish is None:
                    raise _cut_off("the stream ended before the end of the answer")
        if finish is not None and finish not in _FINISHED:
            raise LanguageModelError(
                "the language model returned an incomplete answer",
                code="rag-llm-unfinished",
                expected="finish_reason stop or length",
                got=finish[:40],
            )
        yield Chunk(text="", finish=finish or "stop")

    async def _events(
        self, messages: list[Message], transport: httpx.AsyncBaseTransport | None
    ) -> AsyncGenerator[bytes, None]:
        limits = self.limits
        body = {
            "model": self.model,
            "messages": messages,
            "stream": True,
            "temperature": 0,
            "max_tokens": limits.tokens,
        }
        timeout = httpx.Timeout(limits.quiet_seconds, connect=limits.connect_seconds)
        end = asyncio.get_running_loop().time() + limits.whole_seconds
        try:
            # The environment may name a proxy, and the proxy is not inside.
            async with httpx.AsyncClient(timeout=timeout, trust_env=False, transport=transport) as client:
                url = f"{self.url.rstrip('/')}/chat/completions"
                request = client.build_request("POST", url, json=body, headers=self._headers())
                async with asyncio.timeout_at(end):
                    response = await client.send(request, stream=True, follow_redirects=False)
                async with aclosing(response):
                    _check_head(response.status_code, response.headers)
                    async for data in _events_in(response, most=limits.stream_bytes, end=end):
                        yield data
        except TimeoutError as exc:
            raise _too_slow(limits.whole_seconds) from exc
        except httpx.TimeoutException as exc:
            raise _too_slow(limits.quiet_seconds) from exc
        except (httpx.RemoteProtocolError, httpx.ReadError) as exc:
            raise _cut_off("the connection ended") from exc
        except httpx.HTTPError as exc:
            raise LanguageModelError(
                "the server of the language model is unreachable",
                code="rag-llm-unreachable",
                got=type(exc).__name__,
                hint="check that it runs at this address",
                retryable=True,
            ) from exc

    def _headers(self) -> dict[str, str]:
        headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        return headers


async def _events_in(response: httpx.Response, *, most: int, end: float) -> AsyncGenerator[bytes, None]:
    lines, size = EventLines(), 0
    pieces = aiter(response.aiter_raw())
    while True:
        # Around each wait alone: between two pieces, another task may take the next one.
        async with asyncio.timeout_at(end):
            piece = await anext(pieces, None)
        if piece is None:
            return
        size += len(piece)
        if size > most:
            raise _too_long("bytes", most)
        for data in lines.feed(piece):
            yield data


def _check_head(status: int, headers: Mapping[str, str]) -> None:
    # The body of an error is not repeated: some servers quote the prompt there.
    if status != httpx.codes.OK:
        raise LanguageModelError(
            "the server of the language model refused",
            code="rag-llm-refused",
            expected="200",
            got=str(status),
            hint="check the model's name, and whether it requires a token; see its log",
            retryable=status in {httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE},
        )
    if headers.get("content-encoding", "identity") != "identity":
        raise malformed("it is compressed, which was not requested")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "text/event-stream":
        raise malformed("it is not a stream of events")


def _check_url(url: str, inside_boundary: str | None) -> None:
    try:
        parsed = httpx.URL(url)
        host = parsed.host
    except (httpx.InvalidURL, TypeError, ValueError) as exc:
        raise _no_url() from exc
    if parsed.scheme not in {"http", "https"} or not host or not 0 < (parsed.port or 1) <= MAX_PORT:
        raise _no_url()
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise _no_url()
    if _is_loopback(host):
        return
    if inside_boundary is None or len(inside_boundary.strip()) < MIN_REASON_CHARACTERS:
        raise ConfigurationError(
            "the language model's address is not on this machine, and no reason states that it is inside the TEE",
            code="rag-llm-outside",
            field="inside_boundary",
            expected="a literal loopback address, or a reason in words",
            got=host,
            hint="documents and questions are sent there in the clear: use 127.0.0.1, or say why it is inside the TEE",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _no_url() -> ConfigurationError:
    return ConfigurationError(
        "the language model's address is not a URL of an API",
        code="rag-llm-url",
        field="url",
        expected="http:// or https://, a host, optionally a port and a path; no user, query or fragment",
        hint="such as http://127.0.0.1:8000/v1",
    )


def _too_slow(seconds: float) -> LanguageModelError:
    return LanguageModelError(
        "the language model took too long",
        code="rag-llm-slow",
        expected=f"within {seconds:g} s",
        retryable=True,
    )


def _too_long(what: str, most: int) -> LanguageModelError:
    return LanguageModelError(
        "the language model's answer does not end", code="rag-llm-long", expected=f"at most {most} {what}"
    )


def _cut_off(what: str) -> LanguageModelError:
    return LanguageModelError(
        f"the language model stopped: {what}", code="rag-llm-cut-off", hint="ask again", retryable=True
    )
