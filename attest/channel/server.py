"""The service's half, without a network: opens requests, refuses what it must, and seals answers to who asked.

::

    exchange = gateway.exchange(method, content_type)          or a refusal in the clear
    exchange.feed(bytes, at=now) …
    request = exchange.finish(at=now)                          or a refusal, inside where the request opened
    body = exchange.answer(response)                           or exchange.stream(head) while it is made

The order of the checks is the order of ``_judged``; nothing reaches the application before the last byte was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from attest.channel.answers import AnswerStream
from attest.channel.bhttp import encode_response, response_head, written_content
from attest.channel.bhttp_decoder import MessageDecoder, RequestHead
from attest.channel.chunked import MAX_MESSAGE_BYTES, ChunkOpener, ChunkSealer
from attest.channel.fields import DATE, EVIDENCE, REFUSED, parse_http_date
from attest.channel.hpke import ENC_BYTES
from attest.channel.keys import ChannelKey, ServiceKeys
from attest.channel.messages import CONNECTION_FIELDS, LIMITS, Fields, MessageLimits, Request, Response, field_values
from attest.channel.ohttp import HEADER_BYTES, MessageForm, Opening, begin_opening, read_header, seal_answer
from attest.channel.padding import SMALLEST_BYTES, STREAM_PIECE_BYTES, GrowingMessage, WholeMessage, padded
from attest.channel.refusals import (
    BUSY,
    CONTENT_TOO_LARGE,
    EMPTY,
    MALFORMED,
    MEDIA_TYPE,
    METHOD,
    MISDIRECTED,
    NOT_OPENED,
    REFUSAL_BYTES,
    REPLAYED,
    STALE_DATE,
    STALE_PROOF,
    TOO_LARGE,
    ChannelRefusal,
)
from attest.channel.replays import ReplayWindow, Use
from attest.encoding import base64url_bytes
from attest.errors import AttestError, ChannelError, ChannelTamperError

__all__ = ["WINDOW", "Gateway", "ServedExchange"]

WINDOW: Final = timedelta(seconds=120)
"""How far a client's clock may be off, either way."""
_FORMS = {form.request_type: form for form in MessageForm}


class Gateway:
    """Opens requests to one service.

    Args:
        keys: what it opens with.
        replays: remembers requests.
        authorities: host, with a port where there is one, that requests may be for; none accepts none.
        random: returns so many random bytes.
        window: how far a request's date may be off.
        limits: what is taken of a request.
        padding: whether answers hide their lengths.
        insecure_replays: why a window of this process alone is enough for a key that others have too, or that
            outlives the process; None demands a shared one.

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
        """Make sure that a request is answered once, whoever else has the key."""
        if insecure_replays is not None and not insecure_replays.strip():
            msg = "insecure_replays: say why"
            raise ValueError(msg)
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
        """Give out another key from now on.

        Raises:
            ValueError: as for the gateway, and as ``ServiceKeys.replace``.
        """
        self._require_window(key)
        self.keys.replace(key, at=at)

    def exchange(self, method: str, content_type: str | None) -> ServedExchange | ChannelRefusal:
        """Begin with a request, by what is seen of it in the clear."""
        if method != "POST":
            return METHOD
        form = _FORMS.get((content_type or "").partition(";")[0].strip().lower())
        return MEDIA_TYPE if form is None else ServedExchange(self, form)

    def _require_window(self, key: ChannelKey | None = None) -> None:
        if (self.keys.replicated or (key is not None and key.replicated)) and not self._lone_window_ok:
            msg = "a key that other replicas have, or that outlives this process, needs a shared replay window"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A request whose key was found. Whether it opens shows with its first message."""

    key: ChannelKey
    opening: Opening


class ServedExchange:
    """One request and its answer. One task owns it.

    Args:
        gateway: whose request it is.
        form: by its media type.
    """

    __slots__ = (
        "_answered",
        "_buffer",
        "_chunks",
        "_content",
        "_decoder",
        "_form",
        "_gateway",
        "_head",
        "_opened",
        "_received",
        "_refusal",
        "_registered",
    )

    def __init__(self, gateway: Gateway, form: MessageForm) -> None:
        """Wait for the header."""
        self._gateway = gateway
        self._form = form
        self._buffer = bytearray()
        self._received = 0
        self._opened: _Opened | None = None
        self._chunks: ChunkOpener | None = None
        self._decoder = MessageDecoder("request", limits=gateway.limits)
        self._head: RequestHead | None = None
        self._content = bytearray()
        self._registered = False
        self._refusal: ChannelRefusal | None = None
        self._answered = False

    @property
    def answer_type(self) -> str:
        """Media type of what ``answer`` and ``stream`` return."""
        return self._form.answer_type

    @property
    def received(self) -> int:
        """How many bytes of the request came."""
        return self._received

    @property
    def refused(self) -> bool:
        """Whether the request is refused already; the rest of it is passed over."""
        return self._refusal is not None

    def feed(self, data: bytes, *, at: datetime) -> None:
        """Take more of the request. What is wrong with it is said at its end."""
        self._received += len(data)
        if self._refusal is None:
            self._guarded(lambda: self._take(data, at), at)

    def finish(self, *, at: datetime) -> Request | ChannelRefusal:
        """Say that the request ended; return it, or why the service will not see it."""
        if self._received == 0:
            return EMPTY
        if self._refusal is None:
            self._guarded(lambda: self._take_last(at), at)
        return self._refusal or self._judged(at)

    def answer(self, response: Response) -> bytes:
        """Seal a whole answer, padded.

        Raises:
            ValueError: the request did not open, or was answered.
        """
        return self._sealed(_without_own(response), SMALLEST_BYTES)

    def refuse(self, refusal: ChannelRefusal, *, at: datetime) -> bytes:
        """Seal a refusal; all of them have one length.

        Raises:
            ValueError: the request did not open, or was answered; or the refusal is one in the clear.
        """
        if not refusal.inside:
            msg = "this refusal is told in the clear"
            raise ValueError(msg)
        return self._sealed(refusal.response(at=at), REFUSAL_BYTES)

    def stream(self, head: Response, *, piece: int = STREAM_PIECE_BYTES) -> AnswerStream:
        """Begin an answer that is sent while it is made.

        Args:
            head: status, fields, and content so far.
            piece: bytes that are sent at a time.

        Raises:
            ValueError: as ``answer``; or the form is single.
        """
        if self._form is not MessageForm.CHUNKED:
            msg = "a single message is sealed as a whole"
            raise ValueError(msg)
        nonce, cipher = self._take_opening().answer_key(self._gateway.random)
        growing = GrowingMessage(ChunkSealer(cipher), size=piece, padding=self._gateway.padding)
        head = _without_own(head)
        growing.add(response_head(head, indeterminate=True) + written_content(head.content))
        return AnswerStream(nonce, growing)

    @property
    def streams(self) -> bool:
        """Whether ``stream`` may be used."""
        return self._form is MessageForm.CHUNKED

    # -- opening

    def _guarded(self, work: Callable[[], None], at: datetime) -> None:
        """Do a step; whatever it refuses is kept. What opened at all counts as seen, whatever came behind it."""
        try:
            work()
        except ChannelTamperError:
            self._refusal = NOT_OPENED
        except ChannelError as exc:
            self._refusal = self._refusal_of(exc)
        if self._chunks is not None and self._chunks.authentic:
            self._register(at)

    def _refusal_of(self, exc: ChannelError) -> ChannelRefusal:
        authentic = self._registered or (self._chunks is not None and self._chunks.authentic)
        if not authentic or exc.code == "channel-chunk-invalid":
            return NOT_OPENED
        if exc.code == "channel-too-long" or (exc.code == "bhttp-too-long" and exc.field in {"content", "padding"}):
            return CONTENT_TOO_LARGE
        return MALFORMED

    def _take(self, data: bytes, at: datetime) -> None:
        if self._chunks is None:
            self._buffer += data
            if self._opened is None and not self._find_key(at):
                return
            if self._form is MessageForm.SINGLE:
                if len(self._buffer) > self._gateway.limits.message:
                    self._refusal = TOO_LARGE
                    self._buffer.clear()
                return
            data, self._buffer = bytes(self._buffer), bytearray()
            limit = min(self._gateway.limits.message, MAX_MESSAGE_BYTES)
            self._chunks = ChunkOpener(self._found.opening.context, max_bytes=limit)
        for piece in self._chunks.feed(data):
            self._read(piece, at)

    def _take_last(self, at: datetime) -> None:
        if self._opened is None:
            raise ChannelTamperError("the request ends before its key", code="channel-truncated")
        if self._chunks is not None:
            self._read(self._chunks.finish(), at)
        else:
            message = self._found.opening.context.open(bytes(self._buffer))
            self._buffer.clear()
            self._read(message, at)
        if self._refusal is None:
            self._content += b"".join(event for event in self._decoder.finish() if isinstance(event, bytes))

    def _find_key(self, at: datetime) -> bool:
        """Find the key that a request names; False where bytes are missing."""
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
        opening = begin_opening(header, enc, form=self._form, suite=suite, key=private)
        self._opened = _Opened(key=key, opening=opening)
        return True

    def _register(self, at: datetime) -> None:
        """Remember the request, once something of it opened and before anything of it is read."""
        if self._registered:
            return
        self._registered = True
        opening = self._found.opening
        digest = sha256(bytes((opening.key_id,)) + opening.enc).digest()
        # The date is not known yet; one that is accepted below ends its window by then.
        use = self._gateway.replays.use(digest, at=at, until=at + 2 * self._gateway.window)
        if use is not Use.FIRST:
            self._refusal = REPLAYED if use is Use.USED else BUSY

    def _read(self, piece: bytes, at: datetime) -> None:
        self._register(at)
        if self._refusal is not None:
            return
        for event in self._decoder.feed(piece):
            if isinstance(event, RequestHead):
                self._head = event
            elif isinstance(event, bytes):
                self._content += event

    # -- judging

    def _judged(self, at: datetime) -> Request | ChannelRefusal:
        """Judge a request that opened to its end and is valid HTTP."""
        head = self._head
        if head is None:
            return MALFORMED
        # (1) It is from now, by a clock that may be off by the window.
        date = _single(head.fields, DATE)
        moment = None if date is None else parse_http_date(date)
        if moment is None or abs(at - moment) > self._gateway.window:
            return STALE_DATE
        # (2) What its client believed is what this service gave out.
        if field_values(head.fields, EVIDENCE) and not self._known_proof(_single(head.fields, EVIDENCE)):
            return STALE_PROOF
        # (3) It is for this service.
        authority = _authority(head)
        if authority is None:
            return MALFORMED
        if authority not in self._gateway.authorities:
            return MISDIRECTED
        # (4) It asks for nothing that makes sense on a connection alone.
        lengths = set(field_values(head.fields, b"content-length"))
        if head.method == "CONNECT" or field_values(head.fields, b"expect"):
            return MALFORMED
        if lengths and lengths != {str(len(self._content)).encode()}:
            return MALFORMED
        return Request(
            method=head.method,
            authority=authority,
            path=head.path,
            fields=tuple(line for line in head.fields if line[0] not in CONNECTION_FIELDS),
            content=bytes(self._content),
            trailers=self._decoder.trailers,
        )

    def _known_proof(self, text: bytes | None) -> bool:
        try:
            proof = base64url_bytes((text or b"").decode("latin-1"), what="attest-evidence")
        except AttestError:
            return False
        return proof in self._found.key.proofs

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
        if not self._registered or self._answered:
            msg = "the request did not open, or was answered"
            raise ValueError(msg)
        self._answered = True
        return self._found.opening

    @property
    def _found(self) -> _Opened:
        if self._opened is None:
            msg = "the request's key was not found"
            raise ValueError(msg)
        return self._opened


def _without_own(response: Response) -> Response:
    """Leave out what only a gateway says."""
    return replace(response, fields=tuple(line for line in response.fields if line[0] != REFUSED))


def _single(fields: Fields, name: bytes) -> bytes | None:
    values = field_values(fields, name)
    return values[0] if len(values) == 1 else None


def _authority(head: RequestHead) -> str | None:
    """Return whom the request is for: the control data or the field, or both where they agree (channel.md 2.3)."""
    hosts = [value.decode("latin-1") for value in field_values(head.fields, b"host")]
    said = {*hosts, *([head.authority] if head.authority else [])}
    return said.pop() if len(said) == 1 and len(hosts) <= 1 else None
