"""The error for a piece of a document that is not of its format."""

from __future__ import annotations

from attest.errors import EvidenceError


def malformed(
    field: str,
    expected: str,
    got: str,
    *,
    code: str,
    of: str = "",
    clause: str | None = None,
    check: str | None = None,
    offset: int | None = None,
) -> EvidenceError:
    """Return the error for a malformed piece; each parser binds its code and clause.

    ``of`` names the document, as it stands after the path in the text (`` of the runtime claims``).
    """
    where = "" if offset is None else f" (offset {offset:#05x})"
    return EvidenceError(
        f"{field}{of}: expected {expected}, got {got}{where}",
        code=code,
        check=check,
        field=field,
        offset=offset,
        expected=expected,
        got=got,
        clause=clause,
    )
