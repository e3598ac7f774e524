"""The Merkle tree over the log takes the place of the chain; the chain is checked a last time before it goes."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

from kms.domain.errors import LogBrokenError
from kms.store.migration_operations import make_append_only

revision = "0003"
down_revision = "0002"

_PAGE_ROWS = 500


def upgrade() -> None:
    nodes = op.create_table(
        "log_nodes",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
    )
    connection = op.get_bind()
    entries = sa.table("log_entries", *(sa.column(name) for name in ("seq", "entry", "previous", "hash")))
    edge: list[tuple[int, int, bytes]] = []  # level, index, hash of the subtrees that are whole, the largest first
    last = bytes(32)
    expected = 0
    for row in _rows(connection, entries):
        expected += 1
        entry = _blob(row.entry)
        chained = _chained(last, entry)
        if row.seq != expected or _blob(row.previous) != last or _blob(row.hash) != chained:
            raise LogBrokenError(
                f"log entry {expected}: it is missing, was altered, or does not follow the one before it",
                code="log-hash-mismatch",
                hint="keep the database as it is and find out who wrote to it; nothing was migrated",
            )
        last = chained
        for level, index, digest in _grow(edge, expected - 1, entry):
            position = (index << (level + 1)) + (1 << level) - 1
            connection.execute(nodes.insert().values(position=position, hash=digest))
    for name in ("previous", "hash"):
        op.drop_column("log_entries", name)
    make_append_only("log_nodes")


def _rows(connection: sa.Connection, entries: sa.TableClause) -> Iterator[sa.Row[Any]]:
    """Read page by page: the log may be larger than the memory, and the connection writes in between."""
    statement = sa.select(entries).order_by(entries.c.seq).limit(_PAGE_ROWS)
    page = connection.execute(statement).all()
    while page:
        yield from page
        page = connection.execute(statement.where(entries.c.seq > page[-1].seq)).all()


def _blob(value: object) -> bytes:
    """Read a column; a value that is not bytes gets the hash of nothing, and is found."""
    return bytes(value) if isinstance(value, (bytes, memoryview)) else b""


def _chained(previous: bytes, entry: bytes) -> bytes:
    return sha256(b"attest kms log v1\0" + previous + entry).digest()


def _grow(edge: list[tuple[int, int, bytes]], index: int, entry: bytes) -> list[tuple[int, int, bytes]]:
    """Add a leaf to the right edge, and return the nodes that it completes."""
    level, digest = 0, sha256(b"\x00" + entry).digest()
    completed = [(level, index, digest)]
    while edge and edge[-1][0] == level:
        digest = sha256(b"\x01" + edge.pop()[2] + digest).digest()
        level, index = level + 1, index >> 1
        completed.append((level, index, digest))
    edge.append(completed[-1])
    return completed
