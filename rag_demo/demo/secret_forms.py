"""All forms of a secret that the search recognises: the secret itself, and the usual encodings of bytes and texts."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, quote_plus

MIN_BYTES: Final = 8
"""Shorter forms would be found by chance."""
PIECE: Final = 16
"""Length in characters of the searched pieces of a text, so that half a sentence is found too."""
_STEP: Final = 8
WINDOW: Final = 32
"""Bytes of weights in one needle: eight numbers in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """One form of one secret."""

    what: str
    form: str
    pattern: bytes


def text_needles(what: str, texts: Iterable[str]) -> Iterator[Needle]:
    """Yield the forms of texts, piece by piece.

    Raises:
        ValueError: a text is shorter than a piece.
    """
    for text in texts:
        if len(text) < PIECE:
            raise ValueError(f"{what}: a text of {len(text)} characters would be found by chance")
        begins = [*range(0, len(text) - PIECE, _STEP), len(text) - PIECE]
        for begin in begins:
            yield from _text(what, text[begin : begin + PIECE])


def bytes_needles(what: str, data: bytes) -> Iterator[Needle]:
    """Yield the forms of bytes.

    Raises:
        ValueError: fewer than 16 bytes.
    """
    if len(data) < PIECE:
        raise ValueError(f"{what}: {len(data)} bytes would be found by chance")
    yield from _unique(what, _bytes(data))


def weight_windows(tensor: bytes, *, count: int) -> tuple[bytes, ...]:
    """Return windows of a tensor's bytes, evenly spread, that hold enough different bytes to be found by no chance."""
    found: list[bytes] = []
    stride = max(WINDOW, len(tensor) // max(count, 1) // 4 * 4)
    for begin in range(0, len(tensor) - WINDOW + 1, stride):
        window = tensor[begin : begin + WINDOW]
        if len(set(window)) >= WINDOW // 2:
            found.append(window)
    return tuple(found[:count])


def _text(what: str, text: str) -> Iterator[Needle]:
    plain = text.encode()
    forms = list(_bytes(plain))
    forms += [
        ("UTF-16 LE", text.encode("utf-16-le")),
        ("UTF-16 BE", text.encode("utf-16-be")),
        ("UTF-32 LE", text.encode("utf-32-le")),
        ("JSON", json.dumps(text)[1:-1].encode()),
        ("JSON, all escaped", "".join(f"\\u{ord(one):04x}" for one in text).encode()),
        ("JSON, all escaped, upper case", "".join(f"\\u{ord(one):04X}" for one in text).encode()),
        ("percent", quote(text, safe="").encode()),
        ("percent, form", quote_plus(text).encode()),
        ("upper case", text.upper().encode()),
        ("lower case", text.lower().encode()),
    ]
    yield from _unique(what, forms)


def _bytes(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "as it is", data
    yield "reversed", data[::-1]
    yield "hex", data.hex().encode()
    yield "hex, upper case", data.hex().upper().encode()
    yield "hex, spaced", data.hex(" ").encode()
    yield "percent, all", "".join(f"%{one:02X}" for one in data).encode()
    yield "percent, all, lower case", "".join(f"%{one:02x}" for one in data).encode()
    yield "escaped", "".join(f"\\x{one:02x}" for one in data).encode()
    for shift in range(3):
        # The preceding bytes shift the groups of three; characters that depend on neighbours are left out at both ends.
        padded = base64.b64encode(bytes(shift) + data)
        begin = -(-shift * 8 // 6)
        stable = padded[begin : (shift + len(data)) * 8 // 6]
        yield f"base64, shifted by {shift}", stable
        yield f"base64url, shifted by {shift}", stable.translate(bytes.maketrans(b"+/", b"-_"))
    yield "base32", base64.b32encode(data)[: len(data) * 8 // 5]
    yield "base85", base64.b85encode(data)[: len(data) // 4 * 5]


def _unique(what: str, forms: Iterable[tuple[str, bytes]]) -> Iterator[Needle]:
    seen: set[bytes] = set()
    for form, pattern in forms:
        if len(pattern) >= MIN_BYTES and pattern not in seen:
            seen.add(pattern)
            yield Needle(what=what, form=form, pattern=pattern)
