"""Open relaxations whose seal opens; one without a valid seal in the database has no effect."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from attest.release import KeyName
from kms.domain.break_glass import BreakGlass, glass_context
from kms.domain.errors import IntegrityError, UnavailableError
from kms.domain.kek import KeyEncryptionKey
from kms.store import ReadTransaction

_REMEMBERED: Final = 64
_NOT_AT_HAND: Final = "kek-not-at-hand"
_log = logging.getLogger("kms")


class BreakGlassService:
    """Verifier of seals. It caches the results: the key-encryption key may be on a remote server."""

    def __init__(self, kek: KeyEncryptionKey) -> None:
        self._kek = kek
        self._sealed: OrderedDict[BreakGlass, bool] = OrderedDict()
        self._lock = threading.Lock()

    def open_for(
        self, tx: ReadTransaction, names: Collection[KeyName], *, at: datetime
    ) -> Mapping[KeyName, tuple[BreakGlass, ...]]:
        """Return the relaxations of these keys that are in force at a moment.

        Raises:
            IntegrityError: ``glass-record-invalid``.
            UnavailableError: the key-encryption key's back-end does not answer.
        """
        found: dict[KeyName, tuple[BreakGlass, ...]] = {}
        for one in tx.break_glass.in_force(at=at):
            if one.key in names and one.counts(at) and self.is_sealed(one):
                found[one.key] = (*found.get(one.key, ()), one)
        return found

    def is_sealed(self, one: BreakGlass) -> bool:
        """Return True if the service itself opened it: its seal opens under an available key-encryption key."""
        with self._lock:
            known = self._sealed.get(one)
        if known is not None:
            return known
        found = self._opens(one)
        with self._lock:
            self._sealed[one] = found
            while len(self._sealed) > _REMEMBERED:
                self._sealed.popitem(last=False)
        return found

    def _opens(self, one: BreakGlass) -> bool:
        try:
            self._kek.unwrap(one.seal, context=glass_context(one.key, one.members()))
        except IntegrityError:
            _log.error("break-glass %d for %s: its seal is invalid; it is ignored", one.number, one.key)
            return False
        except UnavailableError as exc:
            if exc.code != _NOT_AT_HAND:
                raise
            return False  # the key that sealed it was replaced, which ends the relaxation
        return True
