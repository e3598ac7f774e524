"""Texts to vectors by the real model: what they mean, and that each is its own."""

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest

from rag_demo.enclave.embedding import TextEmbedder
from rag_demo.enclave.interfaces import Embedder

WORDS: Final = (
    "lease",
    "tenant",
    "rent",
    "garden",
    "water",
    "notice",
    "month",
    "court",
    "roof",
    "price",
    "key",
    "door",
    "wall",
)


def cosine(embedder: Embedder, first: str, second: str) -> float:
    vectors = embedder.embed([first, second])
    return float(vectors[0] @ vectors[1])


def text_of(tokens: int, *, first: int = 0) -> str:
    """Return a text of so many tokens, which are words of the vocabulary."""
    return " ".join(WORDS[(first + at * 7) % len(WORDS)] for at in range(tokens))


def test_its_sizes_are_those_of_the_model(embedder: TextEmbedder) -> None:
    assert (embedder.dimensions, embedder.max_tokens) == (384, 256)


def test_vectors_are_single_precision_and_of_length_one(embedder: TextEmbedder) -> None:
    vectors = embedder.embed(["How long is the lease?", "", "x", text_of(400)])
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, 384)
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-6


@pytest.mark.parametrize(
    ("text", "paraphrase", "other"),
    [
        ("How long does the lease run?", "What is the duration of the rental contract?", "How do I bake bread?"),
        ("The patient has a high fever.", "Her body temperature is well above normal.", "The train leaves at noon."),
        ("The company lost money last year.", "Annual results were negative.", "Whales are mammals."),
        ("Employees may work from home.", "Remote work is allowed.", "The bridge was closed for repairs."),
    ],
)
def test_a_paraphrase_is_nearer_than_another_matter(
    embedder: TextEmbedder, text: str, paraphrase: str, other: str
) -> None:
    near, far = cosine(embedder, text, paraphrase), cosine(embedder, text, other)
    assert near > 0.35
    assert far < 0.2
    assert near > far + 0.3


def test_the_order_of_words_matters(embedder: TextEmbedder) -> None:
    # A mean of words alone would not tell these apart: this is positions and attention.
    assert cosine(embedder, "The dog bit the man.", "The man bit the dog.") < 0.999


@pytest.mark.parametrize("order", [1, -1])
def test_a_vector_does_not_depend_on_what_else_is_in_the_batch(embedder: TextEmbedder, order: int) -> None:
    texts = [text_of(length, first=length) for length in (0, 1, 1, 2, 7, 7, 7, 30, 31, 200, 254, 300)]
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    together = embedder.embed(texts[::order])[::order]
    assert np.abs(together - alone).max() < 1e-6


def test_the_same_call_gives_the_same_bits(embedder: TextEmbedder) -> None:
    texts = [text_of(length) for length in range(1, 60, 3)]
    assert embedder.embed(texts).tobytes() == embedder.embed(texts).tobytes()


def test_no_texts_have_no_vectors(embedder: TextEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


@pytest.mark.parametrize("blank", ["   ", "\n\t\n", "\x00", "\u200b\ufeff", "\x00\x01\x7f\x9f"])
def test_what_has_no_characters_that_count_is_the_empty_text(embedder: TextEmbedder, blank: str) -> None:
    assert np.array_equal(embedder.embed([blank]), embedder.embed([""]))


def test_nul_and_control_characters_are_left_out(embedder: TextEmbedder) -> None:
    assert np.array_equal(embedder.embed(["the\x00 lease\x07"]), embedder.embed(["the lease"]))


def test_half_a_surrogate_pair_is_left_out_and_two_halves_are_a_character(embedder: TextEmbedder) -> None:
    assert np.array_equal(embedder.embed(["the \udc00 lease \ud800"]), embedder.embed(["the lease"]))
    assert np.array_equal(embedder.embed(["the \ud83d\udd11"]), embedder.embed(["the 🔑"]))


def test_emoji_are_read(embedder: TextEmbedder) -> None:
    assert np.isfinite(embedder.embed(["😀🏳️‍🌈👩‍⚕️"])).all()
    assert embedder.count_tokens("😀") == 1


def test_what_is_beyond_the_longest_text_is_not_seen(embedder: TextEmbedder) -> None:
    seen = text_of(254)
    assert embedder.count_tokens(seen) == 254
    assert np.array_equal(embedder.embed([seen + " and a garden"]), embedder.embed([seen]))
    # The last one that is seen does count.
    assert not np.array_equal(embedder.embed([text_of(253)]), embedder.embed([seen]))


@pytest.mark.parametrize("text", ["lease " * 16_667, "a" * 100_000, " " * 100_000, "é😀\n" * 33_334], ids=len)
def test_a_text_of_a_hundred_thousand_characters_has_a_vector(embedder: TextEmbedder, text: str) -> None:
    vectors = embedder.embed([text])
    assert np.isfinite(vectors).all()
    assert np.abs(vectors - embedder.embed([text[:90_000]])).max() < 1e-6


@pytest.mark.parametrize("wrong", [None, 1, b"bytes", ["nested"]])
def test_what_is_no_text_is_refused(embedder: TextEmbedder, wrong: object) -> None:
    with pytest.raises(TypeError, match="a text must be str"):
        embedder.embed(["good", wrong])  # type: ignore[list-item]  # The wrong use that is tested.
    with pytest.raises(TypeError, match="a text must be str"):
        embedder.count_tokens(wrong)  # type: ignore[arg-type]  # As above.


@pytest.mark.parametrize("wrong", ["one text", b"bytes"])
def test_one_text_instead_of_several_is_refused(embedder: TextEmbedder, wrong: Sequence[str]) -> None:
    with pytest.raises(TypeError, match="a sequence of str"):
        embedder.embed(wrong)


def test_several_threads_may_ask_at_once(embedder: TextEmbedder) -> None:
    texts = [[text_of(length, first=at) for length in (3, 9, 40)] for at in range(4)]
    expected = [embedder.embed(one) for one in texts]
    found: dict[int, object] = {}

    def ask(at: int) -> None:
        found[at] = embedder.embed(texts[at])

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert all(np.array_equal(np.asarray(found[at]), expected[at]) for at in range(4))
