"""The log in the database: its entries, and the hashes of the tree over them. Triggers refuse to change either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Column, Connection, LargeBinary, Row, Table, bindparam, func, insert, select

from attest.encoding import JsonValue, rfc3339_text
from kms.domain.errors import LogBrokenError, UnavailableError
from kms.domain.log_entries import GENESIS, LogEntry, LogHead, make_entry
from kms.domain.log_tree import Node, grown, node_position
from kms.store.repository import Repository
from kms.store.schema import APPEND_ONLY, metadata

CLOCK_TOLERANCE_SECONDS = 60
"""A moment may lie this far before the newest log entry, since requests overlap. A used challenge is stored for as long
after its end: a clock that goes back by less revives none, and one that goes back by more is refused."""

_PAGE_ROWS = 500

log_entries = Table(
    "log_entries",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""The log, see ``kms/domain/log_entries.py``. Triggers refuse every UPDATE and DELETE."""

log_nodes = Table(
    "log_nodes",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""The tree over it, see ``kms/domain/log_tree.py``: whole subtrees by their position. Triggers refuse likewise."""


class LogReader(Repository):
    """The log in a reading transaction."""

    def head(self) -> LogHead:
        """Return the newest entry of the log."""
        row = self._connection.execute(_NEWEST).one_or_none()
        if row is None:
            return GENESIS
        entry = _entry(row)
        return LogHead(seq=entry.seq, time=entry.time())

    def entries(self, *, after: int = 0, limit: int | None = None) -> Iterator[LogEntry]:
        """Iterate over the entries after a number, in their order, up to a limit."""
        left = limit
        # Page by page, so that a caller that stops early leaves no cursor open on the server.
        while left is None or left > 0:
            page = _PAGE_ROWS if left is None else min(left, _PAGE_ROWS)
            statement = _LOG.where(log_entries.c.seq > after).order_by(log_entries.c.seq).limit(page)
            rows = self._connection.execute(statement).all()
            for row in rows:
                yield _entry(row)
            if len(rows) < page:
                return
            after = rows[-1].seq
            left = None if left is None else left - page

    def size(self) -> int:
        """Return the number of entries, which is the number of leaves of the tree."""
        size: int | None = self._connection.execute(_SIZE).scalar_one()
        return size or 0

    def nodes(self, wanted: Sequence[Node]) -> dict[Node, bytes]:
        """Return the hashes of these nodes of the tree; missing ones are absent.

        Raises:
            LogBrokenError: ``log-tree-broken``: a row holds something else than bytes.
        """
        positions = {node_position(node): node for node in wanted}
        rows = self._connection.execute(_NODES, {"positions": list(positions)})
        return {positions[row.position]: _hash(row.hash) for row in rows}

    def node_count(self) -> int:
        """Return the number of stored hashes of the tree."""
        return self._connection.execute(select(func.count()).select_from(log_nodes)).scalar_one()


class LogRepository(LogReader):
    """The log in a writing transaction, with a cache of its own writes."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._newest: LogHead | None = None
        self._recent: dict[Node, bytes] = {}

    def head(self) -> LogHead:
        """Return the newest entry of the log."""
        if self._newest is None:
            self._newest = super().head()
        return self._newest

    def require_time(self, at: datetime) -> LogHead:
        """Return the head of the log; refuse a moment before it by more than the tolerance (MC-35).

        Raises:
            UnavailableError: ``clock-went-back``.
        """
        head = self.head()
        if head.time is not None and at < head.time - timedelta(seconds=CLOCK_TOLERANCE_SECONDS):
            raise UnavailableError(
                f"the clock says {rfc3339_text(at)}, and the log was written at {rfc3339_text(head.time)}",
                code="clock-went-back",
                expected=f"at most {CLOCK_TOLERANCE_SECONDS} s before the newest log entry",
                got=rfc3339_text(at),
                hint="correct the machine's clock",
                retryable=True,
            )
        return head

    def add(self, *, kind: str, at: datetime, body: Mapping[str, JsonValue]) -> LogEntry:
        """Make the next entry of the log and write it.

        Raises:
            UnavailableError: ``clock-went-back``.
        """
        entry = self.prepare(kind=kind, at=at, body=body)
        self.append(entry)
        return entry

    def prepare(self, *, kind: str, at: datetime, body: Mapping[str, JsonValue]) -> LogEntry:
        """Make the next entry of the log; ``append`` writes it.

        Raises:
            UnavailableError: ``clock-went-back``.
        """
        return make_entry(self.require_time(at), kind=kind, at=at, body=body)

    def append(self, entry: LogEntry) -> None:
        """Write the next entry of the log, and the hashes of the tree that it completes."""
        self._connection.execute(_ADD_ENTRY, {"seq": entry.seq, "entry": entry.raw})
        nodes = grown(entry.seq - 1, entry.leaf_hash, self._left)
        self._connection.execute(_ADD_NODES, [{"position": node_position(node), "hash": h} for node, h in nodes])
        self._recent.update(nodes)
        self._newest = LogHead(seq=entry.seq, time=entry.time())

    def forget(self) -> None:
        """Clear the cache, since the writes may have been rolled back."""
        self._newest = None
        self._recent.clear()

    def _left(self, wanted: Sequence[Node]) -> dict[Node, bytes]:
        known = {node: self._recent[node] for node in wanted if node in self._recent}
        missing = [node for node in wanted if node not in known]
        return known | self.nodes(missing) if missing else known


_LOG = select(log_entries)
_NEWEST = _LOG.order_by(log_entries.c.seq.desc()).limit(1)
_SIZE = select(func.max(log_entries.c.seq))
_NODES = select(log_nodes.c.position, log_nodes.c.hash).where(
    log_nodes.c.position.in_(bindparam("positions", expanding=True))
)
_ADD_ENTRY = insert(log_entries)
_ADD_NODES = insert(log_nodes)


def _entry(row: Row[tuple[object, ...]]) -> LogEntry:
    """Read a row. SQLite keeps any type that is written into a column, so the type is checked."""
    if not isinstance(row.entry, bytes):
        raise LogBrokenError(
            f"log entry {row.seq}: its column holds something else than bytes", code="log-entry-invalid"
        )
    return LogEntry(seq=row.seq, raw=row.entry)


def _hash(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise LogBrokenError("the tree of the log holds something else than hashes", code="log-tree-broken")
    return value
