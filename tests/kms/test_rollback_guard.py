"""MC-36: an older copy of the database that is put back is found by what remembers outside of it how far it came."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from attest.collect import open_tpm
from attest.errors import AttestError, ConfigurationError
from kms.config.guards import GuardKind, GuardPlace, parse_guard
from kms.config.insecure_switches import relaxed_switches
from kms.config.settings import Settings, load_settings
from kms.controls.admin import freeze
from kms.domain.errors import ChallengeExpiredError, IntegrityError, UnavailableError
from kms.domain.freezes import Scope, Target
from kms.domain.rollback import Remembered, StatePosition, require_not_behind
from kms.keys.admin import set_enabled
from kms.operations.guards.file import FileGuard, is_on_same_device
from kms.operations.guards.opening import guard_places, open_local_guards, open_remote_guards, refused_before
from kms.operations.guards.remote import WitnessGuard
from kms.operations.guards.tpm import CONTENT_BYTES, TpmGuard
from kms.operations.guards.watch import GuardWatch, kept_advanced, read_remote, require_current
from kms.operations.services import initialise, open_services, open_vault
from kms.store import ReadTransaction, Store
from tests.collect.swtpm import SwTpm
from tests.kms.postgres import Server, name_in
from tests.kms.support import ACTOR, AT, MODEL, FakeClock, FakeRandom, Harness, Workload, settings_for
from tests.kms.test_publisher import FakeWitness

INDEX = 0x01800100
EVERYTHING = Target(scope=Scope.ALL, name="")
ON_BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def position(counter: int, *, root: int = 0) -> StatePosition:
    return StatePosition(counter=counter, log_size=counter, log_root=bytes([root or counter % 256]) * 32)


def quiet(_line: str) -> None: ...


def refused(call: Callable[[], object], code: str) -> AttestError:
    with pytest.raises(AttestError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.hint
    return caught.value


@dataclass
class Copies:
    """A copy of a whole database, and the putting back of it."""

    database: str
    folder: Path
    server: Server | None

    @staticmethod
    def of(harness: Harness, request: pytest.FixtureRequest) -> "Copies":
        server = request.getfixturevalue("postgres") if harness.on_postgres else None
        return Copies(database=harness.settings.database, folder=harness.folder / "copies", server=server)

    def make(self) -> None:
        if self.server is not None:
            self._copied(name_in(self.database), "copy")
            return
        self.folder.mkdir()
        for path in self._files():
            shutil.copy(path, self.folder)

    def put_back(self) -> None:
        if self.server is not None:
            self._copied("copy", name_in(self.database))
            return
        for path in self._files():
            path.unlink()
        for path in self.folder.iterdir():
            shutil.copy(path, Path(self.database).parent)

    def _files(self) -> list[Path]:
        path = Path(self.database)
        return sorted(path.parent.glob(path.name + "*"))

    def _copied(self, source: str, target: str) -> None:
        assert self.server is not None
        for name in (source, target):
            self.server.cut(self.server.url(name))
        with self.server.connected() as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {target}")
            connection.execute(f"CREATE DATABASE {target} TEMPLATE {source}")
        self.server.made.add(target)


@pytest.fixture
def copies(harness: Harness, request: pytest.FixtureRequest) -> Copies:
    """A copy from before anything was done with the key."""
    harness.add_key("model")
    harness.close()
    made = Copies.of(harness, request)
    made.make()
    return made


@pytest.fixture
def tpm(tmp_path: Path) -> Iterator[SwTpm]:
    found = SwTpm(tmp_path / "tpm")
    try:
        yield found
    finally:
        found.stop()


def disable(harness: Harness) -> None:
    set_enabled(harness.services.store, MODEL, enabled=False, actor=ACTOR, at=harness.clock())


def freeze_all(harness: Harness) -> None:
    freeze(harness.services.store, EVERYTHING, reason="test", actor=ACTOR, at=harness.clock())


# -- an older copy is refused


@ON_BOTH
@pytest.mark.parametrize("change", [disable, freeze_all])
def test_mc_36_a_change_by_an_administrator_is_in_the_guard_before_its_answer(
    harness: Harness, copies: Copies, change: Callable[[Harness], None]
) -> None:
    again = harness.reopened()
    change(again)
    again.close()
    copies.put_back()
    error = refused(harness.reopened, "state-rolled-back")
    assert isinstance(error, IntegrityError)
    assert (error.expected, error.got) != (None, None)
    assert "guard accept" in str(error.hint)
    refused(lambda: open_vault(harness.settings, random=FakeRandom()), "state-rolled-back")


@pytest.mark.loopback
def test_mc_36_a_change_is_in_the_tpm_before_its_answer(tmp_path: Path, tpm: SwTpm) -> None:
    guard = f"tpm:{INDEX:#010x}@{tpm.tcti}"
    harness = Harness.make(tmp_path, rollback_guard=(guard,))
    harness.add_key("model")
    harness.close()
    made = Copies(database=harness.settings.database, folder=tmp_path / "copies", server=None)
    made.make()
    again = harness.reopened(rollback_guard=(guard,))
    disable(again)
    again.close()
    tpm.stop()
    tpm.start()
    guard = f"tpm:{INDEX:#010x}@{tpm.tcti}"
    harness.reopened(rollback_guard=(guard,)).close()
    made.put_back()
    error = refused(lambda: harness.reopened(rollback_guard=(guard,)), "state-rolled-back")
    assert f"tpm:{INDEX:#010x}" in error.message
    tpm.drop(INDEX)
    error = refused(lambda: harness.reopened(rollback_guard=(guard,)), "rollback-guard-missing")
    assert "it is empty" in error.message
    tpm.stop()
    refused(lambda: harness.reopened(rollback_guard=(guard,)), "rollback-guard-missing")


@ON_BOTH
def test_mc_36_a_challenge_of_a_lost_second_is_not_used_again(harness: Harness, copies: Copies) -> None:
    """A service that is killed has not told its guard of the last releases."""
    again = harness.reopened()
    request = Workload().request(again.releases.challenge(), "model")
    again.releases.release(request)
    again.close()
    copies.put_back()
    harness.clock.forward(seconds=1)
    unaware = harness.reopened()
    unaware.releases.release(request)  # the attack: one challenge, two releases
    unaware.close()
    copies.put_back()
    not_before = refused_before(harness.settings, harness.clock())
    services = open_services(harness.settings, clock=harness.clock, random=FakeRandom("x"), not_before=not_before)
    aware = replace(harness, services=services)
    with pytest.raises(ChallengeExpiredError):
        aware.releases.release(request)
    aware.releases.release(Workload().request(aware.releases.challenge(), "model"))
    aware.close()


def test_a_challenge_of_the_same_millisecond_as_the_start_is_accepted(harness: Harness) -> None:
    started = AT + timedelta(microseconds=1999)
    assert refused_before(harness.settings, started) == AT + timedelta(milliseconds=1)
    without = harness.settings.model_copy(update={"allow_no_rollback_guard": True})
    assert refused_before(without, started) is None


@ON_BOTH
def test_a_database_that_is_as_new_as_its_guard_or_newer_is_served(harness: Harness, copies: Copies) -> None:
    harness.reopened().close()
    (guard,) = open_local_guards(harness.settings)
    kept = guard.read()
    assert kept is not None
    without = harness.reopened(allow_no_rollback_guard=True)
    disable(without)
    without.close()
    assert guard.read() == kept
    again = harness.reopened()
    assert guard.read() == kept
    GuardWatch(again.services.store, (guard,)).advance()
    assert guard.read() == replace(
        kept, counter=kept.counter + 1, log_size=kept.log_size + 1, log_root=read_root(again)
    )
    again.close()
    assert copies.database == harness.settings.database


def read_root(harness: Harness) -> bytes:
    return require_current(harness.services.store, ()).log_root


def test_a_log_that_went_another_way_is_refused(harness: Harness, copies: Copies) -> None:
    again = harness.reopened()
    disable(again)
    again.close()
    copies.put_back()
    other = harness.reopened(allow_no_rollback_guard=True)
    freeze_all(other)
    with other.services.store.writing() as tx:
        tx.log.add(kind="test", at=other.clock(), body={})
    other.close()
    error = refused(harness.reopened, "state-rolled-back")
    assert "diverges" in error.message


@pytest.mark.parametrize(("counter", "size"), [(4, 5), (5, 4)])
def test_both_the_counter_and_the_log_count(counter: int, size: int) -> None:
    remembered = Remembered(guard="test", position=StatePosition(counter=5, log_size=5, log_root=bytes(32)))
    now = StatePosition(counter=counter, log_size=size, log_root=bytes(32))
    refused(lambda: require_not_behind(now, [remembered], root_at=lambda _: bytes(32)), "state-rolled-back")
    require_not_behind(remembered.position, [remembered], root_at=lambda _: bytes(32))


# -- a guard that is missing


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "{}",
        "null",
        '{"schema": "kms.rollback-guard/1", "counter": null, "log_size": null, "log_root": null}',
        '{"schema": "kms.rollback-guard/2", "counter": 1, "log_size": 1, "log_root": "ROOT"}',
        '{"schema": "kms.rollback-guard/1", "counter": true, "log_size": 1, "log_root": "ROOT"}',
        '{"schema": "kms.rollback-guard/1", "counter": -1, "log_size": 1, "log_root": "ROOT"}',
        '{"schema": "kms.rollback-guard/1", "counter": 1, "log_size": 0, "log_root": "ROOT"}',
        '{"schema": "kms.rollback-guard/1", "counter": 1, "log_size": 1, "log_root": "00"}',
        '{"schema": "kms.rollback-guard/1", "counter": 1, "log_size": 1, "log_root": "zz"}',
        '{"schema": "kms.rollback-guard/1", "counter": 1, "log_size": 1, "log_root": "ROOT", "more": 1}',
        " " * 5000,
    ],
    ids=map(str, range(13)),
)
def test_a_guard_that_is_missing_empty_or_unreadable_refuses(harness: Harness, content: str | None) -> None:
    path = harness.folder / "guard" / "kms.json"
    if content is None:
        path.unlink()
    else:
        path.write_text(content.replace("ROOT", "00" * 32))
    error = refused(harness.reopened, "rollback-guard-missing")
    assert str(path) in error.message
    assert isinstance(error, ConfigurationError)
    harness.reopened(allow_no_rollback_guard=True).close()
    assert "allow_no_rollback_guard" in relaxed_switches(settings_for(harness.folder, allow_no_rollback_guard=True))


def test_a_guard_that_others_can_write_refuses(harness: Harness) -> None:
    (harness.folder / "guard" / "kms.json").chmod(0o666)
    refused(harness.reopened, "file-writable-by-others")


def test_a_change_whose_guard_fails_is_answered_with_an_error_and_is_made(harness: Harness) -> None:
    harness.add_key("model")
    shutil.rmtree(harness.folder / "guard")
    error = refused(lambda: disable(harness), "rollback-guard-failed")
    assert isinstance(error, UnavailableError)
    assert harness.entries()[-1]["kind"] == "key-disabled"
    assert not (harness.folder / "guard").exists()  # a guard that is gone is not made again by itself


def test_a_new_service_does_not_take_the_guard_of_another(tmp_path: Path) -> None:
    guard = f"file:{tmp_path / 'guard.json'}"
    first = Harness.make(tmp_path, rollback_guard=(guard,))
    first.close()
    more: dict[str, Any] = {"database": str(tmp_path / "b.db"), "kek_file": tmp_path / "b.kek"}
    settings = settings_for(tmp_path, rollback_guard=(guard,), **more)
    refused(lambda: initialise(settings, clock=FakeClock(), random=FakeRandom("b")), "rollback-guard-exists")
    assert not (tmp_path / "b.db").exists()
    assert not (tmp_path / "b.kek").exists()


def test_where_no_guard_can_be_by_default_one_has_to_be_named(tmp_path: Path) -> None:
    database = "postgresql://kms@/kms?host=/run/postgresql"
    transit: dict[str, Any] = {"kek_backend": "transit", "kek_file": None, "database": database}
    refused(lambda: guard_places(settings_for(tmp_path, **transit)), "rollback-guard-unnamed")
    beside = guard_places(settings_for(tmp_path, database=database))
    assert beside == (GuardPlace(kind=GuardKind.FILE, place=str(tmp_path / "guard" / "kms.json")),)
    assert guard_places(settings_for(tmp_path, **transit, allow_no_rollback_guard=True)) == ()


# -- guards


def test_a_file_never_goes_back_however_many_write_it(tmp_path: Path) -> None:
    guard = FileGuard(path=tmp_path / "new" / "folder" / "guard.json")
    refused(guard.read, "rollback-guard-missing")
    refused(lambda: guard.advance(position(1)), "rollback-guard-missing")
    guard.make()
    assert guard.read() is None
    refused(lambda: guard.advance(position(1)), "rollback-guard-missing")
    guard.put(position(1))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(guard.advance, [position(number) for number in (7, 3, 40, 2, 39, 41, 5, 1)]))
    assert guard.read() == position(41)
    guard.make()
    assert guard.read() == position(41)
    guard.put(position(2))
    assert guard.read() == position(2)
    assert guard.path.stat().st_mode & 0o777 == 0o600
    assert guard.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_has_at_most_4096_bytes(tmp_path: Path) -> None:
    guard = FileGuard(path=tmp_path / "guard.json")
    guard.make()
    guard.put(position(1))
    text = guard.path.read_text()
    guard.path.write_text(text + " " * (4096 - len(text)))
    assert guard.read() == position(1)
    guard.path.write_text(text + " " * (4097 - len(text)))
    error = refused(guard.read, "rollback-guard-missing")
    assert "longer than 4096 bytes" in error.message


def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(FileGuard(path=tmp_path / "file" / "guard.json").make, "rollback-guard-missing")
    folder = FileGuard(path=tmp_path / "folder")
    folder.path.mkdir()
    refused(lambda: folder.put(position(1)), "rollback-guard-missing")
    refused(folder.read, "rollback-guard-missing")


@pytest.mark.loopback
def test_an_index_of_a_tpm_never_goes_back(tmp_path: Path, tpm: SwTpm) -> None:
    guard = TpmGuard(index=INDEX, tcti=tpm.tcti, folder=tmp_path)
    guard.make()
    assert guard.read() is None
    refused(lambda: guard.advance(position(1)), "rollback-guard-missing")
    guard.put(position(300))
    for counter in (300, 299, 301, 300):
        guard.advance(position(counter))
    assert guard.read() == position(301)
    guard.put(position(2))
    assert guard.read() == position(2)


@pytest.mark.loopback
@pytest.mark.parametrize("data", [b"\x02" + bytes(CONTENT_BYTES - 1), bytes(64), b"\x01"])
def test_an_index_that_is_used_for_something_else_is_refused(tmp_path: Path, tpm: SwTpm, data: bytes) -> None:
    tpm.put(INDEX, data)
    guard = TpmGuard(index=INDEX, tcti=tpm.tcti, folder=tmp_path)
    refused(guard.read, "rollback-guard-missing")
    if len(data) != CONTENT_BYTES:
        refused(guard.make, "rollback-guard-missing")


def test_a_tpm_that_is_not_there_is_refused(tmp_path: Path) -> None:
    guard = TpmGuard(index=INDEX, tcti="device:/dev/no-such-tpm", folder=tmp_path, open=open_tpm)
    for call in (guard.make, guard.read, lambda: guard.put(position(1))):
        refused(call, "rollback-guard-missing")
    refused(replace(guard, folder=tmp_path / "none").read, "rollback-guard-missing")


def witness_guard(harness: Harness, fake: FakeWitness) -> WitnessGuard:
    log = harness.services.log
    return WitnessGuard(witness=fake.witness, log=log, clock=harness.clock, post=lambda _url, body: fake(body))


@ON_BOTH
def test_mc_36_a_witness_of_the_log_refuses_an_older_copy(harness: Harness, copies: Copies) -> None:
    again = harness.reopened()
    fake = FakeWitness(0, again.services.identity.public)
    guard = witness_guard(again, fake)
    assert guard.read() is None  # it had cosigned nothing of this log
    require_current(again.services.store, read_remote([guard], others=0, report=quiet))
    disable(again)
    assert guard.read() == replace(require_current(again.services.store, ()), counter=0)
    again.close()
    copies.put_back()
    old = harness.reopened(allow_no_rollback_guard=True)
    guard = witness_guard(old, fake)
    remembered = read_remote([guard], others=0, report=quiet)
    refused(lambda: require_current(old.services.store, remembered), "state-rolled-back")
    old.close()


def test_a_guard_elsewhere_that_does_not_answer_counts_only_where_no_other_does(harness: Harness) -> None:
    fake = FakeWitness(0, harness.services.identity.public, change=lambda answer: replace(answer, status=500))
    said: list[str] = []
    guard = witness_guard(harness, fake)
    assert read_remote([guard], others=1, report=said.append) == ()
    assert "witness:witness0" in said[0]
    refused(lambda: read_remote([guard], others=0, report=quiet), "rollback-guard-missing")
    for _ in ("nothing is written",):
        guard.make()
        guard.put(position(1))
        guard.advance(position(1))
    assert fake.size == require_current(harness.services.store, ()).log_size


def test_guards_elsewhere_are_opened_from_the_settings(harness: Harness) -> None:
    fake = FakeWitness(0, harness.services.identity.public)
    (harness.folder / "witnesses").write_text(f"{fake.witness.key.text} https://witness.test\n")
    names = ("witness:witness0", "replica:https://kms.test")
    store, identity = harness.services.store, harness.services.identity

    def opened(*guards: str) -> list[str]:
        settings = settings_for(harness.folder, rollback_guard=guards, witnesses_file=harness.folder / "witnesses")
        found = open_remote_guards(settings, store, lambda: identity, clock=harness.clock)
        return [one.name for one in found]

    assert opened(*names) == list(names)
    assert opened("file:/somewhere") == []
    refused(lambda: opened("witness:another"), "rollback-guard-unknown")


# -- in the background


@dataclass
class Noticing:
    """A guard in memory that says when it was advanced."""

    background_seconds: float = 0.0
    name: str = "memory"
    fails: bool = False

    def __post_init__(self) -> None:
        self.positions: list[StatePosition] = []
        self.advanced = threading.Event()

    def make(self) -> None: ...

    def put(self, position: StatePosition) -> None: ...

    def read(self) -> StatePosition | None:
        return self.positions[-1]

    def advance(self, position: StatePosition) -> None:
        if self.fails:
            self.advanced.set()
            raise ConfigurationError("it is away", code="rollback-guard-missing")
        self.positions.append(position)
        self.advanced.set()


def test_a_release_reaches_the_guard_in_the_background_and_the_rest_at_the_end(harness: Harness) -> None:
    harness.add_key("model")
    guard = Noticing()
    watch = GuardWatch(harness.services.store, (guard,))
    with kept_advanced(watch, report=quiet, seconds=0.01):
        assert guard.advanced.wait(60)
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert guard.positions[-1] == require_current(harness.services.store, ())
    assert len(set(guard.positions)) == len(guard.positions)


def test_a_guard_is_written_no_more_often_than_it_wants(harness: Harness) -> None:
    guard = Noticing(background_seconds=600)
    ticks = iter((1000.0, 1599.9, 1600.0))
    watch = GuardWatch(harness.services.store, (guard,), monotonic=lambda: next(ticks))
    watch.round()
    harness.add_key("model")
    watch.round()
    assert len(guard.positions) == 1
    watch.round()
    assert len(guard.positions) == 2
    watch.advance()
    assert len(guard.positions) == 2


def test_a_guard_is_behind_since_it_began_to_fail(harness: Harness) -> None:
    guard, sound, now = Noticing(fails=True), Noticing(name="sound"), [100.0]
    watch = GuardWatch(harness.services.store, (guard, sound), monotonic=lambda: now[0])
    assert watch.behind_seconds() == 0
    for _ in range(2):
        refused(watch.round, "rollback-guard-failed")
        now[0] += 30
    assert watch.behind_seconds() == 60
    guard.fails = False
    watch.round()
    assert watch.behind_seconds() == 0


def test_a_guard_that_fails_in_the_background_is_reported_once(harness: Harness) -> None:
    guard = Noticing(fails=True)
    said: list[str] = []
    with kept_advanced(GuardWatch(harness.services.store, (guard,)), report=said.append, seconds=0.01):
        for _ in range(3):
            assert guard.advanced.wait(60)
            guard.advanced.clear()
    assert len(said) == 1
    assert "[rollback-guard-failed]" in said[0]


def test_one_guard_that_fails_does_not_keep_the_others_behind(harness: Harness) -> None:
    broken, sound = Noticing(fails=True), Noticing(name="sound")
    watch = GuardWatch(harness.services.store, (broken, sound))
    refused(watch.advance, "rollback-guard-failed")
    assert sound.positions == [require_current(harness.services.store, ())]


def test_a_change_before_the_database_went_away_is_not_called_undone() -> None:
    def away() -> AbstractContextManager[ReadTransaction]:
        raise UnavailableError("it is away", code="store-unreachable", retryable=True)

    class Away(Store):
        reading = staticmethod(away)  # type: ignore[assignment]  # it never opens one

        def __init__(self) -> None: ...

    error = refused(GuardWatch(Away(), (Noticing(),)).advance, "rollback-guard-failed")
    assert not error.retryable


# -- settings


@pytest.mark.parametrize(
    "text",
    [
        "",
        "file:",
        "/var/lib/guard",
        "memory:1",
        "tpm:0x01800100@",
        "tpm:01800100",
        "tpm:0x81000001",
        "tpm:0x018001000",
        "replica:http://kms.example",
        "replica:https://",
        "replica:https://user@kms.example",
        "replica:https://kms.example/?a",
        "witness:",
    ],
)
def test_a_guard_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_guard(text)


def test_guards_are_read_from_the_file_and_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "kms.toml"
    config.write_text(
        'origin = "kms.test/a"\ndatabase = "kms.db"\nkek_file = "kek"\nrollback_guard = ["file:g.json"]\n'
    )

    def loaded(**environ: str) -> Settings:
        return load_settings(flags={}, environ=environ, config=config).settings

    assert loaded().rollback_guard == (f"file:{tmp_path / 'g.json'}",)
    both = "tpm:0x01800100@swtpm:host=127.0.0.1,port=2321 replica:http://127.0.0.1:8750"
    assert loaded(KMS_ROLLBACK_GUARD=both).rollback_guard == tuple(both.split())
    for wrong in ("file:/a file:/a", "nothing:1", " ".join(f"file:/{number}" for number in range(9))):
        refused(lambda text=wrong: loaded(KMS_ROLLBACK_GUARD=text), "config-invalid")  # type: ignore[misc]  # a default
    assert parse_guard("tpm:0x01800100").tcti == "device:/dev/tpmrm0"


def test_a_guard_on_the_disk_of_the_database_is_told_from_one_elsewhere(tmp_path: Path) -> None:
    here = tmp_path / "kms.db"
    assert is_on_same_device(tmp_path / "guard.json", here)
    assert not is_on_same_device(Path("/proc/guard.json"), here)
    assert not is_on_same_device(tmp_path / "none" / "guard.json", here)
