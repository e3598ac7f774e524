"""Content of an answer of another service, up to a limit."""

from __future__ import annotations

from collections.abc import Iterable


def bounded_content(pieces: Iterable[bytes], most: int) -> bytes:
    """Join the pieces of an answer of at most so many bytes.

    Raises:
        OSError: it is longer.
    """
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > most:
            raise OSError(f"an answer of more than {most} bytes")
    return content
