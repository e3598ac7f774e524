"""A damaged file of SQLite: every command and every answer says so, with a code of the documentation."""

import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest.errors import AttestError
from kms.api.app import create_app
from tests.kms.support import Harness, Workload
from tests.kms.test_cli import Shell

PAGE = 4096
COMMANDS = (
    ("key", "list"),
    ("key", "show", "model"),
    ("key", "disable", "model"),
    ("log", "verify"),
    ("log", "list"),
    ("freeze", "list"),
    ("freeze", "key", "model", "--reason", "x"),
    ("tenant", "list"),
    ("releases", "list"),
    ("quorum", "show"),
    ("kek", "status"),
    ("config", "check"),
    ("migrate",),
)


def altered(data: bytes, kind: str, seed: int) -> bytes:
    """Damage a file as disks, cables and people do."""
    chance, changed = random.Random(seed), bytearray(data)
    page = chance.randrange(len(data) // PAGE) * PAGE
    if kind == "flip":
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "flips":
        for _ in range(50):
            changed[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    elif kind == "head":
        for offset in range(8):
            changed[page + (100 if page == 0 else 0) + offset] = chance.randrange(256)
    elif kind == "cut":
        del changed[chance.randrange(len(data)) :]
    else:
        changed[page : page + PAGE] = bytes(PAGE) if kind == "zero" else chance.randbytes(PAGE)
    return bytes(changed)


DAMAGE = st.tuples(st.sampled_from(["flip", "flips", "head", "cut", "zero", "random"]), st.integers(0, 2**32))


class _Pages(bytes):
    """A file of a database, which is too long to be shown."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


def whole(database: Path) -> bytes:
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return _Pages(database.read_bytes())


def put(database: Path, data: bytes) -> None:
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    database.write_bytes(data)


@pytest.fixture
def filled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[Shell, Path, bytes]:
    for name in ("KMS_CONFIG", "KMS_DATABASE", "KMS_ORIGIN"):
        monkeypatch.delenv(name, raising=False)
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell.init()
    for key_id in ("model", "other"):
        shell.add_key(key_id)
    database = shell.config.parent / "kms.db"
    return shell, database, whole(database)


def require_said(shell: Shell, *arguments: str) -> object:
    """Require that a command ends as documented, and return its exit code."""
    code, out, err = shell.tried(*arguments, "--config", str(shell.config))
    assert code in {0, 1, 2}, (arguments, err)
    assert "internal error" not in err
    assert "Traceback" not in out + err
    if code:
        (line,) = (line for line in err.splitlines() if line.startswith("error: "))
        assert re.search(r"\[[a-z0-9-]+\]$", line), err
        assert line.isprintable()
    return code


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(damage=DAMAGE, command=st.sampled_from(COMMANDS))
def test_whatever_byte_is_damaged_a_command_says_so_and_ends_as_documented(
    filled: tuple[Shell, Path, bytes], damage: tuple[str, int], command: tuple[str, ...]
) -> None:
    shell, database, good = filled
    for arguments in (("fsck",), command):
        put(database, altered(good, *damage))
        require_said(shell, *arguments)


def test_a_schema_that_is_no_text_is_damage_and_no_defect(filled: tuple[Shell, Path, bytes]) -> None:
    shell, database, good = filled
    put(database, good.replace(b"CREATE TRIGGER log_entries_no_", b"CREATE TRIGG\xa7R log_entries_no_"))
    for command in (("fsck",), *COMMANDS):
        assert require_said(shell, *command) == 1
        _, out, err = shell.tried(*command, "--config", str(shell.config))
        assert "store-damaged" in out + err


def root_page(database: Path, table: str) -> int:
    with closing(sqlite3.connect(database)) as opened:
        (page,) = opened.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(page)


@pytest.mark.parametrize(
    ("table", "check"),
    [("policies", "policies"), ("log_entries", "log"), ("tenants", "replay")],
)
def test_fsck_names_the_damaged_part_and_goes_on_behind_it(
    filled: tuple[Shell, Path, bytes], table: str, check: str
) -> None:
    shell, database, good = filled
    begin = (root_page(database, table) - 1) * PAGE
    put(database, good[:begin] + b"\xff" * PAGE + good[begin + PAGE :])
    code, out, err = shell.tried("fsck", "--config", str(shell.config))
    assert (code, "[store-unsound]" in err) == (1, True), err
    found = {line.split()[0]: line.split()[1] for line in out.splitlines() if not line.startswith(" ")}
    assert (found["storage"], found[check], found["schema"]) == ("FAILED", "FAILED", "ok")
    assert "break-glass" in found, "it goes on behind what is damaged"
    assert "[store-damaged]" in out


REQUESTS: tuple[Callable[[TestClient], object], ...] = (
    lambda client: client.get("/readyz"),
    lambda client: client.get("/v1/identity"),
    lambda client: client.get("/v1/log/checkpoint"),
    lambda client: client.get("/v1/log/proof/inclusion?size=1&leaf=00"),
    lambda client: client.get("/v1/prompt-keys"),
    lambda client: client.post("/v1/challenges"),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(damage=DAMAGE)
def test_a_service_on_a_damaged_file_answers_with_problem_details(harness: Harness, damage: tuple[str, int]) -> None:
    database = Path(harness.settings.database)
    if not harness.entries() or "model" not in str(harness.entries()):
        harness.add_key("model")
    good = whole(database)
    harness.close()
    put(database, altered(good, *damage))
    try:
        _require_answers(harness)
    finally:
        put(database, good)


def _require_answers(harness: Harness) -> None:
    try:
        opened = harness.reopened()
    except AttestError:
        return  # as a start of 'kms serve' refuses it
    try:
        with TestClient(create_app(opened.settings, opened.services)) as client:
            for request in REQUESTS:
                answer = request(client)
                assert answer.status_code < 500 or answer.json()["code"] != "internal-error"  # type: ignore[attr-defined]
            with suppress(AttestError):
                opened.releases.release(Workload().request(opened.releases.challenge(), "model"))
    finally:
        opened.close()
