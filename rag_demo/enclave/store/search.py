"""The queries of a search in the SQLCipher file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_demo.enclave.interfaces import IndexedPassage
from rag_demo.enclave.store.cipher_file import Connection, damaged
from rag_demo.enclave.store.matrices import Matrix
from rag_demo.enclave.store.rank_fusion import CANDIDATES, telling
from rag_demo.enclave.store.schema import IngestState, words_table

_WHOLE = (
    "FROM vectors v JOIN passages p ON p.number = v.number AND p.collection = v.collection"
    " JOIN documents d ON d.collection = p.collection AND d.id = p.document"
    " WHERE v.collection = ? AND d.state = ?"
)


def load_matrix(connection: Connection, collection: int, *, dimensions: int) -> Matrix:
    """Read the vectors of all whole documents of a collection.

    Raises:
        StoreDamagedError: a vector is of another length.
    """
    there = (collection, IngestState.WHOLE)
    (count,) = connection.execute(f"SELECT count(*) {_WHOLE}", there).fetchone()
    numbers, rows = np.zeros(count, dtype=np.int64), np.zeros((count, dimensions), dtype=np.float32)
    found = connection.execute(f"SELECT v.number, v.vector {_WHOLE} ORDER BY v.number", there)
    for at, (number, vector) in enumerate(found):
        if len(vector) != rows.itemsize * dimensions:
            raise damaged(f"a vector of {len(vector)} bytes")
        numbers[at] = number
        rows[at] = np.frombuffer(vector, dtype="<f4")
    return Matrix(numbers=numbers, rows=rows)


def find_by_words(connection: Connection, collection: int, words: Sequence[str], matrix: Matrix) -> list[int]:
    """Return the passages in which the words are, best first, by BM25 over this collection alone.

    The words are stems of `rag_demo.enclave.languages.terms`: letters and digits, without operators of FTS5.
    """
    table = words_table(collection)
    asked = " OR ".join(f'"{word}"' for word in telling(_counts(connection, collection, words), matrix.numbers.size))
    if not asked:
        return []
    # Without LIMIT: rows of documents being added or deleted are skipped, and must not displace others.
    found = connection.execute(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rank",  # noqa: S608 -- the name is of a number
        (asked,),
    )
    numbers: list[int] = []
    for (number,) in found:
        if matrix.place(number) is not None:
            numbers.append(number)
            if len(numbers) == CANDIDATES:
                break
    found.close()
    return numbers


def languages_of(connection: Connection, collection: int) -> list[str]:
    """Return the languages of the documents of a collection: each stems the words of a question in its own way."""
    found = connection.execute(
        "SELECT DISTINCT language FROM documents WHERE collection = ? AND state = ? ORDER BY language",
        (collection, IngestState.WHOLE),
    )
    return [language for (language,) in found]


def _counts(connection: Connection, collection: int, words: Sequence[str]) -> dict[str, int]:
    """Return in how many passages each word is."""
    name = f"temp.vocabulary_{int(collection)}"
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab (main, {words_table(collection)}, row)"
    )
    counts: dict[str, int] = {}
    for word in words:
        row = connection.execute(
            f"SELECT doc FROM {name} WHERE term = ?",  # noqa: S608 -- the name is of a number
            (word,),
        ).fetchone()
        counts[word] = int(row[0]) if row else 0
    return counts


def passages_of(
    connection: Connection, collection: int, numbers: Sequence[int]
) -> dict[int, tuple[str, str, IndexedPassage, str]]:
    """Return document, name, passage and language by number."""
    marks = ", ".join("?" * len(numbers))
    found = connection.execute(
        "SELECT p.number, p.document, d.name, d.language, p.page, p.section, p.ordinal, p.text FROM passages p"  # noqa: S608 -- of marks
        " JOIN documents d ON d.collection = p.collection AND d.id = p.document"
        f" WHERE p.collection = ? AND d.state = ? AND p.number IN ({marks})",
        (collection, IngestState.WHOLE, *numbers),
    )
    return {
        number: (document, name, IndexedPassage(page=page, ordinal=ordinal, text=text, section=section), language)
        for number, document, name, language, page, section, ordinal, text in found
    }
