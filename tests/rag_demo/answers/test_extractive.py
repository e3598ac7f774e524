"""Sentences of the documents, verbatim; or that nothing is known."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from rag_demo.enclave.answers import UNKNOWN, PassagesAnswerer, Weighing
from rag_demo.enclave.answers.extractive import MAX_PASSAGES, MAX_UNITS, READ_PASSAGES, READ_UNITS
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
    languages: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.extend(texts)
        cosines = [1.0] + [int(text.rstrip(".").split()[-1]) / 100 for text in texts[1:]]
        rows: Vectors = np.array([[c, np.sqrt(max(0.0, 1 - c * c))] for c in cosines], dtype=np.float32)
        return rows


def by_cosine(threshold: float) -> PassagesAnswerer:
    return PassagesAnswerer(spans, known=Weighing(words=0, threshold=threshold))


def nearness(
    *texts: str, threshold: float = 0.4, embedder: Embedder | None = None
) -> tuple[bool, str, list[tuple[str, ...]]]:
    extract = by_cosine(threshold).extract(
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
    extract = by_cosine(0).extract("loaf pump", passages, HashingEmbedder())
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
    extract = by_cosine(0).extract(question, [found(BREAD)], HashingEmbedder())
    assert (extract.known, extract.passages) == (False, ())


def test_nothing_is_known_without_passages_and_the_model_is_not_asked() -> None:
    model = Turned()
    assert PassagesAnswerer(spans).extract("question?", [], model).known is False
    assert model.asked == []


def test_what_is_far_behind_the_nearest_is_left_out() -> None:
    assert nearness("One 90. Two 81.", "Three 79.") == (True, "One 90. Two 81. [1]", [("One 90. Two 81.",)])


def test_passages_are_ranked_by_their_nearest_sentence() -> None:
    known, text, sentences = nearness("First 71.", "Second 80.", "Third 75.")
    assert known
    assert sentences == [("Second 80.",), ("Third 75.",), ("First 71.",)]
    assert text == "Second 80. [1]\nThird 75. [2]\nFirst 71. [3]"


def test_sentences_keep_the_order_of_their_passage() -> None:
    assert nearness("One 72. Two 80. Three 60. Five 10. Four 75.")[:2] == (
        True,
        "One 72. Two 80. [\u2026] Four 75. [1]",
    )


def test_what_two_passages_share_is_told_once() -> None:
    known, text, sentences = nearness("One 72. Two 80.", "Two 80.", "Two 80. Three 79.")
    assert known
    assert text == "One 72. Two 80. [1]\nThree 79. [2]"
    assert sentences == [("One 72. Two 80.",), ("Three 79.",)]


def test_no_more_is_read_or_cited_than_said() -> None:
    model = Turned()
    many = [" ".join(f"S{at} {number} 80." for number in range(20)) for at in range(READ_PASSAGES + 3)]
    _, _, sentences = nearness(*many, embedder=model)
    assert len(model.asked) == 1 + READ_UNITS
    assert len(sentences) <= MAX_PASSAGES
    assert all("".join(some).count("80.") <= MAX_UNITS for some in sentences)
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
    extract = by_cosine(0.4).extract(question, [found("On E15 call 35.")], Turned())
    assert extract.known is known


def test_a_sentence_that_two_passages_share_is_embedded_once() -> None:
    model = Turned()
    nearness("One 70. Two 80.", "Two 80. Three 50.", embedder=model)
    assert model.asked == ["question?", "One 70.", "Two 80.", "Three 50."]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_cosine(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Weighing(words=0, threshold=threshold)
    with pytest.raises(ValueError, match="weight"):
        Weighing(words=threshold, threshold=0)


LETTER = """\
Medikation bei Entlassung

- Metformin 500 mg morgens
- L-Thyroxin 75 mg morgens

Empfehlungen

Am 5. Juni wird kontrolliert. Schonung ist ratsam. Nichts weiter ist zu tun. Bei erneuten Beschwerden soll sich die \
Patientin sofort in der Notaufnahme vorstellen."""


REST = "Schonung ist ratsam. Nichts weiter ist zu tun."


def quoted(*near: str, text: str = LETTER) -> tuple[str, list[str]]:
    """Answer with the units that begin with the given words."""

    class Chosen(Turned):
        def embed(self, texts: Sequence[str]) -> Vectors:
            cosines = [1.0] + [0.9 if one.startswith(near) else 0.1 for one in texts[1:]]
            return np.array([[c, np.sqrt(1 - c * c)] for c in cosines], dtype=np.float32)

    answerer = PassagesAnswerer(sentences, known=Weighing(words=0, threshold=0.5))
    passages = [replace(found(text), language="de")]
    extract = answerer.extract("question?", passages, Chosen())
    stretches = [stretch for one in extract.passages for stretch in one.sentences]
    assert all(stretch in text for stretch in stretches)
    return extract.text, stretches


def test_a_heading_and_a_sentence_of_another_section_are_never_put_together() -> None:
    text, stretches = quoted("- Metformin", "Bei erneuten")
    assert text == (
        "Medikation bei Entlassung\n- Metformin 500 mg morgens\n- L-Thyroxin 75 mg morgens\n[\u2026]\n"
        "Bei erneuten Beschwerden soll sich die Patientin sofort in der Notaufnahme vorstellen. [1]"
    )
    assert len(stretches) == 2
    assert quoted("Medikation", "Empfehlungen") == (UNKNOWN, [])


@pytest.mark.parametrize(
    ("near", "text"),
    [
        (["Am 5."], "Empfehlungen\nAm 5. Juni wird kontrolliert. [1]"),
        (["Schonung"], "Schonung ist ratsam. [1]"),
        (["Am 5.", "Nichts"], f"Empfehlungen\nAm 5. Juni wird kontrolliert. {REST} [1]"),
        (
            ["Schonung", "Nichts", "- Metformin"],
            f"Medikation bei Entlassung\n- Metformin 500 mg morgens\n- L-Thyroxin 75 mg morgens\n[\u2026]\n{REST} [1]",
        ),
    ],
)
def test_what_stands_together_is_quoted_together_and_gaps_are_shown(near: list[str], text: str) -> None:
    assert quoted(*near)[0] == text


def test_lists_and_tables_are_quoted_whole_and_below_what_introduces_them() -> None:
    text = "Bring this:\n\n- a hat\n- a coat\n\nName\tDose\nMetformin\t500 mg"
    assert quoted("Bring", text=text) == ("Bring this:\n\n- a hat\n- a coat [1]", ["Bring this:\n\n- a hat\n- a coat"])
    assert quoted("Name", text=text) == ("Name\tDose\nMetformin\t500 mg [1]", ["Name\tDose\nMetformin\t500 mg"])


GERMAN = [
    replace(found("Die Medikamente stehen auf dem Plan. Es regnet oft."), language="de"),
    replace(found("Der Vertrag endet im Herbst. Der Keller ist feucht.", ordinal=1), language="de"),
]


class Ignorant(Turned):
    """Knows English, and finds everything else equally near."""

    languages = ("en",)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.array([[1, 0]] + [[0.6, 0.8]] * (len(texts) - 1), dtype=np.float32)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wo stehen die Medikamente?", "Die Medikamente stehen auf dem Plan. [1]"),
        ("Wann endet der Vertrag?", "Der Vertrag endet im Herbst. [1]"),
        ("Welche Farbe hat das Dach des Hauses?", UNKNOWN),
        ("Und was ist das?", UNKNOWN),
    ],
)
def test_a_language_that_the_model_does_not_know_is_answered_by_words(question: str, answer: str) -> None:
    assert PassagesAnswerer(sentences).extract(question, GERMAN, Ignorant()).text == answer


def test_a_reranking_model_decides_alone_where_there_is_one() -> None:
    class Reads:
        def scores(self, question: str, texts: Sequence[str]) -> list[float]:
            return [0.9 if "feucht" in text else 0.4 for text in texts]

    model = Turned()
    extract = PassagesAnswerer(sentences).extract("Wo?", GERMAN, model, reranker=Reads())
    assert (extract.text, extract.passages[0].score) == ("Der Keller ist feucht. [1]", 0.9)
    assert model.asked == []


def test_nothing_found_does_not_claim_that_there_is_nothing() -> None:
    assert UNKNOWN.startswith("Found nothing near enough")
