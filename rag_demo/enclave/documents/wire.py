"""The protocol between the worker and its parent: frames of a kind, a length and the data.

::

    K  kind      what the document is, once, first
    N  4 bytes   of how many pages, where that is known, once, before the first page
    P  UTF-8     the text of the next page; empty for a page without any. Pages count from 1 by their order alone
    S  UTF-8     the same for a part of a document whose format has no pages
    E  JSON      why it cannot be read; the last frame
    Z  4 bytes   how many pages there were; the last frame
"""

from __future__ import annotations

import struct

HEAD = struct.Struct(">cI")
NUMBER = struct.Struct(">I")
KIND, TOTAL, PAGE, PART, PROBLEM, END = b"K", b"N", b"P", b"S", b"E", b"Z"
MAX_KIND_BYTES = 16
MAX_PROBLEM_BYTES = 1024
NFC_GROWTH = 3
"""A text can get longer in NFC: at most threefold (Unicode FAQ on normalization)."""

REASONS = frozenset(
    {
        "confinement",  # the confinement failed; ``what`` names the step
        "library",  # a library cannot be imported
        "type-unknown",
        "type-mismatch",
        "encoding",
        "encrypted",
        "malformed",
        "limit",
        "defect",  # a defect of this project
    }
)


def frame(kind: bytes, payload: bytes) -> bytes:
    """Put a frame together."""
    return HEAD.pack(kind, len(payload)) + payload
