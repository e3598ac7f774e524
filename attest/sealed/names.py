"""Names of files in a model: relative, with ``/``, and one spelling each on every file system.

A name travels from a signed document to somebody's disk. What two file systems could take for one name, or one person
for another, is refused: letters that differ in case alone, other Unicode forms of the same text, invisible characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

__all__ = ["MAX_DEPTH", "MAX_FILES", "MAX_NAME_BYTES", "MAX_PART_BYTES", "name_problem", "names_problem"]

MAX_FILES: Final = 100_000
"""Of one model; the limit of its signature."""
MAX_NAME_BYTES: Final = 1024
MAX_DEPTH: Final = 32
"""Parts between slashes; comparing names takes time that grows with it."""
MAX_PART_BYTES: Final = 240
"""Of one part between slashes: file systems end at 255, and sealing and half-written files add to a name."""


def name_problem(name: str) -> str | None:
    """Say what is wrong with a name, or None: relative, ``/`` between parts, no ``.`` or ``..``, printable, NFC."""
    if not name.isprintable() or "\\" in name:
        return "it holds a control character, an invisible one or a backslash"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    if not unicodedata.is_normalized("NFC", name):
        return "it is not in Unicode's form NFC"
    parts = name.split("/")
    if len(parts) > MAX_DEPTH:
        return f"it lies deeper than {MAX_DEPTH} folders"
    for part in parts:
        if part in {"", ".", ".."}:
            return "it is absolute, or has an empty part, '.' or '..'"
        if len(part.encode()) > MAX_PART_BYTES:
            return f"a part of it is longer than {MAX_PART_BYTES} bytes"
    return None


def names_problem(names: Iterable[str]) -> str | None:
    """Say what is wrong with the names of one model together, or None: each is good, and no two can meet on a disk."""
    spellings: dict[tuple[str, ...], str] = {}
    for name in names:
        problem = name_problem(name)
        if problem is not None:
            return f"{name[:200]!r}: {problem}"
        folded = _folded(name)
        if folded in spellings:
            return f"{name[:200]!r} and {spellings[folded][:200]!r} are one name on some file systems"
        spellings[folded] = name
    for parts, name in spellings.items():
        for length in range(1, len(parts)):
            if parts[:length] in spellings:
                return f"{spellings[parts[:length]][:200]!r} would be a file and the folder of {name[:200]!r}"
    return None


def _folded(name: str) -> tuple[str, ...]:
    """Return what the most forgiving file system would compare."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return tuple(part.rstrip(" .") for part in folded.split("/"))
