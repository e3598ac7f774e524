"""Backups: every row of every table at one moment, in a format for both kinds of databases.

::

    first line    {"schema": "kms.backup/1", "revision": …, "origin": …, "created_at": …}
    then          ["table", {"column": value, …}] a row, parents before children; bytes as base64url
    last but one  {"head": "SIZE:ROOT", "rows": {"table": number, …}}
    last line     {"sha256": over every byte before this line, "mac": under a key of the state, over that digest}

Each line is JSON and ends with a newline. Keys are in wrapped form, as in the database; the key-encryption key is not
included. The digest detects damage, and the code detects alterations: without the key-encryption key, no acceptable
backup can be made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import groupby, islice, takewhile
from operator import itemgetter
from typing import BinaryIO, Final, Protocol

from sqlalchemy import Column, Table

from attest.encoding import JsonValue, base64url_bytes, base64url_text, json_value, rfc3339_text
from attest.errors import ConfigurationError, EvidenceError
from kms.domain.errors import IntegrityError
from kms.domain.log_tree import root
from kms.domain.log_verification import LogState
from kms.store.schema import REVISIONS, metadata
from kms.store.transactions import ReadTransaction, WriteTransaction

SCHEMA: Final = "kms.backup/1"
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest row is a document of reference values, of at most 2 MiB."""
_ROWS_AT_A_TIME: Final = 500
_NO_ROW: Final = b"{"

_Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSummary:
    """Properties of a backup.

    Attributes:
        created_at: moment of the backup, RFC 3339.
        head: state of the log, as ``SIZE:ROOT``.
        digest: SHA-256 of everything before the last line, 32 bytes.
        mac: code of that digest, 32 bytes.
    """

    origin: str
    created_at: str
    rows: Mapping[str, int]
    head: str
    digest: bytes
    mac: bytes


class Sink(Protocol):
    """Receiver of bytes."""

    def write(self, data: bytes, /) -> object:
        """Write all of them."""


def write_backup(tx: ReadTransaction, sink: Sink, *, origin: str, at: datetime) -> BackupSummary:
    """Write every row that this transaction sees.

    Raises:
        IntegrityError: ``backup-row-invalid``: a column holds a value of another type.
        LogBrokenError: ``log-tree-broken``.
    """
    digest, counts = sha256(), Counter[str]()

    def write(document: JsonValue) -> None:
        line = json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        sink.write(line)

    created_at = rfc3339_text(at)
    write({"schema": SCHEMA, "revision": REVISIONS[-1], "origin": origin, "created_at": created_at})
    for table in metadata.sorted_tables:
        with closing(tx.tables.rows(table)) as rows_of_table:
            for row in rows_of_table:
                write([table.name, {column.name: _encoded(table, column, row) for column in table.columns}])
                counts[table.name] += 1
    rows = {table.name: counts[table.name] for table in metadata.sorted_tables}
    size = tx.log.size()
    head = LogState(size=size, root=root(size, tx.log.nodes)).text
    write({"head": head, "rows": dict(rows)})
    total = digest.digest()
    mac = tx.state.authority.keys.backup.mac(total)
    write({"sha256": total.hex(), "mac": mac.hex()})
    return BackupSummary(origin=origin, created_at=created_at, rows=rows, head=head, digest=total, mac=mac)


def check_backup(source: BinaryIO) -> BackupSummary:
    """Verify a whole backup, without storing anything of it.

    Raises:
        ConfigurationError: ``backup-invalid``: truncated, altered, or not a backup; ``backup-other-schema``.
    """
    digest, counts = sha256(), Counter[str]()
    lines = _lines(source)
    first = next(lines, b"")
    head = _members(first, {"schema", "revision", "origin", "created_at"}, "its first line")
    _require_schema(head)
    digest.update(first)
    line = b""
    for line in lines:
        if line.startswith(_NO_ROW):
            break
        digest.update(line)
        counts[_row(line)[0].name] += 1
    end = _members(line, {"head", "rows"}, "its last line but one")
    digest.update(line)
    rows = {table.name: counts[table.name] for table in metadata.sorted_tables}
    sealed = _members(next(lines, b""), {"sha256", "mac"}, "its last line")
    if sealed["sha256"] != digest.hexdigest() or end["rows"] != rows or next(lines, None) is not None:
        raise _invalid("its digest does not match its content")
    return BackupSummary(
        origin=str(head["origin"]),
        created_at=str(head["created_at"]),
        rows=rows,
        head=str(end["head"]),
        digest=digest.digest(),
        mac=_mac(sealed["mac"]),
    )


def _mac(text: JsonValue) -> bytes:
    try:
        return bytes.fromhex(str(text))
    except ValueError as exc:
        raise _invalid("its last line is malformed") from exc


def _require_schema(head: Mapping[str, JsonValue]) -> None:
    if head["schema"] != SCHEMA:
        raise _invalid("its first line has an unsupported schema")
    if head["revision"] != REVISIONS[-1]:
        raise ConfigurationError(
            f"the backup has schema {str(head['revision'])[:40]!r}, but this version requires {REVISIONS[-1]}",
            code="backup-other-schema",
            field="backup",
            expected=REVISIONS[-1],
            got=str(head["revision"])[:40],
            hint="restore it with the version that made it, then migrate",
        )


def fill_from(tx: WriteTransaction, source: BinaryIO) -> None:
    """Write every row of a verified backup into empty tables.

    Raises:
        ConfigurationError: ``backup-invalid``.
    """
    lines = _lines(source)
    next(lines, None)
    rows = map(_row, takewhile(lambda line: not line.startswith(_NO_ROW), lines))
    for table, rows_of_table in groupby(rows, key=itemgetter(0)):
        while page := [row for _, row in islice(rows_of_table, _ROWS_AT_A_TIME)]:
            tx.tables.add(table, page)
    tx.tables.settle_numbers()


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Iterate over whole lines of bounded length, from the beginning."""
    source.seek(0)
    while line := source.readline(MAX_LINE_BYTES + 1):
        if not line.endswith(b"\n"):
            raise _invalid("it is truncated, or a line is too long")
        yield line


def _members(line: bytes, names: set[str], what: str) -> dict[str, JsonValue]:
    document = _json(line)
    if not isinstance(document, dict) or document.keys() != names:
        raise _invalid(f"{what} is malformed")
    return document


def _row(line: bytes) -> tuple[Table, _Row]:
    document = _json(line)
    if not isinstance(document, list) or len(document) != 2:
        raise _invalid("a line is not a row")
    name, values = document
    table = metadata.tables.get(name) if isinstance(name, str) else None
    if table is None or not isinstance(values, dict) or values.keys() != set(table.columns.keys()):
        raise _invalid("a row belongs to an unknown table")
    return table, {column.name: _decoded(column, values[column.name]) for column in table.columns}


def _json(line: bytes) -> JsonValue:
    try:
        return json_value(line, what="backup")
    except EvidenceError as exc:
        raise _invalid("a line is not JSON") from exc


def _encoded(table: Table, column: Column[object], row: Mapping[str, object]) -> JsonValue:
    value = row[column.name]
    if value is None and column.nullable:
        return None
    if type(value) is column.type.python_type:
        if isinstance(value, bytes):
            return base64url_text(value)
        if isinstance(value, (str, int)):
            return value
    raise IntegrityError(
        f"a row of table {table.name} has an invalid value in {column.name}",
        code="backup-row-invalid",
        field=f"{table.name}.{column.name}",
        hint="the database was altered or damaged; 'kms fsck' has details",
    )


def _decoded(column: Column[object], value: JsonValue) -> object:
    kind = column.type.python_type
    if value is None and column.nullable:
        return None
    if kind is bytes and isinstance(value, str):
        try:
            return base64url_bytes(value, what=column.name)
        except EvidenceError as exc:
            raise _invalid(f"a value of {column.name} is not base64url") from exc
    if type(value) is not kind:
        raise _invalid(f"a value of {column.name} has the wrong type")
    return value


def _invalid(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"this is not a complete backup: {problem}",
        code="backup-invalid",
        field="backup",
        got=problem,
        hint="it was altered, damaged or truncated; use another copy of it, or another backup",
    )
