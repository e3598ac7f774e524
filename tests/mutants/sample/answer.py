"""A module to mutate."""


def answer() -> int:
    """Return it."""
    return 42
