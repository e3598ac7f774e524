"""The table of GUIDs at the end of an OVMF image, which leads to the metadata of each kind of confidential guest."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn
from uuid import UUID

MAX_FIRMWARE_BYTES = 64 * 1024 * 1024
"""Below 4 GiB there is no room for more; real images have 2 to 16 MiB."""
PAGE_BYTES = 4096

Refuse = Callable[[str], NoReturn]
"""Raise the refusal of this firmware, with the given reason."""

_TABLE_END = 32
"""The footer's table ends so many bytes before the end of the image."""
_ENTRY_HEAD = 18
_FOOTER = UUID("96b582de-1fb2-45f7-baea-a366c55a082d")


def firmware_table(data: bytes, *, refuse: Refuse) -> dict[UUID, bytes]:
    """Read the entries backwards from the footer: content, u16 size, GUID; the footer's size is that of all of them."""
    if not data or len(data) % PAGE_BYTES or len(data) > MAX_FIRMWARE_BYTES:
        refuse(f"{len(data)} bytes, expected whole pages of {PAGE_BYTES} up to {MAX_FIRMWARE_BYTES}")
    end = len(data) - _TABLE_END
    size, guid = _entry_head(data, end)
    if guid != _FOOTER:
        refuse("it has no OVMF table at its end")
    if not _ENTRY_HEAD <= size <= end:
        refuse(f"its table has {size} bytes")
    start, at = end - size, end - _ENTRY_HEAD
    table: dict[UUID, bytes] = {}
    while at - start >= _ENTRY_HEAD:
        size, guid = _entry_head(data, at)
        if not _ENTRY_HEAD <= size <= at - start:
            refuse(f"an entry of its table has {size} bytes")
        if guid in table:
            refuse(f"two entries {guid} in its table")
        table[guid] = data[at - size : at - _ENTRY_HEAD]
        at -= size
    return table


def _entry_head(data: bytes, end: int) -> tuple[int, UUID]:
    return int.from_bytes(data[end - 18 : end - 16], "little"), UUID(bytes_le=data[end - 16 : end])
