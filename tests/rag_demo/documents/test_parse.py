"""Each format, read by the real process in its real confinement."""

import os
from pathlib import Path

import pytest

from fixtures.rag.multilingual import paper
from rag_demo.enclave.documents import (
    DocumentError,
    DocumentKind,
    DocumentLimitError,
    DocumentLimits,
    ReadingProgress,
    parse,
)
from rag_demo.enclave.interfaces import Page
from tests.rag_demo.documents import samples


def texts(document: bytes, name: str, media_type: str = "", **more: object) -> list[str]:
    with parse(document, name=name, media_type=media_type, **more) as reading:  # type: ignore[arg-type]  # one of several
        return [page.text for page in reading]


def test_a_pdf_has_its_pages_paragraphs_and_whole_words() -> None:
    told: list[ReadingProgress] = []
    lines = ["A title", "", "It was an exam-", "ple of a line. And", "so on.", "", "Another paragraph."]
    with parse(samples.pdf([lines, [], ["Last page"]]), name="a.pdf", progress=told.append) as reading:
        assert list(reading) == [
            Page(number=1, text="A title\n\nIt was an example of a line. And\nso on.\n\nAnother paragraph."),
            Page(number=3, text="Last page"),
        ]
        assert reading.kind is DocumentKind.PDF
    assert [(one.pages, one.of) for one in told] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_cells_of_a_row_in_a_pdf_are_set_apart() -> None:
    rows = "Metformin 500 mg  one in the morning\nL-Thyroxin  one\nA line that is only text."
    assert texts(paper.pdf([rows]), "a.pdf") == [
        "Metformin 500 mg\tone in the morning\nL-Thyroxin\tone\nA line that is only text."
    ]


def test_a_docx_has_the_pages_that_it_tells_of() -> None:
    body = (
        samples.paragraph("One &amp; two")
        + '<w:p><w:r><w:br w:type="page"/></w:r></w:p><w:p><w:r><w:lastRenderedPageBreak/><w:t>Three</w:t></w:r></w:p>'
        + "<w:p><w:r><w:t>fo</w:t></w:r><w:r><w:t>ur</w:t><w:tab/><w:t>five</w:t><w:br/><w:t>six</w:t></w:r></w:p>"
        + "<w:p><w:r><w:lastRenderedPageBreak/><w:t>Seven</w:t></w:r></w:p>"
    )
    document = samples.docx_of(samples.document_xml(body))
    assert texts(document, "a.docx", samples.DOCX_MEDIA_TYPE) == ["One & two", "Three\n\nfour\tfive\nsix", "Seven"]


def test_a_docx_without_page_breaks_has_a_part_for_each_large_heading() -> None:
    body = "".join(
        samples.paragraph(text, style)
        for text, style in (
            ("Before", ""),
            ("First", "Heading1"),
            ("Text.", ""),
            ("Small", "Heading3"),
            ("Second", "Heading2"),
        )
    )
    assert texts(samples.docx_of(samples.document_xml(body)), "a.docx") == [
        "Before",
        "First\n\nText.\n\nSmall",
        "Second",
    ]


def test_a_docx_shows_tables_and_notes_and_leaves_out_what_is_deleted_or_there_twice() -> None:
    row = "<w:tr>" + "".join(f"<w:tc>{samples.paragraph(cell)}</w:tc>" for cell in ("a", "b")) + "</w:tr>"
    body = (
        f"<w:tbl>{row}{row}</w:tbl>"
        "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText></w:r>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:r><w:t>kept</w:t></w:r></w:p>"
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice>'
        f"{samples.paragraph('new')}</mc:Choice><mc:Fallback>{samples.paragraph('old')}</mc:Fallback></mc:AlternateContent>"
    )
    notes = f'<w:footnotes xmlns:w="{samples.W}"><w:footnote>{samples.paragraph("A note.")}</w:footnote></w:footnotes>'
    document = samples.docx_of(samples.document_xml(body), footnotes=notes)
    assert texts(document, "a.docx") == ["a\tb\na\tb\n\nkept\n\nnew", "A note."]


def test_html_has_the_text_that_is_shown() -> None:
    page = (
        "<!DOCTYPE html><html><head><title>T</title><style>p{}</style></head><body><h1>A</h1>"
        "<p>foo <b>bar</b>\n baz<br>q<ul><li>x<li>y</ul><script>if (a<b) evil()</script><table><tr><td>1<td>2</table>"
        "<pre>a  b\n c</pre>&amp;&eacute;"
    )
    assert texts(page.encode(), "a.html", "text/html; charset=utf-8") == [
        "T",
        "A\n\nfoo bar baz\nq\n\n- x\n- y\n\n1\t2\n\na  b\n c\n\n&\u00e9",
    ]


@pytest.mark.parametrize(
    "odd", ["<![if !vml]>", "<![foo bar]>", "<!>", "<!-- c", "<?php x ?>", "<![CDATA[x]>", "</>", "<!ELEMENT x>"]
)
def test_html_that_browsers_put_up_with_is_read(odd: str) -> None:
    assert texts(f"<html><p>before {odd}<p>after --> text".encode(), "a.html")[0].startswith("before")
    assert "text" in texts(f"<html>{odd}-->text".encode(), "a.html")[0]


@pytest.mark.parametrize(
    "page",
    [
        '<html><meta charset="windows-1252"><p>caf\u00e9 \u20ac'.encode("cp1252"),
        '<html><meta http-equiv=Content-Type content="text/html; charset=iso-8859-1"><p>caf\u00e9 \u20ac'.encode(
            "cp1252"
        ),
        '<?xml version="1.0" encoding="UTF-8"?><html><p>caf\u00e9 \u20ac'.encode(),
        "<html><p>caf\u00e9 \u20ac".encode("utf-16"),
    ],
)
def test_html_is_read_in_the_encoding_that_it_says(page: bytes) -> None:
    assert texts(page, "a.html") == ["caf\u00e9 \u20ac"]


@pytest.mark.parametrize("codec", ["shift_jis", "euc-jp", "gb18030", "big5"])
def test_html_is_read_in_an_encoding_of_the_east(codec: str) -> None:
    page = f'<html><meta charset="{codec}"><p>\u6f22\u5b57'.encode(codec)
    assert texts(page, "a.html") == ["\u6f22\u5b57"]


def test_markdown_has_its_words_without_the_marks() -> None:
    text = (
        "# H\u00e9\n\nfoo [bar](http://x) *b* `c`\nline\n\n> - q\n3. three\n4. four\n\n```\ncode  [x]\n```\n\n"
        "|a|b|\n|-|-|\n|c|d|\n\n<p>raw <b>h</b></p>\n\n![alt](x.png) [ref][1] &amp;\n\n[1]: http://y\n\n## Next\nend"
    )
    assert texts(text.encode(), "a.md", "text/plain") == [
        "H\u00e9\n\nfoo bar b c\nline\n\n- q\n3. three\n4. four\n\ncode  [x]\n\na\tb\nc\td\n\nraw h\n\nalt ref &",
        "Next\n\nend",
    ]


@pytest.mark.parametrize(
    ("document", "name", "is_part"),
    [
        (samples.pdf([["x"], ["y"]]), "a.pdf", [False, False]),
        (b"x\fy", "a.txt", [False, False]),
        (b"x\n\ny", "a.txt", [True]),
        (b"# x\n\n# y", "a.md", [True, True]),
        (b"<h1>x</h1>", "a.html", [True]),
        (samples.docx("x"), "a.docx", [True]),
        (
            samples.docx_of(samples.document_xml('<w:p><w:r><w:br w:type="page"/><w:t>y</w:t></w:r></w:p>')),
            "a.docx",
            [False],
        ),
    ],
)
def test_only_pages_that_the_document_has_are_pages(document: bytes, name: str, is_part: list[bool]) -> None:
    assert [page.is_part for page in parse(document, name=name)] == is_part


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_in_utf_8_and_in_marked_utf_16(codec: str) -> None:
    text = "The first para-\r\ngraph, a state-of-\nthe-art well-\nKnown one.\r\n\r\nThe second: caf\u00e9.\fThird"
    assert texts(text.encode(codec), "a.txt") == [
        "The first paragraph, a state-of-the-art well-\nKnown one.\n\nThe second: caf\u00e9.",
        "Third",
    ]


def test_long_text_is_cut_into_parts_between_paragraphs() -> None:
    paragraphs = [f"Paragraph {number}. " + "Words follow. " * 40 for number in range(60)]
    made = texts("\n\n".join(paragraphs).encode(), "a.txt")
    assert len(made) > 2
    assert max(map(len, made)) <= 10_000
    assert "\n\n".join(made) == "\n\n".join(paragraph.strip() for paragraph in paragraphs)


def test_a_document_comes_from_a_descriptor_and_from_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"words " * 100_000)  # more than a pipe holds
    descriptor = os.open(path, os.O_RDONLY)
    try:
        made = [page.text for page in parse(descriptor, name="a.txt")]
        os.fstat(descriptor)  # not closed
    finally:
        os.close(descriptor)
    assert made == texts(path.read_bytes(), "a.txt")
    assert " ".join(made).split() == ["words"] * 100_000


@pytest.mark.parametrize(
    ("name", "media_type", "kind"),
    [
        ("a.TXT", "application/octet-stream", DocumentKind.TEXT),
        ("a", "text/markdown", DocumentKind.MARKDOWN),
        ("minutes.2026", "", DocumentKind.TEXT),
        ("a.md", "text/plain", DocumentKind.MARKDOWN),
        ("a.md", "text/x-markdown; charset=utf-8", DocumentKind.MARKDOWN),
    ],
)
def test_what_text_is_is_what_it_was_said_to_be(name: str, media_type: str, kind: DocumentKind) -> None:
    with parse(b"some text", name=name, media_type=media_type) as reading:
        assert [page.text for page in reading] == ["some text"]
        assert reading.kind is kind


def refusal(document: bytes, name: str = "a", media_type: str = "", **more: object) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        texts(document, name, media_type, **more)
    return caught.value


@pytest.mark.parametrize(
    ("document", "name", "media_type", "got"),
    [
        (samples.pdf([["x"]]), "a.docx", "", "pdf"),
        (samples.pdf([["x"]]), "a", "text/plain", "pdf"),
        (samples.docx("x"), "a.pdf", "", "docx"),
        (b"<!doctype html><p>x", "a.txt", "", "html"),
        (b"just text", "a.pdf", "", "text"),
        (b"x", "a.pdf", "text/html", "html by its media type"),
    ],
)
def test_a_document_that_is_not_what_it_was_said_to_be_is_refused(
    document: bytes, name: str, media_type: str, got: str
) -> None:
    error = refusal(document, name, media_type)
    assert (error.code, error.got) == ("document-type-mismatch", got)
    assert error.expected
    assert error.expected in str(error)


@pytest.mark.parametrize(
    ("document", "name", "code"),
    [
        (b"", "a.txt", "document-empty"),
        (b" \n\t ", "a.txt", "document-without-text"),
        (samples.pdf([[], []]), "a.pdf", "document-without-text"),
        (b"\x89PNG\r\n\x1a\n", "a", "document-type-unknown"),
        (b"\x89PNG\r\n\x1a\n", "a.txt", "document-type-unknown"),
        (samples.zipped({"xl/workbook.xml": "<x/>"}), "a", "document-type-unknown"),
        (b"PK", "a.xlsx", "document-type-unknown"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "a", "document-type-unknown"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.docx",
            "document-encrypted",
        ),
        ("caf\u00e9".encode("latin-1"), "a.txt", "document-encoding-unsupported"),
        (b"a\x00b", "a.txt", "document-type-unknown"),
        (b"<html><meta charset=utf-7><p>+ADw-", "a.html", "document-encoding-unsupported"),
        (b"<html><meta charset=shift_jis><p>\x81", "a.html", "document-encoding-unsupported"),
        (samples.docx_of("<x/>"), "a.docx", "document-malformed"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(document: bytes, name: str, code: str) -> None:
    assert refusal(document, name).code == code


def test_a_type_that_is_not_read_is_refused_before_a_process_is_started() -> None:
    with pytest.raises(DocumentError) as caught:
        parse(b"x", name="a", media_type="image/png")
    assert (caught.value.code, caught.value.got) == ("document-type-unknown", "image/png")


@pytest.mark.parametrize(
    "name",
    ["", " ", ".", "..", "../a.txt", "/etc/passwd", "c:\\a.txt", "a\x00.txt", "a\n.txt", "gpj.\u202etxt", "x" * 256],
)
def test_a_name_that_is_a_path_or_hides_something_is_refused(name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(b"x", name=name)
    assert caught.value.code == "document-name-invalid"
    assert "\x00" not in str(caught.value)


def test_a_descriptor_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2_000_000)
    writing = os.open(path, os.O_WRONLY)
    with pytest.raises(DocumentError) as caught:
        parse(writing, name="a.txt")
    os.close(writing)
    assert caught.value.code == "document-unreadable"
    reading = os.open(path, os.O_RDONLY)
    pages = parse(reading, name="a.txt")
    os.truncate(path, 10)
    with pytest.raises(DocumentError) as caught:
        list(pages)
    os.close(reading)
    assert caught.value.code == "document-unreadable"


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (DocumentLimits(max_pages=2), "max_pages"),
        (DocumentLimits(max_page_characters=20), "max_page_characters"),
        (DocumentLimits(max_characters=40), "max_characters"),
    ],
)
def test_a_limit_is_named_when_it_is_passed_and_not_before(limits: DocumentLimits, field: str) -> None:
    most = ["twenty letters long."]
    assert texts(samples.pdf([most, most]), "a.pdf", limits=limits) == ["twenty letters long."] * 2
    for beyond in ([most, most, ["x"]], [[*most, "x"]] if field == "max_page_characters" else [most, most, ["x"]]):
        if field == "max_page_characters" and len(beyond) == 3:
            continue
        error = refusal(samples.pdf(beyond), "a.pdf", limits=limits)
        assert isinstance(error, DocumentLimitError)
        assert (error.code, error.field) == ("document-limit", field)


def test_a_file_that_is_too_large_is_refused_before_a_process_is_started() -> None:
    assert texts(b"x" * 100, "a.txt", limits=DocumentLimits(max_bytes=100)) == ["x" * 100]
    with pytest.raises(DocumentLimitError) as caught:
        parse(b"x" * 101, name="a.txt", limits=DocumentLimits(max_bytes=100))
    assert (caught.value.code, caught.value.field) == ("document-too-large", "max_bytes")


@pytest.mark.parametrize("value", [0, -1, True, "1", 1 << 40])
def test_a_limit_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="max_pages"):
        DocumentLimits(max_pages=value)  # type: ignore[arg-type]  # wrong on purpose


def test_closing_ends_the_process_and_the_pages() -> None:
    reading = parse(samples.pdf([["x"]] * 3), name="a.pdf")
    next(reading)
    process = reading._child._process  # noqa: SLF001  whether it is gone is seen nowhere else
    reading.close()
    reading.close()
    assert process.returncode is not None
    assert list(reading) == []
