"""The service's own output on standard error: lines for people, or one JSON document a line. No body, no secret."""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, TextIO

from kms.config.model import LogFormat
from kms.domain.kek import RandomBytes

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_MADE_BYTES: Final = 16
_FIELDS: Final = ("method", "path", "status", "seconds", "client", "trace_id")
_access = logging.getLogger("kms.access")
_report = logging.getLogger("kms")
_request: ContextVar[str | None] = ContextVar("kms_request", default=None)


def current_request() -> str | None:
    """Return the id of the request that is being answered, or None outside of one."""
    return _request.get()


def request_id(given: str | None, *, random: RandomBytes) -> str:
    """Return the header ``X-Request-Id`` where it has 8 to 64 letters, digits, ``.``, ``_`` and ``-``, or a new id."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return random(_MADE_BYTES).hex()


def take_request_id(name: str) -> None:
    """Set the id of the request that this task works on."""
    _request.set(name)


def access(*, method: str, path: str, status: int, seconds: float, client: str, trace_id: str | None = None) -> None:
    """Write a line about an answer."""
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
    """Write a line for the operator, at the level that its first word says."""
    head, _, rest = line.partition(": ")
    levels = {"error": logging.ERROR, "warning": logging.WARNING}
    level = levels.get(head.lower())
    _report.log(level or logging.INFO, "%s", rest if level else line)


class _JsonLines(logging.Formatter):
    """One document a line; a traceback is text in it, without the values of variables."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request := current_request()) is not None:
            document["request_id"] = request
        for name in _FIELDS:
            if (value := getattr(record, name, None)) is not None:
                document[name] = value
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=True)


class _Lines(logging.Formatter):
    """One line a record, save for tracebacks; the request's id at its end."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the library's name
        request = current_request()
        line = super().formatMessage(record)
        return line if request is None else f"{line} [{request}]"


def set_up_logs(form: LogFormat, *, stream: TextIO | None = None) -> None:
    """Let everything that is logged go to standard error, in one form."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _Lines(_TEXT))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
