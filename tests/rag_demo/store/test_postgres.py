"""What is special about PostgreSQL: where it may be, what it is not told, and connections that are lost."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from attest.errors import ConfigurationError
from rag_demo.enclave.store import (
    SqliteStore,
    StoreClosedError,
    StoreDamagedError,
    StoreInUseError,
    StoreUnavailableError,
    StoreVersionError,
)
from rag_demo.enclave.store.postgres import PostgresStore
from rag_demo.enclave.store.postgres_server import LOCK
from tests.kms.postgres import WITH_PASSWORD, Server
from tests.rag_demo.store.support import EMBEDDER, KEY, MINE, YOURS, add, ask, document, killed_in_the_end, parts_of

Opener = Callable[..., PostgresStore]

SECRET = ("Quetzalcoatlus flew over the xylophone.", "Zwieback needs jasmine.")
SWAP = "UPDATE rag_passages p SET text = q.text FROM rag_passages q"
TABLES = ("rag_about", "rag_collections", "rag_documents", "rag_passages", "rag_words")


def rows_of(server: Server) -> dict[str, list[tuple[Any, ...]]]:
    with server.connected(server.url("rag")) as connection:
        return {table: connection.execute(f"TABLE {table}").fetchall() for table in TABLES}


# -- where it may be


@pytest.mark.parametrize("reason", ["", "yes", " " * 30])
def test_it_is_opened_only_with_a_reason_in_words(open_postgres: Opener, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_postgres(inside_boundary=reason)
    assert caught.value.code == "rag-store-outside"


def test_the_reason_cannot_be_left_out() -> None:
    with pytest.raises(TypeError, match="inside_boundary"):
        PostgresStore.open("postgresql://", KEY, dimensions=3, model="m")  # type: ignore[call-arg]  # on purpose


# -- what it is not told


def test_no_text_name_word_or_user_lies_there_in_the_clear(open_postgres: Opener, pgvector: Server) -> None:
    store = open_postgres()
    add(store, MINE, "Ornithopter", *SECRET)
    held = repr(rows_of(pgvector)).lower()
    assert "model" in held  # The names of facts are in the clear, and what is searched is there.
    for word in ("quetzalcoatlus", "xylophone", "zwieback", "jasmine", "ornithopter", "text/plain", "hashing"):
        assert word not in held
        assert word.encode().hex() not in held
    assert repr(MINE).lower() not in held
    # Vectors are; that is why it has to be inside.
    number = str(float(EMBEDDER.embed([SECRET[0]])[0].max()))[:6]
    assert number in held


def test_the_same_word_has_another_tag_in_another_collection(open_postgres: Opener, pgvector: Server) -> None:
    store = open_postgres()
    add(store, MINE, "mine", "xylophone")
    add(store, YOURS, "yours", "xylophone")
    (one, other) = [row[1] for row in rows_of(pgvector)["rag_words"]]
    assert one != other


def test_the_same_text_is_sealed_differently_each_time(open_postgres: Opener, pgvector: Server) -> None:
    add(open_postgres(), MINE, "twice", "The same.", "The same.")
    sealed = [bytes(row[6]) for row in rows_of(pgvector)["rag_passages"]]
    assert len({text[:12] for text in sealed}) == len({text[12:28] for text in sealed}) == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rag_passages SET text = set_byte(text, 20, get_byte(text, 20) # 1) WHERE ordinal = 0",
        "UPDATE rag_passages SET text = substr(text, 1, 5)",
        "UPDATE rag_passages SET text = ''",
        f"{SWAP} WHERE q.collection = p.collection AND q.document = p.document AND q.ordinal = 1 - p.ordinal",
        f"{SWAP} WHERE q.document <> p.document AND q.ordinal = p.ordinal",
        "UPDATE rag_documents p SET label = q.label FROM rag_documents q WHERE q.id <> p.id",
        "UPDATE rag_passages SET ordinal = ordinal + 7",
    ],
)
def test_a_text_that_was_altered_or_put_in_anothers_place_is_refused(
    open_postgres: Opener, pgvector: Server, change: str
) -> None:
    store = open_postgres()
    add(store, MINE, "one", *SECRET)
    add(store, MINE, "two", "Something else.", "And more.")
    with pgvector.connected(pgvector.url("rag")) as connection:
        assert connection.execute(change).rowcount > 0
    with pytest.raises(StoreDamagedError):
        ask(store, MINE, "xylophone", limit=10)


def test_another_key_is_refused(open_postgres: Opener) -> None:
    open_postgres().close()
    with pytest.raises(StoreDamagedError):
        open_postgres(key=bytes(32))
    with pytest.raises(ValueError, match="32 bytes"):
        open_postgres(key=b"short")


@pytest.mark.parametrize("changed", [{"model": "another"}, {"dimensions": 63}])
def test_vectors_of_another_model_are_refused(open_postgres: Opener, changed: dict[str, object]) -> None:
    open_postgres().close()
    with pytest.raises(StoreVersionError) as caught:
        open_postgres(**changed)
    assert caught.value.field == next(iter(changed))


def test_facts_that_are_missing_are_no_facts(open_postgres: Opener, pgvector: Server) -> None:
    open_postgres().close()
    with pgvector.connected(pgvector.url("rag")) as connection:
        connection.execute("DELETE FROM rag_about")
    with pytest.raises(StoreDamagedError):
        open_postgres()


# -- rows


def test_deletion_leaves_no_row(open_postgres: Opener, pgvector: Server) -> None:
    store = open_postgres()
    add(store, MINE, "gone", *(SECRET * 300))
    add(store, YOURS, "kept", "bread")
    assert store.delete(MINE, document("gone").id)
    left = rows_of(pgvector)
    assert [len(left[table]) for table in TABLES] == [3, 1, 1, 1, 1]
    assert store.delete_all(YOURS) == 1
    assert [len(rows) for rows in rows_of(pgvector).values()] == [3, 0, 0, 0, 0]


def test_both_kinds_of_store_find_the_same(open_postgres: Opener, open_sqlite: Callable[..., SqliteStore]) -> None:
    chance = random.Random(7)
    words = [f"w{number}" for number in range(60)]
    texts = [" ".join(chance.choices(words, k=chance.randint(3, 30))) for _ in range(150)]
    both = (open_postgres(), open_sqlite())
    for store in both:
        add(store, MINE, "made up", *texts)
    for _ in range(12):
        question = " ".join(chance.choices(words, k=4))
        one, other = (ask(store, MINE, question, limit=20) for store in both)
        # Equal vectors have products that differ in the last bit, and with it their ranks.
        assert [found.passage for found in one[:5]] == [found.passage for found in other[:5]]
        assert [found.score for found in one] == pytest.approx([found.score for found in other], rel=0.02)
        assert [one[at].similarity for at in range(5)] == pytest.approx(
            [other[at].similarity for at in range(5)], abs=1e-5
        )


# -- the server


def test_one_service_at_a_time_has_the_database(open_postgres: Opener) -> None:
    store = open_postgres()
    with pytest.raises(StoreInUseError):
        open_postgres()
    store.close()
    open_postgres()


def test_a_service_that_starts_anew_waits_until_the_server_has_noticed(open_postgres: Opener, pgvector: Server) -> None:
    with pgvector.connected(pgvector.url("rag")) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        ended = threading.Timer(0.5, connection.close)
        ended.start()
        open_postgres()
        ended.join()


def test_a_lost_connection_is_told_and_made_again(open_postgres: Opener, pgvector: Server) -> None:
    store = open_postgres()
    stored = add(store, MINE, "kept", *SECRET)
    pgvector.cut(pgvector.url("rag"))
    with pytest.raises(StoreUnavailableError) as caught:
        store.documents(MINE)
    assert caught.value.retryable
    assert store.documents(MINE) == (stored,)
    assert len(ask(store, MINE, "xylophone")) == 2


def test_a_connection_that_is_lost_within_a_document_leaves_nothing(open_postgres: Opener, pgvector: Server) -> None:
    store = open_postgres()

    def parts() -> Iterator[Any]:
        first, *rest = parts_of(SECRET, each=1)
        yield first
        pgvector.cut(pgvector.url("rag"))
        yield from rest

    with pytest.raises(StoreUnavailableError):
        store.add(MINE, document("cut"), parts())
    assert store.documents(MINE) == ()
    assert rows_of(pgvector)["rag_passages"] == []


def test_a_server_that_is_not_there_is_told_without_its_password(open_postgres: Opener) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        open_postgres(url="postgresql://somebody:s3cr3t@/rag?host=/nowhere")
    assert caught.value.code == "rag-store-unavailable"
    assert "s3cr3t" not in repr((caught.value.args, caught.value.context(), caught.value.__cause__))
    with pytest.raises(StoreUnavailableError):
        open_postgres(url="no url at all")


@pytest.mark.parametrize(
    ("extension", "code"),
    [(True, "rag-store-unavailable"), (False, "rag-store-no-pgvector")],
    ids=["tables", "extension"],
)
def test_a_user_who_may_not_make_tables_or_extensions_is_told(
    open_postgres: Opener, pgvector: Server, extension: bool, code: str
) -> None:
    url = pgvector.fresh("rag")
    with pgvector.connected(url) as connection:
        if extension:
            connection.execute("CREATE EXTENSION vector")
        connection.execute(f"DROP ROLE IF EXISTS {WITH_PASSWORD}")
        connection.execute(f"CREATE ROLE {WITH_PASSWORD} LOGIN PASSWORD 's3cr3t'")
        connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
    with pytest.raises(StoreUnavailableError) as caught:
        open_postgres(url=pgvector.url("rag", user=f"{WITH_PASSWORD}:s3cr3t"))
    assert caught.value.code == code


CHILD = """
import sys
import time
from rag_demo.enclave.store.postgres import PostgresStore
from tests.rag_demo.store.pgvector import REASON
from tests.rag_demo.store.support import DIMENSIONS, KEY, MINE, MODEL, add, document, parts_of

def parts():
    yield from parts_of(["Quetzalcoatlus over the xylophone."] * 40)
    print("coming", flush=True)
    time.sleep(60)

store = PostgresStore.open(sys.argv[1], KEY, inside_boundary=REASON, dimensions=DIMENSIONS, model=MODEL)
add(store, MINE, "kept", "Ordinary text about bread.")
store.add(MINE, document("coming"), parts())
"""


def test_nothing_is_left_of_a_document_whose_service_was_killed(open_postgres: Opener, pgvector: Server) -> None:
    command = [sys.executable, "-c", CHILD, pgvector.url("rag")]
    with killed_in_the_end(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "coming\n"
        assert len(rows_of(pgvector)["rag_passages"]) == 41
    pgvector.cut(pgvector.url("rag"))
    store = open_postgres()
    assert [one.id for one in store.documents(MINE)] == [document("kept").id]
    assert len(rows_of(pgvector)["rag_passages"]) == 1


def test_a_closed_store_stays_closed(open_postgres: Opener, pgvector: Server) -> None:
    store = open_postgres()
    store.close()
    with pytest.raises(StoreClosedError):
        store.documents(MINE)
    with psycopg.connect(pgvector.url("rag")) as connection:
        waiting = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    assert waiting == (0,)
