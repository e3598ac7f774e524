"""The log in the database: its entries, and the hashes of the tree over them. Triggers refuse to change either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Column, Connection, LargeBinary, Row, Table, bindparam, func, insert, select

from attest.encoding import JsonValue, rfc3339_text
from kms.domain.errors import LogBrokenError, UnavailableError
from kms.domain.log_entries import GENESIS, LogEntry, LogHead, make_entry
from kms.domain.log_tree import Frontier, Node, edge_nodes, node_position, root
from kms.domain.state_root import EMPTY_LOG, LogEdge, forged
from kms.store.repository import Repository
from kms.store.schema import APPEND_ONLY, metadata
from kms.store.state import State

CLOCK_TOLERANCE_SECONDS = 60
"""Tolerance for a moment before the newest log entry, since requests overlap. A used challenge is stored for as long
after its expiry, so that a clock that is set back by less does not revive it; a larger step is refused."""

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
"""The tree over it, see ``kms/domain/log_tree.py``: subtrees by their position. Triggers refuse UPDATE and DELETE."""


class LogReader(Repository):
    """The log in a reading transaction."""

    def head(self) -> LogHead:
        """Return the newest entry of the log.

        Raises:
            IntegrityError: ``state-forged``: it is not the one that was written last.
        """
        entry = self._newest_entry()
        if self._state.verifies:
            end = self._state.root.log
            if end.size if entry is None else (entry.seq, entry.leaf_hash) != (end.size, end.leaf):
                raise forged("the log does not end with the last written entry", field="log_entries")
        return GENESIS if entry is None else LogHead(seq=entry.seq, time=entry.time())

    def _newest_entry(self) -> LogEntry | None:
        row = self._connection.execute(_NEWEST).one_or_none()
        return None if row is None else _entry(row)

    def require_time(self, at: datetime) -> LogHead:
        """Return the head of the log; refuse a moment before it by more than the tolerance (MC-35).

        Raises:
            UnavailableError: ``clock-went-back``.
        """
        head = self.head()
        if head.time is not None and at < head.time - timedelta(seconds=CLOCK_TOLERANCE_SECONDS):
            raise UnavailableError(
                f"the clock is at {rfc3339_text(at)}, but the log was written at {rfc3339_text(head.time)}",
                code="clock-went-back",
                expected=f"at most {CLOCK_TOLERANCE_SECONDS} s before the newest log entry",
                got=rfc3339_text(at),
                hint="correct the machine's clock",
                retryable=True,
            )
        return head

    def require_root(self, digest: bytes) -> None:
        """Refuse a root of the log's tree that is not the one that was written last.

        Raises:
            IntegrityError: ``state-forged``.
        """
        if digest != self._state.root.log.root:
            raise forged("hashes of the log's tree were altered", field="log_nodes")

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
        return self.head().seq

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

    def __init__(self, connection: Connection, state: State) -> None:
        super().__init__(connection, state)
        self._newest: LogHead | None = None
        self._leaf: bytes | None = None
        self._tree: Frontier | None = None

    def head(self) -> LogHead:
        """Return the newest entry of the log."""
        if self._newest is None:
            self._newest = super().head()
        return self._newest

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
        tree = self._tree = self._tree or self._stored_tree()
        nodes = tree.add(entry.leaf_hash)
        rows = [{"position": node_position(node), "hash": digest} for node, digest in nodes]
        self._connection.execute(_ADD_ENTRY, {"seq": entry.seq, "entry": entry.raw})
        self._connection.execute(_ADD_NODES, rows)
        self._newest, self._leaf = LogHead(seq=entry.seq, time=entry.time()), entry.leaf_hash

    def _stored_tree(self) -> Frontier:
        """Return the tree as it was before this transaction, from the stored nodes of its edge."""
        end = self._state.root.log
        tree = Frontier(end.size, self.nodes(edge_nodes(end.size)))
        if tree.root() != end.root:
            raise forged("hashes of the log's tree were altered", field="log_nodes")
        return tree

    def stored_edge(self) -> LogEdge:
        """Return the end of the stored log, unverified."""
        entry = self._newest_entry()
        return EMPTY_LOG if entry is None else LogEdge(entry.seq, root(entry.seq, self.nodes), entry.leaf_hash)

    def edge(self) -> LogEdge:
        """Return the end of the log with the entries of this transaction."""
        if self._tree is None or self._leaf is None:
            return self._state.root.log
        return LogEdge(self._tree.size, self._tree.root(), self._leaf)

    def mark(self) -> LogMark:
        """Return the end of the log now, for ``restore``."""
        return self._newest, self._leaf, None if self._tree is None else self._tree.copy()

    def restore(self, mark: LogMark) -> None:
        """Forget the entries since a mark, which were rolled back."""
        self._newest, self._leaf, self._tree = mark


LogMark = tuple[LogHead | None, bytes | None, Frontier | None]
_LOG = select(log_entries)
_NEWEST = _LOG.order_by(log_entries.c.seq.desc()).limit(1)
_NODES = select(log_nodes.c.position, log_nodes.c.hash).where(
    log_nodes.c.position.in_(bindparam("positions", expanding=True))
)
_ADD_ENTRY = insert(log_entries)
_ADD_NODES = insert(log_nodes)


def _entry(row: Row[tuple[object, ...]]) -> LogEntry:
    """Read a row. SQLite keeps any type that is written into a column, so the type is checked."""
    if not isinstance(row.entry, bytes):
        raise LogBrokenError(f"log entry {row.seq}: its column does not contain bytes", code="log-entry-invalid")
    return LogEntry(seq=row.seq, raw=row.entry)


def _hash(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise LogBrokenError("the tree of the log contains values that are not hashes", code="log-tree-broken")
    return value
