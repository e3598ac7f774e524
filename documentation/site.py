"""The pages of the site: docs/, every file of the repository to which a page links, and the generated reference."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from documentation import commands, interfaces

REPOSITORY: Final = Path(__file__).resolve().parent.parent
PAGES: Final = REPOSITORY / "build" / "pages"
_FIRST: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def linked(page: Path) -> Iterator[Path]:
    """Yield each file to which a page links; a folder's README stands for the folder."""
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        if path.is_file() and path.is_relative_to(REPOSITORY):
            yield path


def gather(folder: Path = PAGES) -> None:
    """Copy the pages, and what they link to, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    waiting = [REPOSITORY / name for name in _FIRST]
    waiting += [path for path in sorted((REPOSITORY / "docs").rglob("*")) if path.is_file() and path.suffix != ".cast"]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        copy = folder / path.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        if path.suffix == ".md":
            waiting += linked(path)
    for name, text in (*commands.pages(), *interfaces.pages()):
        copy = folder / "docs" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    gather()
