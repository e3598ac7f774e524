"""Group commit: writers that wait at the same time share one transaction, and one wait for the disk.

Each thread submits a piece of work. The first thread leads: it waits for the write lock, takes all pieces submitted in
the meantime, does them one after the other, each after a savepoint, and commits once. No call returns before that
commit. Then the first of the threads that are waiting leads.

A piece that fails is rolled back alone. When the database fails, at a piece or at the commit, the whole transaction is
rolled back (or may be, if the connection to a server was lost during the commit), and every piece of it fails with that
error, including one that had failed itself, since a piece that was rolled back may have caused its failure.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from typing import Any, Final, Generic, Protocol, TypeVar

from sqlalchemy.exc import DBAPIError

from attest.errors import AttestError
from kms.store.failures import unknown_outcome

MAX_PIECES: Final = 64
"""Maximum pieces of one transaction, so that no reader and no other process waits for long."""


class Divisible(Protocol):
    """A transaction that pieces of work write with."""

    def part(self) -> AbstractContextManager[None]:
        """Open a block that is rolled back if it raises."""


T = TypeVar("T")
W = TypeVar("W", bound=Divisible)


class Batching(Generic[W]):
    """Queue of pieces of work; ``transaction`` opens the writing transaction, on the disk at the end of its block."""

    def __init__(self, transaction: Callable[[], AbstractContextManager[W]]) -> None:
        self._transaction = transaction
        self._lock = threading.Lock()
        self._waiting: deque[_Piece[W, Any]] = deque()  # Any: each has a result of its own
        self._led = False

    def run(self, work: Callable[[W], T]) -> T:
        """Do a piece of work, perhaps in another thread, and return its result when it is on the disk.

        Raises:
            UnavailableError: as the transaction.
            Exception: as the work, which is then rolled back.
        """
        piece = _Piece(work)
        with self._lock:
            self._waiting.append(piece)
            leads, self._led = not self._led, True
        if leads or piece.wait():
            self._lead()
        return piece.result()

    @property
    def waiting(self) -> int:
        """Number of pieces that no transaction has taken yet."""
        return len(self._waiting)

    def _lead(self) -> None:
        """Do every waiting piece under the write lock, and pass the lead on, even after a failure."""
        pieces: list[_Piece[W, Any]] = []
        try:
            with self._transaction() as writer:
                pieces = self._taken()
                _do(pieces, writer)
        except BaseException as exc:  # noqa: BLE001  it is raised where each piece came from
            pieces = pieces or self._taken()
            own, *others = pieces
            own.fail(exc)
            for piece in others:
                piece.fail(exc if isinstance(exc, AttestError) else unknown_outcome())
        finally:
            self._pass_on()
            for piece in pieces:
                piece.finish()

    def _taken(self) -> list[_Piece[W, Any]]:
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_PIECES))]

    def _pass_on(self) -> None:
        with self._lock:
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].lead()


class _Piece(Generic[W, T]):
    """One piece of work and its result. Until it is finished, only the leading thread uses it."""

    def __init__(self, work: Callable[[W], T]) -> None:
        self._work = work
        self._context: Context = copy_context()
        self._woken = threading.Event()
        self._leads = False
        self._values: list[T] = []
        self._error: BaseException | None = None

    def wait(self) -> bool:
        """Wait for a result, or for the lead; return True if this thread leads."""
        self._woken.wait()
        return self._leads

    def lead(self) -> None:
        self._leads = True
        self._woken.set()

    def do(self, writer: W) -> None:
        self._values.append(self._context.run(self._work, writer))

    def fail(self, error: BaseException) -> None:
        self._error = error

    def finish(self) -> None:
        self._woken.set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._values[0]


def _do(pieces: list[_Piece[W, Any]], writer: W) -> None:  # Any: as above
    """Do the pieces in their order.

    Raises:
        DBAPIError: the database failed, and the transaction may have ended already.
        Exception: as the work, if there is one piece: then the transaction is rolled back.
    """
    if len(pieces) == 1:
        pieces[0].do(writer)
        return
    for piece in pieces:
        try:
            with writer.part():
                piece.do(writer)
        except DBAPIError:
            raise
        except BaseException as exc:  # noqa: BLE001  as above
            piece.fail(exc)
