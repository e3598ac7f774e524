"""How many at a time: of all users together, and of each. One event loop asks; nothing here waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from http import HTTPStatus

from rag_demo.enclave.errors import RefusedError

__all__ = ["Turns", "busy", "too_often"]


class Turns:
    """Something that may be under way so many times.

    Args:
        what: it is, for errors.
        most: in all.
        each: of one user.
    """

    def __init__(self, what: str, *, most: int, each: int) -> None:
        """Begin with none."""
        self._what = what
        self._most = most
        self._each = each
        self._of: Counter[bytes] = Counter()

    @property
    def under_way(self) -> int:
        """How many there are now."""
        return self._of.total()

    def take(self, user: bytes) -> Callable[[], None]:
        """Take a turn; return what gives it back, once, however often it is called.

        Raises:
            RefusedError: ``rag-too-busy``.
        """
        if self._of[user] >= self._each:
            raise busy(f"{self._each} {self._what} of yours are under way")
        if self.under_way >= self._most:
            raise busy(f"{self._most} {self._what} are under way")
        self._of[user] += 1
        given_back = False

        def give_back() -> None:
            nonlocal given_back
            if not given_back:
                given_back = True
                self._of[user] -= 1
                self._of += Counter()  # forgets those who have none

        return give_back


def busy(problem: str) -> RefusedError:
    """Say that there are too many at a time."""
    return RefusedError(
        problem,
        code="rag-too-busy",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        hint="come again when one of them has ended",
        retry_seconds=2,
    )


def too_often(seconds: float) -> RefusedError:
    """Say that somebody asks too often."""
    wait = max(1, int(seconds) + 1)
    return RefusedError(
        f"too many requests; wait {wait} s",
        code="rag-rate-limited",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        retry_seconds=wait,
    )
