"""The SQLCipher file: what lies in it for who has no key, and what is refused of it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC
from sqlcipher3 import dbapi2

from rag_demo.enclave.store import (
    SqliteStore,
    StoreClosedError,
    StoreDamagedError,
    StoreInUseError,
    StoreLimits,
    StoreUnavailableError,
    StoreVersionError,
)
from tests.rag_demo.store.support import EMBEDDER, KEY, MINE, YOURS, add, ask, document, killed_in_the_end, parts_of

Opener = Callable[..., SqliteStore]

PAGE = 4096
SECRET = ("Quetzalcoatlus flew over the xylophone.", "Zwieback needs jasmine, said the vicuña.")
WORDS = tuple(
    form
    for word in ("Quetzalcoatlus", "xylophone", "Zwieback", "jasmine")
    for form in (word.encode(), word.lower().encode())
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "documents.db"


def pages_in_the_clear(path: Path, key: bytes = KEY) -> bytes:
    """Every page of the file as it is behind the cipher, also what no row refers to any more.

    Written here from the description of the format (SQLCipher 4: AES-256-CBC; a page ends in its IV and its HMAC;
    the first one begins with a salt), so that it shows the bytes and not what SQLite makes of them.
    """
    content = path.read_bytes()
    assert len(content) % PAGE == 0
    clear = bytearray()
    for start in range(0, len(content), PAGE):
        page = content[start : start + PAGE]
        cipher = Cipher(AES256(key), CBC(page[-80:-64])).decryptor()
        clear += cipher.update(page[16 if start == 0 else 0 : -80]) + cipher.finalize()
    return bytes(clear)


# -- encrypted


def test_nothing_of_a_document_lies_in_any_file_in_the_clear(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    journals = []

    def parts() -> Iterator[Any]:
        for part in parts_of(SECRET * 40, each=10):
            yield part
            journals.append({file.name: file.read_bytes() for file in path.parent.iterdir()})

    store.add(MINE, document("Ornithopter"), parts())
    ask(store, MINE, "xylophone")
    vector = EMBEDDER.embed([SECRET[0]])[0].tobytes()
    files = [content for names in journals for content in names.values()]
    files += [file.read_bytes() for file in path.parent.iterdir()]
    for content in files:
        for held in (*WORDS, b"Ornithopter", b"SQLite format", b"CREATE TABLE", MINE, KEY, KEY.hex().encode(), vector):
            assert held not in content
    # The search can fail: behind the cipher all of it is there.
    clear = pages_in_the_clear(path)
    assert all(held in clear for held in (b"Quetzalcoatlus", b"xylophone", b"Ornithopter", MINE, vector))


def test_the_journal_is_encrypted_and_empty_after_a_commit(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    add(store, MINE, "secret", *SECRET)
    journal = path.with_name(path.name + "-journal")
    assert journal.stat().st_size == 0
    connection = store._connection  # noqa: SLF001 -- what the journal holds inside a transaction is seen from here alone
    assert connection is not None
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("UPDATE passages SET text = text || ?", ("x" * 20_000,))
    held = journal.read_bytes()
    connection.execute("ROLLBACK")
    assert len(held) > PAGE
    assert not any(word in held for word in WORDS)
    assert journal.stat().st_size == 0
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, journal.name]


def test_the_files_are_their_owners_alone(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    add(store, MINE, "secret", *SECRET)
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_the_settings_that_deletion_and_locking_rest_on_are_in_force(open_sqlite: Opener) -> None:
    connection = open_sqlite()._connection  # noqa: SLF001 -- they hold for this connection alone
    assert connection is not None
    settings = ("secure_delete", "temp_store", "journal_mode", "locking_mode", "foreign_keys", "auto_vacuum")
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
    assert found == [1, 2, "truncate", "exclusive", 1, 2]
    assert connection.execute("PRAGMA cipher_use_hmac").fetchone()[0] == "1"
    assert connection.execute("PRAGMA cipher_hmac_algorithm").fetchone()[0] == "HMAC_SHA512"
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


@pytest.mark.parametrize("key", [b"", b"k" * 31, b"k" * 33])
def test_a_key_has_32_bytes(open_sqlite: Opener, path: Path, key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        open_sqlite(key=key)
    assert not path.exists()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_key_is_lent_in_any_form(open_sqlite: Opener, kind: Callable[[bytes], object]) -> None:
    add(open_sqlite(key=kind(KEY)), MINE, "secret", *SECRET)


# -- deletion


def test_deletion_leaves_no_word_of_a_document_behind_the_cipher(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    add(store, MINE, "kept", *(f"Ordinary text about bread, number {n}." for n in range(30)))
    add(store, MINE, "Ornithopter", *(SECRET * 60))
    add(store, YOURS, "yours", "Something else again.")
    ask(store, MINE, "xylophone")
    vector = EMBEDDER.embed([SECRET[0]])[0].tobytes()
    held = (*WORDS, b"Ornithopter", document("Ornithopter").id.encode(), vector)

    def seen() -> set[bytes]:
        clear = pages_in_the_clear(path)
        return {one for one in held if one in clear}

    assert {b"Quetzalcoatlus", b"quetzalcoatlus", b"Ornithopter", vector} <= seen()
    size = path.stat().st_size
    assert store.delete(MINE, document("Ornithopter").id)
    assert seen() == set()
    assert path.stat().st_size < size * 0.7
    assert vocabulary(store, MINE) & {"quetzalcoatlus", "xylophone", "zwieback", "jasmine"} == set()
    assert len(ask(store, MINE, "bread", limit=100)) == 30
    with_journal = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert not any(one in with_journal for one in held)


def test_deleting_a_collection_leaves_no_word_of_it(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    empty = path.stat().st_size
    add(store, MINE, "Ornithopter", *(SECRET * 50))
    add(store, MINE, "Zeppelin", *SECRET)
    assert store.delete_all(MINE) == 2
    held = (*WORDS, b"Ornithopter", b"Zeppelin", MINE)
    assert not any(one in pages_in_the_clear(path) for one in held)
    assert path.stat().st_size <= empty + 2 * PAGE
    connection = store._connection  # noqa: SLF001 -- tables are seen from here alone
    assert connection is not None
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert not any(table.startswith("words_") for table in tables)


def test_a_cut_off_document_leaves_no_word_either(open_sqlite: Opener, path: Path) -> None:
    def parts() -> Iterator[Any]:
        yield from parts_of(SECRET * 20)
        raise RuntimeError

    store = open_sqlite()
    add(store, MINE, "kept", "Ordinary text about bread.")
    with pytest.raises(RuntimeError):
        store.add(MINE, document("Ornithopter"), parts())
    clear = pages_in_the_clear(path)
    assert b"bread" in clear
    assert not any(one in clear for one in (*WORDS, b"Ornithopter"))


def vocabulary(store: SqliteStore, collection: bytes) -> set[str]:
    connection = store._connection  # noqa: SLF001 -- as above
    assert connection is not None
    (number,) = connection.execute("SELECT number FROM collections WHERE id = ?", (collection,)).fetchone()
    connection.execute(f"CREATE VIRTUAL TABLE temp.seen USING fts5vocab (main, words_{number}, row)")
    words = {row[0] for row in connection.execute("SELECT term FROM temp.seen")}
    connection.execute("DROP TABLE temp.seen")
    return words


# -- refused


def test_another_key_is_refused(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    add(store, MINE, "secret", *SECRET)
    store.close()
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError) as caught:
        open_sqlite(key=bytes(32))
    assert caught.value.code == "rag-store-damaged"
    assert KEY.hex() not in str(caught.value)
    assert path.read_bytes() == before
    assert len(open_sqlite().documents(MINE)) == 1


def filled(open_sqlite: Opener) -> None:
    store = open_sqlite()
    add(store, MINE, "secret", *(SECRET * 60))
    store.close()


def test_a_flipped_bit_in_any_page_is_refused(open_sqlite: Opener, path: Path) -> None:
    filled(open_sqlite)
    whole = path.read_bytes()
    for page in range(len(whole) // PAGE):
        # Salt or text, IV, HMAC.
        for at in (page % 15, PAGE // 2, PAGE - 70, PAGE - 30):
            altered = bytearray(whole)
            altered[page * PAGE + at] ^= 1 << page % 8
            path.write_bytes(altered)
            with pytest.raises(StoreDamagedError):
                open_sqlite()


def test_pages_that_change_places_are_refused(open_sqlite: Opener, path: Path) -> None:
    filled(open_sqlite)
    whole = path.read_bytes()
    path.write_bytes(whole[: 2 * PAGE] + whole[3 * PAGE : 4 * PAGE] + whole[2 * PAGE : 3 * PAGE] + whole[4 * PAGE :])
    with pytest.raises(StoreDamagedError):
        open_sqlite()


def test_a_file_that_is_cut_or_longer_is_refused(open_sqlite: Opener, path: Path) -> None:
    filled(open_sqlite)
    whole = path.read_bytes()
    lengths = [0, 1, 16, 100, PAGE - 1, *range(PAGE, len(whole), 3 * PAGE), len(whole) - PAGE, len(whole) - 1]
    for content in [*(whole[:length] for length in lengths), whole + b"x", whole + bytes(PAGE), whole + whole[-PAGE:]]:
        path.write_bytes(content)
        with pytest.raises(StoreDamagedError):
            open_sqlite()
        assert path.read_bytes() == content
    path.write_bytes(whole)
    assert len(open_sqlite().documents(MINE)) == 1


def test_a_cut_or_longer_file_is_refused_also_where_not_every_page_is_read(open_sqlite: Opener, path: Path) -> None:
    filled(open_sqlite)
    whole = path.read_bytes()
    for content in (whole[:-PAGE], whole[: 4 * PAGE], whole + b"x", whole + bytes(PAGE), whole + whole[-PAGE:]):
        path.write_bytes(content)
        with pytest.raises(StoreDamagedError):
            open_sqlite(check_whole=False)
    path.write_bytes(whole)
    assert len(open_sqlite(check_whole=False).documents(MINE)) == 1


@pytest.mark.parametrize("content", [b"x" * 100, b"SQLite format 3\0" + bytes(2 * PAGE), os.urandom(PAGE * 3)])
def test_a_file_that_is_no_such_database_is_refused(open_sqlite: Opener, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError):
        open_sqlite()


def test_damage_that_is_met_later_closes_everything(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite(limits=StoreLimits(matrix_bytes=1))
    add(store, MINE, "secret", *(SECRET * 60))
    add(store, YOURS, "other", *(SECRET * 60))
    connection = store._connection  # noqa: SLF001 -- so that pages are read again, and not from memory
    assert connection is not None
    connection.execute("PRAGMA cache_size = 0")
    connection.execute("PRAGMA shrink_memory")
    whole = path.read_bytes()
    path.write_bytes(whole[: 2 * PAGE] + bytes(len(whole) - 2 * PAGE))
    with pytest.raises(StoreDamagedError):
        ask(store, MINE, "xylophone")
    path.write_bytes(whole)
    for collection in (MINE, YOURS):
        with pytest.raises(StoreDamagedError):
            store.documents(collection)


def test_a_database_of_another_version_is_refused(open_sqlite: Opener, path: Path) -> None:
    open_sqlite().close()
    for change in ("user_version = 1", "user_version = 3", "application_id = 7"):
        whole = path.read_bytes()
        with opened_elsewhere(path) as connection:
            connection.execute(f"PRAGMA {change}")
        with pytest.raises(StoreVersionError) as caught:
            open_sqlite()
        assert caught.value.code == "rag-store-version"
        path.write_bytes(whole)


@pytest.mark.parametrize("changed", [{"dimensions": 63}, {"model": "another"}])
def test_vectors_of_another_model_are_refused(open_sqlite: Opener, changed: dict[str, object]) -> None:
    open_sqlite().close()
    with pytest.raises(StoreVersionError) as caught:
        open_sqlite(**changed)
    assert (caught.value.code, caught.value.field) == ("rag-store-model", next(iter(changed)))


@contextmanager
def opened_elsewhere(path: Path) -> Iterator[Any]:
    connection = dbapi2.connect(str(path), isolation_level=None, timeout=0)
    connection.execute("PRAGMA cipher_log_level = NONE").fetchall()
    connection.execute(f"PRAGMA key = \"x'{KEY.hex()}'\"").fetchall()
    try:
        yield connection
    finally:
        connection.close()


def test_one_process_has_the_database(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    with pytest.raises(StoreInUseError) as caught:
        open_sqlite()
    assert caught.value.retryable
    with opened_elsewhere(path) as connection, pytest.raises(dbapi2.OperationalError, match="locked"):
        connection.execute("SELECT * FROM documents")
    add(store, MINE, "secret", *SECRET)
    store.close()
    assert len(open_sqlite().documents(MINE)) == 1


def test_a_folder_that_is_not_there_or_a_link_is_told(open_sqlite: Opener, path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "nowhere" / "documents.db")
    with pytest.raises((StoreUnavailableError, StoreDamagedError)):
        open_sqlite()
    with pytest.raises(StoreUnavailableError) as caught:
        SqliteStore.open(tmp_path / "nowhere" / "documents.db", KEY, dimensions=3, model="m")
    assert caught.value.code == "rag-store-unavailable"


def test_what_a_killed_maker_left_is_made_anew(open_sqlite: Opener, path: Path) -> None:
    for name in (".new", ".new-journal"):
        left = path.with_name(path.name + name)
        left.write_bytes(b"half")
        left.chmod(0o600)
    path.with_name("another.db.new").write_bytes(b"of somebody else")
    add(open_sqlite(), MINE, "secret", *SECRET)
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["another.db.new", path.name, path.name + "-journal"]


def test_a_full_disk_refuses_a_document_and_keeps_the_others(open_sqlite: Opener) -> None:
    store = open_sqlite()
    kept = add(store, MINE, "kept", "Ordinary text about bread.")
    connection = store._connection  # noqa: SLF001 -- stands for a disk that is nearly full
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 5}")
    with pytest.raises(StoreUnavailableError) as caught:
        add(store, MINE, "large", *(SECRET * 60))
    assert (caught.value.code, caught.value.retryable) == ("rag-store-full", True)
    assert store.documents(MINE) == (kept,)
    assert len(ask(store, MINE, "bread xylophone", limit=9)) == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    add(store, MINE, "large", *(SECRET * 60))


# -- killed

CHILD = """
import sys
import time
from pathlib import Path
from rag_demo.enclave.store import SqliteStore
from tests.rag_demo.store.support import DIMENSIONS, KEY, MINE, MODEL, add, document, parts_of

def parts():
    for at, part in enumerate(parts_of(["Quetzalcoatlus over the xylophone %d." % n for n in range(5000)], each=5)):
        print(at, flush=True)
        yield part

store = SqliteStore.open(Path(sys.argv[1]), KEY, dimensions=DIMENSIONS, model=MODEL)
add(store, MINE, "kept", "Ordinary text about bread.")
if sys.argv[2] == "add":
    store.add(MINE, document("Ornithopter"), parts())
else:
    add(store, MINE, "Ornithopter", *["Quetzalcoatlus over the xylophone %d." % n for n in range(300)])
    steps = []

    def stop(statement):
        # Within the transaction of the second of two steps.
        steps.append(1) if statement.startswith("DELETE FROM passages") else None
        if len(steps) == 260:
            print("deleting", flush=True)
            time.sleep(60)

    store._connection.set_trace_callback(stop)
    store.delete(MINE, document("Ornithopter").id)
"""


@pytest.mark.parametrize(("doing", "lines", "later"), [("add", 3, 0.0), ("add", 7, 0.003), ("delete", 1, 0.0)])
def test_nothing_is_left_of_what_was_under_way_when_the_process_is_killed(
    open_sqlite: Opener, path: Path, doing: str, lines: int, later: float
) -> None:
    command = [sys.executable, "-c", CHILD, str(path), doing]
    with killed_in_the_end(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as child:
        assert child.stdout is not None
        assert all(child.stdout.readline() for _ in range(lines))
        time.sleep(later)
    held = (b"Quetzalcoatlus", b"xylophone", b"Ornithopter")
    assert any(one in pages_in_the_clear(path) for one in held)
    store = open_sqlite()
    assert [one.id for one in store.documents(MINE)] == [document("kept").id]
    assert [found.document for found in ask(store, MINE, "xylophone bread")] == [document("kept").id]
    assert not any(one in pages_in_the_clear(path) for one in held)


# -- memory


def test_a_matrix_is_made_when_it_is_asked_for_and_overwritten_when_it_goes(open_sqlite: Opener) -> None:
    store = open_sqlite()
    add(store, MINE, "secret", *SECRET)
    matrices = store._matrices  # noqa: SLF001 -- what is in memory is not shown otherwise
    assert matrices.get(MINE) is None
    ask(store, MINE, "bread")
    matrix = matrices.get(MINE)
    assert matrix is not None
    assert matrix.rows.flags.c_contiguous
    assert matrix.rows.any()
    store.close()
    assert not matrix.rows.any()
    assert matrices.kept_bytes == 0


def test_matrices_stay_within_their_bound(open_sqlite: Opener) -> None:
    one = 64 * 4 * 2
    store = open_sqlite(limits=StoreLimits(matrix_bytes=2 * one))
    names = [bytes([number]) * 32 for number in range(4)]
    for name in names:
        add(store, name, "secret", *SECRET)
        ask(store, name, "bread")
        ask(store, names[0], "bread")
    matrices = store._matrices  # noqa: SLF001 -- as above
    assert matrices.kept_bytes == 2 * one
    assert [matrices.get(name) is not None for name in names] == [True, False, False, True]
    assert all(len(ask(store, name, "bread", limit=9)) == 2 for name in names)


def test_a_collection_larger_than_the_bound_is_searched_all_the_same(open_sqlite: Opener) -> None:
    store = open_sqlite(limits=StoreLimits(matrix_bytes=1))
    add(store, MINE, "secret", *SECRET)
    assert len(ask(store, MINE, "xylophone")) == 2


def test_every_statement_about_documents_names_the_collection(open_sqlite: Opener) -> None:
    """All of SQL that is run on behalf of a user, as SQLite sees it."""
    store = open_sqlite()
    connection = store._connection  # noqa: SLF001 -- statements are seen from here alone
    assert connection is not None
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    add(store, MINE, "secret", *SECRET)
    add(store, MINE, "other", *SECRET)
    ask(store, MINE, "xylophone jasmine")
    store.documents(MINE)
    store.delete(MINE, document("secret").id)
    store.delete_all(MINE)
    connection.set_trace_callback(None)
    about = [sql for sql in seen if any(f" {table}" in sql for table in ("documents", "passages", "vectors"))]
    unbound = [
        sql
        for sql in about
        if not sql.startswith(("INSERT", "CREATE", "--")) and "collection = " not in sql.partition("WHERE")[2]
    ]
    assert len(about) > 10
    assert unbound == []


def test_a_closed_file_is_closed(open_sqlite: Opener, path: Path) -> None:
    store = open_sqlite()
    store.close()
    with pytest.raises(StoreClosedError):
        store.documents(MINE)
    with opened_elsewhere(path) as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)
