"""The keys that the agent holds: asked for once, told of when they are lost, and not asked for again at once then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from attest.errors import AttestError, LeaseLostError
from attest.release.names import KeyReference
from attest.session.key import SessionKey

__all__ = ["RETRY_SECONDS", "AgentKeys", "KeyHolder"]

RETRY_SECONDS: Final = 15.0
"""After a refusal or a loss nobody asks the service again for so long, however many containers ask the agent."""


class KeyHolder(Protocol):
    """Where keys come from; an ``attest.Session`` is one."""

    def key(self, name: str, /) -> SessionKey:
        """Return a key that may be used now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """Why there is no key, and until when that is the answer."""

    error: AttestError
    until: float


class AgentKeys:
    """Keys by their references, for any number of threads.

    Args:
        holder: the session.
        ticks: seconds that never run backwards.
    """

    def __init__(self, holder: KeyHolder, *, ticks: Callable[[], float]) -> None:
        """Hold nothing."""
        self._holder = holder
        self._ticks = ticks
        self._lock = threading.Lock()
        self._turns: dict[KeyReference, threading.Lock] = {}
        self._failures: dict[KeyReference, _Failure] = {}
        self._found: dict[KeyReference, SessionKey] = {}

    def get(self, reference: KeyReference) -> SessionKey:
        """Return a key that may be used now: held, or released for this.

        Raises:
            LeaseLostError: it was lost a moment ago.
            AttestError: as ``Session.key``, now or a moment ago.
        """
        held = self._valid(reference)
        if held is not None:
            return held
        with self._lock:
            turn = self._turns.setdefault(reference, threading.Lock())
        with turn:  # whoever waits here finds what the first one got, be it an error
            held = self._valid(reference)
            if held is not None:
                return held
            self._require_patience(reference)
            return self._asked(reference)

    def _valid(self, reference: KeyReference) -> SessionKey | None:
        with self._lock:
            found = self._found.get(reference)
        return found if found is not None and found.valid else None

    def _require_patience(self, reference: KeyReference) -> None:
        with self._lock:
            failure = self._failures.get(reference)
        if failure is not None and self._ticks() < failure.until:
            raise failure.error

    def _asked(self, reference: KeyReference) -> SessionKey:
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
        """Note that a key may be used no more."""
        with self._lock:
            if self._found.get(key.reference) is key:
                del self._found[key.reference]
        self._note(key.reference, error)

    def _note(self, reference: KeyReference, error: AttestError) -> None:
        with self._lock:
            self._failures[reference] = _Failure(error=error, until=self._ticks() + RETRY_SECONDS)

    def seconds_until_retry(self, reference: KeyReference) -> float:
        """Return after how many seconds the service is asked for a key again that there is not now."""
        with self._lock:
            failure = self._failures.get(reference)
        return 0.0 if failure is None else max(0.0, failure.until - self._ticks())

    def is_held(self, reference: KeyReference) -> bool:
        """Say whether a key may be used now, without asking anybody."""
        return self._valid(reference) is not None
