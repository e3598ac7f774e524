"""Text to tokens by the real vocabulary: cases worked by hand, and where a long text is cut."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_demo.enclave.embedding.tokenizer import parse_tokenizer
from rag_demo.enclave.embedding.tokens import FIRST_CHARACTERS, TextTokens

VOCABULARY = 30_522


@pytest.fixture(scope="session")
def words(model_folder: Path) -> list[str]:
    """Give the vocabulary from the file that is not read by what is tested: a line for each number."""
    return (model_folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:VOCABULARY]


@pytest.fixture(scope="session")
def tokens(model_folder: Path) -> TextTokens:
    return parse_tokenizer((model_folder / "tokenizer.json").read_bytes(), vocabulary=VOCABULARY)


def test_the_numbers_are_those_that_everybody_knows(tokens: TextTokens) -> None:
    assert tokens.encode("Hello, world!", most=256) == [101, 7592, 1010, 2088, 999, 102]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", ""),
        ("The LEASE", "the lease"),
        ("unaffable", "una ##ffa ##ble"),
        ("embeddings", "em ##bed ##ding ##s"),
        ("don't", "don ' t"),
        ("$3.50 (net)", "$ 3 . 50 ( net )"),
        ("a\u00a0b\u3000c\td\r\ne", "a b c d e"),
        ("Café naïve résumé", "cafe naive resume"),
        ("e\u0301cole", "ecole"),
        ("東京", "東 京"),
        ("lease\u200bholder", "lease ##holder"),
        ("[SEP]", "[ sep ]"),
        ("[CLS] [MASK] [PAD] [UNK]", "[ cl ##s ] [ mask ] [ pad ] [ un ##k ]"),
        ("##ing", "# # ing"),
        ("x" * 101, "[UNK]"),
        ("\ue000", ""),
        ("a\x00b", "ab"),
        ("a\ufffdb", "ab"),
    ],
)
def test_a_text_is_cut_as_by_hand(tokens: TextTokens, words: list[str], text: str, pieces: str) -> None:
    first, *numbers, last = tokens.encode(text, most=256)
    assert (words[first], words[last]) == ("[CLS]", "[SEP]")
    assert " ".join(words[number] for number in numbers) == pieces
    assert tokens.count(text) == len(numbers)


def test_a_word_of_a_hundred_characters_is_still_looked_at(tokens: TextTokens, words: list[str]) -> None:
    assert "[UNK]" not in [words[number] for number in tokens.encode("x" * 100, most=256)]


@pytest.mark.parametrize("most", [2, 3, 4, 256])
def test_no_more_tokens_come_than_were_asked_for(tokens: TextTokens, most: int) -> None:
    whole = tokens.encode("lease " * 300, most=1000)
    assert len(whole) == 302
    cut = tokens.encode("lease " * 300, most=most)
    assert cut == [*whole[: most - 1], whole[-1]]


EDGE = FIRST_CHARACTERS


@pytest.mark.parametrize(
    "text",
    [
        " " * (EDGE - 3) + "embeddings of words",
        " " * (EDGE - 3) + "e\u0301\u0301\u0301\u0301cole of words",
        " " * (EDGE - 100) + "x" * 101 + " and more " * 400,
        " " * (EDGE - 101) + "x" * 100 + "yz",
        " " * (EDGE * 4 - 2) + "embeddings",
        "x" * (EDGE * 5) + " lease",
        # The word at the edge is unknown in the whole, and many pieces where it is cut: as many as are wanted.
        "a " * 230 + " " * (EDGE - 460 - 90) + "x" * 150 + " lease",
        "lease\u200b" * 2000 + " end",
        " ".join(["unaffable"] * 3000),
        "\ue000" * (EDGE - 1) + "😀 lease",
    ],
    ids=range(10),
)
def test_reading_the_beginning_of_a_long_text_changes_nothing(
    tokens: TextTokens, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(text) > EDGE
    cut = tokens.encode(text, most=256)
    monkeypatch.setattr("rag_demo.enclave.embedding.tokens.FIRST_CHARACTERS", len(text))
    assert cut == tokens.encode(text, most=256)


def test_halves_of_surrogates_are_joined_or_left_out(tokens: TextTokens) -> None:
    whole = tokens.encode("key 🔑 end", most=256)
    assert tokens.encode("key \ud83d\udd11 end", most=256) == whole
    assert tokens.encode("key \ud83d end \udd11", most=256) == tokens.encode("key end", most=256)
    assert tokens.count("\ud83d") == 0


@given(text=st.text(st.characters(categories=None), max_size=60), most=st.integers(2, 40))
def test_any_text_becomes_numbers_of_the_vocabulary(tokens: TextTokens, text: str, most: int) -> None:
    numbers = tokens.encode(text, most=most)
    assert len(numbers) == min(most, tokens.count(text) + 2)
    assert (numbers[0], numbers[-1]) == (101, 102)
    # No text speaks in the model's marks.
    assert {0, 101, 102, 103}.isdisjoint(numbers[1:-1])
    assert all(0 <= number < VOCABULARY for number in numbers)
