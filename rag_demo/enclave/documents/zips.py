"""The container of a DOCX, checked before any part is unpacked.

A zip archive repeats its facts in several places, and readers that rely on different ones read different documents.
This one is therefore strict: one directory, no overlapping parts, no part twice, two ways of packing, consistent sizes.
"""

from __future__ import annotations

import codecs
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

from rag_demo.enclave.documents.page_writer import UnreadableDocumentError

MAX_ENTRIES = 10_000
MAX_DIRECTORY_BYTES = 4 << 20
MAX_RATIO = 300
"""Greatest ratio of compression. For XML that people wrote, 20 is usual; deflate cannot do more than 1,032."""
FREE_RATIO_BYTES = 1 << 20
"""Up to this size the ratio does not matter: an empty table packs well."""
MAX_TYPES_BYTES = 1 << 20
_PIECE = 64 << 10
codecs.lookup("cp437")  # of names without the mark of UTF-8; loaded while files can be opened

_END = struct.Struct("<4s4H2IH")
_END_MARK = b"PK\x05\x06"
_LOCAL = struct.Struct("<4s5H3I2H")
TYPES = "[Content_Types].xml"
_ENCRYPTED = 0x1


def is_docx(data: bytes) -> bool:
    """Return true if an archive lists the main part of a DOCX, without macros; reading checks the content."""
    package = Package(data)
    if TYPES not in package.names:
        return False
    return b"wordprocessingml.document.main+xml" in b"".join(package.unpack(TYPES, MAX_TYPES_BYTES))


class Package:
    """The parts of a zip archive.

    Raises:
        UnreadableDocumentError: ``malformed``, ``encrypted`` or ``limit``.
    """

    def __init__(self, data: bytes) -> None:
        entries, directory = _declared(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError) as exc:
            raise UnreadableDocumentError("malformed", "the directory of the archive") from exc
        parts = self._zip.infolist()
        if len(parts) != entries:
            raise UnreadableDocumentError("malformed", "the number of parts in the archive")
        self._parts = {part.filename: part for part in parts}
        self.names = frozenset(self._parts)
        if len(self._parts) != len(parts):
            raise UnreadableDocumentError("malformed", "a part twice in the archive")
        _require_apart(data, parts, directory)

    def unpack(self, name: str, limit: int) -> Iterator[bytes]:
        """Unpack a part, piece by piece.

        Raises:
            UnreadableDocumentError: it is not there, is longer than allowed or packed too well, or does not unpack.
        """
        part = self._parts.get(name)
        if part is None:
            raise UnreadableDocumentError("malformed", "a part that is missing from the archive")
        if part.flag_bits & _ENCRYPTED:
            raise UnreadableDocumentError("encrypted", "an encrypted archive")
        if part.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise UnreadableDocumentError("malformed", "the packing of a part")
        if part.file_size > limit:
            raise UnreadableDocumentError("limit", "max_unpacked_bytes", limit)
        if part.file_size > max(FREE_RATIO_BYTES, MAX_RATIO * part.compress_size):
            raise UnreadableDocumentError("limit", "ratio of a part to its packed size", MAX_RATIO)
        try:
            # zipfile gives out no more than the size that is declared, and compares the checksum at its end.
            with self._zip.open(part) as file:
                while piece := file.read(_PIECE):
                    yield piece
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
            ValueError,
            OSError,
        ) as exc:
            raise UnreadableDocumentError("malformed", "a part that does not unpack") from exc


def _declared(data: bytes) -> tuple[int, int]:
    """Return how many parts are declared and where their directory begins, before one of millions is read."""
    place = data.rfind(_END_MARK, max(0, len(data) - _END.size - 0xFFFF))
    if place < 0 or place + _END.size > len(data):
        raise UnreadableDocumentError("malformed", "the archive is truncated")
    _, disk, first, here, entries, size, offset, comment = _END.unpack_from(data, place)
    if disk or first or here != entries or 0xFFFF in {here, entries} or 0xFFFFFFFF in {size, offset}:
        raise UnreadableDocumentError(
            "malformed", "the end of the archive"
        )  # several volumes, or ZIP64, which no document needs
    if offset + size != place or place + _END.size + comment != len(data):
        raise UnreadableDocumentError("malformed", "bytes before or after the archive")
    if entries > MAX_ENTRIES:
        raise UnreadableDocumentError("limit", "parts in the archive", MAX_ENTRIES)
    if size > MAX_DIRECTORY_BYTES:
        raise UnreadableDocumentError("limit", "bytes of the directory of the archive", MAX_DIRECTORY_BYTES)
    return int(entries), int(offset)


def _require_apart(data: bytes, parts: list[zipfile.ZipInfo], directory: int) -> None:
    """Require that no part overlaps another: otherwise a small archive would unpack to petabytes."""
    end = 0
    for part in sorted(parts, key=lambda one: one.header_offset):
        start = part.header_offset
        if start < end or start + _LOCAL.size > directory:
            raise UnreadableDocumentError("malformed", "parts that overlap in the archive")
        *_, name, extra = _LOCAL.unpack_from(data, start)
        end = start + _LOCAL.size + name + extra + part.compress_size
    if end > directory:
        raise UnreadableDocumentError("malformed", "a part that reaches into the directory of the archive")
