"""One key-encryption key takes over from another: while services serve, killed anywhere, with nothing lost."""

import json
import random
import secrets
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attest.clock import system_clock
from attest.errors import ConfigurationError
from attest_simulator import simulated_crl
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.errors import KeyConflictError, QuorumRequiredError, UnavailableError
from kms.domain.kek_records import KekRecord, KekState
from kms.domain.keys import KeyName
from kms.domain.log_verification import verify_log
from kms.domain.people import ChangeKind, Person, Quorum, QuorumRule
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.keys.vault import Vault
from kms.operations.fsck import examine
from kms.operations.kek_rotation import Moved, create_kek, finish, kek_named, move, require_ready, status
from kms.operations.services import initialise, open_vault
from kms.quorum.admin import QuorumService, change_now
from kms.quorum.keks import KekRetirement, KekRotation
from tests.kms.process import ServedProcess, command, environment
from tests.kms.stores import write_genuine
from tests.kms.support import ACTOR, AT, CHIP, MATERIAL, MODEL, ORIGIN, FakeRandom, Harness, Workload, policy_text
from tests.kms.test_replicas import workload_of_today
from tests.kms.wrapping import KINDS, Holder, definition, flattened, holding

KEYS = ("a", "b", "c", "d", "e")
STEPS = ("read", "wrapped", "written", "committed")


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class _KilledError(Exception):
    """Stands for the end of the process."""


def describe(harness: Harness, number: int = 2, members: str = "") -> Path:
    directory = harness.folder / "keks"
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / f"{number}.toml"
    path.write_text(members or f'backend = "file"\nfile = "../kek-{number}"\n')
    return path


def vault_of(harness: Harness, **changes: object) -> Vault:
    settings = harness.settings.model_copy(update={"kek_directory": harness.folder / "keks"} | changes)
    vault = open_vault(settings, random=FakeRandom("another process"))
    _opened.append(vault)
    return vault


_opened: list[Vault] = []


@pytest.fixture(autouse=True)
def _close_vaults() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().store.close()


def make_second(harness: Harness, number: int = 2) -> KekRecord:
    from kms.keys.wrapping.definitions import read_definition

    described = read_definition(describe(harness, number))
    vault = vault_of(harness)
    made = create_kek(vault, described, random=FakeRandom(f"kek {number}"), actor=ACTOR, at=AT)
    vault.store.close()
    return made


def begin(vault: Vault, target: KekRecord) -> None:
    desk = QuorumService(vault=vault, audience="", alone=False)
    change_now(desk, KekRotation(kek_id=target.id), actor=ACTOR, at=AT)


def rotate(vault: Vault, target: KekRecord, *, batch: int = 2) -> list[Moved]:
    begin(vault, target)
    done = list(move(vault, target, origin=ORIGIN, batch=batch))
    assert finish(vault, target, actor=ACTOR, at=AT) == 0
    return done


def under(vault: Vault) -> dict[bytes, dict[str, int]]:
    with vault.store.reading() as tx:
        return tx.wrapped_rows.counts()


@pytest.fixture
def filled(harness: Harness) -> Harness:
    for key_id in KEYS:
        harness.add_key(key_id)
    return harness


def released(harness: Harness, *key_ids: str) -> int:
    request = Workload().request(harness.releases.challenge(), *key_ids)
    return len(harness.releases.release(request).keys)


def test_everything_moves_to_the_new_key_and_opens_there(filled: Harness) -> None:
    serving = filled.reopened(kek_directory=filled.folder / "keks")
    target = make_second(filled)
    vault = vault_of(filled)
    old = vault.kek.main_id
    assert require_ready(vault, target) == len(KEYS) + 3
    moved = rotate(vault, target)
    assert sum(one.done for one in moved) == len(KEYS) + 3
    assert {one.problems for one in moved} == {()}
    assert under(vault) == {target.id: {"secrets": 3, "key_versions": len(KEYS)}}
    assert released(serving, *KEYS) == len(KEYS)
    serving.add_key("new")
    states = {one.record.id: one.record.state for one in status(vault)}
    assert states == {old: KekState.LEAVING, target.id: KekState.ACTIVE}
    kinds = [(entry["kind"], entry.get("phase")) for entry in filled.entries() if str(entry["kind"]).startswith("kek-")]
    assert kinds == [("kek-created", None), ("kek-rotated", "begin"), ("kek-rotated", "end")]
    assert all("actor" in entry for entry in filled.entries() if str(entry["kind"]).startswith("kek-"))
    serving.close()


def test_a_service_of_the_new_key_alone_starts_and_the_old_one_can_be_retired(filled: Harness) -> None:
    target = make_second(filled)
    rotate(vault_of(filled), target)
    alone = filled.reopened(kek_file=filled.folder / "kek-2")
    old = next(one.record for one in status(alone_vault(alone)) if one.record.id != target.id)
    desk = QuorumService(vault=alone_vault(alone), audience="", alone=False)
    change_now(desk, KekRetirement(kek_id=old.id), actor=ACTOR, at=AT)
    (filled.folder / "kek").unlink()
    assert released(alone, *KEYS) == len(KEYS)
    assert not any(finding.problems for finding in examine(desk.vault, origin=ORIGIN, noted=()))
    with pytest.raises(KeyConflictError) as caught:
        change_now(desk, KekRotation(kek_id=old.id), actor=ACTOR, at=AT)
    assert caught.value.code == "kek-is-retired"
    alone.close()


def alone_vault(harness: Harness) -> Vault:
    return Vault(store=harness.services.store, kek=harness.services.kek)


def test_a_retired_key_does_not_open_a_service(filled: Harness) -> None:
    target = make_second(filled)
    vault = vault_of(filled)
    rotate(vault, target)
    desk = QuorumService(vault=vault, audience="", alone=False)
    change_now(desk, KekRetirement(kek_id=vault.kek.main_id), actor=ACTOR, at=AT)
    with pytest.raises(ConfigurationError) as caught:
        vault_of(filled)
    assert caught.value.code == "kek-retired"


@pytest.mark.parametrize("step", STEPS)
def test_a_rotation_that_is_killed_at_any_step_goes_on_and_services_serve_meanwhile(filled: Harness, step: str) -> None:
    serving = filled.reopened(kek_directory=filled.folder / "keks")
    target = make_second(filled)
    begin(vault_of(filled), target)
    kills = 0
    for stop in range(8):
        vault = vault_of(filled)
        seen = 0

        def pause(where: str, stop: int = stop) -> None:
            nonlocal seen
            seen += where == step
            if where == step and seen > stop % 2:
                raise _KilledError

        try:
            list(move(vault, target, origin=ORIGIN, batch=2, pause=pause))
        except _KilledError:
            kills += 1
        finally:
            vault.store.close()
        assert released(serving, *KEYS) == len(KEYS)
        if step == "committed" and sum(under(vault_of(filled)).get(target.id, {}).values()) == len(KEYS) + 3:
            break
    vault = vault_of(filled)
    list(move(vault, target, origin=ORIGIN, batch=2))
    assert finish(vault, target, actor=ACTOR, at=AT) == 0
    assert kills >= 3
    assert released(serving, *KEYS) == len(KEYS)
    assert list(under(vault)) == [target.id]
    with vault.store.reading() as tx:
        verify_log(tx.log)
    serving.close()


def test_no_lock_is_held_while_keys_are_wrapped(filled: Harness) -> None:
    target = make_second(filled)
    vault = vault_of(filled)
    begin(vault, target)
    seen = []

    def pause(where: str) -> None:
        if where != "written":
            with filled.services.store.writing():
                seen.append(where)

    list(move(vault, target, origin=ORIGIN, batch=4, pause=pause))
    assert set(seen) == {"read", "wrapped", "committed"}


def test_a_row_that_changed_meanwhile_is_left_to_the_next_time(filled: Harness) -> None:
    target = make_second(filled)
    vault = vault_of(filled)
    begin(vault, target)
    changed: list[str] = []

    def pause(where: str) -> None:
        if where == "wrapped" and not changed:
            changed.append(where)
            other = vault_of(filled)
            list(move(other, target, origin=ORIGIN))
            other.store.close()

    moved = list(move(vault, target, origin=ORIGIN, batch=50, pause=pause))
    assert sum(one.done for one in moved) == 0
    assert finish(vault, target, actor=ACTOR, at=AT) == 0
    serving = filled.reopened(kek_directory=filled.folder / "keks")
    assert released(serving, *KEYS) == len(KEYS)
    serving.close()


def test_what_does_not_open_is_told_and_left_and_the_rotation_does_not_end(filled: Harness) -> None:
    filled.alter("UPDATE key_versions SET wrapped = ? WHERE key_id = 'c'", b"\1" + bytes(60))
    target = make_second(filled)
    vault = vault_of(filled)
    begin(vault, target)
    moved = list(move(vault, target, origin=ORIGIN, batch=2))
    (problem,) = [line for one in moved for line in one.problems]
    assert "'c'" in problem
    assert "wrapped-key-invalid" in problem
    assert sum(one.done for one in moved) == len(KEYS) + 2
    assert finish(vault, target, actor=ACTOR, at=AT) == 1
    assert [entry["phase"] for entry in filled.entries() if entry["kind"] == "kek-rotated"] == ["begin"]


def test_what_was_destroyed_needs_no_key_any_more(filled: Harness) -> None:
    write_genuine(filled, "key_versions", {"key_id": "c"}, wrapped=b"")
    target = make_second(filled)
    vault = vault_of(filled)
    assert sum(one.done for one in rotate(vault, target)) == len(KEYS) + 2
    desk = QuorumService(vault=vault, audience="", alone=False)
    change_now(desk, KekRetirement(kek_id=vault.kek.main_id), actor=ACTOR, at=AT)
    assert KekState.RETIRED in {one.record.state for one in status(vault)}


def test_another_rotation_overtakes_the_one_that_runs(filled: Harness) -> None:
    second, third = make_second(filled), make_second(filled, 3)
    vault = vault_of(filled)
    begin(vault, second)
    moving = move(vault, second, origin=ORIGIN, batch=2)
    next(moving)
    other = vault_of(filled)
    begin(other, third)
    with pytest.raises(KeyConflictError) as caught:
        next(moving)
    assert caught.value.code == "kek-overtaken"
    list(move(other, third, origin=ORIGIN, batch=2))
    with pytest.raises(KeyConflictError):
        finish(vault, second, actor=ACTOR, at=AT)
    assert finish(other, third, actor=ACTOR, at=AT) == 0
    assert list(under(other)) == [third.id]


def test_a_key_that_services_could_not_find_is_not_rotated_to(filled: Harness) -> None:
    target = make_second(filled)
    (filled.folder / "keks" / "2.toml").unlink()
    vault = vault_of(filled)
    with pytest.raises(UnavailableError) as caught:
        require_ready(vault, target)
    assert caught.value.code == "kek-not-at-hand"
    (one,) = [one for one in status(vault) if one.record.id == target.id]
    assert (one.problem, one.main, dict(one.wrapped)) == ("kek-not-at-hand", False, {})


def test_a_key_in_use_is_not_retired_and_an_unknown_one_not_found(filled: Harness) -> None:
    vault = vault_of(filled)
    desk = QuorumService(vault=vault, audience="", alone=False)
    with pytest.raises(KeyConflictError) as caught:
        change_now(desk, KekRetirement(kek_id=vault.kek.main_id), actor=ACTOR, at=AT)
    assert caught.value.code == "kek-in-use"
    with pytest.raises(KeyConflictError) as caught:
        change_now(desk, KekRotation(kek_id=vault.kek.main_id), actor=ACTOR, at=AT)
    assert caught.value.code == "kek-state-unchanged"
    for text in ("", "ff" * 32, "zz"):
        with pytest.raises(KeyConflictError) as caught:
            kek_named(vault.store, text)
        assert caught.value.code == "kek-not-found"
    target = make_second(filled)
    begin(vault, target)
    with pytest.raises(KeyConflictError) as caught:  # it wraps no more, and things are wrapped under it
        change_now(desk, KekRetirement(kek_id=vault.kek.main_id), actor=ACTOR, at=AT)
    assert caught.value.code == "kek-in-use"


def test_mc_23_a_rotation_takes_a_quorum_where_a_rule_says_so(filled: Harness) -> None:
    target = make_second(filled)
    vault = vault_of(filled)
    rules = (
        QuorumRule(kind=ChangeKind.KEK, threshold=1, people=("alice",)),
        QuorumRule(kind=ChangeKind.QUORUM, threshold=1, people=("alice",)),
    )
    with vault.store.writing() as tx:
        tx.quorum.add(Quorum(version=1, people=(Person(name="alice", public_key=PUBLIC),), rules=rules), at=AT)
    for change in (KekRotation(kek_id=target.id), KekRetirement(kek_id=target.id)):
        with pytest.raises(QuorumRequiredError):
            change_now(QuorumService(vault=vault, audience="", alone=False), change, actor=ACTOR, at=AT)


PUBLIC = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""


# -- from one back-end to another


@pytest.fixture(params=[(old, new) for old in KINDS for new in KINDS if "file" in {old, new} or old != new])
def both(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Holder]]:
    found: list[Holder] = []
    running: list[Iterator[Holder]] = []
    for index, name in enumerate(request.param):
        (tmp_path / str(index)).mkdir()
        one = holding(name, tmp_path / str(index), monkeypatch)
        running.append(one)
        found.append(next(one))
    yield found
    for one in running:
        next(one, None)


@pytest.mark.loopback
def test_keys_move_from_every_back_end_to_every_other(both: list[Holder], tmp_path: Path) -> None:
    old, new = both
    (tmp_path / "service").mkdir()
    directory = tmp_path / "service" / "keks"
    harness = Harness.make(tmp_path / "service", kek_directory=directory, **flattened(old.settings()))
    harness.add_key("model")
    members = new.settings("next")
    directory.mkdir(mode=0o700)
    lines = (f"{name} = {json.dumps(str(value))}\n" for name, value in members.items())
    (directory / "next.toml").write_text("".join(lines))
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    target = create_kek(vault, definition(new, "next"), random=FakeRandom("next"), actor=ACTOR, at=AT)
    rotate(vault, target)
    assert released(harness, "model") == 1
    again = harness.reopened(**flattened(members))
    assert released(again, "model") == 1
    again.close()
    harness.close()


# -- real processes


@pytest.mark.loopback
@pytest.mark.slow
def test_services_serve_while_the_command_that_rotates_is_killed_again_and_again(tmp_path: Path) -> None:
    config, vault, count = _service(tmp_path / "svc")

    def run(*arguments: str) -> str:
        whole = command("kek", *arguments, "--config", str(config))
        return subprocess.run(whole, check=True, capture_output=True, env=environment(), text=True).stdout

    service = ServedProcess.start(config)
    over = threading.Event()
    try:
        target = run("create", str(tmp_path / "svc" / "keks" / "2.toml")).split()[0]
        assert f"{count} wrapped keys would be rewrapped" in run("rotate", target[:10], "--dry-run")
        with ThreadPoolExecutor(1) as threads:
            releasing = threads.submit(_release_until, service, over)
            try:
                _kill_rotations(config, target)
                assert "everything is wrapped under" in run("rotate", target)
            finally:
                over.set()
            assert releasing.result() > 0
    finally:
        assert service.terminate() == 0
    found = {one["state"]: one for one in json.loads(run("status", "--json"))["keks"]}
    assert {state: sum(one["wrapped"].values()) for state, one in found.items()} == {"leaving": 0, "active": count}
    assert not any(finding.problems for finding in examine(vault, origin="kms.test/rotate", noted=()))
    with vault.store.reading() as tx:
        phases = [e["phase"] for e in (one.document() for one in tx.log.entries()) if e["kind"] == "kek-rotated"]
    assert phases == ["begin", "end"]
    refused = subprocess.run(
        command("kek", "retire", found["leaving"]["id"], "--config", str(config)),
        check=False,
        capture_output=True,
        env=environment(),
        text=True,
    )
    assert "[kek-in-settings]" in refused.stderr
    config.write_text(config.read_text(encoding="utf-8").replace('kek_file = "kek"', 'kek_file = "kek-2"'))
    assert "can be retired" in run("retire", found["leaving"]["id"], "--dry-run")
    assert "is retired" in run("retire", found["leaving"]["id"])


def _service(folder: Path) -> tuple[Path, Vault, int]:
    config = prepare_directory(folder, origin="kms.test/rotate", allow_simulated=True)
    (folder / "endorsements").mkdir()
    (folder / "endorsements" / "crl.der").write_bytes(simulated_crl(CHIP.product, at=system_clock()))
    text = config.read_text(encoding="utf-8")
    config.write_text(f'{text}endorsements = ["endorsements"]\n', encoding="utf-8")
    (folder / "keks").mkdir(mode=0o700)
    (folder / "keks" / "2.toml").write_text('backend = "file"\nfile = "../kek-2"\n')
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=secrets.token_bytes)
    vault = open_vault(settings, random=secrets.token_bytes)
    _opened.append(vault)
    names = (MODEL, *(KeyName(tenant="default", key_id=f"key-{number}") for number in range(60)))
    for name in names:
        add_key(
            vault.store,
            vault.kek,
            name=name,
            material=SecretBytes(MATERIAL),
            policy=policy_text(),
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=system_clock(),
        )
    # The service has three secrets of its own: its identity, and the keys that authenticate challenges and its state.
    return config, vault, len(names) + 3


def _release_until(service: ServedProcess, over: threading.Event) -> int:
    """Ask for a key again and again; every answer is a release, or asks to come again."""
    guest, answered = workload_of_today(), 0
    while not over.is_set():
        answer = service.post("/v1/releases", guest.request(service.challenge(), "model").to_json())
        assert answer is not None
        assert answer[0] == 200 or answer[1]["code"] in {"store-busy", "keys-changing"}, answer
        answered += answer[0] == 200
        time.sleep(0.05)
    return answered


def _kill_rotations(config: Path, target: str) -> None:
    chance = random.Random(7)
    for _ in range(3):
        whole = command("kek", "rotate", target, "--config", str(config))
        process = subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        time.sleep(chance.uniform(0.8, 2.0))
        process.kill()
        process.wait()
