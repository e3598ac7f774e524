"""Repeated verification of the machine, so that a change is noticed between messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from attest.context_managers import ClosedOnExit
from attest.errors import AttestError
from rag_demo.client.answers import ServiceState
from rag_demo.client.client import RagClient


class Watch(ClosedOnExit):
    """Checks the machine in a thread of its own until the block ends.

    Args:
        seconds: between the end of one check and the beginning of the next.
        heard: called after each check with the service's state, or with the reason why it is not trusted.
    """

    def __init__(
        self, client: RagClient, *, seconds: float, heard: Callable[[ServiceState | AttestError], object]
    ) -> None:
        self._client = client
        self._seconds = seconds
        self._heard = heard
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rag-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """End; a check under way ends with the connections."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                found: ServiceState | AttestError = self._client.check()
            except AttestError as exc:
                found = exc
            if not self._over.is_set():
                self._heard(found)
