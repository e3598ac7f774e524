"""The authenticated state in the database: nodes of the map of rows, and its root."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Final

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, bindparam, delete, insert, select, text, update

from kms.domain.recent_values import RecentValues
from kms.domain.state_map import CHILDREN, EMPTY, Bucket, Node, Path, changed, digits_of, find, read_node
from kms.domain.state_root import LogEdge, StateKeys, StateRoot, forged, read_root, rolled_back
from kms.store.schema import metadata
from kms.store.state_rows import Values

state_nodes = Table(
    "state_nodes",
    metadata,
    Column("path", LargeBinary, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""Nodes of the map, see ``kms/domain/state_map.py``."""

state_root = Table(
    "state_root",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
    Column("mac", LargeBinary, nullable=False),
)
"""One row: the newest root, see ``kms/domain/state_root.py``."""

MAX_CACHED_NODES: Final = 4096
"""Verified nodes that a process keeps, and up to as many again; one is about 2 KiB."""
MAX_CACHED_ROWS: Final = 4096
"""Entries of the map with verified rows that a process keeps, and up to as many again; one is about 2 KiB."""
_READ_AHEAD: Final = 4
"""Nodes of a path that are read at once."""
_MANY: Final = 1000
"""Changes that concern most nodes of their part of the map."""
_ROOT_ID: Final = 1


class StateAuthority:
    """The keys of the state and what one process has verified of it, shared by its transactions."""

    def __init__(self, keys: StateKeys) -> None:
        self.keys = keys
        self._nodes = RecentValues[bytes, Node](MAX_CACHED_NODES)
        self._rows = RecentValues[bytes, tuple[bytes, tuple[Values, ...]]](MAX_CACHED_ROWS)
        self._lock = threading.Lock()
        self._newest = 0
        self._root: tuple[tuple[bytes, bytes], StateRoot | None] = ((b"", b""), None)

    @property
    def newest(self) -> int:
        """The highest counter seen."""
        return self._newest

    def saw(self, counter: int) -> None:
        """Remember a counter."""
        with self._lock:
            self._newest = max(self._newest, counter)

    def root(self, content: bytes, mac: bytes) -> StateRoot:
        """Verify a root, unless it is the one that was verified last.

        Raises:
            IntegrityError: ``state-forged``.
        """
        stored, known = self._root
        if known is None or stored != (content, mac):
            known = read_root(content, mac, key=self.keys.root)
            self._root = (content, mac), known
        return known

    def known(self, digest: bytes) -> Node | None:
        """Return a node that was verified before."""
        return self._nodes.get(digest)

    def rows(self, key: bytes, digest: bytes) -> tuple[Values, ...] | None:
        """Return the rows of an entry that were verified with this value before."""
        known = self._rows.get(key)
        return known[1] if known is not None and known[0] == digest else None

    def keep_rows(self, key: bytes, digest: bytes, rows: tuple[Values, ...]) -> None:
        """Remember the rows of an entry, which have this value."""
        self._rows.put({key: (digest, rows)})

    def keep(self, nodes: Mapping[bytes, Node]) -> None:
        """Remember verified nodes by their digests."""
        self._nodes.put(nodes)


class State:
    """The state in one transaction."""

    def __init__(
        self,
        connection: Connection,
        authority: StateAuthority | None,
        *,
        newest: int = 0,
        rows: bool = True,
    ) -> None:
        """Make the state of a transaction.

        Args:
            connection: of the transaction.
            authority: keys; None while a database is being opened, before they are known.
            newest: the highest counter that was seen before the transaction.
            rows: False for an examination, which reads altered rows to name them.
        """
        self._rows = rows
        self._connection = connection
        self._authority = authority
        self._newest = newest
        self._root: StateRoot | None = None
        self._written: bytes | None = None
        self._changes: dict[bytes, bytes | None] = {}
        self._noted: dict[bytes, bytes | None] | None = None

    @property
    def verifies(self) -> bool:
        """False while a database is being opened, before its keys are known, and for an examination."""
        return self._authority is not None and self._rows

    @property
    def has_keys(self) -> bool:
        """False while a database is being opened."""
        return self._authority is not None

    @property
    def authority(self) -> StateAuthority:
        """The key, and what is verified already.

        Raises:
            IntegrityError: ``state-forged``: there is no key.
        """
        if self._authority is None:
            raise forged("the database was not opened with the key of its state", field="state_root")
        return self._authority

    def open_with(self, authority: StateAuthority) -> None:
        """Verify with this key from now on: of a database that is made or migrated in this transaction."""
        self._authority = authority

    @property
    def root(self) -> StateRoot:
        """The root before this transaction.

        Raises:
            IntegrityError: ``state-forged`` or ``state-rolled-back``.
        """
        if self._root is None:
            self._root = self._read_root()
        return self._root

    def _read_root(self) -> StateRoot:
        row = self._connection.execute(_ROOT).one_or_none()
        if row is None:
            raise forged("the root of the state is missing in the database", field="state_root")
        found = self.authority.root(_bytes(row.content), _bytes(row.mac))
        if found.counter < self._newest:
            raise rolled_back(
                "the database is older than this process has seen before",
                field="state_root",
                expected=f"at least transaction {self._newest}",
                got=f"transaction {found.counter}",
            )
        self.authority.saw(found.counter)
        return found

    # --- entries ------------------------------------------------------------------------------------------------------

    def value(self, key: bytes) -> bytes | None:
        """Return the value of an entry, with the changes of this transaction; None if there is none."""
        if key in self._changes:
            return self._changes[key]
        value = find(self._map, key, lambda depth, digest: self._node_of(key, depth, digest))
        if self._noted is not None:
            self._noted[key] = value
        return value

    @contextmanager
    def noting(self) -> Iterator[Mapping[bytes, bytes | None]]:
        """Open a block whose entries are noted as they are read, for ``holds`` in a later transaction."""
        noted: dict[bytes, bytes | None] = {}
        self._noted = noted
        try:
            yield noted
        finally:
            self._noted = None

    def holds(self, noted: Mapping[bytes, bytes | None]) -> bool:
        """Return True if entries that were noted are still the same."""
        return all(self.value(key) == value for key, value in noted.items())

    def put(self, key: bytes, value: bytes | None) -> None:
        """Change an entry; None removes it."""
        self._changes[key] = value

    def mark(self) -> dict[bytes, bytes | None]:
        """Return the changes so far, for ``restore``."""
        return dict(self._changes)

    def restore(self, mark: dict[bytes, bytes | None]) -> None:
        """Forget the changes since a mark."""
        self._changes = mark

    def count(self) -> int:
        """Return the number of entries; reads every node."""
        return self._count(b"", self._map)

    def _count(self, path: Path, digest: bytes) -> int:
        if digest == EMPTY:
            return 0
        node = self._node(path, digest)
        if isinstance(node, Bucket):
            return len(node.entries)
        self._read(path + bytes([digit]) for digit in range(CHILDREN))
        return sum(self._count(path + bytes([digit]), child) for digit, child in enumerate(node.children))

    @property
    def _map(self) -> bytes:
        """Root digest of the map, with what this transaction has written."""
        return self.root.state if self._written is None else self._written

    def _node_of(self, key: bytes, depth: int, digest: bytes) -> Node:
        known = self.authority.known(digest)
        if known is not None:
            return known
        digits = digits_of(key)
        return self._stored([digits[:length] for length in range(depth, depth + _READ_AHEAD)], digest)

    def _node(self, path: Path, digest: bytes) -> Node:
        return self.authority.known(digest) or self._stored([path], digest)

    def _node_with_siblings(self, path: Path, digest: bytes) -> Node:
        siblings = [path[:-1] + bytes([digit]) for digit in range(CHILDREN)] if path else [path]
        return self.authority.known(digest) or self._stored(siblings, digest)

    def _stored(self, paths: Sequence[Path], digest: bytes) -> Node:
        found = self._read(paths)
        if digest not in found:
            raise forged("a node of the state is missing or was altered", field="state_nodes")
        return found[digest]

    def _read(self, paths: Iterable[Path]) -> dict[bytes, Node]:
        rows = self._connection.execute(_NODES, {"paths": list(paths)})
        found = dict(_verified(_bytes(row.content)) for row in rows)
        self.authority.keep(found)
        return found

    # --- the end of a writing transaction -----------------------------------------------------------------------------

    def exists(self) -> bool:
        """Return True if the database has a root of its state; it is not verified."""
        return self._connection.execute(_ROOT).one_or_none() is not None

    def begin(self) -> None:
        """Write the root of an empty state, into a database that has none."""
        self._root = StateRoot()
        self._connection.execute(insert(state_root).values(id=_ROOT_ID, **self._sealed(self._root)))

    def adopt_log(self, log: LogEdge) -> None:
        """Include this end of the log in the root of a new state."""
        self._root = replace(self.root, log=log)
        self._connection.execute(_SET_ROOT, self._sealed(self._root))

    def flush(self) -> None:
        """Write the nodes that differ; ``settle`` writes their root."""
        read = self._node if len(self._changes) < _MANY else self._node_with_siblings
        made = changed(self._map, self._changes, read)
        gone = [{"at": path} for path, node in made.nodes.items() if node is None]
        kept = [(path, node) for path, node in made.nodes.items() if node is not None]
        if gone:
            self._connection.execute(_DROP_NODE, gone)
        if kept:
            self._connection.execute(_PUT_NODE, [{"path": path, "content": node.content} for path, node in kept])
            self.authority.keep({node.digest: node.node for _, node in kept})
        self._written, self._changes = made.root, {}

    def settle(self, log: LogEdge) -> None:
        """Write the nodes that differ and the next root, if the state or the log changed."""
        before = self.root
        if self._changes:
            self.flush()
        if self._map == before.state and log == before.log:
            return
        self._root = StateRoot(counter=before.counter + 1, state=self._map, log=log)
        self._connection.execute(_SET_ROOT, self._sealed(self._root))

    def settled(self) -> None:
        """Remember the root, after the commit."""
        if self._root is not None:
            self.authority.saw(self._root.counter)

    def _sealed(self, root: StateRoot) -> dict[str, bytes]:
        content = root.content()
        return {"content": content, "mac": self.authority.keys.root.mac(content)}


_ROOT = select(state_root.c.content, state_root.c.mac).where(state_root.c.id == _ROOT_ID)
_SET_ROOT = update(state_root).where(state_root.c.id == _ROOT_ID)
_NODES = select(state_nodes.c.content).where(state_nodes.c.path.in_(bindparam("paths", expanding=True)))
_DROP_NODE = delete(state_nodes).where(state_nodes.c.path == bindparam("at"))
# The same in the SQL of both databases; the library has one construct for each.
_PUT_NODE = text(
    "INSERT INTO state_nodes (path, content) VALUES (:path, :content) "
    "ON CONFLICT (path) DO UPDATE SET content = excluded.content"
)


def _verified(content: bytes) -> tuple[bytes, Node]:
    try:
        return sha256(content).digest(), read_node(content)
    except ValueError as exc:
        raise forged("a node of the state is malformed", field="state_nodes") from exc


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
