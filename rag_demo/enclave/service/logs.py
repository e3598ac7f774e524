"""The log of the service: one JSON document a line on standard error, without any content of users.

No content, no name of a document, no question, no token and no address can get here. A line is a fixed
text with a few fields; of an exception it has the class and the place, since its text may quote anything.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
import warnings
from typing import Final, TextIO

from attest import json_log

_QUIET: Final = ("httpx", "httpcore", "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
_OURS: Final = ("rag.", "attest.session")
_FRAMES: Final = 12
_MAX_FOREIGN: Final = 200
_QUOTING: Final = re.compile(r"""[\n<>(){}\[\]'"`=]""")
"""Characters after which a message may quote foreign text."""
_log = logging.getLogger("rag.enclave")


class JsonLines(json_log.JsonLines):
    """One document a line."""

    fields = ("code", "hint", "seconds", "state", "pages", "passages", "port")

    def message_of(self, record: logging.LogRecord) -> str:
        """Return the text of a record; of a library's record, the part that quotes nothing."""
        return record.getMessage() if record.name.startswith(_OURS) else _foreign(record)

    def exception_of(self, record: logging.LogRecord) -> object:
        """Return the kind of the exception and where it passed through."""
        error = record.exc_info[1] if record.exc_info else None
        return None if error is None else _places(error)


def _foreign(record: logging.LogRecord) -> str:
    """Return the beginning of a library's message, without its arguments: uvicorn's may contain a path.

    asyncio's description of a task, a future or a callback continues with their contents.
    """
    return _QUOTING.split(str(record.msg).strip(), maxsplit=1)[0].strip()[:_MAX_FOREIGN]


def _places(error: BaseException) -> list[str]:
    """Return the kind of an exception and where it passed through, without its text."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return [type(error).__name__, *(f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.name}" for one in frames)]


def set_up_logs() -> None:
    """Send all logging to standard error, and replace the interpreter's own messages there.

    The interpreter writes an uncaught exception, in any thread, and a warning with their text.
    """
    json_log.log_to_stderr(JsonLines(), level=logging.INFO, quiet=_QUIET)
    logging.raiseExceptions = False  # it would print the arguments of a message that fails to be written
    sys.excepthook = lambda _kind, error, _trace: _uncaught(error)
    threading.excepthook = lambda found: _uncaught(found.exc_value)
    sys.unraisablehook = lambda found: _uncaught(found.exc_value)
    warnings.showwarning = _warned


def _uncaught(error: BaseException | None) -> None:
    _log.error("an uncaught internal error", exc_info=error)


def _warned(  # noqa: PLR0917  as Python calls it
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del message, file, line  # they may quote anything
    _log.warning("%s at %s:%d", category.__name__, filename.rpartition("/")[2], lineno)
