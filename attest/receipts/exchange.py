"""The record of an exchange inside the machine: bodies are hashed as they pass, and the end is signed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue, canonical_json, json_value
from attest.errors import EvidenceError, VerificationError
from attest.receipts.claims import (
    CHALLENGE_BYTES,
    MAX_METHOD_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_PARAMETER_CHARACTERS,
    MAX_TARGET_CHARACTERS,
    MAX_TYPE_CHARACTERS,
    RECEIPT_ID_BYTES,
    ReceiptClaims,
    RequestClaim,
    ResponseClaim,
)
from attest.receipts.signer import ReceiptSigner
from attest.receipts.statement import ModelRecord

SAMPLING: Final = frozenset(
    {
        "best_of",
        "frequency_penalty",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "min_p",
        "model",
        "n",
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "stream",
        "temperature",
        "top_k",
        "top_p",
    }
)
"""Parameters of an OpenAI-style request that a receipt repeats."""


class ExchangeRecorder:
    """Recorder of the exchanges that one model answers.

    Args:
        signer: of the machine; recorders of several models share it.
        issuer: name of the service, the audience of its binding.
        model: the record that answers; the signer's statement must have it.
        clock: of the machine.
        random: a source of random bytes.
        current: returns the record of the loaded model as it is now; None for a loader that can load no other.

    Raises:
        ValueError: a model that the statement does not have, or a name beyond the limits.
    """

    def __init__(
        self,
        signer: ReceiptSigner,
        *,
        issuer: str,
        model: ModelRecord,
        clock: Callable[[], datetime],
        random: Callable[[int], bytes],
        current: Callable[[], ModelRecord] | None = None,
    ) -> None:
        _require_text("issuer", issuer, MAX_NAME_CHARACTERS)
        self._digest = model.digest
        if signer.statement.model(self._digest) is None:
            raise ValueError("the signer's statement does not have this model")
        self.signer = signer
        self._issuer = issuer
        self._model = model
        self._clock = clock
        self._random = random
        self._current = current

    def begin(self, *, method: str, target: str, media_type: str = "", challenge: bytes | None = None) -> Exchange:
        """Begin an exchange, which takes a sequence number.

        Args:
            method: of the request.
            target: path and query as received.
            media_type: value of its Content-Type.
            challenge: of the client, 8 to 64 bytes.

        Raises:
            VerificationError: ``receipt-model-changed``.
            ValueError: a value that a receipt cannot hold.
        """
        _require_text("method", method, MAX_METHOD_CHARACTERS)
        _require_text("target", target, MAX_TARGET_CHARACTERS)
        if challenge is not None and len(challenge) not in CHALLENGE_BYTES:
            raise ValueError("a challenge has 8 to 64 bytes")
        self._require_model()
        return Exchange(self, method=method, target=target, media_type=_media_type(media_type), challenge=challenge)

    def new_identity(self) -> tuple[bytes, int]:
        """Return identity and sequence number of an exchange."""
        return self._random(RECEIPT_ID_BYTES), self.signer.number()

    def signed(
        self,
        identity: tuple[bytes, int],
        request: RequestClaim,
        response: ResponseClaim,
        *,
        challenge: bytes | None,
        sampling: tuple[tuple[str, str], ...],
    ) -> bytes:
        """Sign the claims of an ended exchange.

        Raises:
            VerificationError: ``receipt-model-changed`` or ``receipt-time-invalid``.
        """
        self._require_model()
        receipt_id, number = identity
        claims = ReceiptClaims(
            issuer=self._issuer,
            issued_at=self._clock().replace(microsecond=0),
            receipt_id=receipt_id,
            challenge=challenge,
            statement=self.signer.digest,
            model=self._digest,
            sequence=number,
            request=request,
            response=response,
            sampling=sampling,
        )
        return self.signer.sign(claims)

    def _require_model(self) -> None:
        """Require the recorder's model, when an exchange begins and when it ends."""
        if self._current is not None and not self._model.is_same_model(self._current()):
            raise VerificationError(
                "the loaded model is another one than the evidence commits to",
                code="receipt-model-changed",
                field="model",
                clause="docs/receipts.md, the model",
                hint="make a new signer and new evidence for the model that is loaded now",
            )


class Exchange:
    """One exchange in progress; ``ExchangeRecorder.begin`` makes it. Used by one task at a time."""

    def __init__(
        self, recorder: ExchangeRecorder, *, method: str, target: str, media_type: str, challenge: bytes | None
    ) -> None:
        self._recorder = recorder
        self._identity = recorder.new_identity()
        self._method, self._target, self._media_type = method, target, media_type
        self._challenge = challenge
        self._request, self._request_size = sha256(), 0
        self._response, self._response_size = sha256(), 0
        self._status: tuple[int, str] | None = None
        self._sampling: tuple[tuple[str, str], ...] = ()
        self._ended = False

    @property
    def receipt_id(self) -> bytes:
        """The identity of its receipt, 16 bytes."""
        return self._identity[0]

    def receive(self, data: bytes) -> None:
        """Add bytes of the request's body, as received."""
        self._request.update(data)
        self._request_size += len(data)

    def sampled(self, parameters: Iterable[tuple[str, JsonValue]]) -> None:
        """State the parameters of the answer; values that a receipt cannot hold are left out."""
        texts = {name: _parameter(value) for name, value in parameters if name in SAMPLING}
        self._sampling = tuple(sorted((name, text) for name, text in texts.items() if text is not None))

    def respond(self, status: int, media_type: str) -> None:
        """Begin the response."""
        self._status = (status, _media_type(media_type))

    def send(self, data: bytes) -> None:
        """Add bytes of the response's body, as sent."""
        self._response.update(data)
        self._response_size += len(data)

    def end(self, *, complete: bool) -> bytes:
        """Sign, and return the receipt; ``complete``: the application has ended the body itself.

        Raises:
            VerificationError: ``receipt-model-changed`` or ``receipt-time-invalid``.
            ValueError: there was no response, or the exchange has ended already.
        """
        if self._status is None or self._ended:
            raise ValueError("an exchange ends once, and after its response has begun")
        self._ended = True
        status, media_type = self._status
        request = RequestClaim(
            method=self._method,
            target=self._target,
            media_type=self._media_type,
            size=self._request_size,
            sha256=self._request.digest(),
        )
        response = ResponseClaim(
            status=status,
            media_type=media_type,
            size=self._response_size,
            sha256=self._response.digest(),
            complete=complete,
        )
        return self._recorder.signed(
            self._identity, request, response, challenge=self._challenge, sampling=self._sampling
        )


def parameters_of(body: bytes) -> tuple[tuple[str, JsonValue], ...]:
    """Return the parameters in the body of an OpenAI-style request; none of a body that is no JSON object."""
    try:
        document = json_value(body, what="request")
    except EvidenceError:
        return ()
    return tuple(document.items()) if isinstance(document, dict) else ()


def _parameter(value: JsonValue) -> str | None:
    """Return the canonical JSON of a simple value; None for others."""
    if isinstance(value, list | dict):
        return None
    try:
        text = canonical_json(value).decode()
    except ValueError:
        return None
    return text if len(text) <= MAX_PARAMETER_CHARACTERS and text.isprintable() else None


def _media_type(text: str) -> str:
    """Return a media type, or nothing for one that a receipt cannot hold."""
    return text if len(text) <= MAX_TYPE_CHARACTERS and text.isprintable() else ""


def _require_text(name: str, text: str, most: int) -> None:
    if not 0 < len(text) <= most or not text.isprintable():
        raise ValueError(f"{name}: 1 to {most} printable characters")
