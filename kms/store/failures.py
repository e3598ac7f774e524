"""Failures of the database as errors of this service."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, MultipleResultsFound
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from attest.errors import AttestError, ConfigurationError
from kms.domain.errors import IntegrityError, UnavailableError
from kms.store import postgres, sqlite

UNREACHABLE = "store-unreachable"
FAILED = "store-failed"
_log = logging.getLogger("kms.store")


@contextmanager
def translated() -> Iterator[None]:
    """Translate the library's exceptions; the new ones contain neither statements nor values.

    Raises:
        UnavailableError: ``store-busy``, ``store-unreachable`` or ``store-failed``.
        IntegrityError: ``store-damaged``.
        ConfigurationError: ``database-not-initialised``.
    """
    try:
        yield
    except PoolTimeoutError as exc:
        raise busy() from exc
    except DBAPIError as exc:
        raise _failure(exc) from exc
    except MultipleResultsFound as exc:
        raise _damaged("several rows stand where one can be") from exc
    except UnicodeDecodeError as exc:
        # From a damaged page, SQLite quotes a name in its error that is no text, and Python cannot read the error.
        raise _damaged("a name in it is no text") from exc


def _failure(exc: DBAPIError) -> AttestError:
    if sqlite.is_busy(exc) or postgres.is_busy(exc):
        return busy()
    if sqlite.is_foreign(exc) or postgres.is_foreign(exc):
        return not_initialised()
    if postgres.is_unreachable(exc):
        return _unreachable(exc)
    if (problem := sqlite.damage(exc) or postgres.damage(exc)) is not None:
        return _damaged(problem)
    return UnavailableError(
        f"the database did not do what it was asked: {postgres.reason(exc) or exc.orig}",
        code=FAILED,
        hint="is the disk full, or the file system read-only?",
        retryable=True,
    )


def _damaged(problem: str) -> IntegrityError:
    shown = "".join(one if one.isprintable() else "?" for one in problem)[:200]
    return IntegrityError(
        f"the database is damaged: {shown}",
        code="store-damaged",
        field="database",
        hint="keep it as it is, and restore a backup",
    )


def _unreachable(exc: DBAPIError) -> UnavailableError:
    # The address of the server goes to the operator's log, not into the error for the workload.
    _log.warning("the database server does not answer: %s", " ".join(str(exc.orig).split())[:500])
    return UnavailableError(
        "the database server does not answer",
        code=UNREACHABLE,
        hint="is it running, and is the URL right? standard error says more",
        retryable=True,
    )


def unknown_outcome() -> UnavailableError:
    """Return the error for a connection that was lost during a commit of unknown outcome."""
    return UnavailableError(
        "the database server went away while it was writing, and may have written",
        code="store-outcome-unknown",
        hint="ask for a new challenge; this one may be used up",
        retryable=True,
    )


def not_initialised() -> ConfigurationError:
    """Return the error for a database of another program."""
    return ConfigurationError(
        "this is no database of this service",
        code="database-not-initialised",
        field="database",
        hint="'kms init' makes one; it does so in a file, or an empty PostgreSQL database, of its own; if it was one, "
        "it is damaged: restore a backup",
    )


def busy() -> UnavailableError:
    """Return the error for a lock that others held for too long."""
    return UnavailableError(
        "the database is in use by something else",
        code="store-busy",
        hint="try again in a moment; a backup or another program may hold it",
        retryable=True,
    )
