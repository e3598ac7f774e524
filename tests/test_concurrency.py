"""Limit on concurrent work: one user leaves places to the others, and a released place is free for the next."""

import threading

from attest.concurrency import ConcurrencyLimit


def test_one_user_does_not_take_the_turns_of_others() -> None:
    limit = ConcurrencyLimit(total=3, each=2)
    assert [limit.acquire(1), limit.acquire(1), limit.acquire(1), limit.acquire(2), limit.acquire(2)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert (limit.under_way, limit.of(1), limit.of(2), limit.of(3)) == (3, 2, 1, 0)
    limit.release(1)
    assert [limit.acquire(2), limit.acquire(2), limit.acquire(1)] == [True, False, False]


def test_a_thread_waits_for_a_turn_and_gets_the_one_that_is_given_back() -> None:
    limit, got = ConcurrencyLimit(total=1, each=1), threading.Event()
    assert limit.acquire("a")

    def wait() -> None:
        if limit.acquire("b", seconds=60):
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not got.is_set()
    limit.release("a")
    thread.join()
    assert got.is_set()
    assert (limit.of("a"), limit.of("b")) == (0, 1)
