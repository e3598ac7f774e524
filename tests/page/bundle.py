"""The files of the bundle, by what imports what."""

import re

from tests.page.browser import BUNDLE

IMPORTED = re.compile(r'(?:from|import\(|import)\s*"\./([^"]+)"')


def reached(name: str) -> set[str]:
    """Return the files that an entry point imports, at once or later, and itself."""
    found: set[str] = set()
    todo = [name]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += IMPORTED.findall((BUNDLE / name).read_text())
    return found
