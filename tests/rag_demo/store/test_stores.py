"""What the store does: whole documents, by words and by meaning, each user's for themselves."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from rag_demo.enclave.interfaces import IndexedPassage
from rag_demo.enclave.store import (
    SqliteStore,
    StoreClosedError,
    StoreConflictError,
    StoreInputError,
    StoreLimitError,
    StoreLimits,
)
from tests.rag_demo.store.support import DIMENSIONS, EMBEDDER, MINE, YOURS, add, ask, document, parts_of

Opener = Callable[..., SqliteStore]

BREAD = (
    "Knead the dough for ten minutes, then let it rest under a cloth.",
    "Bake the loaf at 220 degrees until the crust is brown.",
    "A sourdough starter wants flour and water every day.",
)
PUMP = ("The circulation pump hums when air is in the pipes.", "Bleed the radiator with the square key.")


def test_a_document_is_listed_with_what_is_known_of_it(store: SqliteStore) -> None:
    stored = add(store, MINE, "bread", *BREAD)
    assert stored == replace(document("bread"), pages=2, passages=3)
    assert store.documents(MINE) == (stored,)


def test_documents_are_listed_oldest_first(store: SqliteStore) -> None:
    late, early = add(store, MINE, "late", *PUMP, day=2), add(store, MINE, "early", *BREAD, day=1)
    assert store.documents(MINE) == (early, late)


def test_a_passage_comes_back_verbatim_with_its_place(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    add(store, MINE, "pump", *PUMP)
    (first, *_) = ask(store, MINE, "how do I bleed a radiator?")
    assert first.passage == IndexedPassage(page=1, ordinal=1, text=PUMP[1])
    assert (first.document, first.name) == (document("pump").id, "pump.txt")
    assert -1 <= first.similarity <= 1


def test_similarity_is_the_cosine(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    question = "sourdough flour"
    (wanted,) = EMBEDDER.embed([question])
    for found in ask(store, MINE, question):
        cosine = float(EMBEDDER.embed([found.passage.text])[0] @ wanted)
        assert found.similarity == pytest.approx(cosine, abs=1e-6)


def test_what_both_rankings_name_first_is_scored_by_both(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    (first, *rest) = ask(store, MINE, "sourdough starter")
    assert first.passage.text == BREAD[2]
    assert first.score == pytest.approx(2 / 61)
    assert all(found.score <= 1 / 61 + 1 / 62 for found in rest)


def test_a_word_finds_what_meaning_does_not(store: SqliteStore) -> None:
    add(store, MINE, "codes", "Error E4711 means the valve is stuck.", *(f"Remark number {n}." for n in range(80)))
    away = -EMBEDDER.embed(["Error E4711 means the valve is stuck."])[0]
    found = store.search(MINE, "e4711", away, limit=5)
    assert found[0].passage.ordinal == 0 or found[1].passage.ordinal == 0
    assert min(one.similarity for one in found) == pytest.approx(-1, abs=1e-5)


@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("de", "Die H\u00e4user werden vermietet.", "Welches Haus?"),
        ("fr", "Les inondations ne sont pas couvertes.", "une inondation"),
        ("es", "Las vacaciones se solicitan antes.", "vacaci\u00f3n"),
    ],
)
def test_other_forms_of_a_word_find_it_in_the_language_of_the_document(
    store: SqliteStore, language: str, text: str, question: str
) -> None:
    add(store, MINE, "other", *(f"Nothing of it, {n}." for n in range(9)))
    store.add(MINE, replace(document("words"), language=language), parts_of([text]))
    assert [one.language for one in store.documents(MINE)] == ["", language]
    (away,) = EMBEDDER.embed(["Nothing of it, 0."])
    found = {one.passage.text: one.language for one in store.search(MINE, question, away, limit=2)}
    assert found.get(text) == language


def test_a_passage_is_found_by_its_section_and_may_have_no_page(store: SqliteStore) -> None:
    passage = IndexedPassage(page=None, ordinal=0, text="One in the morning.", section="Medikation")
    add(store, MINE, "other", *(f"Nothing of it, {n}." for n in range(9)))
    stored = store.add(MINE, document("letter"), [([passage], EMBEDDER.embed([passage.text]))])
    assert stored.pages == 0
    (away,) = EMBEDDER.embed(["Nothing of it, 0."])
    assert passage in [one.passage for one in store.search(MINE, "Medikation", away, limit=2)]


@pytest.mark.parametrize(
    ("language", "section"), [("German", ""), ("d", ""), ("DE", ""), ("de\n", ""), ("", "x" * 256)]
)
def test_a_language_or_a_section_that_is_none_is_a_programmers_error(
    store: SqliteStore, language: str, section: str
) -> None:
    passage = IndexedPassage(page=1, ordinal=0, text="One.", section=section)
    with pytest.raises(ValueError, match=r"language|section"):
        store.add(MINE, replace(document("a"), language=language), [([passage], EMBEDDER.embed(["One."]))])
    assert store.documents(MINE) == ()


def test_meaning_finds_what_no_word_does(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    (near, *_) = store.search(MINE, "¿?", EMBEDDER.embed([BREAD[1]])[0], limit=1)
    assert near.passage.text == BREAD[1]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Das Gerät läuft über Nacht.", "GERAT uber"),
        ("冷蔵庫の温度は四度です。", "温度"),
        ("서울에서 부산까지", "부산"),
        ("ΣΊΣΥΦΟΣ rolls a stone", "σίσυφος"),
        ("snake_case_names are split", "case"),
    ],
)
def test_words_are_found_without_accents_in_any_case_and_inside_scripts_without_spaces(
    store: SqliteStore, text: str, question: str
) -> None:
    add(store, MINE, "other", *(f"Nothing of it, {n}." for n in range(5)), text)
    # By meaning it is the last of six; only its words can have brought it among the first two.
    (away,) = EMBEDDER.embed(["Nothing of it, 0."])
    assert text in {found.passage.text for found in store.search(MINE, question, away, limit=2)}
    assert text not in {found.passage.text for found in store.search(MINE, "¿?", away, limit=5)}


@pytest.mark.parametrize(
    "question",
    [
        "",
        "   ",
        '"',
        'NEAR("a" "b", 3)',
        "bread AND",
        "words : bread",
        "^bread",
        "bread*",
        "-bread +(",
        "'; DROP TABLE documents; --",
        "\x00bread\x00",
        "\ud800 bread",
        "{words} : bread",
        "%s %(x)s ? :x $1",
        "😀" * 500,
        "x" * 100_000,
        " ".join(f"word{n}" for n in range(5_000)),
    ],
)
def test_a_question_is_never_a_query_language(store: SqliteStore, question: str) -> None:
    add(store, MINE, "bread", *BREAD)
    (vector,) = EMBEDDER.embed(["bread"])
    assert len(store.search(MINE, question, vector, limit=10)) == 3
    assert len(store.documents(MINE)) == 1


def test_a_search_returns_no_more_than_asked_for(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    assert [len(ask(store, MINE, "dough", limit=limit)) for limit in (1, 2, 3, 100)] == [1, 2, 3, 3]


def test_the_order_of_equals_is_always_the_same(store: SqliteStore) -> None:
    add(store, MINE, "twins", *(["The same sentence."] * 8))
    orders = {tuple(found.passage.ordinal for found in ask(store, MINE, "same sentence")) for _ in range(3)}
    assert orders == {(0, 1, 2, 3, 4)}


def test_a_collection_nobody_added_to_is_empty(store: SqliteStore) -> None:
    assert ask(store, MINE, "bread") == ()
    assert store.documents(MINE) == ()
    assert store.delete_all(MINE) == 0
    assert store.delete(MINE, document("bread").id) is False


# -- apart


def test_nothing_that_names_one_collection_reaches_another(store: SqliteStore) -> None:
    mine, yours = add(store, MINE, "bread", *BREAD), add(store, YOURS, "pump", *PUMP)
    assert {found.document for found in ask(store, MINE, "radiator pump bleed key", limit=100)} == {mine.id}
    assert {found.document for found in ask(store, YOURS, "dough loaf flour", limit=100)} == {yours.id}
    assert store.delete(MINE, yours.id) is False
    assert store.delete_all(b"z" * 32) == 0
    assert store.documents(YOURS) == (yours,)
    assert len(ask(store, YOURS, "pump", limit=100)) == 2
    assert store.delete_all(MINE) == 1
    assert store.documents(YOURS) == (yours,)
    assert len(ask(store, YOURS, "pump", limit=100)) == 2


def test_two_collections_may_hold_the_same_document(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    add(store, YOURS, "bread", *PUMP)
    assert store.delete(MINE, document("bread").id) is True
    assert [found.passage.text for found in ask(store, YOURS, "pump hums air", limit=1)] == [PUMP[0]]


def test_the_order_of_answers_does_not_tell_how_common_a_word_is_elsewhere(store: SqliteStore) -> None:
    texts = ("alpha stands here", "omega stands here")
    add(store, MINE, "both", *texts)
    (level,) = EMBEDDER.embed(["something else entirely"])
    before = store.search(MINE, "alpha omega", level, limit=2)
    add(store, YOURS, "many", *(f"alpha number {n}" for n in range(40)))
    assert store.search(MINE, "alpha omega", level, limit=2) == before


# -- deleting


def test_a_deleted_document_is_neither_listed_nor_found(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    pump = add(store, MINE, "pump", *PUMP)
    ask(store, MINE, "bread")  # so that its vectors are in memory
    assert store.delete(MINE, document("bread").id) is True
    assert store.delete(MINE, document("bread").id) is False
    assert store.documents(MINE) == (pump,)
    assert {found.document for found in ask(store, MINE, "dough loaf sourdough", limit=100)} == {pump.id}


def test_a_deleted_document_can_be_added_again(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    store.delete(MINE, document("bread").id)
    add(store, MINE, "bread", *PUMP)
    assert [found.passage.text for found in ask(store, MINE, "pump hums air", limit=1)] == [PUMP[0]]


def test_a_collection_is_deleted_with_all_its_documents(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    add(store, MINE, "pump", *PUMP)
    ask(store, MINE, "bread")
    assert store.delete_all(MINE) == 2
    assert (store.documents(MINE), ask(store, MINE, "bread")) == ((), ())
    add(store, MINE, "pump", *PUMP)
    assert len(ask(store, MINE, "pump")) == 2


@pytest.mark.parametrize("wrong", ["", "x", "A" * 32, "0" * 31, "0" * 33, "0" * 31 + "\n", "%" * 32])
def test_what_is_no_id_deletes_nothing(store: SqliteStore, wrong: str) -> None:
    add(store, MINE, "bread", *BREAD)
    assert store.delete(MINE, wrong) is False
    assert len(store.documents(MINE)) == 1


# -- all or nothing


def test_parts_are_taken_as_they_come(store: SqliteStore) -> None:
    taken: list[int] = []

    def parts() -> Iterator[Any]:
        for at, part in enumerate(parts_of(BREAD, each=1)):
            # Questions and other documents are served while a part is made, and nothing of this one is seen.
            assert store.documents(MINE) == ()
            assert ask(store, MINE, "bread dough") == ()
            taken.append(at)
            yield part

    stored = store.add(MINE, document("bread"), parts())
    assert taken == [0, 1, 2]
    assert stored.passages == 3


class CutOffError(Exception):
    pass


@pytest.mark.parametrize("error", [CutOffError, KeyboardInterrupt, GeneratorExit])
def test_nothing_is_left_of_a_document_that_is_cut_off(store: SqliteStore, error: type[BaseException]) -> None:
    def parts() -> Iterator[Any]:
        yield from parts_of(BREAD, each=1)
        raise error

    pump = add(store, MINE, "pump", *PUMP)
    with pytest.raises(error):
        store.add(MINE, document("bread"), parts())
    assert store.documents(MINE) == (pump,)
    assert {found.document for found in ask(store, MINE, "dough loaf", limit=100)} == {pump.id}
    assert add(store, MINE, "bread", *BREAD).passages == 3


def test_a_document_that_is_there_is_not_replaced(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    with pytest.raises(StoreConflictError) as caught:
        add(store, MINE, "bread", *PUMP)
    assert caught.value.code == "rag-document-exists"
    assert len(ask(store, MINE, "dough", limit=100)) == 3


def test_deleting_a_collection_ends_what_is_being_added_to_it(store: SqliteStore) -> None:
    def parts() -> Iterator[Any]:
        first, *rest = parts_of(BREAD, each=1)
        yield first
        assert store.delete_all(MINE) == 0
        yield from rest

    with pytest.raises(StoreConflictError) as caught:
        store.add(MINE, document("bread"), parts())
    assert caught.value.code == "rag-document-deleted"
    assert (store.documents(MINE), ask(store, MINE, "dough")) == ((), ())


def test_a_document_that_is_coming_cannot_be_deleted_by_its_id(store: SqliteStore) -> None:
    def parts() -> Iterator[Any]:
        yield from parts_of(BREAD)
        assert store.delete(MINE, document("bread").id) is False

    assert store.add(MINE, document("bread"), parts()).passages == 3


def test_a_document_may_have_no_passages(store: SqliteStore) -> None:
    assert add(store, MINE, "blank").passages == 0
    assert store.add(MINE, document("blank too"), [([], np.zeros((0, DIMENSIONS), dtype=np.float32))]).pages == 0
    assert ask(store, MINE, "anything") == ()


def test_threads_add_ask_and_delete_at_once(store: SqliteStore) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        own = bytes([number]) * 32
        try:
            for turn in range(4):
                add(store, own, f"{number}/{turn}", f"Word w{number} here.", f"And w{number} there.")
                found = ask(store, own, f"w{number}", limit=100)
                assert {one.passage.text.split("w")[-1][0] for one in found} == {str(number)}
                assert len(found) == 2
                assert store.delete(own, document(f"{number}/{turn}").id)
        except BaseException as exc:  # noqa: BLE001 -- told below, in the test's own thread
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# -- limits


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (StoreLimits(documents=1), "rag-limit-documents"),
        (StoreLimits(passages=4), "rag-limit-passages"),
        (StoreLimits(text_bytes=sum(len(text) for text in BREAD + PUMP) - 1), "rag-limit-text-bytes"),
        (StoreLimits(total_passages=4), "rag-limit-total-passages"),
    ],
)
def test_a_collection_holds_so_much_and_no_more(open_sqlite: Opener, limits: StoreLimits, code: str) -> None:
    store = open_sqlite(limits=limits)
    add(store, MINE, "bread", *BREAD)
    with pytest.raises(StoreLimitError) as caught:
        add(store, MINE, "pump", *PUMP)
    assert caught.value.code == code
    assert [one.id for one in store.documents(MINE)] == [document("bread").id]
    # What was refused takes no room.
    store.delete(MINE, document("bread").id)
    add(store, MINE, "pump", *PUMP)


def test_a_limit_is_what_still_fits(open_sqlite: Opener) -> None:
    size = sum(len(text) for text in BREAD + PUMP)
    longest = max(len(text) for text in BREAD + PUMP)
    store = open_sqlite(
        limits=StoreLimits(
            documents=2, passages=5, text_bytes=size, passage_bytes=longest, total_passages=5, collections=1
        )
    )
    add(store, MINE, "bread", *BREAD)
    add(store, MINE, "pump", *PUMP)
    assert len(store.documents(MINE)) == 2


def test_another_collection_than_allowed_is_refused(open_sqlite: Opener) -> None:
    store = open_sqlite(limits=StoreLimits(collections=1))
    add(store, MINE, "bread", *BREAD)
    with pytest.raises(StoreLimitError) as caught:
        add(store, YOURS, "pump", *PUMP)
    assert caught.value.code == "rag-limit-collections"
    store.delete_all(MINE)
    add(store, YOURS, "pump", *PUMP)


def test_a_passage_that_is_too_long_is_refused(open_sqlite: Opener) -> None:
    store = open_sqlite(limits=StoreLimits(passage_bytes=10))
    add(store, MINE, "short", "é" * 5)
    with pytest.raises(StoreLimitError) as caught:
        add(store, MINE, "long", "é" * 5 + "x")
    assert caught.value.code == "rag-limit-passage-bytes"


# -- input


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "a\x00b", "\u202egpj.exe", "\ud800", "zero\u200bwidth"])
def test_a_name_that_does_not_print_is_refused(store: SqliteStore, name: str) -> None:
    with pytest.raises(StoreInputError) as caught:
        store.add(MINE, replace(document("bread"), name=name), parts_of(BREAD))
    assert caught.value.code == "rag-document-name-invalid"
    assert store.documents(MINE) == ()


def test_a_name_of_any_script_is_kept(store: SqliteStore) -> None:
    names = (
        "x" * 255,
        "Brot & Käse (2).pdf",
        "手引き.docx",
        "👩🏽.txt",
        "👨\u200d👩\u200d👧.txt",
        "\u0645\u06cc\u200c\u062e.txt",
        "' OR 1=1 --",
    )
    for name in names:
        store.add(MINE, replace(document(name), name=name), parts_of(BREAD))
    assert {one.name for one in store.documents(MINE)} == set(names)


@pytest.mark.parametrize("text", ["", " \n", "a\x00b", "half \ud83d"])
def test_a_passage_that_is_no_text_is_refused(store: SqliteStore, text: str) -> None:
    def parts() -> Iterator[Any]:
        yield from parts_of(PUMP)
        yield [IndexedPassage(page=9, ordinal=9, text=text)], EMBEDDER.embed(["x"])

    with pytest.raises(StoreInputError) as caught:
        store.add(MINE, document("bread"), parts())
    assert caught.value.code == "rag-passage-invalid"
    assert store.documents(MINE) == ()


def test_wrong_use_is_a_programmers_error(store: SqliteStore) -> None:
    (right,) = EMBEDDER.embed(["x"])
    one = [IndexedPassage(page=1, ordinal=0, text="x")]
    calls: list[Callable[[], object]] = [
        lambda: store.documents(b"short"),
        lambda: store.documents("m" * 32),  # type: ignore[arg-type]  # the wrong one on purpose
        lambda: store.search(MINE, "x", right, limit=0),
        lambda: store.search(MINE, "x", right, limit=101),
        lambda: store.search(MINE, "x", right[:-1], limit=1),
        lambda: store.search(MINE, "x", right.astype(np.float64), limit=1),
        lambda: store.search(MINE, "x", right * 2, limit=1),
        lambda: store.search(MINE, "x", right * np.float32("nan"), limit=1),
        lambda: store.add(MINE, document("x"), [(one, right.reshape(1, -1) * np.float32("inf"))]),
        lambda: store.add(MINE, document("x"), [(one, np.zeros((2, DIMENSIONS), dtype=np.float32))]),
        lambda: store.add(MINE, document("x"), [(one, right.reshape(1, -1)), (one, right.reshape(1, -1))]),
        lambda: store.add(MINE, document("x"), [([replace(one[0], page=0)], right.reshape(1, -1))]),
        lambda: store.add(MINE, replace(document("x"), id="no"), []),
        lambda: store.add(MINE, replace(document("x"), size=-1), []),
        lambda: store.add(MINE, replace(document("x"), added=datetime(2026, 1, 1)), []),  # noqa: DTZ001 -- as above
        lambda: store.add(
            MINE, replace(document("x"), added=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))), []
        ),
    ]
    for call in calls:
        with pytest.raises(ValueError):  # noqa: PT011 -- each has a text of its own; that it is no StoreError counts
            call()
    assert store.documents(MINE) == ()


def test_limits_are_whole_numbers_from_one() -> None:
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="documents"):
            StoreLimits(documents=wrong)  # type: ignore[arg-type]  # the wrong one on purpose


# -- closing


def test_a_closed_store_answers_nothing(store: SqliteStore) -> None:
    add(store, MINE, "bread", *BREAD)
    store.close()
    store.close()
    for call in (
        lambda: store.documents(MINE),
        lambda: ask(store, MINE, "bread"),
        lambda: add(store, MINE, "pump", *PUMP),
        lambda: store.delete(MINE, document("bread").id),
        lambda: store.delete_all(MINE),
    ):
        with pytest.raises(StoreClosedError) as caught:
            call()
        assert caught.value.code == "rag-store-closed"


def test_a_store_may_be_closed_while_a_document_comes(open_sqlite: Opener) -> None:
    store = open_sqlite()
    add(store, MINE, "pump", *PUMP)

    def parts() -> Iterator[Any]:
        first, *rest = parts_of(BREAD, each=1)
        yield first
        store.close()
        yield from rest

    with pytest.raises(StoreClosedError):
        store.add(MINE, document("bread"), parts())
    again = open_sqlite()
    assert [one.id for one in again.documents(MINE)] == [document("pump").id]
    assert {found.document for found in ask(again, MINE, "dough loaf", limit=100)} == {document("pump").id}


def test_what_was_stored_is_there_after_a_restart(open_sqlite: Opener) -> None:
    store = open_sqlite()
    stored = add(store, MINE, "bread", *BREAD)
    found = ask(store, MINE, "sourdough")
    store.close()
    again = open_sqlite()
    assert again.documents(MINE) == (stored,)
    assert ask(again, MINE, "sourdough") == found
    assert stored.added.tzinfo is UTC
