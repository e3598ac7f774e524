"""Location of the database: a file, or a PostgreSQL server. A password is never part of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from attest.errors import ConfigurationError

_SQLITE_HEAD = "sqlite:///"
_POSTGRES = frozenset({"postgres", "postgresql"})
_DRIVER: Final = "postgresql+psycopg"
_PARAMETERS = frozenset(
    {
        "application_name",
        "channel_binding",
        "connect_timeout",
        "gssencmode",
        "host",
        "passfile",
        "port",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
    }
)
"""Parameters of libpq that the URL may have: none that carries a secret, and not ``options``, which could make commits
less durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access to a PostgreSQL server, besides its URL.

    Attributes:
        password_file: private file with the password; None leaves it to libpq's own password file.
        connections: most connections at a time, at least 1.
    """

    password_file: Path | None = None
    connections: int = 10


def locate(database: str) -> Path | URL:
    """Return the file of an SQLite database, or the URL of a PostgreSQL one, without a password.

    Raises:
        ConfigurationError: ``database-unsupported``, ``database-url-invalid`` or ``database-password-exposed``. The
            text never shows the URL.
    """
    head, mark, _ = database.partition("://")
    if not mark or database.startswith(_SQLITE_HEAD):
        return Path(database.removeprefix(_SQLITE_HEAD))
    if head not in _POSTGRES:
        raise _unsupported(head[:40])
    try:
        url = make_url(database)
    except (ArgumentError, ValueError):
        raise _invalid("it is malformed") from None  # the library's text may quote it
    _require_plain(url)
    return url.set(drivername=_DRIVER)


def _unsupported(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"the database must be SQLite or PostgreSQL, not {name!r}",
        code="database-unsupported",
        field="database",
        expected="a file, or postgresql:// with host and database",
        got=repr(name),
    )


def _require_plain(url: URL) -> None:
    """Refuse a secret, unknown parameters and repetitions."""
    if url.password is not None or "password" in url.query:
        raise ConfigurationError(
            "the URL of the database contains a password",
            code="database-password-exposed",
            field="database",
            expected="a URL without a password",
            hint="write it to a file of mode 0600 for database_password_file, or use libpq's password file; and change "
            "it, because it may have been exposed",
        )
    unknown = sorted(url.query.keys() - _PARAMETERS)
    if unknown:
        raise _invalid(f"there is no parameter {unknown[0][:40]!r}")
    if any(not isinstance(value, str) for value in url.query.values()) or (url.host and "host" in url.query):
        raise _invalid("it has a duplicate parameter")
    if not url.database:
        raise _invalid("it names no database")
    if not (url.host or url.query.get("host")):
        raise _invalid("it names no host")  # libpq would take one from the environment


def _invalid(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the URL of the database is not accepted: {problem}",
        code="database-url-invalid",
        field="database",
        expected="postgresql://USER@HOST:PORT/DATABASE, optionally with sslmode, sslrootcert, host or passfile",
        hint="a socket's directory is given as postgresql://USER@/DATABASE?host=/run/postgresql",
    )
