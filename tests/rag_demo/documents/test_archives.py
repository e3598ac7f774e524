"""Archives and XML that mean harm: a DOCX is looked at before anything in it is unpacked."""

import io
import struct
import time
import zipfile
import zlib
from collections.abc import Callable

import pytest

from rag_demo.enclave.documents import DocumentKind, DocumentLimits, zips
from rag_demo.enclave.documents.page_writer import UnreadableDocumentError
from rag_demo.enclave.documents.readers import docx
from tests.rag_demo.documents import samples
from tests.rag_demo.documents.asking import here, refusal, texts

# --- zip archives ---------------------------------------------------------------------------------------------------


def test_a_part_that_unpacks_to_too_much_is_refused_before_and_while_it_is_unpacked() -> None:
    bomb = samples.docx_of(samples.document_xml(samples.paragraph(" " * (300 << 20 >> 6))))
    assert len(bomb) < 100_000
    error = refusal(bomb, "a.docx")
    assert (error.code, error.field) == ("document-limit", "ratio of a part to its packed size")
    error = refusal(samples.docx("x" * 5000), "a.docx", DocumentLimits(max_unpacked_bytes=4000))
    assert (error.code, error.field) == ("document-limit", "max_unpacked_bytes")


def test_a_part_that_is_longer_than_the_archive_says_is_not_unpacked_further() -> None:
    content = samples.document_xml(samples.paragraph("x" * 5000)).encode()
    document = bytearray(samples.docx_of(content))
    told = struct.pack("<I", len(content))
    assert document.count(told) == 2
    error = refusal(bytes(document.replace(told, struct.pack("<I", 1000))), "a.docx")
    assert error.code == "document-malformed"


def test_an_archive_in_an_archive_is_not_opened() -> None:
    inner = samples.zipped({"0": bytes(1 << 20)})
    nested = samples.zipped({str(number): inner for number in range(100)})
    assert refusal(nested, "a").code == "document-type-unknown"
    document = samples.docx_of(samples.document_xml(samples.paragraph("text")), embedded=nested)
    assert texts(document, "a.docx") == ["text"]


def overlapping(count: int) -> bytes:
    """Make an archive whose parts all have the same bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    kernel = packer.compress(bytes(100_000)) + packer.flush()
    fields = struct.pack("<5H3I", 20, 0, 8, 0, 0, zlib.crc32(bytes(100_000)), len(kernel), 100_000)
    names = [b"[Content_Types].xml", b"word/document.xml", *(b"%d" % number for number in range(count))]
    out = bytearray(b"PK\x03\x04" + fields + struct.pack("<2H", len(names[0]), 0) + names[0] + kernel)
    start = len(out)
    for name in names:
        out += b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<5H2I", len(name), 0, 0, 0, 0, 0, 0) + name
    out += struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, len(names), len(names), len(out) - start, start, 0)
    return bytes(out)


def test_parts_that_overlap_are_refused() -> None:
    assert len(zipfile.ZipFile(io.BytesIO(overlapping(50))).infolist()) == 52
    error = refusal(overlapping(50), "a.docx")
    assert (error.code, error.field) == ("document-malformed", "parts that overlap in the archive")


def test_a_directory_of_too_many_parts_is_refused_before_it_is_read() -> None:
    document = samples.zipped({str(number): b"" for number in range(zips.MAX_ENTRIES + 1)})
    begun = time.process_time()
    assert here(document, DocumentKind.DOCX) == "limit"
    assert time.process_time() - begun < 0.05


def with_directory(change: Callable[[bytearray, int], None]) -> bytes:
    document = bytearray(samples.docx("x"))
    change(document, document.rfind(b"PK\x05\x06"))
    return bytes(document)


@pytest.mark.parametrize(
    ("what", "offset", "value"),
    [
        ("disk", 4, 1),
        ("first disk", 6, 1),
        ("here", 8, 2),
        ("entries", 10, 2),
        ("zip64", 10, 0xFFFF),
        ("comment", 20, 1),
    ],
)
def test_an_end_of_the_archive_that_contradicts_itself_is_refused(what: str, offset: int, value: int) -> None:
    document = with_directory(lambda data, end: struct.pack_into("<H", data, end + offset, value))
    assert here(document, DocumentKind.DOCX) == "malformed", what


@pytest.mark.parametrize(
    "change", [lambda d: b"x" + d, lambda d: d + b"x", lambda d: d + d], ids=["before", "after", "twice"]
)
def test_bytes_around_an_archive_are_refused(change: Callable[[bytes], bytes]) -> None:
    document = change(samples.docx("x"))
    assert refusal(document, "a.docx").code in {"document-malformed", "document-type-mismatch"}


def test_a_part_that_reaches_into_the_directory_is_refused() -> None:
    document = bytearray(samples.docx("x"))
    last = document.rfind(b"PK\x03\x04")
    (extra,) = struct.unpack_from("<H", document, last + 28)
    struct.pack_into("<H", document, last + 28, extra + 1)
    with pytest.raises(UnreadableDocumentError) as caught:
        zips.Package(bytes(document))
    assert caught.value.what == "a part that reaches into the directory of the archive"


def test_a_directory_of_too_many_bytes_is_refused() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number in range(70):
            part = zipfile.ZipInfo(str(number))
            part.comment = bytes(0xFFFF)
            archive.writestr(part, b"")
    assert here(made.getvalue(), DocumentKind.DOCX) == "limit"


def test_a_paragraph_without_end_is_refused() -> None:
    wide = samples.document_xml(samples.paragraph("x" * (docx.MAX_PARAGRAPH_CHARACTERS + 1)))
    document = samples.zipped(
        {"[Content_Types].xml": samples.types_of("document"), "word/document.xml": wide}, packing=zipfile.ZIP_STORED
    )
    error = refusal(document, "a.docx")
    assert (error.code, error.field) == ("document-limit", "characters of a paragraph")


def test_pages_of_text_are_counted_too() -> None:
    assert texts(b"a\x0cb", "a.txt", DocumentLimits(max_pages=2)) == ["a", "b"]
    assert refusal(b"a\x0cb\x0cc", "a.txt", DocumentLimits(max_pages=2)).field == "max_pages"
    assert refusal(b"abcd", "a.txt", DocumentLimits(max_page_characters=3)).field == "max_page_characters"


def test_a_directory_with_more_parts_than_are_declared_is_refused() -> None:
    document = with_directory(lambda data, end: struct.pack_into("<2H", data, end + 8, 2, 2))
    with pytest.raises(UnreadableDocumentError) as caught:
        zips.Package(document)
    assert caught.value.what == "the number of parts in the archive"


def test_a_part_twice_in_another_packing_or_encrypted_is_refused() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("word/document.xml", "a")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("word/document.xml", "b")
    assert here(made.getvalue(), DocumentKind.DOCX) == "malformed"
    packed = samples.zipped(
        {"[Content_Types].xml": samples.types_of("document"), "word/document.xml": "x"}, packing=zipfile.ZIP_BZIP2
    )
    assert here(packed, DocumentKind.DOCX) == "malformed"
    document = bytearray(samples.docx("x"))
    place = document.find(b"PK\x01\x02")
    document[place + 8] |= 1
    assert here(bytes(document), DocumentKind.DOCX) == "encrypted"


# --- XML ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prologue",
    [
        '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE w SYSTEM "http://127.0.0.1:9/x.dtd">',
        '<!DOCTYPE w [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>',
        '<!DOCTYPE w [<!ENTITY x "lol">'
        + "".join(f'<!ENTITY x{n} "{f"&x{n - 1 if n > 1 else str()};" * 10}">' for n in range(1, 12))
        + "]>",
        "<!DOCTYPE w>",
    ],
)
def test_a_docx_that_declares_a_document_type_is_refused(prologue: str) -> None:
    error = refusal(samples.docx_of(samples.document_xml(samples.paragraph("&x;"), prologue)), "a.docx")
    assert (error.code, error.field) == ("document-malformed", "a document type declaration in XML")


def test_external_relations_of_a_docx_are_not_looked_at() -> None:
    relations = samples.RELATIONS.replace("<Relationship ", '<Relationship TargetMode="External" ', 1)
    remote = relations.replace("word/document.xml", "http://127.0.0.1:9/template.dotm")
    document = samples.docx_of(
        samples.document_xml('<w:p><w:r><w:t>text</w:t></w:r><w:altChunk r:id="r1" xmlns:r="r"/></w:p>'),
        **{"_rels/document": remote},
    )
    assert texts(document, "a.docx") == ["text"]


def test_xml_of_great_depth_or_with_a_huge_attribute_is_refused_or_read() -> None:
    deep = samples.document_xml("<w:p>" * 100_000)
    assert refusal(samples.docx_of(deep), "a.docx").code == "document-malformed"
    wide = samples.document_xml(f'<w:p w:x="{"y" * 2_000_000}"><w:r><w:t>text</w:t></w:r></w:p>')
    document = samples.zipped(
        {"[Content_Types].xml": samples.types_of("document"), "word/document.xml": wide}, packing=zipfile.ZIP_STORED
    )
    assert texts(document, "a.docx") == ["text"]
