"""Threads that share work: everything once, errors out, and none left running."""

import signal
import threading
import time
from collections.abc import Callable

import pytest

from attest.sealed.worker_threads import in_order, spread, thread_count


class WrongError(Exception):
    """Of the work."""


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_spread_work_is_done_once_each(count: int, threads: int) -> None:
    done: list[int] = []
    spread(count, done.append, threads=threads)
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_spread_work_stops_at_an_error_and_tells_it(threads: int) -> None:
    done: list[int] = []

    def work(index: int) -> None:
        if index == 5:
            raise WrongError
        done.append(index)

    before = set(threading.enumerate())
    with pytest.raises(WrongError):
        spread(10_000_000, work, threads=threads)
    assert set(threading.enumerate()) <= before
    assert len(done) < 9_000_000


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("slots", [1, 2, 9])
@pytest.mark.parametrize("count", [0, 1, 57])
def test_every_consumer_gets_everything_in_order(count: int, slots: int, threads: int) -> None:
    place = [-1] * slots
    got: tuple[list[int], list[int]] = ([], [])
    callers: set[int] = set()

    def produce(index: int, slot: int) -> None:
        place[slot] = index

    def first(index: int, slot: int) -> None:
        callers.add(threading.get_ident())
        assert place[slot] == index
        got[0].append(index)

    def second(index: int, slot: int) -> None:
        assert place[slot] == index
        got[1].append(index)

    in_order(count, produce, (first, second), slots=slots, threads=threads)
    assert got == (list(range(count)), list(range(count)))
    assert callers <= {threading.get_ident()}


def fail(index: int, _: int) -> None:
    if index == 3:
        raise WrongError


def nothing(_: int, __: int) -> None:
    pass


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("places", [(fail, nothing, nothing), (nothing, fail, nothing), (nothing, nothing, fail)])
def test_an_error_anywhere_comes_out_and_nobody_waits(
    places: tuple[Callable[[int, int], None], ...], slots: int, threads: int
) -> None:
    before = set(threading.enumerate())
    produce, *consumers = places
    with pytest.raises(WrongError):
        in_order(1000, produce, consumers, slots=slots, threads=threads)
    assert set(threading.enumerate()) <= before


def test_the_number_of_threads_is_that_of_the_processors_or_what_was_asked() -> None:
    assert 1 <= thread_count(None) <= 16
    assert thread_count(40) == 40
    with pytest.raises(ValueError, match="thread"):
        thread_count(0)


def test_an_interrupt_is_told_when_the_others_have_ended() -> None:
    main, begun, ended = threading.main_thread(), threading.Event(), threading.Event()
    if threading.current_thread() is not main:
        pytest.skip("signals reach the main thread alone, and this runner gave the test another")

    def work(_: int) -> None:
        if threading.current_thread() is main:
            assert begun.wait(60)  # so that the other thread has the other half
            return
        begun.set()
        time.sleep(0.1)  # the main thread comes to wait
        signal.pthread_kill(main.ident or 0, signal.SIGINT)
        time.sleep(0.1)
        ended.set()

    # What is started in the background of a shell is told to ignore this signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            spread(2, work, threads=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_a_thread_that_cannot_be_started_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    start, before = threading.Thread.start, set(threading.enumerate())
    started: list[threading.Thread] = []

    def second_fails(thread: threading.Thread) -> None:
        if started:
            msg = "can't start new thread"
            raise RuntimeError(msg)
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", second_fails)
    with pytest.raises(RuntimeError, match="start"):
        in_order(1000, nothing, (nothing,), slots=2, threads=4)
    assert set(threading.enumerate()) <= before
