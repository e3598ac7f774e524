"""Limits of concurrent work: for all users together, and for each. Called from one event loop; no call waits."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from attest.concurrency import ConcurrencyLimit
from rag_demo.enclave.errors import RefusedError


def take_turn(limit: ConcurrencyLimit, user: bytes, what: str) -> Callable[[], None]:
    """Take a turn; return what gives it back, once, however often it is called.

    Raises:
        RefusedError: ``rag-too-busy``.
    """
    if not limit.acquire(user):
        if limit.of(user) >= limit.each:
            raise busy(f"{limit.each} {what} of yours are under way")
        raise busy(f"{limit.total} {what} are under way")
    given_back = False

    def give_back() -> None:
        nonlocal given_back
        if not given_back:
            given_back = True
            limit.release(user)

    return give_back


def busy(problem: str) -> RefusedError:
    """Return the refusal above the limit of concurrent work."""
    return RefusedError(
        problem,
        code="rag-too-busy",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        hint="come again when one of them has ended",
        retry_seconds=2,
    )


def too_often(seconds: float) -> RefusedError:
    """Return the refusal of a user above the rate limit."""
    wait = max(1, int(seconds) + 1)
    return RefusedError(
        f"too many requests; wait {wait} s",
        code="rag-rate-limited",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        retry_seconds=wait,
    )
