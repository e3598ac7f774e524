"""Passages are whole sentences of one page, verbatim, and never more than a model reads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_demo.enclave.documents import split
from rag_demo.enclave.documents.blocks import blocks
from rag_demo.enclave.documents.passages import WHOLE_CHARACTERS
from rag_demo.enclave.documents.sentences import sentences
from rag_demo.enclave.interfaces import Page


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    "parts",
    [
        ["Dr. Smith met J. R. Hartley at 5 p.m. on Jan. 5.", "He paid $3.14 for it."],
        ['"Really?" he asked.', '"Yes."', "She left."],
        ["See Fig. 3, e.g. the part of the U.S. Army.", "The end."],
        ["It was written in 2020.", "Next?!", "Yes\u2026", "But no."],
        ["The dose is 1.5 mg (cf. Sec. 4.2).", "Take it twice."],
        ["Smith et al. wrote it in vol. 3, pp. 4 to 7.", "I did not."],
        ["Version 1.2.3 of example.org is out.", "Get it."],
        ["Es gilt z.B. Abs. 3, vgl. Art. 5 GG.", "Das ist alles."],
        ["\u4eca\u65e5\u306f\u3002", "\u5143\u6c17\u3067\u3059\u304b\uff1f", "\u306f\u3044\uff01"],
        ["\u300c\u305d\u3046\u3002\u300d\u3068\u8a00\u3063\u305f\u3002", "\u7d42\u308f\u308a"],
        ["\u0647\u0644 \u0623\u0646\u062a \u0647\u0646\u0627\u061f", "\u0646\u0639\u0645."],
        ["\u092f\u0939 \u0939\u0948\u0964", "\u0935\u0939 \u0939\u0948\u0964"],
    ],
)
def test_sentences_end_where_they_end(parts: list[str]) -> None:
    joiner = "" if "\u3002" in parts[0] else " "
    assert cut(joiner.join(parts)) == parts


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        (
            "de",
            ["Am 5. Juni kam sie.", "Dr. med. Muster sah sie.", "Das war im 19. Jahrhundert.", "Es war 2026.", "Gut."],
        ),
        ("de", ["Gem. \u00a7 3 Abs. 2 gilt das.", "Die Dosis ist ca. 5 mg, z. B. morgens."]),
        (
            "fr",
            ["Le 5 juin, M. le directeur a sign\u00e9.", "Voir p. 12 et art. 3.", "Mme la g\u00e9rante r\u00e9pond."],
        ),
        (
            "es",
            ["El Sr. presidente firm\u00f3.", "V\u00e9ase la p\u00e1g. 12.", "\u00bfCu\u00e1ndo?", "La Dra. informa."],
        ),
        ("", ["It was so. \ud800 It is not."]),
    ],
)
def test_abbreviations_and_ordinal_numbers_of_a_language_end_no_sentence(language: str, parts: list[str]) -> None:
    text = " ".join(parts)
    assert " ".join(text[start:end] for start, end in sentences(text, language)) == text
    if language:
        assert [text[start:end] for start, end in sentences(text, language)] == parts


def test_items_of_a_list_and_paragraphs_are_sentences() -> None:
    text = "What to bring\n\n- a hat\n- a coat\n1. First this. Then\n2. that\n(a) more\n\nA line that\ngoes on."
    assert cut(text) == [
        "What to bring",
        "- a hat",
        "- a coat",
        "1. First this.",
        "Then",
        "2. that",
        "(a) more",
        "A line that\ngoes on.",
    ]


def words(text: str) -> int:
    return len(text.split())


def passages(text: str, *, limit: int = 10, overlap: int = 1) -> list[str]:
    return [p.text for p in split([Page(number=1, text=text)], count_tokens=words, max_tokens=limit, overlap=overlap)]


def test_a_passage_begins_with_the_last_sentence_of_the_one_before() -> None:
    text = "One is here. Two is here. Three is here. Four is here. Five is here."
    assert passages(text) == [
        "One is here. Two is here. Three is here.",
        "Three is here. Four is here. Five is here.",
    ]
    assert passages(text, overlap=0) == ["One is here. Two is here. Three is here.", "Four is here. Five is here."]


def test_an_overlap_that_would_leave_no_room_is_left_out() -> None:
    text = "One two three four five six seven. Eight nine ten eleven twelve."
    assert passages(text) == ["One two three four five six seven.", "Eight nine ten eleven twelve."]


def test_a_sentence_that_is_too_long_is_cut_between_clauses_and_else_between_words() -> None:
    assert passages("a b c d e f, g h i j k l", overlap=0) == ["a b c d e f,", "g h i j k l"]
    assert passages("a b c d e f g h i j k l", overlap=0) == ["a b c d e", "f g h i j k l"]


def test_a_word_that_is_too_long_is_cut_where_it_must_and_not_before_an_accent() -> None:
    text = "e\u0301" * 5
    made = [p.text for p in split([Page(number=1, text=text)], count_tokens=len, max_tokens=3, overlap=0)]
    assert "".join(made) == text
    assert not any(part.startswith("\u0301") for part in made)
    assert max(map(len, made)) <= 3


def test_passages_stay_on_their_page_and_count_through_the_document() -> None:
    pages = [Page(number=3, text="One. Two."), Page(number=7, text="Three.")]
    made = list(split(pages, count_tokens=words))
    assert [(p.page, p.ordinal, p.text) for p in made] == [(3, 0, "One. Two."), (7, 1, "Three.")]


def test_a_passage_holds_one_section_with_its_heading() -> None:
    text = "The lease\n\nTerm\n\nFive years. It is renewed.\n\nDeposit\n\nThree rents."
    made = list(split([Page(number=1, text=text)], count_tokens=words, max_tokens=50))
    assert [(p.text, p.section) for p in made] == [
        ("The lease\n\nTerm\n\nFive years. It is renewed.", "Term"),
        ("Deposit\n\nThree rents.", "Deposit"),
    ]


def test_a_section_goes_on_over_pages_and_parts_have_no_page() -> None:
    pages = [Page(number=1, text="Term\n\nOne year."), Page(number=2, text="It ends.", is_part=True)]
    made = list(split(pages, count_tokens=words))
    assert [(p.page, p.section) for p in made] == [(1, "Term"), (None, "Term")]


@pytest.mark.parametrize("row", ["- a b c d e f", "a  b", "a\tb"])
def test_a_list_or_a_table_stays_whole_with_its_heading_and_a_huge_one_is_cut_between_lines(row: str) -> None:
    rows = "\n".join([row] * 20)
    assert passages(f"First. Second.\n\nMedication\n\n{rows}\n\nNext. More.", overlap=0) == [
        "First. Second.",
        f"Medication\n\n{rows}",
        "Next. More.",
    ]
    huge = "\n".join([row] * (WHOLE_CHARACTERS // len(row)))
    assert len(passages(huge)) > 1
    assert all(set(part.split("\n")) == {row} for part in passages(huge))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Term\n\nIt is so.", "heading paragraph"),
        ("It is so.\n\nTerm", "paragraph paragraph"),
        ("3. Deposit\n\nIt is so.", "heading paragraph"),
        ("1. one\n\n2. two\n\nEnd.", "list paragraph"),
        ("You need:\n\n- a\n- b", "list"),
        ("Bring this:\n- a\n- b", "list"),
        ("A\tB\n\n1\t2\n3\t4", "paragraph table"),
        ("Bisoprolol 5 mg    one\nApixaban 5 mg    two", "table"),
        ("", ""),
    ],
)
def test_blocks_are_told_apart_by_their_lines(text: str, kinds: str) -> None:
    found = blocks(text)
    assert " ".join(one.kind.value for one in found) == kinds
    assert " ".join(text[one.start : one.end] for one in found).split() == text.split()


def test_pages_are_taken_one_at_a_time() -> None:
    taken = []

    def pages() -> object:
        for number in range(1, 4):
            taken.append(number)
            yield Page(number=number, text="Some text.")

    made = split(pages(), count_tokens=words)  # type: ignore[arg-type]  # a generator of pages
    next(made)
    assert taken == [1]


@pytest.mark.parametrize(("limit", "overlap"), [(0, 1), (-1, 1), (5, -1)])
def test_limits_that_are_none_are_refused_at_once(limit: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        split([], count_tokens=words, max_tokens=limit, overlap=overlap)


BETWEEN = st.sampled_from(
    [" ", ", ", ". ", ". A ", "! ", "\n", "\n\n", "\n- ", "; ", ".", "\u3002", "\u300d", " (Dr. ", "? \u201c"]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Make a text of words that each stand in it once."""
    return "".join(f"w{number}{between}" for number, between in enumerate(draw(st.lists(BETWEEN, max_size=80)), 100))


def strange(text: str) -> int:
    """Count as a tokenizer does that makes more of words that stand together, and of capitals."""
    return len(re.findall(r"\w{1,4}|[^\w\s]", text)) + text.count(". ") + text.count("\n")


@given(text=texts(), limit=st.integers(3, 30), overlap=st.integers(0, 3))
def test_nothing_is_lost_invented_reordered_or_too_long(text: str, limit: int, overlap: int) -> None:
    calls = []

    def count(one: str) -> int:
        calls.append(one)
        return strange(one)

    made = [p.text for p in split([Page(number=1, text=text)], count_tokens=count, max_tokens=limit, overlap=overlap)]
    place = end = 0
    for part in made:
        assert strange(part) <= limit or len(part) == 1 or any(one.kind.whole for one in blocks(part))
        assert part.strip() == part
        found = text.find(part, max(place, end - len(part) + 1))  # verbatim, in order, and with something new
        assert found >= 0
        assert not text[end:found].strip()  # what is left out between two is white space
        place, end = found + 1, found + len(part)
    assert not text[end:].strip()
    for block in blocks(text):
        for sentence in [text[block.start : block.end]] if block.kind.whole else cut(text[block.start : block.end]):
            if strange(sentence) <= limit:
                assert any(sentence in part for part in made)
    assert len(calls) <= 4 * len(made) + 4 * len(cut(text)) + 4


def test_a_page_without_any_end_of_a_sentence_takes_no_long_time() -> None:
    calls = []

    def count(one: str) -> int:
        calls.append(len(one))
        return len(one) // 4 + 1

    text = "word " * 60_000 + "x" * 100_000
    made = list(split([Page(number=1, text=text)], count_tokens=count))
    assert "".join(
        p.text.replace(" ", "") for p in split([Page(number=1, text=text)], count_tokens=count, overlap=0)
    ) == (text.replace(" ", ""))
    assert all(len(p.text) // 4 + 1 <= 200 for p in made)
    assert max(calls) <= 200 * 16  # nothing huge is given to the tokenizer only to be told that it is huge


def test_full_stops_without_end_take_no_long_time() -> None:
    assert len(cut("." * 300_000)) == 1
    assert len(cut("a." * 100_000)) == 1
    assert sum(1 for _ in sentences("\n- " * 50_000)) == 50_000
