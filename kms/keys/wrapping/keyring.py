"""Key-encryption keys of a database that the settings locate.

The database selects the wrapping key and the settings locate each key, so that write access to the database cannot
introduce a key. Keys are opened on first use, so that a new definition in the directory or a reinserted token is found.
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
"""Reads the records of the database."""
OtherDefinitions = Callable[[], tuple[Definition, ...]]
"""Reads the definitions of the settings besides the main one."""


class KekRing:
    """Key ring that wraps under the key named in the database, and unwraps under the one named in the wrapped form.

    ``main`` is the open back-end of the first key of the settings; ``random`` is the source of nonces.

    Raises:
        ConfigurationError: ``kek-mismatch``: the database has no record of the main key; or ``kek-retired``.
        UnavailableError: its back-end does not answer.
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
        """The id of the key that wraps new secrets, read from the database."""
        for record in self._known():
            if record.wraps:
                return record.id
        raise ConfigurationError(
            "the database has no active key-encryption key", code="database-not-initialised", field="database"
        )

    @property
    def main_id(self) -> bytes:
        """The id of the first key of the settings."""
        return self._main.id

    def wrap(self, secret: SecretBytes, *, context: WrapContext) -> Wrapped:
        """Encrypt a secret under the active key of the database, and bind it to its context."""
        return self.named(self.id).wrap(secret, context=context)

    def unwrap(self, wrapped: Wrapped, *, context: WrapContext) -> SecretBytes:
        """Decrypt a secret under the key named in its wrapped form."""
        return self.named(wrapped.kek_id).unwrap(wrapped, context=context)

    def named(self, kek_id: bytes) -> SingleKek:
        """Return the key of an id.

        Raises:
            UnavailableError: ``kek-not-at-hand``: the settings do not locate it; or its back-end is unavailable.
        """
        found = self._opened.get(kek_id)
        if found is None:
            with self._lock:
                found = self._opened.get(kek_id) or self._look_for(kek_id)
                self._opened[kek_id] = found
        return found

    def _look_for(self, kek_id: bytes) -> SingleKek:
        """Try every definition of the settings; the errors of unusable ones become the reason."""
        records = [record for record in self._known() if record.id == kek_id and record.state is not KekState.RETIRED]
        if not records:
            text = f"the database has no usable key-encryption key {kek_id.hex()[:16]}"
            raise damaged(text, code="kek-unknown", field="keks")
        problems: list[AttestError] = []
        for definition in self._others():
            try:
                kek = identify(self._backend(definition), records)
            except (ConfigurationError, UnavailableError) as exc:
                problems += [exc] if definition.backend is records[0].backend else []
                continue
            if kek is not None:
                return kek
        for problem in problems:
            # An unreachable back-end may hold the key: report it as unavailable, not as missing.
            if isinstance(problem, UnavailableError):
                raise problem
        reason = "; ".join(one.message for one in problems) or "it is not in the settings"
        raise not_at_hand(kek_id, reason) from next(iter(problems), None)

    def _backend(self, definition: Definition) -> WrappingBackend:
        if definition not in self._waiting:
            self._waiting[definition] = open_backend(definition, random=self._random)
        return self._waiting[definition]

    def close(self) -> None:
        """Close every connection."""
        for backend in (self._main.backend, *self._waiting.values()):
            backend.close()


def _main(backend: WrappingBackend, records: Sequence[KekRecord]) -> SingleKek:
    kek = identify(backend, records)
    if kek is None:
        raise ConfigurationError(
            "this key-encryption key does not belong to the database",
            code="kek-mismatch",
            field="kek_file",
            got=backend.description,
            hint="use the key that 'kms init' created with this database, or its successor",
        )
    if any(record.id == kek.id and record.state is KekState.RETIRED for record in records):
        raise ConfigurationError(
            f"the key-encryption key {kek.id.hex()[:16]} is retired",
            code="kek-retired",
            field="kek_file",
            got=backend.description,
            hint="name its successor in the settings",
        )
    return kek
