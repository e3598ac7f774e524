"""The authenticated state in the database: what it says after anything that a service does."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError as ConstraintError

from attest.errors import AttestError
from attest.release import KeyName, WorkloadKey
from kms.auth.grants import give_role, revoke_role
from kms.controls.admin import freeze, thaw_in
from kms.domain.actors import Actor, Means
from kms.domain.errors import IntegrityError
from kms.domain.freezes import target
from kms.domain.keys import KeyReference
from kms.domain.leases import LeaseFilter
from kms.domain.limits import Budget, Period
from kms.domain.log_verification import verify_log
from kms.domain.permissions import EVERY_TENANT, Role
from kms.domain.recent_values import RecentValues
from kms.keys.admin import set_enabled
from kms.keys.destruction import restore_key
from kms.keys.rotation import Rotator, remove_schedule, rotate_key, set_schedule
from kms.keys.tenants import create_tenant
from kms.leases.admin import resume_renewals, stop_renewals
from kms.operations.state import state_problems
from kms.store import authenticated_tables, open_store
from kms.store.schema import metadata
from tests.kms.database_writer import Copy, DatabaseWriter, Values
from tests.kms.references import ALICE, images
from tests.kms.references import given as given_document
from tests.kms.stores import KEYS, make_store, opened_store
from tests.kms.support import ACTOR, AT, MODEL, Harness, Workload
from tests.kms.test_key_lifecycle import destroy
from tests.kms.test_limits import limit
from tests.kms.test_prompt_keys import add_prompt_key
from tests.kms.test_references import add

MALLORY = Actor(name="https://issuer.test|mallory", means=Means.JWT)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def problems(harness: Harness) -> list[str]:
    with harness.services.store.reading() as tx:
        verify_log(tx.log)
        return list(state_problems(tx))


def counter(harness: Harness) -> int:
    with harness.services.store.reading() as tx:
        return tx.state.root.counter


def release(harness: Harness, asked: str = "model", *, workload: Workload | None = None) -> None:
    request = (workload or Workload()).request(harness.releases.challenge(), asked)
    harness.releases.release(request)


# -- transactions


def test_each_transaction_that_changes_something_makes_the_next_root(harness: Harness) -> None:
    before = counter(harness)
    harness.add_key("model")
    release(harness)
    assert counter(harness) == before + 2
    with harness.services.store.writing() as tx:
        tx.keys.find(MODEL)
    assert counter(harness) == before + 2
    assert problems(harness) == []


def test_a_transaction_that_failed_leaves_the_state_as_it_was(harness: Harness) -> None:
    before = counter(harness)

    def fail() -> None:
        with harness.services.store.writing() as tx:
            tx.facts.add("half", b"way")
            tx.log.add(kind="test", at=AT, body={})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert counter(harness) == before
    harness.add_key("model")
    assert counter(harness) == before + 1
    assert problems(harness) == []


def test_a_part_that_failed_leaves_nothing_in_the_state_of_the_others(harness: Harness) -> None:
    with harness.services.store.writing() as tx:
        with tx.part():
            tx.facts.add("first", b"1")
            tx.log.add(kind="test", at=AT, body={"number": 1})
        with suppress(ValueError), tx.part():
            tx.facts.add("second", b"2")
            tx.facts.put("first", b"2")
            tx.log.add(kind="test", at=AT, body={"number": 2})
            raise ValueError
        with tx.part():
            assert tx.facts.find("second") is None
            tx.facts.add("third", b"3")
            tx.log.add(kind="test", at=AT, body={"number": 3})
    with harness.services.store.reading() as tx:
        assert [tx.facts.find(name) for name in ("first", "second", "third")] == [b"1", None, b"3"]
    assert [entry["number"] for entry in harness.entries() if entry["kind"] == "test"] == [1, 3]
    assert problems(harness) == []


def test_releases_that_share_a_transaction_with_ones_that_fail_are_all_in_the_state(harness: Harness) -> None:
    harness.add_key("model")
    requests = [Workload().request(harness.releases.challenge(), "model") for _ in range(4)] * 2
    done: list[bool] = []

    def attempt(index: int) -> None:
        try:
            harness.releases.release(requests[index])
            done.append(True)
        except AttestError as exc:
            assert exc.code == "challenge-used"  # noqa: PT017  the others succeed
            done.append(False)

    with harness.services.store.writing():  # all of them wait for this one
        threads = [threading.Thread(target=attempt, args=(index,)) for index in range(len(requests))]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(done) == [False] * 4 + [True] * 4
    assert problems(harness) == []


def test_two_services_on_one_database_see_what_the_other_wrote(harness: Harness) -> None:
    other = harness.reopened()
    services = (harness, other)
    seen = [counter(harness)]
    for number in range(6):
        services[number % 2].add_key(f"k{number}")
        release(services[(number + 1) % 2], f"k{number}")
        seen += [counter(services[number % 2]), counter(services[(number + 1) % 2])]
    assert seen == sorted(seen)
    assert [problems(service) for service in services] == [[], []]
    other.close()


def test_a_service_that_keeps_few_nodes_and_rows_reads_the_others_again(harness: Harness) -> None:
    with harness.services.store.reading() as tx:
        authority = tx.state.authority
    authority._nodes, authority._rows = RecentValues(3), RecentValues(3)  # noqa: SLF001  there is no other way to it
    for number in range(20):
        harness.add_key(f"k{number}")
        release(harness, f"k{number // 2}")
    assert problems(harness) == []
    assert len(authority._nodes) <= 6  # noqa: SLF001  as above
    assert len(authority._rows) <= 6  # noqa: SLF001  as above


# -- opening


def test_nothing_is_read_or_written_before_the_key_is_known(tmp_path: Path) -> None:

    place = make_store(str(tmp_path / "kms.db"))
    store = open_store(place)
    assert not store.is_authenticated
    for begin in (store.reading, store.writing):
        with pytest.raises(IntegrityError) as caught, begin():
            pass
        assert caught.value.code == "state-forged"
    with store.opening() as tx:
        assert not tx.state.verifies
        with pytest.raises(IntegrityError):
            _ = tx.state.authority
    store.authenticate(KEYS)
    assert store.is_authenticated
    store.close()


def test_a_row_is_read_by_its_own_transaction_as_it_will_be(tmp_path: Path) -> None:
    store = opened_store(make_store(str(tmp_path / "kms.db")))
    with store.writing() as tx:
        tx.facts.add("a", b"1")
        assert tx.facts.find("a") == b"1"
        tx.facts.put("a", b"2")
        assert tx.facts.find("a") == b"2"
    with store.reading() as tx:
        assert tx.facts.find("a") == b"2"
        assert tx.state.count() == 1
    store.close()


def test_a_column_that_is_text_where_a_number_was_is_another_row(harness: Harness) -> None:
    if harness.on_postgres:
        pytest.skip("PostgreSQL keeps text out of a column of numbers")
    harness.add_key("model")
    harness.alter("UPDATE keys SET enabled = '1x'")
    with pytest.raises(IntegrityError) as caught:
        release(harness)
    assert (caught.value.code, caught.value.field) == ("state-forged", "keys")


# -- any sequence, and any alteration


def _k(harness: Harness, number: int) -> KeyName:
    return KeyName(key_id=f"k{number % 3}")


def _freeze(harness: Harness, number: int) -> None:
    what = target("key", f"k{number % 3}")
    freeze(harness.services.store, what, reason="a test", actor=ACTOR, at=harness.clock())


def _thaw(harness: Harness, number: int) -> None:
    with harness.services.store.writing() as tx:
        thaw_in(tx, target("key", f"k{number % 3}"))


def _stop(harness: Harness, number: int) -> None:
    wanted = LeaseFilter(live=None, name=_k(harness, number))
    stop_renewals(harness.services.store, wanted, concerns=(), reason="x", actor=ACTOR, at=harness.clock())


def _resume(harness: Harness, number: int) -> None:
    with harness.services.store.reading() as tx:
        stopped = [one.lease_id for one in tx.leases.stops([_k(harness, number)], instance=None)]
    if stopped:
        resume_renewals(harness.services.store, stopped, reason="x", actor=ACTOR, at=harness.clock())


def _rotate(harness: Harness, number: int) -> None:
    rotator = Rotator(store=harness.services.store, kek=harness.services.kek, random=harness.random)
    overlap = timedelta(minutes=number % 5)
    rotate_key(rotator, _k(harness, number), overlap=overlap, actor=ACTOR, at=harness.clock())


def _enable(harness: Harness, number: int) -> None:
    enabled = bool(number % 2)
    set_enabled(harness.services.store, _k(harness, number), enabled=enabled, actor=ACTOR, at=harness.clock())


def _schedule(harness: Harness, number: int) -> None:
    store, at = harness.services.store, harness.clock()
    if number % 2:
        remove_schedule(store, _k(harness, number), actor=ACTOR, at=at)
    else:
        hour = timedelta(hours=1)
        set_schedule(store, _k(harness, number), every=2 * hour, overlap=hour, actor=ACTOR, at=at)


def _grant(harness: Harness, number: int) -> None:
    who = Actor(name=f"https://issuer.test|{number % 4}", means=Means.JWT)
    store, at = harness.services.store, harness.clock()
    give_role(store, identity=who, tenant=EVERY_TENANT, role=Role.AUDITOR, actor=ACTOR, at=at)


def _release(harness: Harness, number: int) -> None:
    workload = Workload(key=WORKLOADS[number % 2])
    release(harness, f"k{number % 3}", workload=workload)


def _restore(harness: Harness, number: int) -> None:
    asked = KeyReference.parse(f"k{number % 3}")
    restore_key(harness.services.store, asked, actor=ACTOR, at=harness.clock())


WORKLOADS = (WorkloadKey.generate(), WorkloadKey.generate())
STEPS: dict[str, Callable[[Harness, int], object]] = {
    "add a key": lambda harness, number: harness.add_key(f"k{number % 3}"),
    "add a prompt key": lambda harness, number: add_prompt_key(harness, KeyName(key_id=f"p{number % 2}")),
    "release": _release,
    "rotate": _rotate,
    "enable": _enable,
    "destroy": lambda harness, number: destroy(harness, f"k{number % 3}"),
    "restore": _restore,
    "schedule": _schedule,
    "freeze": _freeze,
    "thaw": _thaw,
    "limit": lambda harness, n: limit(harness, f"k{n % 3}", releases=(Budget(most=n, per=Period.DAY),)),
    "stop": _stop,
    "resume": _resume,
    "grant": _grant,
    "revoke": lambda h, n: revoke_role(h.services.store, 1 + n % 4, actor=ACTOR, at=h.clock()),
    "tenant": lambda h, n: create_tenant(h.services.store, f"t{n % 3}", actor=ACTOR, at=h.clock()),
    "document": lambda harness, number: add(harness, given_document(images(number), ALICE)),
    "time": lambda harness, number: harness.clock.forward(minutes=number),
}
SEQUENCES = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 20)), max_size=25)


@contextmanager
def serving() -> Iterator[Harness]:
    with TemporaryDirectory() as folder:
        harness = Harness.make(Path(folder))
        yield harness
        harness.close()


def done(harness: Harness, steps: list[tuple[str, int]]) -> None:
    for name, number in steps:
        try:
            STEPS[name](harness, number)
        except AttestError as exc:
            assert exc.code not in {"state-forged", "state-rolled-back", "store-failed"}, name  # noqa: PT017


@settings(max_examples=12)
@given(SEQUENCES)
def test_after_anything_that_is_done_every_row_is_the_one_that_was_stored_last(steps: list[tuple[str, int]]) -> None:
    with serving() as harness:
        done(harness, [("add a key", 0), ("add a key", 1), *steps])
        assert problems(harness) == []
        again = harness.reopened()
        assert problems(again) == []
        again.close()


EVERYTHING = [
    *((name, number) for number in (0, 1) for name in ("add a key", "release", "grant", "limit", "tenant", "schedule")),
    *(("add a prompt key", 0), ("freeze", 2), ("freeze", 1), ("stop", 1), ("document", 1), ("document", 2)),
    *(("release", 0), ("release", 2), ("rotate", 0), ("schedule", 0), ("schedule", 1)),
]
"""Leaves rows in most tables."""


def other(value: object) -> object:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"\0"
    return f"{value}x"


def alterations(row: Values, table: str) -> Iterator[tuple[str, Values | None]]:
    """Yield each way to alter a row: remove it, change a column, or add one that is like it."""
    found = metadata.tables[table]
    yield "removed", None
    for column in found.columns:
        if column.name not in found.info["addressed"]:
            empty = 1 if column.type.python_type is int else column.type.python_type(b"x" if _is_bytes(column) else 1)
            value = empty if row[column.name] is None else other(row[column.name])
            yield f"{column.name} changed", row | {column.name: value}
            if column.nullable and row[column.name] is not None:
                yield f"{column.name} emptied", row | {column.name: None}


def _is_bytes(column: object) -> bool:
    return column.type.python_type is bytes  # type: ignore[attr-defined]  # a column


def test_every_alteration_of_every_row_is_found() -> None:
    with serving() as harness:
        done(harness, EVERYTHING)
        assert problems(harness) == []
        writer = DatabaseWriter(harness)
        dice = random.Random(18)
        tables = set()
        for table in authenticated_tables():
            rows = writer.rows(table.name)
            for row in dice.sample(rows, min(2, len(rows))):
                tables.add(table.name)
                for how, altered in alterations(row, table.name):
                    kept = [one for one in rows if one != row]
                    doubled = [*rows, altered] if altered is not None and dice.random() < 0.3 else None
                    nows = [[*kept, *([] if altered is None else [altered])], *([doubled] if doubled else [])]
                    for now in nows:
                        assert is_found(harness, writer, {table.name: rows}, {table.name: now}), (table.name, how)
        assert tables >= {"keys", "key_versions", "leases", "lease_counts", "grants", "freezes", "lease_stops"}
        assert problems(harness) == []


def is_found(harness: Harness, writer: DatabaseWriter, before: Copy, now: Copy) -> bool:
    try:
        writer.put_back(now)
    except ConstraintError:  # the database itself refuses such a row
        return True
    found = bool(problems(harness))
    writer.put_back(before)
    return found
