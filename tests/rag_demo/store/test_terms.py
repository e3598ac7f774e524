"""The words of a text, and two rankings that become one."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlcipher3 import dbapi2

from rag_demo.enclave.languages.terms import MAX_QUESTION_WORDS, MAX_WORD_CHARACTERS, question_words, words_of
from rag_demo.enclave.store.matrices import Matrix
from rag_demo.enclave.store.rank_fusion import CANDIDATES, COMMON_SHARE, MAX_TELLING, fuse, nearest, telling


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" .,;!? \n\t", []),
        ("The dog's E15, at 3.5 bar.", ["the", "dog", "s", "e15", "at", "3", "5", "bar"]),
        ("snake_case", ["snake", "case"]),
        ("Größe Ärger", ["grosse", "arger"]),
        ("\uff26\uff55ll \ufb01ne \u2460", ["full", "fine", "1"]),
        ("naïve nai\u0308ve", ["naive", "naive"]),
        ("İstanbul ISTANBUL", ["istanbul", "istanbul"]),
        ("温度計", ["温度", "度計"]),
        ("水", ["水"]),
        ("E15は故障", ["e15", "は故", "故障"]),
        ("한국어", ["한국", "국어"]),
        ("ไทย", ["ไทย"]),
        ("\ud800x\x00y", ["x", "y"]),
        ("x" * 200, ["x" * MAX_WORD_CHARACTERS]),
        ("AND or NOT near", ["and", "or", "not", "near"]),
    ],
)
def test_words_are_folded_letters_and_digits(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words


@given(st.text(max_size=200))
def test_a_word_holds_nothing_that_a_query_language_could_take(text: str) -> None:
    for word in words_of(text):
        assert 1 <= len(word) <= MAX_WORD_CHARACTERS
        assert all(unicodedata.category(c)[0] in "LN" for c in word)
        word.encode()


@given(st.text(max_size=200))
def test_words_do_not_depend_on_how_a_text_is_composed(text: str) -> None:
    apart = unicodedata.normalize("NFD", text)
    assert list(words_of(apart)) == list(words_of(unicodedata.normalize("NFC", apart)))


@given(st.lists(st.text(max_size=12), max_size=6))
def test_fts5_finds_a_text_by_each_of_its_words(texts: list[str]) -> None:
    connection = dbapi2.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5 (words, tokenize = 'unicode61 remove_diacritics 0')")
    for text in texts:
        connection.execute("INSERT INTO t VALUES (?)", (" ".join(words_of(text)),))
    for row, text in enumerate(texts, start=1):
        for word in question_words(text):
            # Letters that are newer than SQLite's tables are no letters to it, and are found by meaning alone.
            if word.isascii():
                found = connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (f'"{word}"',)).fetchall()
                assert (row,) in found
    connection.close()


def test_a_question_has_so_many_different_words_and_no_more() -> None:
    many = " ".join(f"w{number} w{number}" for number in range(200))
    assert question_words(many) == tuple(f"w{number}" for number in range(MAX_QUESTION_WORDS))


# -- fusing


def test_what_is_ranked_twice_counts_twice() -> None:
    assert fuse([1, 2], [2, 3]) == {1: 1 / 61, 2: 1 / 62 + 1 / 61, 3: 1 / 62}
    assert fuse([], []) == {}


def test_the_nearest_come_first_and_of_equals_the_earlier() -> None:
    similarities = np.array([0.1, 0.9, 0.5, 0.9, -1.0], dtype=np.float32)
    assert nearest(similarities, 3).tolist() == [1, 3, 2]
    assert nearest(similarities, 99).tolist() == [1, 3, 2, 0, 4]
    assert nearest(similarities[:0]).tolist() == []


def test_the_nearest_of_many_are_those_of_a_whole_sort() -> None:
    similarities = np.random.default_rng(3).standard_normal(5_000).astype(np.float32)
    assert nearest(similarities).tolist() == np.argsort(-similarities, kind="stable")[:CANDIDATES].tolist()


def test_rare_words_are_looked_up_and_common_ones_only_alone() -> None:
    count = COMMON_SHARE * 10
    assert telling({"the": count, "pump": 3, "air": 10, "none": 0}, count) == ("pump", "air")
    assert telling({"the": count, "of": 11}, count) == ("of",)
    assert telling({"none": 0}, count) == ()
    assert telling({}, 0) == ()
    assert len(telling({f"w{n}": 1 for n in range(50)}, 1_000)) == MAX_TELLING


def test_a_passage_has_its_row_or_none() -> None:
    matrix = Matrix(numbers=np.array([2, 5, 9]), rows=np.eye(3, dtype=np.float32))
    assert [matrix.place(number) for number in (1, 2, 3, 5, 9, 10)] == [None, 0, None, 1, 2, None]
    matrix.wipe()
    assert not matrix.rows.any()
