"""The service's side, without I/O: opens requests, refuses invalid ones, and seals answers.

::

    exchange = gateway.exchange(method, content_type)          or a refusal in the clear
    exchange.feed(bytes, at=now) …
    request = exchange.finish(at=now)                          or a refusal, inside if the request opened
    body = exchange.answer(response)                           or exchange.stream(head) while it is made

``request_checks`` has the order of the checks; the application receives nothing before the last byte opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from attest.channel.bhttp import encode_response, response_head, written_content
from attest.channel.bhttp_decoder import MessageDecoder
from attest.channel.chunked import MAX_MESSAGE_BYTES, ChunkOpener, ChunkSealer
from attest.channel.fields import REFUSED
from attest.channel.hpke import ENC_BYTES
from attest.channel.keys import ChannelKey, Proofs, ServiceKeys
from attest.channel.messages import LIMITS, MessageLimits, Request, Response
from attest.channel.ohttp import HEADER_BYTES, MessageForm, Opening, begin_opening, read_header, seal_answer
from attest.channel.padding import (
    SMALLEST_BYTES,
    STREAM_PIECE_BYTES,
    AnswerStream,
    WholeMessage,
    padded,
)
from attest.channel.refusals import (
    BUSY,
    CONTENT_TOO_LARGE,
    EMPTY,
    MALFORMED,
    MEDIA_TYPE,
    METHOD,
    NOT_OPENED,
    REFUSAL_BYTES,
    REPLAYED,
    TOO_LARGE,
    ChannelRefusal,
)
from attest.channel.replays import ReplayWindow, Use
from attest.channel.request_checks import checked_request
from attest.errors import ChannelError, ChannelTamperError

WINDOW: Final = timedelta(seconds=120)
"""Largest error of a client's clock, either way."""
_FORMS = {form.request_type: form for form in MessageForm}


class Gateway:
    """Opener of requests to one service.

    Args:
        authorities: accepted hosts, with a port if there is one; an empty set accepts nothing.
        window: largest error of a request's date.
        padding: hide the lengths of answers.
        insecure_replays: reason to use a window of this process alone with a key that other replicas have, or that
            outlives the process; None requires a shared window.

    Raises:
        ValueError: a replicated key without a shared window, or a relaxation without a reason.
    """

    def __init__(
        self,
        keys: ServiceKeys,
        *,
        replays: ReplayWindow,
        authorities: Collection[str],
        random: Callable[[int], bytes],
        window: timedelta = WINDOW,
        limits: MessageLimits = LIMITS,
        padding: bool = True,
        insecure_replays: str | None = None,
    ) -> None:
        if insecure_replays is not None and not insecure_replays.strip():
            raise ValueError("insecure_replays: a reason is required")
        self._lone_window_ok = replays.shared or insecure_replays is not None
        self.keys = keys
        self.replays = replays
        self.authorities = frozenset(authorities)
        self.random = random
        self.window = window
        self.limits = limits
        self.padding = padding
        self._require_window()

    def replace_key(self, key: ChannelKey, *, at: datetime) -> None:
        """Replace the current key.

        Raises:
            ValueError: as for the gateway, and as ``ServiceKeys.replace``.
        """
        self._require_window(key)
        self.keys.replace(key, at=at)

    def exchange(self, method: str, content_type: str | None) -> ServedExchange | ChannelRefusal:
        """Start an exchange, by its outer method and content type."""
        if method != "POST":
            return METHOD
        form = _FORMS.get((content_type or "").partition(";")[0].strip().lower())
        return MEDIA_TYPE if form is None else ServedExchange(self, form)

    def _require_window(self, key: ChannelKey | None = None) -> None:
        if (self.keys.replicated or (key is not None and key.replicated)) and not self._lone_window_ok:
            raise ValueError(
                "a key that other replicas have, or that outlives this process, needs a shared replay window"
            )


class ServedExchange:
    """One request and its answer, owned by one task; ``Gateway.exchange`` makes it."""

    def __init__(self, gateway: Gateway, form: MessageForm) -> None:
        self._gateway = gateway
        self._form = form
        self._buffer = bytearray()
        self.received = 0
        """Number of request bytes received."""
        self._opening: Opening | None = None
        self._proofs = Proofs()
        self._chunks: ChunkOpener | None = None
        self._decoder = MessageDecoder("request", limits=gateway.limits)
        self._head: Request | None = None
        self._content = bytearray()
        self._seen_at: datetime | None = None
        self._refusal: ChannelRefusal | None = None
        self._answered = False

    @property
    def answer_type(self) -> str:
        """Media type of the results of ``answer`` and ``stream``."""
        return self._form.answer_type

    @property
    def refused(self) -> bool:
        """True once the request is refused; the rest of it is ignored."""
        return self._refusal is not None

    def feed(self, data: bytes, *, at: datetime) -> None:
        """Add bytes of the request. Its end reports errors."""
        self.received += len(data)
        if self._refusal is None:
            self._guarded(lambda: self._take(data, at), at)

    def finish(self, *, at: datetime) -> Request | ChannelRefusal:
        """Mark the end of the request; return it or its refusal."""
        if self.received == 0:
            return EMPTY
        if self._refusal is None:
            self._guarded(lambda: self._take_last(at), at)
        if self._refusal is not None or self._head is None or self._seen_at is None:
            return self._refusal or MALFORMED
        return checked_request(
            self._head,
            bytes(self._content),
            self._decoder.trailers,
            authorities=self._gateway.authorities,
            proofs=self._proofs,
            window=self._gateway.window,
            # Judged by the moment of its record: an end that is held back makes no date valid whose record is gone.
            at=self._seen_at,
        )

    def answer(self, response: Response) -> bytes:
        """Seal a whole answer, padded.

        Raises:
            ValueError: the request did not open, or has an answer already.
        """
        return self._sealed(_without_own(response), SMALLEST_BYTES)

    def refuse(self, refusal: ChannelRefusal, *, at: datetime) -> bytes:
        """Seal a refusal; all have the same length.

        Raises:
            ValueError: the request did not open, or has an answer already; or the refusal is one in the clear.
        """
        if not refusal.inside:
            raise ValueError("this refusal is sent in the clear")
        return self._sealed(refusal.response(at=at), REFUSAL_BYTES)

    def stream(self, head: Response, *, piece: int = STREAM_PIECE_BYTES) -> AnswerStream:
        """Start a streamed answer.

        ``head`` has the status, the fields, and the content so far; ``piece`` is the size of each part.

        Raises:
            ValueError: as ``answer``; or the form is single.
        """
        if self._form is not MessageForm.CHUNKED:
            raise ValueError("a single message is sealed as a whole")
        nonce, cipher = self._take_opening().answer_key(self._gateway.random)
        head = _without_own(head)
        begun = response_head(head, indeterminate=True) + written_content(head.content)
        return AnswerStream(ChunkSealer(cipher), nonce=nonce, head=begun, size=piece, padding=self._gateway.padding)

    @property
    def streams(self) -> bool:
        """True if ``stream`` is available."""
        return self._form is MessageForm.CHUNKED

    # -- opening

    def _guarded(self, work: Callable[[], None], at: datetime) -> None:
        """Run a step and keep its refusal. A request of which anything opened counts as seen."""
        try:
            work()
        except ChannelTamperError:
            self._refusal = NOT_OPENED
        except ChannelError as exc:
            self._refusal = self._refusal_of(exc)
        if self._chunks is not None and self._chunks.authentic:
            self._register(at)

    def _refusal_of(self, exc: ChannelError) -> ChannelRefusal:
        authentic = self._seen_at is not None or (self._chunks is not None and self._chunks.authentic)
        if not authentic or exc.code == "channel-chunk-invalid":
            return NOT_OPENED
        if exc.code == "channel-too-long" or (exc.code == "bhttp-too-long" and exc.field in {"content", "padding"}):
            return CONTENT_TOO_LARGE
        return MALFORMED

    def _take(self, data: bytes, at: datetime) -> None:
        if self._chunks is None:
            self._buffer += data
            if self._opening is None and not self._find_key(at):
                return
            if self._form is MessageForm.SINGLE:
                if len(self._buffer) > self._gateway.limits.single:
                    self._refusal = TOO_LARGE
                    self._buffer.clear()
                return
            data, self._buffer = bytes(self._buffer), bytearray()
            limit = min(self._gateway.limits.message, MAX_MESSAGE_BYTES)
            self._chunks = ChunkOpener(self._found.context, max_bytes=limit)
        for piece in self._chunks.feed(data):
            self._read(piece, at)

    def _take_last(self, at: datetime) -> None:
        if self._opening is None:
            raise ChannelTamperError("the request ends before its key", code="channel-truncated")
        if self._chunks is not None:
            self._read(self._chunks.finish(), at)
        else:
            message = self._found.context.open(bytes(self._buffer))
            self._buffer.clear()
            self._read(message, at)
        if self._refusal is None:
            self._content += b"".join(event for event in self._decoder.finish() if isinstance(event, bytes))

    def _find_key(self, at: datetime) -> bool:
        """Find the key that a request names; False while bytes are missing."""
        if len(self._buffer) < HEADER_BYTES:
            return False
        header = bytes(self._buffer[:HEADER_BYTES])
        found = self._gateway.keys.find(header[0], at=at)
        if found is None:
            raise ChannelTamperError("no such key", code="channel-not-opened")
        key, config, private = found
        suite = read_header(header, config=config)
        size = HEADER_BYTES + ENC_BYTES[suite.kem]
        if len(self._buffer) < size:
            return False
        enc = bytes(self._buffer[HEADER_BYTES:size])
        del self._buffer[:size]
        self._opening = begin_opening(header, enc, form=self._form, suite=suite, key=private)
        self._proofs = key.proofs
        return True

    def _register(self, at: datetime) -> None:
        """Record the request, once part of it opened and before any of it is parsed."""
        if self._seen_at is not None:
            return
        self._seen_at = at
        digest = sha256(bytes((self._found.key_id,)) + self._found.enc).digest()
        # The date is not known yet; any that is valid now is invalid after two windows.
        use = self._gateway.replays.use(digest, at=at, until=at + 2 * self._gateway.window)
        if use is not Use.FIRST:
            self._refusal = REPLAYED if use is Use.USED else BUSY

    def _read(self, piece: bytes, at: datetime) -> None:
        self._register(at)
        if self._refusal is not None:
            return
        for event in self._decoder.feed(piece):
            if isinstance(event, Request):
                self._head = event
            elif isinstance(event, bytes):
                self._content += event

    # -- answering

    def _sealed(self, response: Response, smallest: int) -> bytes:
        opening, message = self._take_opening(), encode_response(response)
        if self._gateway.padding:
            message = padded(message, smallest=smallest)
        if self._form is MessageForm.SINGLE:
            return seal_answer(opening, message, random=self._gateway.random)
        nonce, cipher = opening.answer_key(self._gateway.random)
        whole = WholeMessage(ChunkSealer(cipher), padding=False)
        return nonce + whole.add(message) + whole.end()

    def _take_opening(self) -> Opening:
        if self._seen_at is None or self._answered:
            raise ValueError("the request did not open, or was answered")
        self._answered = True
        return self._found

    @property
    def _found(self) -> Opening:
        if self._opening is None:
            raise ValueError("the request's key was not found")
        return self._opening


def _without_own(response: Response) -> Response:
    """Remove the field that only a gateway may set."""
    return replace(response, fields=tuple(line for line in response.fields if line[0] != REFUSED))
