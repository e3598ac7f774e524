"""Trust in the machine, for the channel's transport: one proof at a time, by the policy in force, and visible.

A machine that fails to prove itself receives a nonce and nothing else: messages are sealed to a record's key alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from attest.appraisal import AttestationResult
from attest.channel import ChannelExpectation, ChannelRecord, KeyOffer, KeyQuestion, TrustedKeys, choose, verify_offer
from attest.encoding import base64url_text, json_value
from attest.errors import AttestError, VerificationError
from attest.evidence import NONCE_BYTES

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
        return f"key {self.key_id} of {self.digest.hex()[:_SHORT]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStatus:
    """The machine's standing now.

    Attributes:
        result: the last appraisal of its evidence, affirmed or not; None before, or where there was no appraisal.
        error: the reason for sending nothing; None while a record is valid, and before the first proof.
    """

    result: AttestationResult | None = None
    error: AttestError | None = None
    sent_to: SentTo | None = None
    expires: datetime | None = None
    checked: datetime | None = None

    @property
    def affirmed(self) -> bool:
        """True if the machine met the policy at the last proof and nothing has contradicted it since."""
        return self.sent_to is not None and self.error is None

    @property
    def simulated(self) -> bool:
        """True if the proof rests on the simulator, and proves nothing about hardware."""
        return self.result is not None and self.result.verified.simulated


class MachineTrust:
    """Holder of the record that messages may be sealed to. Safe to use from several threads.

    Args:
        demands: returns the demands in force; raises where they cannot be read.
    """

    def __init__(self, demands: Callable[[], ChannelExpectation], *, random: Callable[[int], bytes]) -> None:
        self._demands = demands
        self._random = random
        self._lock = threading.Lock()
        self._record: ChannelRecord | None = None
        self._standing = TrustStatus()

    @property
    def standing(self) -> TrustStatus:
        """Standing of the machine now."""
        with self._lock:
            return self._standing

    # -- the protocol of the transport

    def current(self, at: datetime) -> ChannelRecord | None:
        """Return the record while it is valid, and while the policy is the one of its appraisal.

        Raises:
            AttestError: the demands cannot be read: the policy file is missing or wrong.
        """
        expected = self._expected()
        with self._lock:
            held = self._record
            if held is None or _counts(held, expected, at):
                return held
            # A later record was made for another thread, and is not fresh for this message.
            if held.result.at <= at:
                self._dropped()
            return None

    def question(self, at: datetime) -> KeyQuestion:
        """Return the next challenge. The caller reports its outcome with ``answered`` or ``failed``."""
        nonce = self._random(NONCE_BYTES)
        return KeyQuestion(query=f"nonce={base64url_text(nonce)}", nonce=nonce, at=at)

    def answered(self, question: KeyQuestion, body: bytes) -> ChannelRecord:
        """Verify and appraise the service's offer, and hold the record.

        Raises:
            AttestError: as ``verify_offer``, or ``json-invalid``; then no record is held.
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
        """Drop the record."""
        with self._lock:
            self._dropped()

    # -- for the client

    def failed(self, error: AttestError, at: datetime) -> None:
        """Keep the reason for sending nothing, and drop the record."""
        with self._lock:
            self._record = None
            self._standing = TrustStatus(error=error, checked=at)

    def require_still(self, used: ChannelRecord) -> None:
        """Require that nothing has contradicted the machine since the message began: a long one takes minutes to send.

        The expiry of the used record in the meantime is not a reason to stop.

        Raises:
            VerificationError: ``rag-trust-lost``: the machine failed to prove itself, or the policy is another one.
            AttestError: the demands cannot be read.
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
            f"the message was stopped while it was sent: {why}",
            code="rag-trust-lost",
            hint="the service does not use part of a message; 'check' shows the machine's status",
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
    """Trust for one message, which remembers the key that the message was sealed to.

    Args:
        anew: verify the machine again for this message, even if a record is held.
    """

    def __init__(self, trust: MachineTrust, *, anew: bool) -> None:
        self._trust = trust
        self._anew = anew
        self._proven: ChannelRecord | None = None
        self._used: ChannelRecord | None = None
        self.sent_to: SentTo | None = None

    def current(self, at: datetime) -> TrustedKeys | None:
        """Return the proof made for this message, or else the record while it is valid, and remember it."""
        found = self._proven
        if found is None and not self._anew:
            found = self._trust.current(at)
        self._used, self.sent_to = found, None if found is None else sent_to(found)
        return found

    def while_trusted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the content of a message while its recipient stays trusted; errors as ``require_still``."""
        for piece in pieces:
            if self._used is not None:
                self._trust.require_still(self._used)
            yield piece

    def question(self, at: datetime) -> KeyQuestion:
        """Return the next challenge."""
        return self._trust.question(at)

    def answered(self, question: KeyQuestion, body: bytes) -> None:
        """Verify and appraise the service's offer; errors as ``MachineTrust.answered``."""
        self._proven = self._trust.answered(question, body)

    def drop(self) -> None:
        """Drop the record."""
        self._proven = None
        self._trust.drop()

    doubt = drop
    """A new proof costs little."""


def _counts(held: ChannelRecord, expected: ChannelExpectation, at: datetime) -> bool:
    try:
        held.require_current(at)
    except VerificationError:
        return False
    return held.result.policy.digest == expected.policy.digest


def sent_to(trusted: TrustedKeys) -> SentTo:
    """Return the key of a document that the channel seals to.

    Raises:
        ChannelError: ``channel-keys-unsupported``.
    """
    return SentTo(key_id=choose(trusted.keys).config.key_id, digest=trusted.keys.digest)
