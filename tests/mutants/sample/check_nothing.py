"""Run by test_run.py alone, in a process of its own."""


def test_nothing() -> None:
    assert 1 + 1 == 2
