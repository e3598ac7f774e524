"""A window that processes share: seen by one, seen by all, also after a restart."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attest.channel.replay_store import SqliteReplayWindow
from attest.channel.replays import Use
from attest.errors import ConfigurationError
from tests.channel.support import SECOND
from tests.samples import AT

LATER = AT + 240 * SECOND


def test_what_one_window_saw_every_other_one_knows_also_after_a_restart(tmp_path: Path) -> None:
    first, second = (SqliteReplayWindow(tmp_path / "seen.db") for _ in range(2))
    assert first.use(b"a" * 32, at=AT, until=LATER) is Use.FIRST
    assert second.use(b"a" * 32, at=AT, until=LATER) is Use.USED
    assert second.use(b"b" * 32, at=AT, until=LATER) is Use.FIRST
    first.close()
    second.close()
    third = SqliteReplayWindow(tmp_path / "seen.db")
    assert third.shared
    assert third.use(b"b" * 32, at=LATER, until=LATER) is Use.USED
    assert third.use(b"b" * 32, at=LATER + SECOND, until=LATER + 2 * SECOND) is Use.FIRST
    third.close()


def test_a_full_window_refuses(tmp_path: Path) -> None:
    window = SqliteReplayWindow(tmp_path / "seen.db", capacity=1)
    assert window.use(b"a", at=AT, until=LATER) is Use.FIRST
    assert window.use(b"b", at=AT, until=LATER) is Use.FULL
    assert window.use(b"a", at=AT, until=LATER) is Use.USED
    window.close()


def test_a_file_that_is_none_or_is_gone_answers_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, and long enough to be sure of it" * 100)
    with pytest.raises(ConfigurationError) as refused:
        SqliteReplayWindow(tmp_path / "text")
    assert refused.value.code == "replay-window-unusable"
    window = SqliteReplayWindow(tmp_path / "seen.db")
    window.close()
    with pytest.raises(ConfigurationError) as refused:
        window.use(b"a", at=AT, until=LATER)
    assert refused.value.code == "replay-window-unusable"


def test_of_many_that_race_one_is_first(tmp_path: Path) -> None:
    def race(_: int) -> int:
        window = SqliteReplayWindow(tmp_path / "seen.db")
        first = sum(window.use(b"%d" % number, at=AT, until=LATER) is Use.FIRST for number in range(20))
        window.close()
        return first

    with ThreadPoolExecutor(3) as racers:
        assert sum(racers.map(race, range(3))) == 20
