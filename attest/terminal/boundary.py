"""The boundary of a command: every failure becomes an ``error:`` line, a ``hint:`` line and an exit code.

Exit codes: 0 verified or affirmed · 1 not affirmed · 2 usage · 3 malformed or unsupported evidence · 4 verification
failed · 5 endorsement missing or stale · 6 collection failed · 70 an internal error · 130 interrupted · 141 the
reader of the output went away.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress

import click

from attest.errors import AttestError
from attest.terminal.visible_text import visible
from attest_kms.extras import missing_extra

DEBUG_VARIABLE = "ATTEST_DEBUG"
"""Prints the traceback of a defect if set, and neither empty nor 0."""

EXIT_USAGE = 2
EXIT_DEFECT = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES})


class ReaderGoneError(Exception):
    """The reader of the output has gone. No ``OSError``: click would make exit 1 of that, which means not affirmed."""


def report_error(message: str, hint: str | None = None) -> None:
    """Print ``error:`` and, when there is one, ``hint:`` on standard error."""
    click.echo(f"error: {visible(message)}", err=True)
    if hint:
        click.echo(f"hint: {visible(hint)}", err=True)


def guarded(run: Callable[[], object]) -> int:
    """Run a command and turn its return value, an exit code or None for 0, or its exception into an exit code."""
    try:
        code = run()
        sys.stdout.flush()
    except (BrokenPipeError, ReaderGoneError):
        _silence_stdout()
        return EXIT_BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        click.echo("\ninterrupted", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as exc:
        _report_usage(exc)
        return EXIT_USAGE
    except AttestError as exc:
        report_error(exc.message, exc.hint)
        return exc.exit_code
    except Exception as exc:  # noqa: BLE001  the only place that may: a defect must not look like an outcome
        return _unexpected(exc)
    return code if isinstance(code, int) else 0


def _unexpected(exc: Exception) -> int:
    if missing := missing_extra(exc, command="attest"):
        report_error(*missing)
        return EXIT_USAGE
    if isinstance(exc, OSError) and exc.errno in _NO_ROOM:
        _silence_stdout()
        where = f" {exc.filename}" if exc.filename else ""
        report_error(f"cannot write{where}: {exc.strerror}")
        return EXIT_USAGE
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        import traceback

        traceback.print_exception(exc, file=sys.stderr)
    from attest import __version__

    report_error(
        f"attest {__version__} failed with an internal error: {type(exc).__name__}: {exc}"[:400],
        f"this is a bug in attest, not in your input: report it with the command line; "
        f"{DEBUG_VARIABLE}=1 prints the details",
    )
    return EXIT_DEFECT


def _report_usage(exc: click.ClickException) -> None:
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        exc.show()
    else:
        ctx = getattr(exc, "ctx", None)
        hint = None if ctx is None else f"'{ctx.command_path} --help' shows examples and every option"
        report_error(_one_line(exc.format_message()), hint)


def _one_line(message: str) -> str:
    """Write click's message the way ours read: lower case, no full stop."""
    text = " ".join(message.split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _silence_stdout() -> None:
    """Redirect the interpreter's last flush, which would fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
