"""HTTP/1.1 as uvicorn speaks it, without the patience for a request whose head never ends."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_SECONDS", "PatientProtocol"]

HEAD_SECONDS: Final = 10.0
"""From the connection, or from the first byte of a later request, until its head is there."""


class PatientProtocol(H11Protocol):
    """Close a connection whose request line and headers do not arrive in time; bodies have their own limit."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and see whether they complete a head."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or self.timeout_keep_alive_task is not None:
            self._stop_expecting()
        elif self._deadline is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_expecting()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
