"""The multilingual set is what it says, and what counts glued quotations finds them."""

import re
from collections.abc import Sequence

import pytest

from benchmarks.rag_answers import glued
from fixtures.rag.multilingual.paper import pdf
from fixtures.rag.multilingual.questions import LANGUAGES
from rag_demo.enclave.answers import Cited, Extract
from rag_demo.enclave.documents import parse
from rag_demo.enclave.interfaces import Found, IndexedPassage, Page

TEXT = "Term\n\nIt begins in May. It ends in June.\n\nDeposit\n\nThree rents."
PAGES = {"lease": (Page(number=1, text=TEXT),)}


def test_the_set_has_120_questions_about_ten_documents_and_40_have_no_answer() -> None:
    sets = LANGUAGES.values()
    questions = [one.question for labelled in sets for one in labelled.answered]
    questions += [question for labelled in sets for question in labelled.unanswered]
    assert len(set(questions)) == len(questions) == 120
    assert [(len(one.answered), len(one.unanswered)) for one in sets] == [(20, 10)] * 4
    assert len({document.name for one in sets for document in one.documents}) == 10


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_answer_is_in_its_document_where_the_label_says(language: str) -> None:
    for document in LANGUAGES[language].documents:
        data = pdf(document.pages) if document.name.endswith(".pdf") else document.pages[0].encode()
        pages = [(page.number, page.is_part, " ".join(page.text.split())) for page in parse(data, name=document.name)]
        for one in (one for one in LANGUAGES[language].answered if one.document is document):
            there = [(number, is_part) for number, is_part, text in pages if one.quote in text]
            if isinstance(one.place, int):
                assert (one.place, False) in there, one.question
            else:
                assert there, one.question
                assert all(is_part for _, is_part in there)
                assert re.search(rf"^<h[12]>.*{one.place}|^#+ .*{one.place}", document.pages[0], re.MULTILINE)


def answer(*quotes: str) -> Extract:
    cited: Sequence[Cited] = [
        Cited(
            number=number,
            found=Found(
                document="0" * 32,
                name="lease",
                passage=IndexedPassage(page=1, ordinal=0, text=TEXT),
                similarity=0.5,
                score=0.5,
            ),
            sentences=(quote,),
            shown=quote,
            score=0.5,
        )
        for number, quote in enumerate(quotes, 1)
    ]
    return Extract(known=True, text="\n".join(f"{q} [{n}]" for n, q in enumerate(quotes, 1)), passages=tuple(cited))


@pytest.mark.parametrize(
    ("quotes", "count"),
    [
        (["It begins in May. It ends in June."], 0),
        (["Term\nIt begins in May.", "Deposit\nThree rents."], 0),
        (["It begins in May. [\u2026] Three rents."], 0),
        (["It begins in May. Three rents."], 1),
        (["Term \u2013 Three rents."], 1),
        (["Deposit"], 1),
        (["Term [\u2026] It ends in June."], 1),
        (["It starts in May.", "Term It ends"], 2),
    ],
)
def test_a_quotation_that_is_not_in_one_piece_is_counted(quotes: list[str], count: int) -> None:
    assert glued(answer(*quotes), PAGES, frozenset({"Term", "Deposit"})) == count
