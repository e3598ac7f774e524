"""Sentences of the documents, verbatim; or that nothing is known."""

from collections.abc import Sequence

import numpy as np
import pytest

from rag_demo.enclave.answers import UNKNOWN, PassagesAnswerer
from rag_demo.enclave.answers.extractive import MAX_PASSAGES, MAX_SENTENCES, READ_PASSAGES, READ_SENTENCES
from rag_demo.enclave.documents.sentences import sentences
from rag_demo.enclave.interfaces import Embedder, Vectors
from tests.rag_demo.answers.support import found, spans
from tests.rag_demo.hashing import HashingEmbedder

BREAD = "Knead the dough well. Bake the loaf at 220 degrees. The crust is brown then."
PUMP = "It hums at night. Bleed the radiator with the square key."


class Turned:
    """A model that says how near each text is to the question: texts end in a number of hundredths."""

    dimensions = 2
    max_tokens = 256

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.extend(texts)
        cosines = [1.0] + [int(text.rstrip(".").split()[-1]) / 100 for text in texts[1:]]
        rows: Vectors = np.array([[c, np.sqrt(max(0.0, 1 - c * c))] for c in cosines], dtype=np.float32)
        return rows


def nearness(
    *texts: str, threshold: float = 0.4, embedder: Embedder | None = None
) -> tuple[bool, str, list[tuple[str, ...]]]:
    extract = PassagesAnswerer(spans, threshold=threshold).extract(
        "question?", [found(text, ordinal=at) for at, text in enumerate(texts)], embedder or Turned()
    )
    return extract.known, extract.text, [one.sentences for one in extract.passages]


def test_the_sentence_that_answers_is_quoted_with_its_place() -> None:
    passages = [found(BREAD, name="bread.pdf", page=3), found(PUMP, name="pump.pdf", page=7, ordinal=1)]
    extract = PassagesAnswerer(spans).extract("Which key for the radiator?", passages, HashingEmbedder())
    (cited, *_) = extract.passages
    assert extract.known
    assert extract.text.startswith("Bleed the radiator with the square key. [1]")
    assert cited.sentences == ("Bleed the radiator with the square key.",)
    assert (cited.number, cited.found.name, cited.found.passage.page) == (1, "pump.pdf", 7)
    assert cited.score > 0.4


def test_every_sentence_is_verbatim_in_its_passage() -> None:
    passages = [found(BREAD), found(PUMP, ordinal=1)]
    extract = PassagesAnswerer(spans, threshold=0).extract("loaf pump", passages, HashingEmbedder())
    assert extract.passages
    for cited in extract.passages:
        assert all(sentence in cited.found.passage.text for sentence in cited.sentences)


@pytest.mark.parametrize(("nearest", "known"), [(39, False), (40, True), (41, True)])
def test_the_threshold_is_what_still_answers(nearest: int, known: bool) -> None:
    assert nearness(f"Far 10. Near {nearest}.", threshold=0.3999 if nearest == 40 else 0.4)[0] is known


def test_nothing_is_known_where_nothing_is_near() -> None:
    assert nearness("Far 10. Farther 5.") == (False, UNKNOWN, [])


@pytest.mark.parametrize("question", ["", "   "])
def test_nothing_is_known_of_no_question(question: str) -> None:
    extract = PassagesAnswerer(spans, threshold=0).extract(question, [found(BREAD)], HashingEmbedder())
    assert (extract.known, extract.passages) == (False, ())


def test_nothing_is_known_without_passages_and_the_model_is_not_asked() -> None:
    model = Turned()
    assert PassagesAnswerer(spans).extract("question?", [], model).known is False
    assert model.asked == []


def test_what_is_far_behind_the_nearest_is_left_out() -> None:
    assert nearness("One 90. Two 76.", "Three 74.") == (True, "One 90. Two 76. [1]", [("One 90.", "Two 76.")])


def test_passages_are_ranked_by_their_nearest_sentence() -> None:
    known, text, sentences = nearness("First 70.", "Second 80.", "Third 75.")
    assert known
    assert sentences == [("Second 80.",), ("Third 75.",), ("First 70.",)]
    assert text == "Second 80. [1]\nThird 75. [2]\nFirst 70. [3]"


def test_sentences_keep_the_order_of_their_passage() -> None:
    assert nearness("One 70. Two 80. Three 60. Four 75.")[2] == [("One 70.", "Two 80.", "Four 75.")]


def test_what_two_passages_share_is_told_once() -> None:
    known, text, sentences = nearness("One 70. Two 80.", "Two 80.", "Two 80. Three 79.")
    assert known
    assert text == "One 70. Two 80. [1]\nThree 79. [2]"
    assert sentences == [("One 70.", "Two 80."), ("Two 80.", "Three 79.")]


def test_no_more_is_read_or_cited_than_said() -> None:
    model = Turned()
    many = [" ".join(f"S{at} {number} 80." for number in range(20)) for at in range(READ_PASSAGES + 3)]
    _, _, sentences = nearness(*many, embedder=model)
    assert len(model.asked) == 1 + READ_SENTENCES
    assert len(sentences) <= MAX_PASSAGES
    assert all(len(some) <= MAX_SENTENCES for some in sentences)
    few = Turned()
    nearness(*(f"Sentence{at} 80." for at in range(READ_PASSAGES + 3)), embedder=few)
    assert len(few.asked) == 1 + READ_PASSAGES


def test_a_vector_that_is_none_is_far_away() -> None:
    class Broken(Turned):
        def embed(self, texts: Sequence[str]) -> Vectors:
            rows = super().embed(texts)
            rows[1:] = np.float32("nan")
            return rows

    assert nearness("Near 90.", embedder=Broken())[0] is False


@pytest.mark.parametrize(
    ("question", "known"),
    [
        ("What is E15?", True),
        ("What is E24?", False),
        ("E15 or E24?", False),
        ("What is e15 on the pump?", True),
        ("What?", False),
    ],
)
def test_a_sentence_with_every_code_that_is_asked_for_is_nearer(question: str, known: bool) -> None:
    extract = PassagesAnswerer(spans, threshold=0.4).extract(question, [found("On E15 call 35.")], Turned())
    assert extract.known is known


def test_a_sentence_that_two_passages_share_is_embedded_once() -> None:
    model = Turned()
    nearness("One 70. Two 80.", "Two 80. Three 50.", embedder=model)
    assert model.asked == ["question?", "One 70.", "Two 80.", "Three 50."]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_cosine(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        PassagesAnswerer(spans, threshold=threshold)


def test_a_heading_is_set_apart_from_the_sentence_below_it() -> None:
    passages = [found("The lamp\n\nThe lamp is kept below.")]
    extract = PassagesAnswerer(sentences, threshold=0).extract("Where is the lamp?", passages, HashingEmbedder())
    assert extract.text == "The lamp – The lamp is kept below. [1]"
    assert extract.passages[0].sentences == ("The lamp", "The lamp is kept below.")
