"""Writers that wait at the same time share one transaction; each is answered when it is on the disk, or fails alone."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from itertools import groupby
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from kms.domain.errors import ChallengeUsedError, KeyConflictError, ReleaseDeniedError, UnavailableError
from kms.domain.keys import KeyName
from kms.domain.log_verification import verify_log
from kms.operations.state import authenticate
from kms.store import Store, WriteTransaction, open_store
from kms.store.group_commit import MAX_PIECES, Batching
from tests.kms.postgres import Server
from tests.kms.process import REPOSITORY, environment
from tests.kms.support import AT, Harness, Workload, open_release

T = TypeVar("T")
WAIT_SECONDS = 60


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """What is asked of `harness` here holds on both databases."""
    return str(request.param)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(MAX_PIECES * 2) as made:
        yield made


@contextmanager
def gathered(store: Store, pool: ThreadPoolExecutor, works: list[Callable[[], T]]) -> Iterator[list[Future[T]]]:
    """Start calls that write, in this order, and let none get on before the block ends; all but the first share one."""
    with store.writing():
        futures: list[Future[T]] = []
        for number, work in enumerate(works, start=1):
            futures.append(pool.submit(work))
            wait_until(lambda expected=number: store.waiting >= expected or futures[-1].done())  # type: ignore[misc]
        yield futures


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def together(store: Store, pool: ThreadPoolExecutor, works: list[Callable[[WriteTransaction], T]]) -> list[Future[T]]:
    """Write all of these in one transaction, in their order; wait for the end."""
    with gathered(store, pool, [lambda work=work: store.write(work) for work in works]) as futures:  # type: ignore[misc]
        pass
    for future in futures:
        future.exception(WAIT_SECONDS)
    return futures


def opened_once_more(harness: Harness) -> Store:
    store = open_store(harness.settings.database)
    authenticate(store, harness.services.kek, origin=harness.settings.origin)
    return store


def facts(store: Store, *names: str) -> list[bytes | None]:
    with store.reading() as tx:
        return [tx.facts.find(name) for name in names]


def set_fact(name: str) -> Callable[[WriteTransaction], WriteTransaction]:
    def work(tx: WriteTransaction) -> WriteTransaction:
        tx.facts.add(name, b"1")
        return tx

    return work


class OwnError(Exception):
    """Of a piece of work."""


def failing(name: str) -> Callable[[WriteTransaction], WriteTransaction]:
    def work(tx: WriteTransaction) -> WriteTransaction:
        tx.facts.add(name, b"1")
        tx.log.add(kind="test", at=AT, body={"name": name})
        raise OwnError(name)

    return work


def use_nonce(digest: bytes) -> Callable[[WriteTransaction], None]:
    return lambda tx: tx.nonces.use(digest, expires_at=AT + timedelta(minutes=5), at=AT)


def test_who_waits_at_the_same_time_shares_one_transaction(harness: Harness, pool: ThreadPoolExecutor) -> None:
    store = harness.services.store
    names = [f"fact-{number}" for number in range(8)]
    writers = [future.result() for future in together(store, pool, [set_fact(name) for name in names])]
    assert len({id(tx) for tx in writers}) == 1
    assert facts(store, *names) == [b"1"] * 8
    assert store.waiting == 0


def test_who_comes_alone_has_a_transaction_alone(harness: Harness) -> None:
    store = harness.services.store
    assert store.write(set_fact("a")) is not store.write(set_fact("b"))
    with pytest.raises(OwnError):
        store.write(failing("c"))
    assert facts(store, "a", "b", "c") == [b"1", b"1", None]


@pytest.mark.parametrize("over", [0, 1])
def test_a_transaction_takes_so_many_pieces_and_no_more(harness: Harness, pool: ThreadPoolExecutor, over: int) -> None:
    names = [f"fact-{number:03}" for number in range(MAX_PIECES + over)]
    writers = [one.result() for one in together(harness.services.store, pool, [set_fact(name) for name in names])]
    sizes = [len(list(same)) for _, same in groupby(writers, key=id)]
    assert sizes == [MAX_PIECES] + [1] * over


def test_mc_24_nobody_is_answered_before_the_commit(harness: Harness, pool: ThreadPoolExecutor) -> None:
    store = harness.services.store
    reached, go_on = threading.Event(), threading.Event()

    def last(tx: WriteTransaction) -> None:
        tx.facts.add("last", b"1")
        reached.set()
        assert go_on.wait(WAIT_SECONDS)

    works: list[Callable[[], object]] = [
        lambda: store.write(set_fact("first")),
        lambda: store.write(failing("second")),
        lambda: store.write(last),
    ]
    with gathered(store, pool, works) as futures:
        pass
    assert reached.wait(WAIT_SECONDS)
    time.sleep(0.05)
    assert not any(future.done() for future in futures)
    assert facts(store, "first", "last") == [None, None]
    go_on.set()
    assert isinstance(futures[1].exception(WAIT_SECONDS), OwnError)
    assert [futures[number].exception(WAIT_SECONDS) for number in (0, 2)] == [None, None]
    assert facts(store, "first", "second", "last") == [b"1", None, b"1"]


def test_what_one_piece_refuses_costs_the_others_nothing(harness: Harness, pool: ThreadPoolExecutor) -> None:
    store = harness.services.store

    def interrupted(tx: WriteTransaction) -> None:
        tx.facts.add("c", b"1")
        raise KeyboardInterrupt

    works: list[Callable[[WriteTransaction], object]] = [
        set_fact("a"),
        failing("b"),
        use_nonce(b"n" * 32),
        use_nonce(b"n" * 32),
        interrupted,
        lambda tx: tx.tenants.add("default", at=AT),
        lambda tx: tx.log.add(kind="test", at=AT, body={}),
    ]
    errors = [type(future.exception(WAIT_SECONDS)) for future in together(store, pool, works)]
    none = type(None)
    assert errors == [none, OwnError, none, ChallengeUsedError, KeyboardInterrupt, KeyConflictError, none]
    assert facts(store, "a", "b", "c") == [b"1", None, None]
    with store.reading() as tx:
        verify_log(tx.log)
        assert [entry["kind"] for entry in harness.entries()].count("test") == 1


def spoil_commit(harness: Harness, how: str) -> None:
    """Let the commit itself fail in PostgreSQL once the fact ``spoilt`` is written; SQLite is told by ``spoilt``."""
    if harness.on_postgres:
        function = f"BEGIN {how}; RETURN NULL; END"
        harness.alter(f"CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $${function}$$")
        harness.alter(
            "CREATE CONSTRAINT TRIGGER spoil AFTER INSERT ON meta DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW WHEN (NEW.name = 'spoilt') EXECUTE FUNCTION spoil()"
        )


def spoilt(tx: WriteTransaction) -> None:
    def break_reference(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":  # what a row refers to is then looked for at the commit
            connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
            connection.exec_driver_sql("INSERT INTO reference_signatures VALUES (x'00', x'00', x'00', x'00', 'now')")

    tx.facts.add("spoilt", b"1")
    break_reference(tx.connection)


def test_mc_24_when_the_commit_fails_every_piece_fails_and_nothing_is_written(
    harness: Harness, pool: ThreadPoolExecutor
) -> None:
    # The second use of the nonce was refused because of the first, which never happened: it must not be told so.
    store = harness.services.store
    spoil_commit(harness, "RAISE EXCEPTION 'the disk is full'")
    works: list[Callable[[WriteTransaction], object]] = [
        set_fact("a"),
        use_nonce(b"n" * 32),
        use_nonce(b"n" * 32),
        spoilt,
    ]
    errors = [future.exception() for future in together(store, pool, works)]
    assert {(type(error), getattr(error, "code", "")) for error in errors} == {(UnavailableError, "store-failed")}
    assert facts(store, "a") == [None]
    store.write(use_nonce(b"n" * 32))
    store.write(set_fact("a"))
    assert facts(store, "a") == [b"1"]


def test_when_the_database_refuses_a_statement_the_whole_transaction_fails(
    harness: Harness, pool: ThreadPoolExecutor
) -> None:
    store = harness.services.store
    works = [set_fact("a"), set_fact("a"), set_fact("b")]
    errors = [future.exception() for future in together(store, pool, works)]
    assert {(type(error), getattr(error, "code", "")) for error in errors} == {(UnavailableError, "store-failed")}
    assert facts(store, "a", "b") == [None, None]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_when_the_server_goes_away_at_the_commit_every_piece_says_that_it_may_have_been_written(
    harness: Harness, pool: ThreadPoolExecutor
) -> None:
    store = harness.services.store
    spoil_commit(harness, "PERFORM pg_terminate_backend(pg_backend_pid())")
    works: list[Callable[[WriteTransaction], object]] = [set_fact("a"), failing("f"), spoilt]
    errors = [future.exception() for future in together(store, pool, works)]
    assert [getattr(error, "code", "") for error in errors] == ["store-outcome-unknown"] * 3
    assert facts(store, "a") == [None]
    store.write(set_fact("a"))


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_when_the_server_goes_away_before_the_commit_nothing_was_written(
    harness: Harness, pool: ThreadPoolExecutor, postgres: Server
) -> None:
    store = harness.services.store

    def cut(tx: WriteTransaction) -> None:
        del tx
        assert postgres.cut(harness.settings.database) > 0

    errors = [future.exception() for future in together(store, pool, [set_fact("a"), cut, set_fact("b")])]
    assert [getattr(error, "code", "") for error in errors] == ["store-unreachable"] * 3
    assert facts(store, "a", "b") == [None, None]
    store.write(set_fact("a"))


def test_whoever_waits_for_a_lock_that_does_not_come_fails_and_the_next_goes_on(
    harness: Harness, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kms.store.database.BUSY_MILLISECONDS", 300)
    store = harness.services.store
    with store.writing():
        futures = [pool.submit(store.write, set_fact(f"fact-{number}")) for number in range(5)]
        errors = [future.exception(WAIT_SECONDS) for future in futures]
    assert [getattr(error, "code", "") for error in errors] == ["store-busy"] * 5
    assert store.waiting == 0
    store.write(set_fact("fact-0"))
    assert facts(store, "fact-0", "fact-1") == [b"1", None]


def test_each_piece_sees_the_variables_of_whoever_handed_it_over(harness: Harness, pool: ThreadPoolExecutor) -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)
    store = harness.services.store

    def call(number: int) -> int:
        variable.set(number)
        return store.write(lambda _: variable.get())

    with gathered(store, pool, [lambda number=number: call(number) for number in range(1, 5)]) as futures:  # type: ignore[misc]
        pass
    assert [future.result(WAIT_SECONDS) for future in futures] == [1, 2, 3, 4]
    assert variable.get() == 0


# -- any pieces at all


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=st.lists(st.tuples(st.sampled_from(["write", "fail", "refuse"]), st.integers(0, 5)), max_size=24))
def test_any_pieces_from_any_threads_leave_what_the_successful_ones_wrote(
    harness: Harness, pool: ThreadPoolExecutor, plan: list[tuple[str, int]]
) -> None:
    """Each uses a nonce, writes an entry, and then fails or not; the log has exactly those that were answered."""
    store, run = harness.services.store, os.urandom(8)
    with store.reading() as tx:
        before = tx.log.size()

    def work(number: int, what: str, nonce: int, tx: WriteTransaction) -> int:
        if what == "refuse":
            tx.log.require_time(AT - timedelta(days=1))
        tx.nonces.use(run + bytes([nonce]), expires_at=AT + timedelta(minutes=5), at=AT)
        entry = tx.log.prepare(kind="test", at=AT, body={"number": number})
        tx.log.append(entry)
        if what == "fail":
            raise OwnError
        return entry.seq

    def call(number: int) -> int | None:
        what, nonce = plan[number]
        try:
            return store.write(lambda tx: work(number, what, nonce, tx))
        except (OwnError, ChallengeUsedError, UnavailableError):
            return None

    answered = {number: seq for number, seq in enumerate(pool.map(call, range(len(plan)))) if seq is not None}
    with store.reading() as tx:
        verify_log(tx.log)
        logged = {int(str(entry.document()["number"])): entry.seq for entry in tx.log.entries(after=before)}
    assert logged == answered
    used = {nonce for what, nonce in plan if what == "write"}
    assert len(answered) == len(used)


# -- releases


def test_mc_37_of_many_requests_at_once_each_is_decided_once(harness: Harness, pool: ThreadPoolExecutor) -> None:
    harness.add_key("model")
    workload, releases = Workload(), harness.releases
    challenges = [releases.challenge() for _ in range(6)]
    requests = [workload.request(challenge, "model") for challenge in challenges]
    sent = [*requests, *requests]
    with gathered(harness.services.store, pool, [lambda one=one: releases.release(one) for one in sent]) as futures:  # type: ignore[misc]
        pass
    outcomes = [future.exception(WAIT_SECONDS) or future.result() for future in futures]
    for challenge, request, release in zip(challenges, requests, outcomes[:6], strict=True):
        assert not isinstance(release, BaseException)
        assert open_release(workload, challenge, request, release, harness)["model"]
    assert [type(error) for error in outcomes[6:]] == [ChallengeUsedError] * 6
    assert len(harness.decisions()) == 6
    with harness.services.store.reading() as tx:
        verify_log(tx.log)


def test_mc_19_a_release_sees_what_a_piece_before_it_in_the_same_transaction_changed(
    harness: Harness, pool: ThreadPoolExecutor
) -> None:
    harness.add_key("model")
    store, releases = harness.services.store, harness.releases
    request = Workload().request(releases.challenge(), "model")
    works: list[Callable[[], object]] = [
        lambda: store.write(lambda tx: tx.keys.set_enabled(KeyName.parse("model"), enabled=False)),
        lambda: releases.release(request),
    ]
    with gathered(store, pool, works) as futures:
        pass
    error = futures[1].exception(WAIT_SECONDS)
    assert isinstance(error, ReleaseDeniedError)
    assert error.code == "key-disabled"
    assert [entry["outcome"] for entry in harness.decisions()] == ["deny"]


# -- several processes


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_who_waits_for_sqlites_lock_is_next_however_busy_another_process_is(
    harness: Harness, pool: ThreadPoolExecutor
) -> None:
    # Two stores stand for two processes: each has connections and locks of its own.
    other, over, turns = opened_once_more(harness), threading.Event(), []

    def busy() -> None:
        while not over.is_set():
            with other.writing():
                turns.append("busy")
                time.sleep(0.03)

    hog = pool.submit(busy)
    passed = []
    try:
        wait_until(lambda: len(turns) > 2)
        for _ in range(8):
            before = len(turns)
            with harness.services.store.writing():
                passed.append(len(turns) - before)
    finally:
        over.set()
        hog.result(WAIT_SECONDS)
        other.close()
    assert max(passed) <= 3


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_nobody_waits_for_a_turn_for_ever(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kms.store.sqlite.BUSY_MILLISECONDS", 50)
    descriptor = os.open(harness.folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    harness.services.store.write(set_fact("a"))
    os.close(descriptor)
    assert facts(harness.services.store, "a") == [b"1"]


# -- killed

_WRITERS = """
import os, sys, threading
from pathlib import Path
from attest.clock import system_clock
from kms.operations.services import open_services
from tests.kms.support import AT, settings_for

settings = settings_for(Path(sys.argv[3]), database=sys.argv[1])
store = open_services(settings, clock=system_clock, random=os.urandom).store

def write(lane):
    for number in range(100000):
        name = f"{sys.argv[2]}-{lane}-{number}"

        def work(tx):
            tx.facts.add(name, b"1")
            tx.log.add(kind="test", at=AT, body={"name": name})

        store.write(work)
        os.write(1, (name + "\\n").encode())

for lane in range(6):
    threading.Thread(target=write, args=(lane,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.slow
def test_mc_24_what_was_answered_outlives_a_kill_and_nothing_is_there_by_halves(harness: Harness) -> None:
    acknowledged: list[str] = []
    for life in range(5):
        command = [sys.executable, "-c", _WRITERS, harness.settings.database, str(life), str(harness.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), cwd=REPOSITORY) as process:
            assert process.stdout is not None
            acknowledged.append(process.stdout.readline().decode().strip())
            time.sleep(0.05 + 0.037 * life)
            process.send_signal(signal.SIGKILL)
            # The pipe may end in the middle of a line; such a one was not told to the end.
            acknowledged += [line.decode().strip() for line in process.stdout if line.endswith(b"\n")]
    store = harness.services.store
    with store.reading() as tx:
        verify_log(tx.log)
        logged = [str(entry.document()["name"]) for entry in tx.log.entries() if b'"kind":"test"' in entry.raw]
        kept = {name for name in logged if tx.facts.find(name) == b"1"}
    assert len(acknowledged) > 5
    assert set(acknowledged) <= set(logged)
    assert kept == set(logged)
    assert len(logged) == len(kept)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_store_opened_anew_goes_on_with_what_was_written_together(harness: Harness, pool: ThreadPoolExecutor) -> None:
    together(harness.services.store, pool, [set_fact("a"), set_fact("b")])
    again = opened_once_more(harness)
    assert facts(again, "a", "b") == [b"1", b"1"]
    again.close()


class Plain:
    """Writes nowhere."""

    @contextmanager
    def part(self) -> Iterator[None]:
        yield


def test_a_bug_in_a_transaction_is_raised_where_it_was_led_and_leaves_the_others_in_doubt_but_not_waiting(
    pool: ThreadPoolExecutor,
) -> None:
    begin, broken = threading.Event(), True

    @contextmanager
    def transaction() -> Iterator[Plain]:
        assert begin.wait(WAIT_SECONDS)
        yield Plain()
        if broken:
            raise MemoryError

    batching = Batching(transaction)
    futures = []
    for number in range(3):
        futures.append(pool.submit(batching.run, lambda _, number=number: number))
        wait_until(lambda: batching.waiting == len(futures))
    begin.set()
    first, *others = [future.exception(WAIT_SECONDS) for future in futures]
    assert isinstance(first, MemoryError)
    assert [getattr(error, "code", "") for error in others] == ["store-outcome-unknown"] * 2
    broken = False
    assert batching.run(lambda _: 7) == 7
