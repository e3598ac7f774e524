"""The keys that the agent holds: each obtained once, with a pause after every refusal or loss."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from attest.errors import AttestError, LeaseLostError
from attest.release.names import KeyReference
from attest.session.key import SessionKey

RETRY_SECONDS: Final = 15.0
"""Pause after a refusal or loss before the next request to the service, for all containers together."""


class KeyHolder(Protocol):
    """A source of keys, such as ``attest.Session``."""

    def key(self, name: str, /) -> SessionKey:
        """Return a currently usable key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """An error with the end of its validity."""

    error: AttestError
    until: float


class AgentKeys:
    """Keys of a session by their references; thread-safe. ``ticks`` returns seconds that never run backwards."""

    def __init__(self, holder: KeyHolder, *, ticks: Callable[[], float]) -> None:
        self._holder = holder
        self._ticks = ticks
        self._lock = threading.Lock()
        self._turns: dict[KeyReference, threading.Lock] = {}
        self._failures: dict[KeyReference, _Failure] = {}
        self._found: dict[KeyReference, SessionKey] = {}

    def get(self, reference: KeyReference) -> SessionKey:
        """Return a currently usable key, held already or released by this call.

        Raises:
            LeaseLostError: lost within the pause.
            AttestError: as ``Session.key``, from this call or within the pause.
        """
        held = self._valid(reference)
        if held is not None:
            return held
        with self._lock:
            turn = self._turns.setdefault(reference, threading.Lock())
        with turn:  # waiting threads share the outcome of the first, be it an error
            held = self._valid(reference)
            if held is not None:
                return held
            self._require_patience(reference)
            return self._request(reference)

    def copied(self, reference: KeyReference) -> tuple[SessionKey, bytearray]:
        """Return a currently usable key and a copy of its bytes; errors as ``get``."""
        found = self.get(reference)
        material = bytearray(found.material)
        found.require()  # checked after the copy: a lease lost meanwhile means an overwritten key
        return found, material

    def _valid(self, reference: KeyReference) -> SessionKey | None:
        with self._lock:
            found = self._found.get(reference)
        return found if found is not None and found.valid else None

    def _require_patience(self, reference: KeyReference) -> None:
        with self._lock:
            failure = self._failures.get(reference)
        if failure is not None and self._ticks() < failure.until:
            raise failure.error

    def _request(self, reference: KeyReference) -> SessionKey:
        try:
            found = self._holder.key(str(reference))
            found.require()
        except AttestError as exc:
            self._note(reference, exc)
            raise
        with self._lock:
            self._failures.pop(reference, None)
            self._found[reference] = found
        return found

    def lost(self, key: SessionKey, error: LeaseLostError) -> None:
        """Mark a key as no longer usable."""
        with self._lock:
            if self._found.get(key.reference) is key:
                del self._found[key.reference]
        self._note(key.reference, error)

    def _note(self, reference: KeyReference, error: AttestError) -> None:
        with self._lock:
            self._failures[reference] = _Failure(error=error, until=self._ticks() + RETRY_SECONDS)

    def seconds_until_retry(self, reference: KeyReference) -> float:
        """Return the seconds until the next request to the service for a key that is missing."""
        with self._lock:
            failure = self._failures.get(reference)
        return 0.0 if failure is None else max(0.0, failure.until - self._ticks())

    def is_held(self, reference: KeyReference) -> bool:
        """Return whether a key is usable, without a request."""
        return self._valid(reference) is not None
