"""Windows that processes, and machines, share: seen by one, seen by all, also after a restart."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attest.channel.replay_postgres import PostgresReplayWindow
from attest.channel.replay_store import SqliteReplayWindow
from attest.channel.replays import ReplayWindow, Use
from attest.clock import system_clock
from attest.errors import ConfigurationError
from tests.channel.support import SECOND
from tests.kms.postgres import Server, running_server
from tests.samples import AT

LATER = AT + 240 * SECOND
Window = SqliteReplayWindow | PostgresReplayWindow
Opened = Callable[..., Window]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Give what opens the one window of a test, as often as it wants; the test may close what it got."""
    place: Any = tmp_path / "seen.db"
    if request.param == "postgres":
        place = request.getfixturevalue("server").fresh("replays")
    windows: list[Window] = []

    def open_(**options: int) -> Window:
        kind = SqliteReplayWindow if request.param == "sqlite" else PostgresReplayWindow
        windows.append(kind(place, **options))
        return windows[-1]

    yield open_
    for window in windows:
        window.close()


def test_what_one_window_saw_every_other_one_knows_also_after_a_restart(opened: Opened) -> None:
    first, second = opened(), opened()
    assert first.use(b"a" * 32, at=AT, until=LATER) is Use.FIRST
    assert second.use(b"a" * 32, at=AT, until=LATER) is Use.USED
    assert second.use(b"b" * 32, at=AT, until=LATER) is Use.FIRST
    first.close()
    second.close()
    third: ReplayWindow = opened()
    assert third.shared
    assert third.use(b"b" * 32, at=LATER, until=LATER) is Use.USED
    assert third.use(b"b" * 32, at=LATER + SECOND, until=LATER + 2 * SECOND) is Use.FIRST
    assert third.use(b"b" * 32, at=LATER + SECOND, until=LATER + 2 * SECOND) is Use.USED


def test_a_full_window_refuses(opened: Opened) -> None:
    window = opened(capacity=1)
    assert window.use(b"a", at=AT, until=LATER) is Use.FIRST
    assert window.use(b"b", at=AT, until=LATER) is Use.FULL
    assert window.use(b"b", at=AT, until=LATER) is Use.FULL
    assert window.use(b"a", at=AT, until=LATER) is Use.USED
    assert window.use(b"b", at=LATER + SECOND, until=LATER + 2 * SECOND) is Use.FIRST


def test_of_many_that_race_one_is_first(opened: Opened) -> None:
    together = threading.Barrier(3)

    def race(_: int) -> int:
        window = opened()
        together.wait(30)
        return sum(window.use(b"%d" % number, at=AT, until=LATER) is Use.FIRST for number in range(20))

    with ThreadPoolExecutor(3) as racers:
        assert sum(racers.map(race, range(3))) == 20


def test_one_window_may_be_asked_by_many_threads(opened: Opened) -> None:
    window = opened()
    with ThreadPoolExecutor(4) as racers:
        found = list(racers.map(lambda n: window.use(b"%d" % (n % 10), at=AT, until=LATER), range(40)))
    assert found.count(Use.FIRST) == 10


def test_a_window_that_was_closed_answers_nothing(opened: Opened) -> None:
    window = opened()
    window.close()
    window.close()
    with pytest.raises(ConfigurationError) as refused:
        window.use(b"a", at=AT, until=LATER)
    assert refused.value.code == "replay-window-unusable"


def test_a_file_that_is_none_answers_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, and long enough to be sure of it" * 100)
    with pytest.raises(ConfigurationError) as refused:
        SqliteReplayWindow(tmp_path / "text")
    assert refused.value.code == "replay-window-unusable"


# -- PostgreSQL


def test_a_replica_whose_clock_is_ahead_takes_nothing_away_that_the_others_need(server: Server) -> None:
    now = system_clock()
    url = server.fresh("replays")
    right, ahead = PostgresReplayWindow(url), PostgresReplayWindow(url)
    assert right.use(b"a", at=now, until=now + 240 * SECOND) is Use.FIRST
    assert ahead.use(b"b", at=now + 9000 * SECOND, until=now + 9240 * SECOND) is Use.FIRST
    assert right.use(b"a", at=now, until=now + 240 * SECOND) is Use.USED
    right.close()
    ahead.close()


def test_what_has_ended_is_taken_out_of_the_table(server: Server) -> None:
    url = server.fresh("replays")
    window = PostgresReplayWindow(url)
    window.use(b"old", at=AT, until=LATER)
    window.use(b"new", at=LATER + SECOND, until=LATER + 2 * SECOND)
    with server.connected(url) as connection:
        assert connection.execute("SELECT digest FROM attest_channel_seen").fetchall() == [(b"new",)]
    window.close()


def test_a_connection_that_was_cut_is_opened_anew_and_one_to_nowhere_answers_nothing(server: Server) -> None:
    url = server.fresh("replays")
    window = PostgresReplayWindow(url)
    assert window.use(b"a", at=AT, until=LATER) is Use.FIRST
    assert server.cut(url) == 1
    assert window.use(b"a", at=AT, until=LATER) is Use.USED
    server.stop()
    try:
        with pytest.raises(ConfigurationError) as refused:
            window.use(b"b", at=AT, until=LATER)
        assert refused.value.code == "replay-window-unusable"
    finally:
        server.start()
    assert window.use(b"b", at=AT, until=LATER) is Use.FIRST
    window.close()


def test_no_error_names_the_password_of_the_database() -> None:
    with pytest.raises(ConfigurationError) as refused:
        PostgresReplayWindow("postgresql://rag:hunter2hunter2@/nowhere?host=/nonexistent")
    assert refused.value.code == "replay-window-unusable"
    assert "hunter2" not in f"{refused.value} {refused.value.context()}"


def test_replicas_that_start_at_a_time_make_one_table(server: Server) -> None:
    url = server.fresh("replays")
    with ThreadPoolExecutor(4) as starting:
        windows = list(starting.map(lambda _: PostgresReplayWindow(url), range(4)))
    assert [one.use(b"a", at=AT, until=LATER) for one in windows].count(Use.FIRST) == 1
    for one in windows:
        with suppress(ConfigurationError):
            one.close()


def test_a_full_table_is_noticed_although_not_every_request_counts_it(server: Server) -> None:
    window = PostgresReplayWindow(server.fresh("replays"), capacity=64)
    found = [window.use(b"%d" % number, at=AT, until=LATER) for number in range(80)]
    assert found.count(Use.FIRST) == 64
    assert found[:64] == [Use.FIRST] * 64
    window.close()
