"""The certificate table of an extended report: ``auxblob`` of configfs-tsm, or what follows the report.

Everything in it comes from the host. Certificates found here are hints until their chain is verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from attest.errors import EvidenceError
from attest.evidence.reader import ByteReader

MAX_ENTRIES = 32
"""GHCB defines 6 kinds; a provider may add a few."""
MAX_TABLE_BYTES = 1024 * 1024
_ENTRY_BYTES = 24
_PAGE_BYTES = 4096

KINDS: dict[UUID, str] = {
    UUID("63da758d-e664-4564-adc5-f4b93be8accd"): "VCEK",
    UUID("a8074bc2-a25a-483e-aae6-39c045a0b8a1"): "VLEK",
    UUID("4ab7b379-bbac-4fe4-a02f-05aef327c782"): "ASK",
    UUID("c0b406a4-a803-4952-9743-3fb6014cd0ae"): "ARK",
    UUID("92f81bc3-5811-4d3d-97ff-d19f88dc67ea"): "CRL",
    UUID("ecae0c0f-9502-43b1-afa2-0ae2e0d565b6"): "PLATFORM",
}
"""GUIDs in RFC 4122 byte order. ``PLATFORM`` is Google's CPUID(1).EAX; an ASVK travels as ``ASK``."""
_GUIDS = {kind: guid for guid, kind in KINDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """One entry: its kind from ``KINDS`` and its content, DER for certificates and lists."""

    kind: str
    data: bytes


def parse_certificate_table(data: bytes) -> tuple[TableEntry, ...]:
    """Read a certificate table; entries with an unknown GUID are skipped, as GHCB asks.

    Args:
        data: the table with its padding; offsets count from its start. Nothing but zeros may follow the contents.

    Raises:
        EvidenceError: ``snp-table-malformed``: no end of the list, an entry that points outside the table or into
            the list, a duplicate kind, or bytes behind the last entry that are not zero.

    Spec: AMD 56421 (GHCB), section 4.1.8.1; specs/sev-snp.md, section 13.
    """
    if not data.strip(b"\0"):
        return ()
    if len(data) > MAX_TABLE_BYTES:
        raise _malformed(f"{len(data)} bytes, more than {MAX_TABLE_BYTES}")
    heads = _entry_heads(ByteReader(data, what="certificate table"))
    list_end = _ENTRY_BYTES * (len(heads) + 1)
    covered = list_end
    entries: dict[str, TableEntry] = {}
    for guid, offset, length in heads:
        if offset < list_end or offset + length > len(data):
            raise _malformed(f"entry {guid} covers {offset} to {offset + length} of {list_end} to {len(data)}")
        covered = max(covered, offset + length)
        kind = KINDS.get(guid)
        if kind is None:
            continue
        if kind in entries:
            raise _malformed(f"two entries of kind {kind}")
        entries[kind] = TableEntry(kind=kind, data=data[offset : offset + length])
    if data[covered:].strip(b"\0"):
        raise _malformed("bytes after the last entry that are not padding")
    return tuple(entries.values())


def _entry_heads(reader: ByteReader) -> list[tuple[UUID, int, int]]:
    heads: list[tuple[UUID, int, int]] = []
    while True:
        guid = reader.take(16, "GUID")
        offset, length = reader.unsigned(4, "offset"), reader.unsigned(4, "length")
        if not any(guid):
            if offset or length:
                raise _malformed("an entry without a GUID")
            return heads
        heads.append((UUID(bytes=guid), offset, length))
        if len(heads) > MAX_ENTRIES:
            raise _malformed(f"more than {MAX_ENTRIES} entries")


def encode_certificate_table(entries: tuple[TableEntry, ...]) -> bytes:
    """Write a table, contents packed in order and padded with zeros to whole pages."""
    at = _ENTRY_BYTES * (len(entries) + 1)
    heads = b""
    for entry in entries:
        heads += _GUIDS[entry.kind].bytes + at.to_bytes(4, "little") + len(entry.data).to_bytes(4, "little")
        at += len(entry.data)
    table = heads + bytes(_ENTRY_BYTES) + b"".join(entry.data for entry in entries)
    return table + bytes(-len(table) % _PAGE_BYTES)


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(
        f"certificate table: {problem}",
        code="snp-table-malformed",
        check="snp.format",
        field="certificate table",
        clause="AMD 56421, 4.1.8.1",
    )
