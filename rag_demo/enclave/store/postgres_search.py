"""What a search asks of PostgreSQL: nearest by meaning, exactly; nearest by words, by BM25 over one collection."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rag_demo.enclave.interfaces import Found, IndexedPassage, Vectors
from rag_demo.enclave.store.envelope import Envelope
from rag_demo.enclave.store.postgres_server import Server
from rag_demo.enclave.store.rank_fusion import CANDIDATES, telling
from rag_demo.enclave.store.schema import IngestState

__all__ = ["nearest_by_meaning", "nearest_by_words", "passages_of", "place_of"]

_WHOLE = (
    "JOIN rag_documents d ON d.collection = p.collection AND d.id = p.document"
    " WHERE p.collection = %(collection)s AND d.state = %(whole)s"
)
# k1 and b as FTS5 has them, so that both kinds of store rank alike.
_BM25 = (
    "SELECT p.number, sum(given.weight * w.count * 2.2"  # noqa: S608 -- of constants
    " / (w.count + 1.2 * (0.25 + 0.75 * p.words / %(average)s))) AS score"
    " FROM unnest(%(words)s::bytea[], %(weights)s::float8[]) AS given (word, weight)"
    " JOIN rag_words w ON w.collection = %(collection)s AND w.word = given.word"
    f" JOIN rag_passages p ON p.number = w.passage {_WHOLE}"
    " GROUP BY p.number ORDER BY score DESC, p.number LIMIT %(most)s"
)


def place_of(collection: int, ordinal: int) -> bytes:
    """Return what the authentication of a text says of its place; its document is in the key. -1 is the label's."""
    return f"{collection} {ordinal}".encode()


def nearest_by_meaning(server: Server, collection: int, vector: Vectors) -> list[int]:
    """Return the passages whose vectors are nearest: all are compared, by no index that would only nearly do so."""
    rows = server.execute(
        f"SELECT p.number FROM rag_passages p {_WHOLE}"  # noqa: S608 -- of constants
        " ORDER BY p.vector <#> %(vector)s, p.number LIMIT %(most)s".encode(),
        {"collection": collection, "whole": int(IngestState.WHOLE), "vector": vector, "most": CANDIDATES},
    ).fetchall()
    return [int(row[0]) for row in rows]


def nearest_by_words(server: Server, collection: int, words: Sequence[bytes]) -> list[int]:
    """Return the passages in which the words are, best first.

    Args:
        server: in a transaction.
        collection: its number.
        words: their tags.
    """
    row = server.execute(
        f"SELECT count(*), avg(p.words) FROM rag_passages p {_WHOLE}".encode(),  # noqa: S608 -- of constants
        {"collection": collection, "whole": int(IngestState.WHOLE)},
    ).fetchone()
    passages, average = (int(row[0]), float(row[1] or 1)) if row else (0, 1.0)
    counted = server.execute(
        "SELECT word, count(*) FROM rag_words WHERE collection = %s AND word = ANY(%s) GROUP BY word",
        (collection, list(words)),
    ).fetchall()
    counts = {bytes(word).hex(): int(count) for word, count in counted}
    asked = telling(counts, passages)
    if not asked:
        return []
    weights = [_weight(counts[word], passages) for word in asked]
    rows = server.execute(
        _BM25.encode(),
        {
            "collection": collection,
            "whole": int(IngestState.WHOLE),
            "words": [bytes.fromhex(word) for word in asked],
            "weights": weights,
            "average": max(1.0, average),
            "most": CANDIDATES,
        },
    ).fetchall()
    return [int(number) for number, _ in rows]


def _weight(count: int, passages: int) -> float:
    # What is being added is counted and not yet among the passages.
    return max(1e-6, math.log((max(0, passages - count) + 0.5) / (count + 0.5)))


def passages_of(
    server: Server, envelope: Envelope, collection: int, *, scores: Mapping[int, float], vector: Vectors, limit: int
) -> tuple[Found, ...]:
    """Return what was found, best first, opened."""
    rows = server.execute(
        "SELECT p.number, p.document, d.label, p.page, p.ordinal, p.text, -(p.vector <#> %(vector)s)"  # noqa: S608 -- of constants
        f" FROM rag_passages p {_WHOLE} AND p.number = ANY(%(numbers)s)".encode(),
        {"collection": collection, "whole": int(IngestState.WHOLE), "vector": vector, "numbers": list(scores)},
    ).fetchall()
    best = sorted(rows, key=lambda row: (-scores[row[0]], -row[6], row[0]))[:limit]
    return tuple(
        Found(
            document=bytes(document).hex(),
            name=envelope.open(bytes(document), place_of(collection, -1), bytes(label)).partition("\0")[0],
            passage=IndexedPassage(
                page=page,
                ordinal=ordinal,
                text=envelope.open(bytes(document), place_of(collection, ordinal), bytes(text)),
            ),
            similarity=max(-1.0, min(1.0, float(similarity))),
            score=scores[number],
        )
        for number, document, label, page, ordinal, text, similarity in best
    )
