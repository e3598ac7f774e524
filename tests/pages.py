"""The text of a page of the documentation, with the pages that continue it."""

from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def page_text(name: str) -> str:
    """Return `docs/NAME.md` and every `docs/NAME-….md`, one after the other."""
    pages = [DOCS / f"{name}.md", *sorted(DOCS.glob(f"{name}-*.md"))]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)
