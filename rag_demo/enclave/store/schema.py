"""The tables of the SQLCipher file.

Every row of a document has the number of its collection, and every statement filters by it. The words are in one FTS5
table for each collection: a ranking over all collections would reveal the common words of one in the order of another's
answers, and a search would take longer because of the documents of others.

The FTS5 tables keep the words they indexed. A row is therefore deleted from the index by its number, even if a later
version of Python classifies letters differently.
"""

from __future__ import annotations

from enum import IntEnum

APPLICATION_ID = 0x41525347
"""``ARSG``: mark of a database of this project, for readers with its key."""
USER_VERSION = 2
"""Raised with every change of the tables that an older program cannot read."""


class IngestState(IntEnum):
    """State of a document. Only whole ones are ever listed or found."""

    COMING = 0
    WHOLE = 1
    GOING = 2


TABLES = (
    """CREATE TABLE about (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID""",
    # AUTOINCREMENT: the number of a deleted collection never names another one.
    """CREATE TABLE collections (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id BLOB NOT NULL UNIQUE CHECK (length(id) = 32)
    ) STRICT""",
    """CREATE TABLE documents (
        collection INTEGER NOT NULL REFERENCES collections (number),
        id TEXT NOT NULL,
        state INTEGER NOT NULL CHECK (state IN (0, 1, 2)),
        name TEXT NOT NULL,
        media_type TEXT NOT NULL,
        size INTEGER NOT NULL,
        pages INTEGER NOT NULL,
        passages INTEGER NOT NULL,
        text_bytes INTEGER NOT NULL,
        added TEXT NOT NULL,
        language TEXT NOT NULL,
        PRIMARY KEY (collection, id)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE passages (
        number INTEGER PRIMARY KEY,
        collection INTEGER NOT NULL,
        document TEXT NOT NULL,
        page INTEGER,
        section TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        text TEXT NOT NULL,
        FOREIGN KEY (collection, document) REFERENCES documents (collection, id)
    ) STRICT""",
    "CREATE UNIQUE INDEX passages_of ON passages (collection, document, ordinal)",
    """CREATE TABLE vectors (
        number INTEGER PRIMARY KEY REFERENCES passages (number),
        collection INTEGER NOT NULL,
        vector BLOB NOT NULL
    ) STRICT""",
    "CREATE INDEX vectors_of ON vectors (collection)",
)


def words_table(collection: int) -> str:
    """Return the name of the table with the words of a collection."""
    return f"words_{int(collection)}"


def make_words(collection: int) -> str:
    """Return the statement that makes it. Accents are gone and letters small before a word comes here."""
    return (
        f"CREATE VIRTUAL TABLE {words_table(collection)} "
        "USING fts5 (words, tokenize = 'unicode61 remove_diacritics 0', columnsize = 1)"
    )
