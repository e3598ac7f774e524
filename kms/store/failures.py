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
        raise _damaged("there are several rows in place of one") from exc
    except UnicodeDecodeError as exc:
        # For a damaged page, SQLite quotes a name in its error that is not text, and Python cannot decode the error.
        raise _damaged("a name in it is not text") from exc


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
        f"the database failed: {postgres.reason(exc) or exc.orig}",
        code=FAILED,
        hint="check whether the disk is full or the file system is read-only",
        retryable=True,
    )


def _damaged(problem: str) -> IntegrityError:
    shown = "".join(one if one.isprintable() else "?" for one in problem)[:200]
    return IntegrityError(
        f"the database is damaged: {shown}",
        code="store-damaged",
        field="database",
        hint="preserve it, and restore a backup",
    )


def _unreachable(exc: DBAPIError) -> UnavailableError:
    # The address of the server is logged for the operator, and is not part of the error for the workload.
    _log.warning("the database server is unavailable: %s", " ".join(str(exc.orig).split())[:500])
    return UnavailableError(
        "the database server is unavailable",
        code=UNREACHABLE,
        hint="check that it is running and that the URL is correct; standard error has details",
        retryable=True,
    )


def unknown_outcome() -> UnavailableError:
    """Return the error for a connection that was lost during a commit of unknown outcome."""
    return UnavailableError(
        "the connection to the database was lost during a commit, whose outcome is unknown",
        code="store-outcome-unknown",
        hint="request a new challenge; this one may be used up",
        retryable=True,
    )


def not_initialised() -> ConfigurationError:
    """Return the error for a database of another program."""
    return ConfigurationError(
        "this is not a database of this service",
        code="database-not-initialised",
        field="database",
        hint="create one with 'kms init', in a new file or an empty PostgreSQL database; if it was one, it is damaged: "
        "restore a backup",
    )


def busy() -> UnavailableError:
    """Return the error for a lock that another program held for too long."""
    return UnavailableError(
        "the database is in use by another program",
        code="store-busy",
        hint="try again in a moment; a backup or another command may be using it",
        retryable=True,
    )
