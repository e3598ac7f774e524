"""Run by test_run.py alone, in a process of its own."""

from tests.mutants.sample.answer import answer


def test_the_answer() -> None:
    assert answer() == 42
