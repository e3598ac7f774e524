"""The stream of an OpenAI-compatible server: server-sent events, each a JSON object, until one says ``[DONE]``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rag_demo.enclave.errors import LanguageModelError

MAX_EVENT_BYTES = 64 * 1024
"""Limit for one event. Servers send a word or two in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of an answer.

    Attributes:
        finish: why it ends here (``stop``, ``length``), or None.
    """

    text: str
    finish: str | None


class EventLines:
    """Bytes in pieces of any length → the data of each event (WHATWG HTML, "Server-sent events")."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of every event that is now whole.

        Raises:
            LanguageModelError: an event is longer than any server sends.
        """
        # A carriage return at the end may be half of a line's end.
        joined = self._rest + piece
        whole = joined[:-1] if joined.endswith(b"\r") else joined
        lines = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + joined[len(whole) :]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise _too_long()
        for line in lines:
            yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[bytes]:
        if not line:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            if data:
                yield data
            return
        name, _, value = line.partition(b":")
        if name != b"data":  # A comment, or a field without meaning here.
            return
        self._size += len(value)
        if self._size > MAX_EVENT_BYTES:
            raise _too_long()
        self._data.append(value.removeprefix(b" "))


def parse_chunk(data: bytes) -> Chunk:
    """Read one event.

    Raises:
        LanguageModelError: it is no piece of an answer, or says that something went wrong.
    """
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise malformed("an event is not JSON") from exc
    if not isinstance(document, dict):
        raise malformed("an event is not an object")
    if "error" in document:
        raise LanguageModelError(
            "the server of the language model stopped with an error",
            code="rag-llm-failed",
            hint="see its log",
            retryable=True,
        )
    choices = document.get("choices")
    if choices == []:  # Some send a last event that counts tokens.
        return Chunk(text="", finish=None)
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise malformed("an event has no choices")
    return _choice(choices[0])


def _choice(choice: dict[str, object]) -> Chunk:
    delta, finish = choice.get("delta", {}), choice.get("finish_reason")
    if not isinstance(delta, dict) or not isinstance(finish, str | None):
        raise malformed("a choice has no delta")
    text = delta.get("content")
    if not isinstance(text, str | None):
        raise malformed("a delta is not text")
    return Chunk(text=text or "", finish=finish)


def malformed(what: str) -> LanguageModelError:
    """Return the error for a server that breaks the protocol."""
    return LanguageModelError(
        f"the server of the language model does not answer in OpenAI's protocol: {what}",
        code="rag-llm-malformed",
        hint="the address is that of its API, commonly ending in /v1",
    )


def _too_long() -> LanguageModelError:
    return malformed(f"an event has more than {MAX_EVENT_BYTES} bytes")
