"""Trust in the machine, as the transport of the channel asks for it: one proof at a time, by today's policy, and shown.

Whoever fails to prove itself is sent nothing but a nonce: there is no record then, and nothing is sealed without one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from attest.appraisal import AttestationResult
from attest.channel import ChannelExpectation, ChannelRecord, KeyDocument, KeyOffer, verify_offer
from attest.channel.config import choose
from attest.channel.records import TrustedKeys
from attest.channel.trust import KeyQuestion
from attest.encoding import base64url_text, json_value
from attest.errors import AttestError, VerificationError
from attest.evidence.binding import NONCE_BYTES

__all__ = ["MachineTrust", "SentTo", "TrustStatus", "TrustView"]

_SHORT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTo:
    """The key that a message was sealed to.

    Attributes:
        key_id: of the configuration, 0 to 255.
        digest: of the whole key document, which the machine's evidence commits to; 32 bytes.
    """

    key_id: int
    digest: bytes

    def __str__(self) -> str:
        """Write it for people."""
        return f"key {self.key_id} of {self.digest.hex()[:_SHORT]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStatus:
    """What is known of the machine now.

    Attributes:
        result: how its evidence was appraised last, affirmed or not; None before, or where it did not get that far.
        error: why nothing is sent; None while a record counts, and before anything was asked.
        sent_to: the key that counts.
        expires: when it is to be proved again.
        checked: when it was asked last.
    """

    result: AttestationResult | None = None
    error: AttestError | None = None
    sent_to: SentTo | None = None
    expires: datetime | None = None
    checked: datetime | None = None

    @property
    def affirmed(self) -> bool:
        """Whether the machine met the policy when it was asked last, and nothing spoke against it since."""
        return self.sent_to is not None and self.error is None

    @property
    def simulated(self) -> bool:
        """Whether what it rests on is the simulator, and proves nothing about hardware."""
        return self.result is not None and self.result.verified.simulated


class MachineTrust:
    """What may be sealed to. Safe to use from several threads.

    Args:
        demands: returns what is demanded now; it raises where that cannot be said.
        random: returns so many random bytes; makes the nonces.
    """

    def __init__(self, demands: Callable[[], ChannelExpectation], *, random: Callable[[int], bytes]) -> None:
        """Begin with nothing."""
        self._demands = demands
        self._random = random
        self._lock = threading.Lock()
        self._record: ChannelRecord | None = None
        self._standing = TrustStatus()

    @property
    def standing(self) -> TrustStatus:
        """What is known of the machine now."""
        with self._lock:
            return self._standing

    @property
    def record(self) -> ChannelRecord | None:
        """What is held, whether it counts now or not."""
        with self._lock:
            return self._record

    def view(self, *, anew: bool = False) -> TrustView:
        """Return this trust for one message, which remembers what the message was sealed to.

        Args:
            anew: let the machine prove itself for this message, whatever is held.
        """
        return TrustView(self, anew=anew)

    # -- the protocol of the transport

    def current(self, at: datetime) -> ChannelRecord | None:
        """Return the record while it counts, and while the policy is the one that it was judged by.

        Raises:
            AttestError: what is demanded cannot be said: the policy's file is gone, or wrong.
        """
        expected = self._expected()
        with self._lock:
            held = self._record
            if held is None or _counts(held, expected, at):
                return held
            # One that begins later was proved to another thread meanwhile, and says nothing to this message.
            if held.result.at <= at:
                self._dropped()
            return None

    def question(self, at: datetime) -> KeyQuestion:
        """Return what to ask the service. Whoever asks tells how it ended: ``answered`` or ``failed``."""
        nonce = self._random(NONCE_BYTES)
        return KeyQuestion(query=f"nonce={base64url_text(nonce)}", nonce=nonce, at=at)

    def answered(self, question: KeyQuestion, body: bytes) -> ChannelRecord:
        """Verify and appraise what the service offers, and hold it.

        Raises:
            AttestError: as ``verify_offer``, or ``json-invalid``; nothing is held then.
        """
        try:
            expected = self._expected()
            offer = KeyOffer.from_json(json_value(body, what="key offer"))
            record = verify_offer(offer, expect=expected, nonce=question.nonce, at=question.at)
        except AttestError as exc:
            self.failed(exc, question.at)
            raise
        with self._lock:
            self._record = record
            self._standing = TrustStatus(
                result=record.result, sent_to=sent_to(record), expires=record.expires, checked=question.at
            )
        return record

    def drop(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._dropped()

    def doubt(self) -> None:
        """Hold nothing any more: asking again costs little, and proves whatever is found."""
        self.drop()

    # -- for the client

    def failed(self, error: AttestError, at: datetime) -> None:
        """Take note of why nothing is sent. Of what was known before, nothing counts any more."""
        with self._lock:
            self._record = None
            self._standing = TrustStatus(error=error, checked=at)

    def require_still(self, used: ChannelRecord) -> None:
        """Make sure that nothing spoke against the machine since a message began: a long one is sent for minutes.

        Args:
            used: what the message is sealed to. That it ends meanwhile is no reason to break off.

        Raises:
            VerificationError: ``rag-trust-lost``: the machine failed to prove itself, or the policy is another one.
            AttestError: what is demanded cannot be said.
        """
        expected = self._expected()
        with self._lock:
            error = self._standing.error
            if error is None and used.result.policy.digest == expected.policy.digest:
                return
            if error is None:
                self._dropped()
        why = "the policy was changed" if error is None else error.message
        raise VerificationError(
            f"what was being sent was broken off: {why}",
            code="rag-trust-lost",
            hint="the service does not act on a part; 'check' shows how the machine stands now",
        ) from error

    def _expected(self) -> ChannelExpectation:
        try:
            return self._demands()
        except AttestError:
            self.drop()
            raise

    def _dropped(self) -> None:
        self._record = None
        self._standing = replace(self._standing, sent_to=None, expires=None)


class TrustView:
    """Trust for one message.

    Args:
        trust: whose.
        anew: whether what is held counts only once the machine has proved itself again.
    """

    def __init__(self, trust: MachineTrust, *, anew: bool) -> None:
        """Begin with nothing sent."""
        self._trust = trust
        self._anew = anew
        self._proven: ChannelRecord | None = None
        self._used: ChannelRecord | None = None
        self.sent_to: SentTo | None = None

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return what was proved to this message, or else the record while it counts, and remember it."""
        found = self._proven
        if found is None and not self._anew:
            found = self._trust.current(at)
        self._used, self.sent_to = found, None if found is None else sent_to(found)
        return found

    def while_trusted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the content of a message for as long as nothing speaks against whom it is for.

        Raises:
            AttestError: as ``MachineTrust.require_still``.
        """
        for piece in pieces:
            if self._used is not None:
                self._trust.require_still(self._used)
            yield piece

    def question(self, at: datetime) -> KeyQuestion:
        """Return what to ask the service."""
        return self._trust.question(at)

    def answered(self, question: KeyQuestion, body: bytes) -> None:
        """Judge what the service offers; errors as ``MachineTrust.answered``."""
        self._proven = self._trust.answered(question, body)

    def drop(self) -> None:
        """Hold nothing any more."""
        self._proven = None
        self._trust.drop()

    def doubt(self) -> None:
        """Hold nothing any more."""
        self._proven = None
        self._trust.doubt()


def _counts(held: ChannelRecord, expected: ChannelExpectation, at: datetime) -> bool:
    try:
        held.require_current(at)
    except VerificationError:
        return False
    return held.result.policy.digest == expected.policy.digest


def sent_to(trusted: TrustedKeys) -> SentTo:
    """Return which key of a document the channel seals to.

    Raises:
        ChannelError: ``channel-keys-unsupported``.
    """
    keys: KeyDocument = trusted.keys
    return SentTo(key_id=choose(keys).config.key_id, digest=keys.digest)
