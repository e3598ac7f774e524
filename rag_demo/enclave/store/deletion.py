"""Deletion in the SQLCipher file, in steps that each take milliseconds.

A document that is on its way in or out is marked as such before the first step and until after the last, so that
the next process that opens the file finishes an interrupted deletion.

FTS5 notes what was deleted beside what was indexed, and forgets both only when it merges. So the last step merges the
index of the collection whole (a third of a second for 25,000 passages). Its option ``secure-delete`` works row by row:
eight seconds for 2,000 passages of these, where this takes one.
"""

from __future__ import annotations

from rag_demo.enclave.store.cipher_file import Connection
from rag_demo.enclave.store.schema import IngestState, words_table

STEP_PASSAGES = 250
STEP_PAGES = 512


def unfinished(connection: Connection) -> tuple[tuple[int, str], ...]:
    """Return the collection and the id of every document that is not whole."""
    # Over all collections: this runs before the first request.
    rows = connection.execute("SELECT collection, id FROM documents WHERE state <> ?", (IngestState.WHOLE,)).fetchall()
    return tuple((int(collection), str(document)) for collection, document in rows)


def purge_some(connection: Connection, collection: int, document: str) -> bool:
    """Delete some passages of a document; return whether there may be more."""
    found = connection.execute(
        "SELECT p.number FROM passages p JOIN documents d ON d.collection = p.collection AND d.id = p.document"
        " WHERE p.collection = ? AND p.document = ? AND d.state <> ? LIMIT ?",
        (collection, document, IngestState.WHOLE, STEP_PASSAGES),
    ).fetchall()
    rows = [(number, collection) for (number,) in found]
    if rows:
        connection.executemany(f"DELETE FROM {words_table(collection)} WHERE rowid = ?", found)  # noqa: S608 -- a number
        connection.executemany("DELETE FROM vectors WHERE number = ? AND collection = ?", rows)
        connection.executemany("DELETE FROM passages WHERE number = ? AND collection = ?", rows)
    return len(rows) == STEP_PASSAGES


def drop_document(connection: Connection, collection: int, document: str) -> int:
    """Delete the document itself after its passages, merge the words, and delete a collection that is now empty.

    Returns:
        how many passages it had.
    """
    gone = connection.execute(
        "DELETE FROM documents WHERE collection = ? AND id = ? AND state <> ? RETURNING passages",
        (collection, document, IngestState.WHOLE),
    ).fetchall()
    if not gone:  # Another caller finished it.
        return 0
    table = words_table(collection)
    (left,) = connection.execute("SELECT count(*) FROM documents WHERE collection = ?", (collection,)).fetchone()
    if left:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 -- of a number
        return int(gone[0][0])
    connection.execute(f"DROP TABLE IF EXISTS temp.vocabulary_{collection}")
    connection.execute(f"DROP TABLE {table}")
    connection.execute("DELETE FROM collections WHERE number = ?", (collection,))
    return int(gone[0][0])


def release_pages(connection: Connection) -> bool:
    """Give pages without content back to the file system; return whether there may be more.

    ``secure_delete`` has overwritten them with zeros, encrypted as all else, before.
    """
    connection.execute(f"PRAGMA incremental_vacuum({STEP_PAGES})").fetchall()
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0]) > 0
