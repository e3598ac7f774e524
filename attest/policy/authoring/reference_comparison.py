"""Comparison of the documents of reference values that two policies accept.

The values themselves are compared with the demands that use them; this module compares their sources.
"""

from __future__ import annotations

from collections.abc import Iterator

from attest.policy.authoring.comparison import Compared, Effect, minimum
from attest.policy.reference_values.accepted_documents import AcceptedDocument

_Rows = tuple[AcceptedDocument, ...]


def compare_documents(old: _Rows, new: _Rows) -> Iterator[Compared]:
    """Compare the rows of two policies, by the names of their documents."""
    before, after = ({row.document: row for row in rows} for rows in (old, new))
    for name in dict.fromkeys((*before, *after)):
        if name not in before:
            yield Compared(effect=_of_row(after[name]), text=f"takes values from document {name!r}")
        elif name not in after:
            yield Compared(effect=_of_row(before[name]).reverse, text=f"no longer takes values from document {name!r}")
        else:
            for one in _row(before[name], after[name]):
                yield Compared(effect=one.effect, text=f"document {name!r}: {one.text}")


def _of_row(row: AcceptedDocument) -> Effect:
    """Return the effect of a document: a digest fixes its values as the policy would, signers may bring others."""
    return Effect.LABEL if row.sha256 is not None else Effect.LOOSER


def _row(old: AcceptedDocument, new: AcceptedDocument) -> Iterator[Compared]:
    """Compare two rows; for another digest the values show the effect."""
    if old.sha256 is not None and new.sha256 is not None:
        if old.sha256 != new.sha256:
            yield Compared(effect=Effect.LABEL, text=f"digest {old.sha256.hex()}, now {new.sha256.hex()}")
    elif old.sha256 is not None:
        yield Compared(effect=Effect.LOOSER, text="any document that its signers sign, before: one digest")
    elif new.sha256 is not None:
        yield Compared(effect=Effect.STRICTER, text="one digest, before: any document that its signers sign")
    else:
        yield from _signers(old, new)
    yield from _number("minimum_version", old.minimum_version, new.minimum_version)


def _signers(old: AcceptedDocument, new: AcceptedDocument) -> Iterator[Compared]:
    for key in dict.fromkeys((*old.signers, *new.signers)):
        if key not in old.signers:
            yield Compared(effect=Effect.LOOSER, text=f"{key.hex()} may sign it")
        elif key not in new.signers:
            yield Compared(effect=Effect.STRICTER, text=f"{key.hex()} may no longer sign it")
    yield from _number("at_least", old.at_least, new.at_least)


def _number(key: str, old: int, new: int) -> Iterator[Compared]:
    for one in minimum(old, new):
        yield Compared(effect=one.effect, text=f"{key} {one.text}")
