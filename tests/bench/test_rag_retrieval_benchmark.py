"""The labelled set is what it says, and the benchmark on it finds and refuses with the real model."""

from benchmarks.rag_retrieval import recall, refusal
from fixtures.rag.questions import ANSWERED, DOCUMENTS, UNANSWERED


def test_every_answer_stands_in_one_place_of_its_document() -> None:
    for question, name, words in ANSWERED:
        assert [name for name, text in DOCUMENTS.items() for _ in range(text.count(words))] == [name], question


def test_no_question_is_asked_twice() -> None:
    questions = [*(question for question, _, _ in ANSWERED), *UNANSWERED]
    assert len({question.lower() for question in questions}) == len(questions) == 90


def test_the_passage_that_answers_is_among_the_first_five() -> None:
    figure = recall()
    assert (figure.id, figure.holds) == ("rag-recall-at-5", True)
    assert "64 questions" in figure.detail


def test_what_is_not_in_the_documents_is_refused() -> None:
    figure = refusal(every=9)
    assert figure.id == "rag-refusal-rate"
    assert figure.value == 1
    assert "of 8 questions with an answer 75.0% get one" in figure.detail
