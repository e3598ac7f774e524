"""Turns: one user does not take those of others, and a turn that ends lets the next one in."""

import threading

from attest.turns import Turns


def test_one_user_does_not_take_the_turns_of_others() -> None:
    turns = Turns(total=3, each=2)
    assert [turns.take(1), turns.take(1), turns.take(1), turns.take(2), turns.take(2)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert (turns.under_way, turns.of(1), turns.of(2), turns.of(3)) == (3, 2, 1, 0)
    turns.give_back(1)
    assert [turns.take(2), turns.take(2), turns.take(1)] == [True, False, False]


def test_a_thread_waits_for_a_turn_and_gets_the_one_that_is_given_back() -> None:
    turns, got = Turns(total=1, each=1), threading.Event()
    assert turns.take("a")

    def wait() -> None:
        if turns.take("b", seconds=60):
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not got.is_set()
    turns.give_back("a")
    thread.join()
    assert got.is_set()
    assert (turns.of("a"), turns.of("b")) == (0, 1)
