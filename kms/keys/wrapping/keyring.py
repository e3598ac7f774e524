"""The key-encryption keys that a database knows, as far as the settings say where they are.

The database selects the wrapping key and the settings locate each key, so that write access to the database cannot
introduce a key. Keys are opened on first use: a definition that was just added to the directory is found, and so is a
token that was reinserted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from attest.errors import AttestError, ConfigurationError
from kms.domain.errors import UnavailableError, damaged
from kms.domain.kek import RandomBytes
from kms.domain.kek_records import KekRecord, KekState
from kms.domain.keys import WrapContext, Wrapped
from kms.domain.secret import SecretBytes
from kms.keys.wrapping.backend import SingleKek, WrappingBackend
from kms.keys.wrapping.backends import identify, open_backend
from kms.keys.wrapping.definitions import Definition
from kms.keys.wrapping.errors import not_at_hand

KnownKeks = Callable[[], tuple[KekRecord, ...]]
"""Reads which keys the database knows."""
OtherDefinitions = Callable[[], tuple[Definition, ...]]
"""Reads which keys the settings name beside the main one."""


class KekRing:
    """Wraps under the key that the database names, and unwraps under whichever the wrapped form names.

    Args:
        main: what the settings name first, open.
        known: reads what the database knows.
        others: reads what else the settings name.
        random: where nonces come from.

    Raises:
        ConfigurationError: ``kek-mismatch``: the main key is none that the database knows; or ``kek-retired``.
        UnavailableError: what holds it does not answer.
    """

    def __init__(
        self, main: WrappingBackend, *, known: KnownKeks, others: OtherDefinitions, random: RandomBytes
    ) -> None:
        self._known = known
        self._others = others
        self._random = random
        self._lock = threading.Lock()
        self._waiting: dict[Definition, WrappingBackend] = {}
        self._main = _main(main, known())
        self._opened = {self._main.id: self._main}

    @property
    def id(self) -> bytes:
        """The id of the key that wraps what is new, as the database says now."""
        for record in self._known():
            if record.wraps:
                return record.id
        raise ConfigurationError(
            "the database names no key-encryption key to wrap with", code="database-not-initialised", field="database"
        )

    @property
    def main_id(self) -> bytes:
        """The id of the key that the settings name first."""
        return self._main.id

    def wrap(self, secret: SecretBytes, *, context: WrapContext) -> Wrapped:
        """Encrypt a secret under the key that the database names now, and tie it to its context."""
        return self.named(self.id).wrap(secret, context=context)

    def unwrap(self, wrapped: Wrapped, *, context: WrapContext) -> SecretBytes:
        """Decrypt a secret under the key that its wrapped form names."""
        return self.named(wrapped.kek_id).unwrap(wrapped, context=context)

    def named(self, kek_id: bytes) -> SingleKek:
        """Return the key of an id.

        Raises:
            UnavailableError: ``kek-not-at-hand``: the settings do not say where it is; or what holds it does not
                answer.
        """
        found = self._opened.get(kek_id)
        return self._found(kek_id) if found is None else found

    def _found(self, kek_id: bytes) -> SingleKek:
        with self._lock:
            if kek_id not in self._opened:
                self._look_for(kek_id)
            found = self._opened.get(kek_id)
        if found is None:
            raise not_at_hand(kek_id, "none of those that the settings name")
        return found

    def _look_for(self, kek_id: bytes) -> None:
        """Try what the settings name; something that does not answer may be the one, and then says why it is not."""
        records = [record for record in self._known() if record.id == kek_id and record.state is not KekState.RETIRED]
        if not records:
            problem = f"the database knows no key-encryption key {kek_id.hex()[:16]} that may still be used"
            raise damaged(problem, code="kek-unknown", field="keks")
        problems: list[AttestError] = []
        for definition in self._others():
            try:
                kek = identify(self._backend(definition), records)
            except (ConfigurationError, UnavailableError) as exc:
                if definition.backend is records[0].backend:
                    problems.append(exc)
                continue
            if kek is not None:
                self._opened[kek.id] = kek
                return
        for problem in problems:
            # An unreachable back-end may hold the key: report it as unavailable, not as missing.
            if isinstance(problem, UnavailableError):
                raise problem
        if problems:
            raise not_at_hand(kek_id, "; ".join(problem.message for problem in problems)) from problems[0]

    def _backend(self, definition: Definition) -> WrappingBackend:
        if definition not in self._waiting:
            self._waiting[definition] = open_backend(definition, random=self._random)
        return self._waiting[definition]

    def close(self) -> None:
        """Let go of connections."""
        for backend in (self._main.backend, *self._waiting.values()):
            backend.close()


def _main(backend: WrappingBackend, records: Sequence[KekRecord]) -> SingleKek:
    kek = identify(backend, records)
    if kek is None:
        raise ConfigurationError(
            "this key-encryption key is not one that the database was made with",
            code="kek-mismatch",
            field="kek_file",
            got=backend.description,
            hint="name the one that 'kms init' made together with this database, or that replaced it",
        )
    if any(record.id == kek.id and record.state is KekState.RETIRED for record in records):
        raise ConfigurationError(
            f"the key-encryption key {kek.id.hex()[:16]} is retired",
            code="kek-retired",
            field="kek_file",
            got=backend.description,
            hint="name the key-encryption key that replaced it in the settings",
        )
    return kek
