"""Escaping of untrusted text for terminals."""

from __future__ import annotations


def visible(text: str) -> str:
    """Replace characters that do not print by their escapes, line breaks included.

    Evidence, certificates, file names and answers of services are untrusted: control characters in them move cursors,
    set colours and rewrite lines that were already printed.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
