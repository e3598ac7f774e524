"""The agent's log: one JSON document a line on standard error, without bodies, keys or header fields."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, TextIO

from attest.agent.answers import AgentAnswer, AgentRequest
from attest.agent.peers import Peer
from attest.json_log import JsonLines, log_to_stderr

MAX_TARGET: Final = 300
_log = logging.getLogger("attest.agent")


def log_exchange(
    peer: Peer,
    request: AgentRequest | None,
    answer: AgentAnswer,
    *,
    sent: int = 0,
    seconds: float = 0.0,
    whole: bool = True,
) -> None:
    """Log a request, None for an unparsable one, with the sent bytes of its answer's body and its duration."""
    extra = {
        "uid": peer.uid,
        "gid": peer.gid,
        "pid": peer.pid,
        "method": request.method[:20] if request is not None else "",
        "target": request.target[:MAX_TARGET] if request is not None else "",
        "status": int(answer.status),
        "bytes": None if answer.hides_size else sent,
        "seconds": round(seconds, 6),
        "code": answer.code,
        "outcome": "sent" if whole else "broken off",
    }
    level = logging.INFO if whole and answer.code is None else logging.WARNING
    _log.log(level, "request", extra=extra)


class RateLimitedLog:
    """A limiter of repeated messages, ``times`` in a period of ``seconds``, so that a peer cannot fill a disk."""

    def __init__(self, ticks: Callable[[], float], *, times: int = 10, seconds: float = 10.0) -> None:
        self._ticks = ticks
        self._times = times
        self._seconds = seconds
        self._lock = threading.Lock()
        self._since = ticks()
        self._count = 0

    def admits(self) -> int:
        """Return the number of messages that the next one stands for, itself included; 0 suppresses it."""
        with self._lock:
            now = self._ticks()
            kept_back = 0
            if now - self._since >= self._seconds:
                kept_back, self._since, self._count = max(0, self._count - self._times), now, 0
            self._count += 1
            return 1 + kept_back if self._count <= self._times else 0


class _JsonLines(JsonLines):
    fields = ("uid", "gid", "pid", "method", "target", "status", "bytes", "seconds", "code", "outcome", "times")


def set_up_logs(*, level: int, stream: TextIO | None = None) -> None:
    """Send all log records to standard error."""
    log_to_stderr(_JsonLines(), level=level, quiet=("httpx", "httpcore"), stream=stream)
