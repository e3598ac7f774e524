"""The keys of a service: the current document, and replaced ones that stay accepted for a while.

A key is generated here and bound to evidence, or released by a key-release service to every conforming replica. A
stolen private key opens everything sealed to it: keys are short-lived, and deleted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from attest.channel.config import KeyConfig, KeyDocument
from attest.channel.hpke import SEED_BYTES, HpkeKey
from attest.release.sealed_key import KEM_HYBRID

LIFETIME: Final = timedelta(hours=24)
OVERLAP: Final = timedelta(minutes=10)
"""Longer than the life of a client's record and the window of dates together."""
MAX_PROOFS: Final = 65536


class Proofs:
    """Digests of evidence that clients may name as accepted, the newest kept.

    A forgotten one is refused as stale, and the client requests new evidence.
    """

    __slots__ = ("_known", "_order")

    def __init__(self, capacity: int = MAX_PROOFS) -> None:
        self._known: set[bytes] = set()
        self._order: deque[bytes] = deque(maxlen=capacity)

    def add(self, proof: bytes) -> None:
        """Add a proof, 32 bytes."""
        if proof in self._known:
            return
        if len(self._order) == self._order.maxlen:
            self._known.discard(self._order[0])
        self._order.append(proof)
        self._known.add(proof)

    def __contains__(self, proof: object) -> bool:
        return proof in self._known


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelKey:
    """A key document with its private keys.

    Attributes:
        private: the private key of each configuration, in their order.
        not_after: end of its use by new clients.
        replicated: other replicas have it too, or it outlives this process.
        proofs: the evidence that clients may have accepted for it.
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
        """Generate keys inside the TEE; evidence then has to be bound to ``document``.

        The key ids begin with ``first_id``; none of them may still be accepted for another key. ``kems`` are in order
        of preference; X25519 alone is explicit. ``lifetime`` is that of their use by new clients, at most 24 hours.

        Raises:
            ValueError: an unknown KEM, none, or a longer lifetime.
        """
        if not timedelta(0) < lifetime <= LIFETIME:
            raise ValueError(f"a channel key lives for at most {LIFETIME}")
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
        """Return the configuration of a key id with its private key."""
        for config, key in zip(self.document.configs, self.private, strict=True):
            if isinstance(config, KeyConfig) and config.key_id == key_id:
                return config, key
        return None


class ServiceKeys:
    """The current key of a service and replaced ones that are still accepted.

    Args:
        overlap: time for which a replaced or expired key stays accepted.
    """

    def __init__(self, current: ChannelKey, *, overlap: timedelta = OVERLAP) -> None:
        self.current = current
        """The key for new clients."""
        self._overlap = overlap
        self._older: tuple[tuple[ChannelKey, datetime], ...] = ()

    @property
    def replicated(self) -> bool:
        """True if other replicas have any of the keys."""
        return any(key.replicated for key in (self.current, *(old for old, _ in self._older)))

    def replace(self, key: ChannelKey, *, at: datetime) -> None:
        """Replace the current key, and accept it for the overlap.

        Raises:
            ValueError: a key id would stand for two accepted keys.
        """
        self.forget(at=at)
        older = (*self._older, (self.current, min(at, self.current.not_after) + self._overlap))
        used = {config.key_id for old, _ in older for config in old.document.configs}
        if used & {config.key_id for config in key.document.configs}:
            raise ValueError("a key id is still in use by an older key")
        self._older = older
        self.current = key

    def prolong(self, key: ChannelKey) -> None:
        """Extend the current key's use, as its key-release service states.

        Raises:
            ValueError: it is another key.
        """
        if key.document != self.current.document:
            raise ValueError("another key is not the other end of this one")
        self.current = replace(self.current, not_after=key.not_after)

    def forget(self, *, at: datetime) -> None:
        """Delete the private keys of keys that are no longer accepted."""
        self._older = tuple((key, until) for key, until in self._older if at < until)

    def find(self, key_id: int, *, at: datetime) -> tuple[ChannelKey, KeyConfig, HpkeKey] | None:
        """Return the key that a request names, if it is accepted now."""
        self.forget(at=at)
        accepted = [key for key, _ in self._older]
        if at < self.current.not_after + self._overlap:
            accepted.append(self.current)
        for key in accepted:
            if (half := key.half(key_id)) is not None:
                return key, *half
        return None
