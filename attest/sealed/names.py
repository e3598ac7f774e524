"""Names of files in a model: relative, with ``/``, and unambiguous on every file system.

Names from signed documents become paths on disk. Names that file systems or people could confuse are refused: letters
that differ in case alone, other Unicode forms of the same text, invisible characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

MAX_FILES: Final = 100_000
"""For one model; the limit of its signature."""
MAX_NAME_BYTES: Final = 1024
MAX_DEPTH: Final = 32
"""Path components; comparison time grows with it."""
MAX_PART_BYTES: Final = 240
"""Bytes of one component: file systems end at 255, and sealing and temporary files add suffixes."""


def name_problem(name: str) -> str | None:
    """Return the defect of a name, or None: relative, ``/`` between parts, no ``.`` or ``..``, printable, NFC."""
    if not name.isprintable() or "\\" in name:
        return "it has a control character, an invisible one or a backslash"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    if not unicodedata.is_normalized("NFC", name):
        return "it is not in Unicode's form NFC"
    parts = name.split("/")
    if len(parts) > MAX_DEPTH:
        return f"it is deeper than {MAX_DEPTH} folders"
    for part in parts:
        if part in {"", ".", ".."}:
            return "it is absolute, or has an empty part, '.' or '..'"
        if len(part.encode()) > MAX_PART_BYTES:
            return f"a part of it is longer than {MAX_PART_BYTES} bytes"
    return None


def names_problem(names: Iterable[str]) -> str | None:
    """Return the first defect among the names of one model, or None: all valid, and no two equal on any disk."""
    spellings: dict[tuple[str, ...], str] = {}
    for name in names:
        problem = name_problem(name)
        if problem is not None:
            return f"{name[:200]!r}: {problem}"
        folded = _folded(name)
        if folded in spellings:
            return f"{name[:200]!r} and {spellings[folded][:200]!r} are the same name on some file systems"
        spellings[folded] = name
    for parts, name in spellings.items():
        for length in range(1, len(parts)):
            if parts[:length] in spellings:
                return f"{spellings[parts[:length]][:200]!r} would be a file and the folder of {name[:200]!r}"
    return None


def _folded(name: str) -> tuple[str, ...]:
    """Return the form that the most lenient file system compares."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return tuple(part.rstrip(" .") for part in folded.split("/"))
