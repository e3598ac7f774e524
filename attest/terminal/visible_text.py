"""Text for terminals: what a stranger wrote is made harmless before it is shown."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str) -> str:
    """Replace what does not print by its escape, line breaks included.

    Evidence, certificates, file names and answers of services are written by strangers; control characters in them
    move cursors, set colours and rewrite lines that were already printed.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
