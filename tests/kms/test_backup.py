"""Backups: of one moment, restored whole into either database or not at all."""

import io
import json
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import Table

from attest.encoding import base64url_text
from attest.errors import AttestError, ConfigurationError
from kms.config.settings import Settings
from kms.domain.errors import ChallengeExpiredError, IntegrityError, LogBrokenError, UnavailableError
from kms.domain.log_tree import Frontier, node_position
from kms.domain.log_verification import LogState, parse_noted, verify_log
from kms.keys.admin import set_enabled
from kms.operations.backup import RESTORED, back_up, restore
from kms.operations.continuity import RESTORED_AT, NotedElsewhere
from kms.operations.services import initialise, open_services
from kms.store.backup import BackupSummary, check_backup, write_backup
from kms.store.schema import metadata
from kms.store.state import state_nodes, state_root
from tests.kms.postgres import Server
from tests.kms.references import ALICE, by_signers, given, images, naming
from tests.kms.support import ACTOR, AT, MATERIAL, MODEL, FakeRandom, Harness, Workload, open_release, settings_for


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def filled(harness: Harness) -> Harness:
    harness.add_key("model")
    harness.add_key("other", policy=naming(by_signers(ALICE)), references=(given(images(), ALICE),))
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    return harness


def made(harness: Harness, name: str = "backup") -> tuple[Path, BackupSummary]:
    path = harness.folder / name
    return path, back_up(harness.services.store, path, origin=harness.settings.origin, at=harness.clock())


def elsewhere(harness: Harness, database: str | None = None) -> Settings:
    """Another machine, with a rollback guard that remembers nothing yet."""
    database = database or str(harness.folder / "restored.db")
    guard = harness.folder / "guard" / f"{sha256(database.encode()).hexdigest()}.json"
    return harness.settings.model_copy(update={"database": database, "rollback_guard": (f"file:{guard}",)})


def restored(harness: Harness, path: Path, settings: Settings, **more: object) -> Harness:
    noted = more.pop("noted", ())
    if not isinstance(noted, NotedElsewhere):
        noted = NotedElsewhere(noted=noted)  # type: ignore[arg-type]  # what the test says
    options = {"noted": noted, "random": FakeRandom(), "actor": ACTOR, "at": harness.clock(), "dry_run": False} | more
    restore(settings, path, **options)  # type: ignore[arg-type]
    services = open_services(settings, clock=harness.clock, random=FakeRandom("restored"))
    return replace(harness, settings=settings, services=services)


def compared() -> list[Table]:
    return [table for table in metadata.sorted_tables if table not in {state_nodes, state_root}]


def rows(harness: Harness) -> dict[str, list[tuple[object, ...]]]:
    """Every row but what the restoration itself writes, and what authenticates all rows."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for table in compared():
        columns = ", ".join(column.name for column in table.columns)
        found[table.name] = sorted(harness.alter(f"SELECT {columns} FROM {table.name}"), key=repr)  # noqa: S608
    found["meta"] = [row for row in found["meta"] if row[0] != "restored_at"]
    found["log_entries"] = [row for row in found["log_entries"] if '"kind":"restored"' not in repr(row)]
    before = Frontier()
    places = {node_position(node) for _ in found["log_entries"] for node, _ in before.add(bytes(32))}
    found["log_nodes"] = [row for row in found["log_nodes"] if row[0] in places]
    return found


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_a_backup_of_either_database_is_restored_into_either(
    harness: Harness, target: str, request: pytest.FixtureRequest
) -> None:
    path, summary = made(filled(harness))
    before = rows(harness)
    database = None if target == "sqlite" else request.getfixturevalue("postgres").fresh("second")
    again = restored(harness, path, elsewhere(harness, database), noted=[parse_noted(summary.head)])
    if harness.on_postgres == again.on_postgres:
        assert rows(again) == before
    numbers = {table.name: summary.rows[table.name] for table in compared()}
    assert {name: len(found) for name, found in rows(again).items()} == numbers
    with again.services.store.reading() as tx:
        verify_log(tx.log, noted=[parse_noted(summary.head)])
    last = again.entries()[-1]
    assert (last["kind"], last["backup_head"], last["backup_sha256"]) == (
        RESTORED,
        summary.head,
        summary.digest.hex(),
    )
    challenge = again.releases.challenge()
    workload_request = Workload().request(challenge, "model", "other")
    release = again.releases.release(workload_request)
    opened = open_release(Workload(), challenge, workload_request, release, again)
    assert opened == {"model": MATERIAL, "other": MATERIAL}
    # What the database numbers goes on behind what is there.
    again.add_key("third", policy=naming(by_signers(ALICE), name="third"), references=(given(images(2), ALICE),))
    again.close()


def test_mc_33_a_backup_is_private_and_holds_no_key_in_the_clear(harness: Harness) -> None:
    path, _ = made(filled(harness))
    assert path.stat().st_mode & 0o777 == 0o600
    content = path.read_bytes()
    kek = (harness.folder / "kek").read_text(encoding="ascii").split()[1]
    for secret in (MATERIAL, base64url_text(MATERIAL).encode(), MATERIAL.hex().encode(), kek.encode()):
        assert secret not in content


def test_a_backup_is_of_one_moment(harness: Harness) -> None:
    filled(harness)
    path = harness.folder / "backup"
    with harness.services.store.reading() as tx:
        head = tx.log.head()
        harness.add_key("later")
        assert tx.log.head() == head
    summary = back_up(harness.services.store, path, origin=harness.settings.origin, at=harness.clock())
    assert summary.rows["keys"] == 3
    assert check_backup(io.BytesIO(path.read_bytes())) == summary


def test_mc_36_challenges_from_before_a_restoration_are_refused_used_or_not(harness: Harness) -> None:
    path, _ = made(filled(harness))
    used, unused = harness.releases.challenge(), harness.releases.challenge()
    harness.releases.release(Workload().request(used, "model"))
    harness.clock.forward(seconds=1)
    again = restored(harness, path, elsewhere(harness))
    for challenge in (used, unused):
        with pytest.raises(ChallengeExpiredError) as caught:
            again.releases.release(Workload().request(challenge, "model"))
        assert caught.value.code == "challenge-expired"
    again.releases.release(Workload().request(again.releases.challenge(), "model"))
    # A backup of what was restored is restored in its turn, and its own moment counts then.
    harness.clock.forward(seconds=1)
    between = again.releases.challenge()
    second, _ = made(again, "second")
    harness.clock.forward(seconds=1)
    third = restored(again, second, again.settings.model_copy(update={"database": str(harness.folder / "third.db")}))
    with pytest.raises(ChallengeExpiredError):
        third.releases.release(Workload().request(between, "model"))
    again.close()
    third.close()


def test_a_moment_of_restoration_that_was_altered_is_damage(harness: Harness) -> None:
    with harness.services.store.writing() as tx:
        tx.facts.put(RESTORED_AT, b"yesterday")
    with pytest.raises(IntegrityError) as caught:
        harness.reopened()
    assert caught.value.code == "store-fact-invalid"


# -- what is refused


def test_mc_31_nothing_is_overwritten(harness: Harness) -> None:
    path, _ = made(filled(harness))
    with pytest.raises(ConfigurationError) as caught:
        made(harness)
    assert caught.value.code == "backup-exists"
    before = rows(harness)
    with pytest.raises(ConfigurationError) as caught:
        restore(harness.settings, path, noted=NotedElsewhere(), random=FakeRandom(), actor=ACTOR, at=AT, dry_run=False)
    assert caught.value.code == "database-exists"
    assert rows(harness) == before


def test_a_dry_run_tries_everything_and_keeps_nothing(harness: Harness, postgres: Server) -> None:
    path, summary = made(filled(harness))
    for database in (None, postgres.fresh("second")):
        settings = elsewhere(harness, database)
        assert (
            restore(settings, path, noted=NotedElsewhere(), random=FakeRandom(), actor=ACTOR, at=AT, dry_run=True)
            == summary
        )
        assert database is not None or not (harness.folder / "restored.db").exists()
        with pytest.raises(LogBrokenError):
            restore(
                settings,
                path,
                noted=NotedElsewhere(noted=[LogState(size=9, root=bytes(32))]),
                random=FakeRandom(),
                actor=ACTOR,
                at=AT,
                dry_run=True,
            )
        restored(harness, path, settings).close()


def test_the_backup_of_another_service_is_refused(harness: Harness) -> None:
    path, _ = made(harness)
    other = elsewhere(harness).model_copy(update={"origin": "kms.test/other"})
    with pytest.raises(ConfigurationError) as caught:
        restore(other, path, noted=NotedElsewhere(), random=FakeRandom(), actor=ACTOR, at=AT, dry_run=False)
    assert caught.value.code == "origin-mismatch"


def test_mc_36_a_backup_without_what_was_noted_elsewhere_is_refused(harness: Harness) -> None:
    path, _ = made(filled(harness))
    set_enabled(harness.services.store, MODEL, enabled=False, actor=ACTOR, at=harness.clock())
    with harness.services.store.reading() as tx:
        state = verify_log(tx.log)
    with pytest.raises(LogBrokenError) as caught:
        restored(harness, path, elsewhere(harness), noted=[state])
    assert caught.value.code == "log-rolled-back"
    assert not (harness.folder / "restored.db").exists()


def test_a_backup_whose_log_went_another_way_is_refused(harness: Harness) -> None:
    path, summary = made(filled(harness))
    other = LogState(size=summary.rows["log_entries"], root=bytes(32))
    with pytest.raises(LogBrokenError) as caught:
        restored(harness, path, elsewhere(harness), noted=[other])
    assert caught.value.code == "log-forked"
    assert not (harness.folder / "restored.db").exists()


def test_a_log_without_its_tree_is_not_backed_up(harness: Harness) -> None:
    filled(harness).unprotect("log_nodes")
    harness.alter("DELETE FROM log_nodes")
    with pytest.raises(LogBrokenError) as caught:
        made(harness)
    assert caught.value.code == "log-tree-broken"
    assert not (harness.folder / "backup").exists()


def test_a_clock_before_the_backups_log_is_refused(harness: Harness) -> None:
    path, _ = made(filled(harness))
    harness.clock.forward(days=-1)
    with pytest.raises(UnavailableError) as caught:
        restored(harness, path, elsewhere(harness))
    assert caught.value.code == "clock-went-back"


def test_what_cannot_be_read_or_written_is_an_error_that_says_so(harness: Harness) -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(harness, "no/folder")
    assert caught.value.code == "backup-unusable"
    for none in (harness.folder, harness.folder / "none"):
        with pytest.raises(ConfigurationError) as caught:
            restore(
                elsewhere(harness), none, noted=NotedElsewhere(), random=FakeRandom(), actor=ACTOR, at=AT, dry_run=False
            )
        assert caught.value.code == "backup-unusable"


# -- files that are no whole backup; one database suffices for these


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], Settings]:
    harness = filled(Harness.make(tmp_path_factory.mktemp("lines")))
    path, _ = made(harness)
    harness.close()
    return path.read_bytes().splitlines(keepends=True), harness.settings


def sealed(content: list[bytes], *, mac: bytes = bytes(32), **changes: object) -> bytes:
    """Put a last line behind these that fits them, as somebody would who alters a backup without its key."""
    counts = Counter(str(json.loads(line)[0]) for line in content[1:] if line.startswith(b"["))
    rows = {name: counts[name] for name in metadata.tables}
    body = b"".join(content) + json.dumps({"head": "1:" + "00" * 32, "rows": rows} | changes).encode() + b"\n"
    return body + json.dumps({"sha256": sha256(body).hexdigest(), "mac": mac.hex()}).encode() + b"\n"


def test_damage_anywhere_is_found_before_anything_is_written(lines: tuple[list[bytes], Settings]) -> None:
    whole = b"".join(lines[0])
    check_backup(io.BytesIO(whole))
    code = whole.rindex(b'"mac":"') + len(b'"mac":"')  # which only a restoration can compare: it has the key
    for place in sorted({*range(0, len(whole), 97), code - 1, code + 64} - set(range(code, code + 64))):
        flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        for damaged in (whole[:place], flipped):
            with pytest.raises(ConfigurationError) as caught:
                check_backup(io.BytesIO(damaged))
            assert caught.value.code in {"backup-invalid", "backup-other-schema"}
    for damaged in (whole + b"\n", whole + lines[0][-1], whole + b"x", b"".join(lines[0][1:]), b"\xff\n"):
        with pytest.raises(ConfigurationError):
            check_backup(io.BytesIO(damaged))


@pytest.mark.parametrize(
    "row",
    [
        ["nothing", {}],
        ["meta", {"name": "a"}],
        ["meta", {"name": "a", "value": "AA", "more": 1}],
        ["meta", {"name": 1, "value": "AA"}],
        ["meta", {"name": None, "value": "AA"}],
        ["meta", {"name": "a", "value": "A"}],
        ["meta", {"name": "a", "value": [1]}],
        ["used_nonces", {"digest": "AA", "expires_at": True}],
        ["used_nonces", {"digest": "AA", "expires_at": "1"}],
        ["meta"],
        "meta",
        {"meta": 1},
        [["meta"], {}],
    ],
)
def test_a_row_that_fits_no_table_is_refused(lines: tuple[list[bytes], Settings], row: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_backup(io.BytesIO(sealed([lines[0][0], json.dumps(row).encode() + b"\n"])))
    assert caught.value.code == "backup-invalid"


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ({"schema": "kms.backup/2"}, "backup-invalid"),
        ({"revision": "9999"}, "backup-other-schema"),
        ({"revision": 1}, "backup-other-schema"),
        ({"more": 1}, "backup-invalid"),
    ],
)
def test_another_first_line_is_refused(lines: tuple[list[bytes], Settings], head: dict[str, object], code: str) -> None:
    first = json.dumps(json.loads(lines[0][0]) | head).encode() + b"\n"
    with pytest.raises(ConfigurationError) as caught:
        check_backup(io.BytesIO(sealed([first])))
    assert caught.value.code == code


def test_a_line_that_is_too_long_is_refused(
    lines: tuple[list[bytes], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = max(map(len, lines[0]))
    monkeypatch.setattr("kms.store.backup.MAX_LINE_BYTES", longest - 1)
    check_backup(io.BytesIO(b"".join(lines[0])))
    monkeypatch.setattr("kms.store.backup.MAX_LINE_BYTES", longest - 2)
    with pytest.raises(ConfigurationError):
        check_backup(io.BytesIO(b"".join(lines[0])))


def test_mc_24_a_backup_that_was_altered_with_care_is_refused(
    lines: tuple[list[bytes], Settings], tmp_path: Path
) -> None:
    content, settings = lines
    body, end, mac = content[:-2], json.loads(content[-2]), bytes.fromhex(json.loads(content[-1])["mac"])
    settings = settings.model_copy(update={"database": str(tmp_path / "kms.db")})
    entries = [line for line in content if line.startswith(b'["log_entries"')]
    versions = next(line for line in content if line.startswith(b'["key_versions"'))
    weaker = versions.replace(b'"enabled":1', b'"enabled":0').replace(b'"enabled":true', b'"enabled":false')
    assert weaker != versions
    cases = {
        "another code": sealed(body, mac=bytes(32), head=end["head"]),
        "an altered row": sealed([weaker if line == versions else line for line in body], mac=mac, head=end["head"]),
        "another end": sealed(body, mac=mac, head="1:" + "00" * 32),
        "an entry less": sealed([line for line in body if line != entries[-1]], mac=mac, head=end["head"]),
    }
    for name, altered in cases.items():
        path = tmp_path / name
        path.write_bytes(altered)
        with pytest.raises(IntegrityError) as caught:
            restored_at(settings, path)
        assert (caught.value.code, caught.value.field) == ("state-forged", "backup"), name
        assert not (tmp_path / "kms.db").exists()
    path = tmp_path / "twice"
    path.write_bytes(sealed([*body, versions], mac=mac, head=end["head"]))
    with pytest.raises(UnavailableError) as refused:
        restored_at(settings, path)
    assert refused.value.code == "store-failed"
    path = tmp_path / "good"
    path.write_bytes(b"".join(content))
    restored_at(settings, path)


def restored_at(settings: Settings, path: Path) -> None:
    restore(settings, path, noted=NotedElsewhere(), random=FakeRandom(), actor=ACTOR, at=AT, dry_run=False)


@pytest.mark.parametrize("mac", ["zz", "00", "", None, 1])
def test_a_backup_whose_code_is_none_is_refused(
    lines: tuple[list[bytes], Settings], tmp_path: Path, mac: object
) -> None:
    content, settings = lines
    path = tmp_path / "backup"
    path.write_bytes(b"".join(content[:-1]) + json.dumps(json.loads(content[-1]) | {"mac": mac}).encode() + b"\n")
    with pytest.raises(AttestError) as caught:
        restored_at(settings.model_copy(update={"database": str(tmp_path / "kms.db")}), path)
    assert caught.value.code in {"backup-invalid", "state-forged"}
    assert not (tmp_path / "kms.db").exists()


def test_mc_24_the_backup_of_a_database_that_was_altered_is_not_restored(harness: Harness) -> None:
    filled(harness)
    harness.alter("UPDATE keys SET enabled = ? WHERE key_id = 'other'", False)
    path, _ = made(harness)
    with pytest.raises(IntegrityError) as caught:
        restored(harness, path, elsewhere(harness))
    assert (caught.value.code, caught.value.field) == ("state-forged", "backup")
    assert "keys: 1 rows" in caught.value.message
    assert not (harness.folder / "restored.db").exists()


def test_mc_27_a_backup_is_restored_with_its_own_key_encryption_key_alone(harness: Harness, tmp_path: Path) -> None:
    path, _ = made(filled(harness))
    other = tmp_path / "other"
    other.mkdir()
    initialise(settings_for(other), clock=harness.clock, random=FakeRandom("other"))
    with pytest.raises(ConfigurationError) as caught:
        restored_at(elsewhere(harness).model_copy(update={"kek_file": other / "kek"}), path)
    assert caught.value.code == "kek-mismatch"
    assert not (harness.folder / "restored.db").exists()


def test_a_row_that_does_not_belong_there_is_not_backed_up(tmp_path: Path) -> None:
    harness = Harness.make(tmp_path)
    harness.alter("UPDATE secrets SET wrapped = 'text'")
    with pytest.raises(IntegrityError) as caught:
        made(harness)
    assert caught.value.code == "backup-row-invalid"
    assert not (tmp_path / "backup").exists()
    harness.close()


def test_a_backup_that_cannot_be_written_to_its_end_leaves_no_file_and_no_open_transaction(harness: Harness) -> None:
    class Full(io.BytesIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]  # nothing else is written here
            if self.tell() > 300:
                raise OSError(28, "No space left on device")
            return super().write(data)

    filled(harness)
    with pytest.raises(OSError, match="No space"), harness.services.store.reading() as tx:
        write_backup(tx, Full(), origin="kms.test/unit", at=AT)
    made(harness)
