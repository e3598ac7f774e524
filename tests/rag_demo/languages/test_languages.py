"""The language of a text, and the stems of its words."""

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from fixtures.rag.multilingual.questions import LANGUAGES
from rag_demo.enclave.languages import is_function_word, language_of, stems_of, words_of
from rag_demo.enclave.languages.detection import LANGUAGES as LANGUAGES_TOLD_APART


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_of_questions_and_documents_is_found(language: str) -> None:
    labelled = LANGUAGES[language]
    questions = [*(one.question for one in labelled.answered), *labelled.unanswered]
    assert [language_of(question) for question in questions] == [language] * len(questions)
    assert {language_of("".join(one.pages)) for one in labelled.documents if one.name.endswith((".pdf", ".md"))} <= {
        language
    }


@pytest.mark.parametrize("text", ["", "12 45", "E15", "ok", "\ud800\x00", "\u202e" * 99])
def test_a_text_that_shows_no_language_has_none(text: str) -> None:
    assert language_of(text) == ""


@given(st.text(max_size=200))
def test_any_text_has_a_language_or_none(text: str) -> None:
    assert len(language_of(text)) in {0, 2}
    assert all(stem == "".join(stem.split()) for language in ("de", "") for stem in stems_of(text, language))


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "Medikamente", "Medikaments"),
        ("de", "H\u00e4user", "Haus"),
        ("fr", "inondations", "inondation"),
        ("fr", "r\u00e9sili\u00e9", "r\u00e9silier"),
        ("es", "vacaciones", "vacaci\u00f3n"),
        ("en", "medicines", "Medicine"),
    ],
)
def test_forms_of_a_word_have_one_stem(language: str, one: str, other: str) -> None:
    assert list(stems_of(one, language)) == list(stems_of(other, language))
    assert list(words_of(one)) != list(words_of(other))


@pytest.mark.parametrize("language", ["", "xx", "ja"])
def test_without_a_stemmer_the_words_stay(language: str) -> None:
    assert list(stems_of("Houses and \u6e29\u5ea6\u8a08", language)) == list(words_of("Houses and \u6e29\u5ea6\u8a08"))


def test_function_words_are_those_of_the_language_alone() -> None:
    assert is_function_word("wann", "de")
    assert not is_function_word("wann", "en")
    assert not is_function_word("medikamente", "de")
    assert not is_function_word("wann", "")


def test_no_word_of_a_document_stays_in_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []

    def stemmer(*arguments: object) -> object:
        made.append(arguments)
        return Stemmer.Stemmer(*arguments)

    monkeypatch.setattr("rag_demo.enclave.languages.terms.Stemmer", SimpleNamespace(Stemmer=stemmer))
    assert list(stems_of("Quarzwindungen", "de")) == ["quarzwind"]
    assert made == [("german", 0)]  # the size of its cache


def test_the_model_is_read_without_a_temporary_file_and_gives_what_the_package_gives() -> None:
    program = """
import sys
made = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & (1 | 2 | 64):
        made.append(arguments[0])
sys.addaudithook(watch)
from rag_demo.enclave.languages import language_of
print(language_of("The lease runs for five years."), made)
"""
    said = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "en []\n"
    package = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    package.set_languages(LANGUAGES_TOLD_APART)
    for labelled in LANGUAGES.values():
        for one in labelled.answered[:5]:
            text = " ".join(re.findall(r"[^\W\d_]+", one.question))
            assert package.classify(text)[0] == language_of(one.question)
