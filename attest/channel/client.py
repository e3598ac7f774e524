"""The client's side, without I/O: seals a request to an attested service, and opens its answer.

::

    sealer = RequestSealer(record, request, at=now)
    body = sealer.begin() + sealer.add(data) … + sealer.end()       POST, sealer.media_type
    answer = sealer.answer(status, content_type)
    events = answer.feed(bytes) … answer.finish()                   the head, then the content

Sealing requires a current record. Content before ``finish`` is authentic and in order, and may be incomplete.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Final

from attest.channel.bhttp import END, request_head, section, written_content
from attest.channel.bhttp_decoder import Event, MessageDecoder
from attest.channel.chunked import MAX_MESSAGE_BYTES, ChunkOpener, ChunkSealer
from attest.channel.config import DEFAULT_KEMS, choose
from attest.channel.fields import DATE, EVIDENCE, http_date
from attest.channel.messages import LIMITS, Fields, MessageLimits, Request, field_values, too_long
from attest.channel.ohttp import MessageForm, Sealing, begin_sealing, open_answer
from attest.channel.padding import WholeMessage, padded
from attest.channel.records import TrustedKeys
from attest.encoding import base64url_text
from attest.errors import ChannelRefusedError

ANSWER_LIMITS: Final = replace(LIMITS, content=1 << 29)
"""A streamed answer is not buffered, so its content may be longer."""
_OK, _UNPROCESSABLE = 200, 422


class RequestSealer:
    """Sealer of one request, under its own secret; a repetition needs another sealer.

    Args:
        trusted: a record; it must be current.
        request: without ``date`` and ``attest-evidence``, which are added. Content may be empty and follow later.
        at: now, by the client's clock.
        date: sent to the service instead of ``at`` once it refused that date; used for nothing else.
        kems: KEMs that are accepted; by default the hybrid alone.
        form: chunked, or single for services without chunks.
        padding: hide the length; otherwise the exact length shows.

    Raises:
        VerificationError: ``channel-record-expired``, ``channel-key-invalid``.
        ChannelError: ``channel-keys-unsupported``.
        ValueError: the request has a field that is added here.
    """

    __slots__ = ("_buffer", "_form", "_padding", "_request", "_sealing", "_whole")

    def __init__(
        self,
        trusted: TrustedKeys,
        request: Request,
        *,
        at: datetime,
        date: datetime | None = None,
        kems: Collection[int] = DEFAULT_KEMS,
        form: MessageForm = MessageForm.CHUNKED,
        padding: bool = True,
    ) -> None:
        trusted.require_current(at)
        self._request = _with_own_fields(request, trusted.proof, date or at)
        self._form = form
        self._padding = padding
        self._sealing: Sealing = begin_sealing(choose(trusted.keys, kems=kems), form)
        self._whole = WholeMessage(ChunkSealer(self._sealing.context), padding=padding)
        self._buffer = bytearray()

    @property
    def media_type(self) -> str:
        """Content type of the sealed request."""
        return self._form.request_type

    def begin(self) -> bytes:
        """Return the first bytes to send."""
        head = request_head(self._request, indeterminate=True) + written_content(self._request.content)
        return self._sealing.prefix + self._add(head)

    def add(self, data: bytes) -> bytes:
        """Add content; return the next bytes to send, possibly none."""
        return self._add(written_content(data))

    def end(self, trailers: Fields = ()) -> bytes:
        """Return the last bytes to send. The answer is read after them."""
        rest = END + section((*self._request.trailers, *trailers), indeterminate=True)
        if self._form is MessageForm.CHUNKED:
            return self._add(rest) + self._whole.end()
        message = bytes(self._buffer) + rest
        return self._sealing.context.seal(padded(message) if self._padding else message)

    def answer(self, status: int, content_type: str | None, *, limits: MessageLimits = ANSWER_LIMITS) -> AnswerOpener:
        """Return the opener of the answer, by the status and content type of the outer response.

        Raises:
            ChannelRefusedError: ``channel-keys-refused``: an unauthenticated claim that the service lacks the key;
                ``channel-refused``: any other refusal in the clear. It is not authentic, so its content is not read.
        """
        essence = (content_type or "").partition(";")[0].strip().lower()
        if status == _OK and essence == self._form.answer_type:
            return AnswerOpener(self._sealing, limits=limits)
        if status == _UNPROCESSABLE:
            raise ChannelRefusedError(
                "the service refuses requests sealed to its keys, or an intermediary claims so",
                code="channel-keys-refused",
                got=f"status {status}",
                hint="request its keys and evidence again; the request may have been processed",
            )
        raise ChannelRefusedError(
            "the response is not an encrypted answer, and proves nothing",
            code="channel-refused",
            expected=f"status {_OK}, {self._form.answer_type}",
            got=f"status {status}, {ascii(essence)[:80]}",
            hint="a proxy or the service refused; the request may have been processed",
        )

    def _add(self, data: bytes) -> bytes:
        if self._form is MessageForm.CHUNKED:
            return self._whole.add(data)
        self._buffer += data
        return b""


class AnswerOpener:
    """Opener of the answer to one request, as it arrives; ``RequestSealer.answer`` makes it."""

    __slots__ = ("_buffer", "_chunks", "_decoder", "_limit", "_sealing")

    def __init__(self, sealing: Sealing, *, limits: MessageLimits = ANSWER_LIMITS) -> None:
        self._sealing = sealing
        self._limit = min(limits.message, MAX_MESSAGE_BYTES)
        self._decoder = MessageDecoder("response", limits=limits)
        self._buffer = bytearray()
        self._chunks: ChunkOpener | None = None

    @property
    def trailers(self) -> Fields:
        """Trailers after the content, once it is complete."""
        return self._decoder.trailers

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """Add bytes, and return the events that they complete: authentic, in order, and possibly incomplete.

        Raises:
            ChannelTamperError: ``channel-not-opened``: for another request, or altered.
            ChannelError: as ``ChunkOpener`` and ``MessageDecoder``.
        """
        if self._chunks is None:
            self._buffer += data
            if self._sealing.form is MessageForm.SINGLE:
                if len(self._buffer) > self._limit:
                    raise too_long("answer", self._limit, len(self._buffer))
                return ()
            size = self._sealing.nonce_bytes
            if len(self._buffer) < size:
                return ()
            cipher = self._sealing.answer_cipher(bytes(self._buffer[:size]))
            self._chunks = ChunkOpener(cipher, max_bytes=self._limit)
            data = bytes(self._buffer[size:])
            self._buffer.clear()
        return tuple(event for piece in self._chunks.feed(data) for event in self._decoder.feed(piece))

    def finish(self) -> tuple[Event, ...]:
        """Mark the end of the answer. A normal return means a complete answer.

        Raises:
            ChannelTamperError: ``channel-truncated``: discard the content shown so far.
            ChannelError: as ``feed``.
        """
        if self._sealing.form is MessageForm.SINGLE:
            message = open_answer(self._sealing, bytes(self._buffer))
        elif self._chunks is None:
            message = ChunkOpener(self._sealing.context).finish()  # too short for any chunk: truncated
        else:
            message = self._chunks.finish()
        return (*self._decoder.feed(message), *self._decoder.finish())


def _with_own_fields(request: Request, proof: bytes, date: datetime) -> Request:
    for name in (DATE, EVIDENCE):
        if field_values(request.fields, name):
            raise ValueError(f"{name.decode()} is added when the request is sealed")
    own: Fields = ((DATE, http_date(date)), (EVIDENCE, base64url_text(proof).encode()))
    return replace(request, fields=(*request.fields, *own))
