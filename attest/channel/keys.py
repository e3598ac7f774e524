"""The keys of a service: one document that is given out, and older ones that are still accepted for a while.

A key is born here and bound to evidence, or released by a key-release service to every replica that conforms. While a
private half exists, whoever gets it can read what was sent before: keys are short-lived, and dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from attest.channel.config import KeyConfig, KeyDocument
from attest.channel.hpke import KEM_HYBRID, SEED_BYTES, HpkeKey

__all__ = ["LIFETIME", "OVERLAP", "ChannelKey", "Proofs", "ServiceKeys"]

LIFETIME: Final = timedelta(hours=24)
OVERLAP: Final = timedelta(minutes=10)
"""Longer than a record of a client counts, and the window of dates."""
MAX_PROOFS: Final = 65536


class Proofs:
    """What clients may name as the proof that they believed: the evidence that was given out, newest kept.

    One that was forgotten is answered like a stale one, and the client asks for new evidence.

    Args:
        capacity: how many are remembered.
    """

    __slots__ = ("_known", "_order")

    def __init__(self, capacity: int = MAX_PROOFS) -> None:
        """Begin with nothing."""
        self._known: set[bytes] = set()
        self._order: deque[bytes] = deque(maxlen=capacity)

    def add(self, proof: bytes) -> None:
        """Remember a proof."""
        if proof in self._known:
            return
        if len(self._order) == self._order.maxlen:
            self._known.discard(self._order[0])
        self._order.append(proof)
        self._known.add(proof)

    def __contains__(self, proof: object) -> bool:
        """Say whether a proof was given out, and lately."""
        return proof in self._known


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelKey:
    """A key document with its private halves.

    Attributes:
        document: what is given out.
        private: the private half of each configuration, in their order.
        not_after: when the service stops giving it out.
        replicated: whether other replicas have it too, or it outlives this process.
        proofs: what clients may have believed of it.
    """

    document: KeyDocument
    private: tuple[HpkeKey, ...]
    not_after: datetime
    replicated: bool
    proofs: Proofs

    @staticmethod
    def born(
        *,
        random: Callable[[int], bytes],
        at: datetime,
        first_id: int = 0,
        kems: Sequence[int] = (KEM_HYBRID,),
        lifetime: timedelta = LIFETIME,
    ) -> ChannelKey:
        """Draw keys inside the TEE; evidence has to be bound to ``document`` next.

        Args:
            random: returns so many random bytes.
            at: now.
            first_id: key id of the first; the others follow. None that is still accepted may be among them.
            kems: in order of preference; X25519 alone has to be asked for.
            lifetime: how long it is given out; at most 24 hours.

        Raises:
            ValueError: an unknown KEM, none, or a longer lifetime.
        """
        if not timedelta(0) < lifetime <= LIFETIME:
            msg = f"a channel key lives for at most {LIFETIME}"
            raise ValueError(msg)
        private = tuple(HpkeKey.from_seed(kem, random(SEED_BYTES)) for kem in kems)
        configs = tuple(
            KeyConfig(key_id=(first_id + number) % 256, kem=key.kem, public_key=key.public)
            for number, key in enumerate(private)
        )
        return ChannelKey(
            document=KeyDocument(configs=configs),
            private=private,
            not_after=at + lifetime,
            replicated=False,
            proofs=Proofs(),
        )

    def half(self, key_id: int) -> tuple[KeyConfig, HpkeKey] | None:
        """Return the configuration of a key id with its private half."""
        for config, key in zip(self.document.configs, self.private, strict=True):
            if isinstance(config, KeyConfig) and config.key_id == key_id:
                return config, key
        return None


class ServiceKeys:
    """What a gateway opens with.

    Args:
        current: what is given out.
        overlap: how long a key is accepted after it was replaced, or after it should have been.
    """

    __slots__ = ("_current", "_older", "_overlap")

    def __init__(self, current: ChannelKey, *, overlap: timedelta = OVERLAP) -> None:
        """Begin with one key."""
        self._current = current
        self._overlap = overlap
        self._older: tuple[tuple[ChannelKey, datetime], ...] = ()

    @property
    def current(self) -> ChannelKey:
        """What is given out."""
        return self._current

    @property
    def replicated(self) -> bool:
        """Whether any key is had by other replicas."""
        return any(key.replicated for key in (self._current, *(old for old, _ in self._older)))

    def replace(self, key: ChannelKey, *, at: datetime) -> None:
        """Give out another key from now on, and accept the one before for the overlap.

        Raises:
            ValueError: a key id that is still accepted stands for another key then.
        """
        self.forget(at=at)
        older = (*self._older, (self._current, min(at, self._current.not_after) + self._overlap))
        used = {config.key_id for old, _ in older for config in old.document.configs}
        if used & {config.key_id for config in key.document.configs}:
            msg = "a key id is still in use by an older key"
            raise ValueError(msg)
        self._older = older
        self._current = key

    def prolong(self, key: ChannelKey) -> None:
        """Give out the current key until another moment: whoever released it says so.

        Raises:
            ValueError: it is another key.
        """
        if key.document != self._current.document:
            msg = "another key is no other end of this one"
            raise ValueError(msg)
        self._current = replace(self._current, not_after=key.not_after)

    def forget(self, *, at: datetime) -> None:
        """Drop the private halves of keys that are not accepted any more."""
        self._older = tuple((key, until) for key, until in self._older if at < until)

    def find(self, key_id: int, *, at: datetime) -> tuple[ChannelKey, KeyConfig, HpkeKey] | None:
        """Return what a request names, where it is accepted now."""
        self.forget(at=at)
        accepted = [key for key, _ in self._older]
        if at < self._current.not_after + self._overlap:
            accepted.append(self._current)
        for key in accepted:
            if (half := key.half(key_id)) is not None:
                return key, *half
        return None
