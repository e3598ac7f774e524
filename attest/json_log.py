"""The log of a process on standard error: one JSON document a line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import ClassVar, TextIO


class JsonLines(logging.Formatter):
    """Formatter of one document a line; a traceback is text in it, without the values of variables."""

    fields: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes of a record that its document has besides; absent ones are left out."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message_of(record),
        }
        for name in self.fields:
            if (value := getattr(record, name, None)) is not None:
                document[name] = value
        if (exception := self.exception_of(record)) is not None:
            document["exception"] = exception
        return json.dumps(document, ensure_ascii=True)

    def message_of(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return record.getMessage()

    def exception_of(self, record: logging.LogRecord) -> object:
        """Return the description of a record's exception, or None."""
        return self.formatException(record.exc_info) if record.exc_info else None


def log_to_stderr(
    formatter: logging.Formatter, *, level: int, quiet: tuple[str, ...], stream: TextIO | None = None
) -> logging.Handler:
    """Send all log records to standard error, in place of earlier handlers; return the handler.

    ``quiet`` names the loggers of libraries that write warnings and errors only.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)
    return handler
