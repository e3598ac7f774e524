"""Guards of an open database: compared when it is opened, and advanced while it is written."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from attest.errors import AttestError
from kms.domain.errors import UnavailableError
from kms.domain.log_tree import root
from kms.domain.rollback import Remembered, RollbackGuard, StatePosition, read_guards, require_not_behind
from kms.store import ReadTransaction, Store

LAG_SECONDS: Final = 1.0
"""Longest delay before a release is recorded in a file; other guards have a longer one."""
_log = logging.getLogger("kms")


def require_current(store: Store, remembered: Iterable[Remembered]) -> StatePosition:
    """Refuse a database that is older than the positions of its guards; return its position.

    Raises:
        IntegrityError: ``state-rolled-back``.
        LogBrokenError: ``log-tree-broken``.
        UnavailableError: the database is in use, or away.
    """
    with store.reading() as tx:
        return require_current_in(tx, remembered)


def require_current_in(tx: ReadTransaction, remembered: Iterable[Remembered]) -> StatePosition:
    """Do the same in a transaction.

    Raises:
        IntegrityError: ``state-rolled-back``.
        LogBrokenError: ``log-tree-broken``.
    """
    require_not_behind(tx.position, remembered, root_at=partial(root, read=tx.log.nodes))
    return tx.position


def read_remote(
    guards: Iterable[RollbackGuard], *, others: int, report: Callable[[str], None]
) -> tuple[Remembered, ...]:
    """Return the positions of the guards on other machines. If at least one is available, others are only reported.

    ``others`` is the number of guards that were already read.

    Raises:
        ConfigurationError: ``rollback-guard-missing``: no guard is available.
    """
    found: list[Remembered] = []
    failed: AttestError | None = None
    for guard in guards:
        try:
            found += read_guards([guard])
        except AttestError as exc:
            failed = exc
            report(f"warning: {exc.message}")
    if failed is not None and not found and not others:
        raise failed
    return tuple(found)


class GuardWatch:
    """Advances guards to the position of a database."""

    def __init__(
        self, store: Store, guards: tuple[RollbackGuard, ...], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._guards = guards
        self._monotonic = monotonic
        self._failing_since: float | None = None
        self._noted = dict.fromkeys((guard.name for guard in guards), -math.inf)
        self._positions: dict[str, StatePosition] = {}

    def behind_seconds(self) -> float:
        """Return the seconds since a guard began to fail; 0 while all can be advanced."""
        since = self._failing_since
        return 0.0 if since is None else self._monotonic() - since

    def advance(self) -> None:
        """Advance every guard, after each change by an administrator and before the response.

        Raises:
            UnavailableError: ``rollback-guard-failed``: the change is in the database but not in every guard.
        """
        self._advance(self._guards)

    def round(self) -> None:
        """Advance the guards that are due.

        Raises:
            UnavailableError: as ``advance``.
        """
        ticks = self._monotonic()
        due = tuple(one for one in self._guards if ticks - self._noted[one.name] >= one.background_seconds)
        if due:
            self._advance(due)
            self._noted.update((one.name, ticks) for one in due)

    def _advance(self, guards: tuple[RollbackGuard, ...]) -> None:
        try:
            self._advance_all(guards)
        except AttestError:
            if self._failing_since is None:
                self._failing_since = self._monotonic()
            raise
        self._failing_since = None

    def _advance_all(self, guards: tuple[RollbackGuard, ...]) -> None:
        if not guards:
            return
        failed: AttestError | None = None
        try:
            with self._store.reading() as tx:
                position = tx.position
        except AttestError as exc:
            raise _behind(exc) from exc
        for guard in guards:
            if self._positions.get(guard.name) == position:
                continue
            try:
                guard.advance(position)
                self._positions[guard.name] = position
            except AttestError as exc:
                failed = exc  # the other guards are still advanced
        if failed is not None:
            raise _behind(failed) from failed


def _behind(error: AttestError) -> UnavailableError:
    return UnavailableError(
        f"the last change is in the database, but not in every rollback guard: {error.message}",
        code="rollback-guard-failed",
        field="rollback_guard",
        got=error.got,
        hint="repair the guard; do not repeat the change",
    )


@contextmanager
def kept_advanced(watch: GuardWatch, *, report: Callable[[str], None], seconds: float = LAG_SECONDS) -> Iterator[None]:
    """Advance the guards in a separate thread while the block runs, and once more at its end."""
    ended = threading.Event()
    failing: list[str] = []

    def turn(advance: Callable[[], None]) -> None:
        """Report a failure once, not at each attempt."""
        try:
            advance()
        except AttestError as exc:
            if failing != [exc.message]:
                report(f"error: rollback guard: {exc.message} [{exc.code}]; retrying")
            failing[:] = [exc.message]
        except Exception:  # noqa: BLE001  service and guard continue
            _log.exception("internal error in the rollback guard")
        else:
            failing.clear()

    def work() -> None:
        while not ended.wait(seconds):
            turn(watch.round)

    thread = threading.Thread(target=work, name="guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        turn(watch.advance)
