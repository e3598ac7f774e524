"""The error for a piece of a document that is not of its format."""

from __future__ import annotations

from attest.errors import EvidenceError


def malformed(
    field: str, expected: str, got: str, *, code: str, of: str = "", clause: str | None = None
) -> EvidenceError:
    """Return the error for a malformed piece; each parser binds its code and clause.

    Args:
        field: path of the piece.
        expected: required form of the piece.
        got: its actual form.
        code: stable code of the error.
        of: name of the document, as it stands after the path in the text (`` of the runtime claims``).
        clause: definition of the format.
    """
    text = f"{field}{of}: expected {expected}, got {got}"
    return EvidenceError(text, code=code, field=field, expected=expected, got=got, clause=clause)
