"""What a client holds: one record at a time, asked for anew when it ends or the service says that it is stale.

A record is dropped before anything else is asked: what failed once never stays in force because nothing better came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from attest.channel.records import ChannelExpectation, ChannelRecord, KeyOffer, TrustedKeys, verify_offer
from attest.encoding import base64url_text, json_value
from attest.errors import VerificationError
from attest.evidence.binding import NONCE_BYTES

__all__ = ["AttestedTrust", "HeldTrust", "KeyQuestion", "RecipientTrust"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyQuestion:
    """What a service is asked.

    Attributes:
        query: of the address.
        nonce: what the evidence has to be bound to.
        at: when.
    """

    query: str
    nonce: bytes
    at: datetime


class RecipientTrust(Protocol):
    """Says what may be sealed to."""

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return what counts now, or None where the service has to be asked."""
        ...

    def question(self, at: datetime) -> KeyQuestion:
        """Return what to ask the service."""
        ...

    def answered(self, question: KeyQuestion, body: bytes) -> None:
        """Judge what it answered."""
        ...

    def drop(self) -> None:
        """Hold nothing any more: the service said, inside the encryption, that what is held is stale."""
        ...

    def doubt(self) -> None:
        """Take note that somebody says, in the clear, that the service does not have the key."""
        ...


class AttestedTrust:
    """Trust in a service that attests: each proof answers a nonce of this client.

    Args:
        expect: what is demanded.
        random: returns so many random bytes; makes the nonces.
    """

    def __init__(self, expect: ChannelExpectation, *, random: Callable[[int], bytes]) -> None:
        """Begin with nothing."""
        self._expect = expect
        self._random = random
        self._record: ChannelRecord | None = None

    @property
    def record(self) -> ChannelRecord | None:
        """What is held, whether it counts now or not."""
        return self._record

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return the record while it counts."""
        if self._record is None:
            return None
        try:
            self._record.require_current(at)
        except VerificationError:
            self._record = None
        return self._record

    def question(self, at: datetime) -> KeyQuestion:
        """Drop what is held, and return what to ask the service."""
        self._record = None
        nonce = self._random(NONCE_BYTES)
        return KeyQuestion(query=f"nonce={base64url_text(nonce)}", nonce=nonce, at=at)

    def answered(self, question: KeyQuestion, body: bytes) -> None:
        """Verify and appraise what the service offers.

        Raises:
            AttestError: as ``verify_offer``, or ``json-invalid``; nothing is held then.
        """
        self._record = None
        offer = KeyOffer.from_json(json_value(body, what="key offer"))
        self._record = verify_offer(offer, expect=self._expect, nonce=question.nonce, at=question.at)

    def drop(self) -> None:
        """Hold nothing any more."""
        self._record = None

    def doubt(self) -> None:
        """Hold nothing any more: asking again costs little, and proves whatever is found."""
        self._record = None


class HeldTrust:
    """Trust in keys that were verified elsewhere: a prompt key, say. The service is not asked.

    Args:
        trusted: the record.
    """

    def __init__(self, trusted: TrustedKeys) -> None:
        """Hold the record."""
        self._trusted: TrustedKeys | None = trusted

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return the record.

        Raises:
            VerificationError: ``channel-record-expired``, also once it was dropped.
        """
        if self._trusted is None:
            raise _nothing_held()
        self._trusted.require_current(at)
        return self._trusted

    def question(self, at: datetime) -> KeyQuestion:  # noqa: ARG002  of the protocol
        """Refuse: whoever made the record makes the next one.

        Raises:
            VerificationError: ``channel-record-expired``.
        """
        raise _nothing_held()

    def answered(self, question: KeyQuestion, body: bytes) -> None:  # noqa: ARG002  of the protocol
        """Refuse, as ``question``."""
        raise _nothing_held()

    def drop(self) -> None:
        """Hold nothing any more."""
        self._trusted = None

    def doubt(self) -> None:
        """Go on: nobody here could ask again, and whoever is in between could end everything with a word."""


def _nothing_held() -> VerificationError:
    return VerificationError(
        "there are no verified keys to seal to",
        code="channel-record-expired",
        hint="verify the keys again; the service refused those that were held, or they ended",
    )
