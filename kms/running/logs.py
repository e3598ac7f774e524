"""Log output of the service on standard error: text, or one JSON document per line, without bodies and secrets."""

from __future__ import annotations

import logging
import re
from contextvars import ContextVar
from typing import Final, TextIO

from attest.json_log import JsonLines, log_to_stderr
from kms.config.model import LogFormat
from kms.domain.kek import RandomBytes

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_MADE_BYTES: Final = 16
_access = logging.getLogger("kms.access")
_report = logging.getLogger("kms")
_request: ContextVar[str | None] = ContextVar("kms_request", default=None)


def current_request() -> str | None:
    """Return the id of the current request, or None outside of a request."""
    return _request.get()


def request_id(given: str | None, *, random: RandomBytes) -> str:
    """Return the header ``X-Request-Id`` if it has 8 to 64 letters, digits, ``.``, ``_`` and ``-``, else a new id."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return random(_MADE_BYTES).hex()


def take_request_id(name: str) -> None:
    """Set the id of the current request of this task."""
    _request.set(name)


def access(*, method: str, path: str, status: int, seconds: float, client: str, trace_id: str | None = None) -> None:
    """Log a response."""
    fields = {
        "method": method,
        "path": path,
        "status": status,
        "seconds": round(seconds, 6),
        "client": client,
        "trace_id": trace_id,
    }
    _access.info('%s "%s %s" %d %.1f ms', client, method, path, status, seconds * 1000, extra=fields)


def report_to_log(line: str) -> None:
    """Log a message for the operator, at the level of its first word."""
    head, _, rest = line.partition(": ")
    levels = {"error": logging.ERROR, "warning": logging.WARNING}
    level = levels.get(head.lower())
    _report.log(level or logging.INFO, "%s", rest if level else line)


class _JsonLines(JsonLines):
    fields = ("request_id", "method", "path", "status", "seconds", "client", "trace_id")


class _Lines(logging.Formatter):
    """Formatter with one line per record, except for tracebacks, and the id of the request at the end."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the library's name
        request = current_request()
        line = super().formatMessage(record)
        return line if request is None else f"{line} [{request}]"


def _add_request_id(record: logging.LogRecord) -> bool:
    record.request_id = current_request()
    return True


def set_up_logs(form: LogFormat, *, stream: TextIO | None = None) -> None:
    """Send all log records to standard error, in one format."""
    formatter = _JsonLines() if form == "json" else _Lines(_TEXT)
    handler = log_to_stderr(formatter, level=logging.INFO, quiet=("httpx", "uvicorn.access"), stream=stream)
    handler.addFilter(_add_request_id)
