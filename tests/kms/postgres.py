"""A real PostgreSQL for the tests: one server, reached over a socket in its own directory, and a database for each."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pwd import getpwnam
from typing import Any

import pytest

USER = "kms"
WITH_PASSWORD = "keeper"
PASSWORD = "a password of this test"
_RULES = f"local all {WITH_PASSWORD} scram-sha-256\nlocal all {USER} trust\n"
_LOOSE = ("fsync=off", "full_page_writes=off")
"""Nothing here outlives the machine; what is tested of durability is that of commits, and that is set by the client."""
_OPTIONS = (
    "listen_addresses=",
    "max_connections=60",
    "shared_buffers=16MB",
    "autovacuum=off",
    "log_min_messages=error",
)


def find_programs() -> Path | None:
    """Return the folder with the newest server's programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def missing() -> str | None:
    """Say what is missing for these tests, or None."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed (extra `postgres`)"
    if find_programs() is None:
        return "there is no PostgreSQL server (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "a PostgreSQL server does not run as root, and setpriv is missing"
    return None


def name_in(url: str) -> str:
    """Return the name of the database that a URL of `Server.url` names."""
    return url.partition("@/")[2].partition("?")[0]


@dataclass
class Server:
    """One server, run by a user without rights."""

    folder: Path
    programs: Path
    owner: str = USER
    rules: str = _RULES
    made: set[str] = field(default_factory=set)

    def start(self) -> None:
        options = [part for option in (*_OPTIONS, *_LOOSE) for part in ("-c", option)]
        options += ["-k", str(self.folder)]
        self._run("pg_ctl", "start", "-w", "-s", "-l", str(self.folder / "log"), "-o", " ".join(options))

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "stop", "-w", "-s", "-m", mode)

    def make(self) -> None:
        self._run("initdb", "-U", self.owner, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
        (self.folder / "data" / "pg_hba.conf").write_text(self.rules, encoding="utf-8")

    def url(self, database: str, user: str = USER) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def fresh(self, name: str = "tests") -> str:
        """Empty a database, which is ten times quicker than to make one, and return its URL."""
        if name not in self.made:
            with self.connected() as connection:
                connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
            self.made.add(name)
        self.cut(self.url(name))
        with self.connected(self.url(name)) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return self.url(name)

    def copied(self, template: str, name: str = "tests") -> str:
        """Replace a database with a copy of another one, to which nothing is connected, and return its URL."""
        with self.connected() as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (template,))
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        self.made.add(name)
        return self.url(name)

    @contextmanager
    def connected(self, url: str = "") -> Iterator[Any]:  # a connection of psycopg, which need not be installed
        import psycopg

        connection = psycopg.connect(url or self.url("postgres"), autocommit=True)
        try:
            yield connection
        finally:
            connection.close()

    def cut(self, url: str) -> int:
        """End every connection to a database; return how many there were."""
        database = name_in(url)
        ask = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
        with self.connected() as connection:
            row = connection.execute(ask, (database,)).fetchone()
        assert row is not None
        return int(row[0])

    def _run(self, program: str, *arguments: str) -> None:
        as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [*as_nobody, str(self.programs / program), "-D", str(self.folder / "data"), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (program, done.stderr.decode(errors="replace"))


@contextmanager
def running_server(owner: str = USER, rules: str = _RULES) -> Iterator[Server]:
    """Start a server of this machine's programs in a new directory of a short name, and take both away in the end.

    Args:
        owner: the role that may do everything.
        rules: pg_hba.conf.
    """
    reason = missing()
    if reason is not None:
        if os.environ.get("ATTEST_REQUIRE_POSTGRES") == "1":
            pytest.fail(f"ATTEST_REQUIRE_POSTGRES=1, but {reason}")
        pytest.skip(reason)
    programs = find_programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if os.geteuid() == 0:
            nobody = getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        server = Server(folder=folder, programs=programs, owner=owner, rules=rules)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
