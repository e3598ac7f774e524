"""A client's trust: one record at a time, renewed when it expires or when the service calls it stale.

A record is dropped before the next request for evidence: after a failure the old record does not come back.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyQuestion:
    """A request for a service's keys: the query of its URL, the nonce for the evidence, and its moment."""

    query: str
    nonce: bytes
    at: datetime


class RecipientTrust(Protocol):
    """Source of keys that may be sealed to."""

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return the current keys, or None if the service has to be queried."""
        ...

    def question(self, at: datetime) -> KeyQuestion:
        """Return the next query for the service."""
        ...

    def answered(self, question: KeyQuestion, body: bytes) -> None:
        """Verify the service's answer."""
        ...

    def drop(self) -> None:
        """Drop the record: the service called it stale, inside the encryption."""
        ...

    def doubt(self) -> None:
        """Note an unauthenticated claim that the service lacks the key."""
        ...


class AttestedTrust:
    """Trust in an attesting service: each proof answers a nonce of this client."""

    def __init__(self, expect: ChannelExpectation, *, random: Callable[[int], bytes]) -> None:
        self._expect = expect
        self._random = random
        self.record: ChannelRecord | None = None
        """The last record, current or not."""

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return the record while it is current."""
        if self.record is None:
            return None
        try:
            self.record.require_current(at)
        except VerificationError:
            self.record = None
        return self.record

    def question(self, at: datetime) -> KeyQuestion:
        """Drop the record, and return the next query."""
        self.record = None
        nonce = self._random(NONCE_BYTES)
        return KeyQuestion(query=f"nonce={base64url_text(nonce)}", nonce=nonce, at=at)

    def answered(self, question: KeyQuestion, body: bytes) -> None:
        """Verify and appraise the service's offer.

        Raises:
            AttestError: as ``verify_offer``, or ``json-invalid``; no record is held then.
        """
        self.record = None
        offer = KeyOffer.from_json(json_value(body, what="key offer"))
        self.record = verify_offer(offer, expect=self._expect, nonce=question.nonce, at=question.at)

    def drop(self) -> None:
        """Drop the record."""
        self.record = None

    def doubt(self) -> None:
        """Drop the record: another query is cheap, and its answer is proven."""
        self.record = None


class HeldTrust:
    """Trust in keys that were verified elsewhere, such as a prompt key, without queries."""

    def __init__(self, trusted: TrustedKeys) -> None:
        self._trusted: TrustedKeys | None = trusted

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return the record.

        Raises:
            VerificationError: ``channel-record-expired``, also after ``drop``.
        """
        if self._trusted is None:
            raise _nothing_held()
        self._trusted.require_current(at)
        return self._trusted

    def question(self, at: datetime) -> KeyQuestion:  # noqa: ARG002  of the protocol
        """Refuse: the origin of the record has to make the next one.

        Raises:
            VerificationError: ``channel-record-expired``.
        """
        raise _nothing_held()

    def answered(self, question: KeyQuestion, body: bytes) -> None:  # noqa: ARG002  of the protocol
        """Refuse, as ``question``."""
        raise _nothing_held()

    def drop(self) -> None:
        """Drop the record."""
        self._trusted = None

    def doubt(self) -> None:
        """Ignore the claim: there is no second source, and an attacker in between could otherwise end the channel."""


def _nothing_held() -> VerificationError:
    return VerificationError(
        "there are no verified keys to seal to",
        code="channel-record-expired",
        hint="verify the keys again; the service refused those that were held, or they ended",
    )
