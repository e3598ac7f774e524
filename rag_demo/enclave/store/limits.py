"""Limits of a collection, and of the store."""

from __future__ import annotations

from dataclasses import dataclass, fields

MAX_NAME_CHARACTERS = 255
"""The limit of file systems in bytes; a name is for people, so it counts characters."""
MAX_MEDIA_TYPE_CHARACTERS = 255
MAX_FOUND = 100
"""Maximum number of passages that one search returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """Limits of the store; anything beyond is refused as a whole.

    Attributes:
        documents: of a collection, those that are being added counted.
        passages: of a collection. At 384 dimensions, 50,000 are 77 MB of vectors in memory.
        text_bytes: of all passages of a collection, in UTF-8.
        passage_bytes: of one passage, in UTF-8.
        collections: of the store: any new user adds one, so their number is bounded.
        total_passages: of the store.
        matrix_bytes: of all vectors that are kept in memory; the last one used is kept in any case.
    """

    documents: int = 1_000
    passages: int = 50_000
    text_bytes: int = 128 * 1024 * 1024
    passage_bytes: int = 64 * 1024
    collections: int = 10_000
    total_passages: int = 2_000_000
    matrix_bytes: int = 512 * 1024 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{field.name} is a whole number from 1")


DEFAULT_LIMITS = StoreLimits()
