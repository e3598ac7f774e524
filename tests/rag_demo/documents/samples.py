"""Documents made by hand, byte by byte where that matters."""

import io
import zipfile
import zlib
from collections.abc import Iterable, Sequence

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DOCX_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
    ' Target="word/document.xml"/></Relationships>'
)


def pdf_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Put the objects of a PDF together; the first is its catalogue."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, table)
    return bytes(out)


def stream(content: bytes, *, packed: bool = False) -> bytes:
    if packed:
        content = zlib.compress(content, 9)
        return b"<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream" % (len(content), content)
    return b"<</Length %d>>\nstream\n%s\nendstream" % (len(content), content)


def text_on_page(lines: Iterable[str]) -> bytes:
    """Write lines, 14 points apart; an empty one leaves a line out."""
    shown = " ".join(
        "({}) Tj T*".format(line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")) if line else "T*"
        for line in lines
    )
    return f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode("latin-1")


def pdf(pages: Sequence[Sequence[str]], *, trailer: bytes = b"") -> bytes:
    """Make a PDF of pages of lines."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for lines in pages:
        objects.append(stream(text_on_page(lines)))
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
            % len(objects)
        )
        kids.append(len(objects))
    listed = " ".join(f"{kid} 0 R" for kid in kids).encode()
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), listed)
    return pdf_of(objects, trailer)


def zipped(parts: dict[str, str | bytes], *, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packing) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def types_of(*parts: str) -> str:
    """Write the content types of parts of ``word/``."""
    kinds = {part: "document.main" if part == "document" else part for part in parts}
    named = "".join(
        f'<Override PartName="/word/{part}.xml" ContentType="{_WORD}.{kind}+xml"/>' for part, kind in kinds.items()
    )
    return f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{named}</Types>'


def docx_of(document: str | bytes, **more: str | bytes) -> bytes:
    """Make a DOCX of the XML of its main part and of others, named without folder and ending."""
    parts = {"document": document, **more}
    return zipped(
        {
            "[Content_Types].xml": types_of(*parts),
            "_rels/.rels": RELATIONS,
            **{f"word/{name}.xml": content for name, content in parts.items()},
        }
    )


def document_xml(body: str, prologue: str = "") -> str:
    start = f'<?xml version="1.0" encoding="UTF-8"?>{prologue}<w:document xmlns:w="{W}">'
    return f"{start}<w:body>{body}</w:body></w:document>"


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def docx(*paragraphs: str) -> bytes:
    return docx_of(document_xml("".join(paragraph(text) for text in paragraphs)))
