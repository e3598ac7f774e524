"""Limits of a document, and of the work of reading it."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLimits:
    """Limits for one document. Each number is the greatest accepted value.

    Attributes:
        max_pages: those without text counted too.
        max_page_characters: of one page, before what is invisible is taken out.
        max_unpacked_bytes: of one part of a DOCX, unpacked.
        seconds: that may be spent waiting for the reader; what the taker of the pages does meanwhile does not count.
        cpu_seconds: of its processor time, whole seconds.
        memory_bytes: of its addresses, the interpreter's 30 MiB among them.
    """

    max_bytes: int = 64 << 20
    max_pages: int = 20_000
    max_page_characters: int = 500_000
    max_characters: int = 50_000_000
    max_unpacked_bytes: int = 256 << 20
    seconds: float = 180.0
    cpu_seconds: int = 120
    memory_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kinds = (int, float) if field.name == "seconds" else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < 1 << 40:
                raise ValueError(f"{field.name}: expected a number from 1 to 2**40, got {value!r}")
