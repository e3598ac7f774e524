"""Keys of the service's own that are made when they are first needed, one for all replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from attest.release import VerifierKey
from kms.domain.kek import KeyEncryptionKey, RandomBytes
from kms.domain.keys import own_context
from kms.domain.secret import SecretBytes
from kms.store import Store, WriteTransaction

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterKey(Generic[K]):
    """A key under its name in the database.

    Attributes:
        size: of its material, in bytes.
        read: makes the key of its material.
    """

    name: str
    algorithm: str
    size: int
    read: Callable[[SecretBytes], K]

    def find(self, store: Store, kek: KeyEncryptionKey, *, service: VerifierKey) -> K | None:
        """Return the key, or None when none was made yet.

        Raises:
            IntegrityError: ``wrapped-key-invalid``.
        """
        with store.reading() as tx:
            found = tx.own_secrets.find(self.name)
        if found is None:
            return None
        with kek.unwrap(found[1], context=own_context(service.name, self.name, self.algorithm)) as material:
            return self.read(material)

    def make(
        self,
        store: Store,
        kek: KeyEncryptionKey,
        *,
        service: VerifierKey,
        random: RandomBytes,
        log: Callable[[WriteTransaction, K], None],
        at: datetime,
    ) -> K:
        """Return the key, made on the first call; ``log`` then adds its entry in the same transaction.

        Raises:
            IntegrityError: ``wrapped-key-invalid``.
            UnavailableError: the database is in use, or the key-encryption key's back-end does not answer.
        """
        found = self.find(store, kek, service=service)
        if found is not None:
            return found
        material = SecretBytes(random(self.size))
        wrapped = kek.wrap(material, context=own_context(service.name, self.name, self.algorithm))
        made = self.read(material)
        with store.writing() as tx:
            mine = tx.own_secrets.find(self.name) is None
            if mine:
                tx.own_secrets.add(self.name, algorithm=self.algorithm, wrapped=wrapped, at=at)
                log(tx, made)
        # If another process made one in between, that one is used.
        return made if mine else self.find(store, kek, service=service) or made
