"""The code blocks of a page, and the convention that says which of them run.

A block runs as it stands, in reading order, unless a comment directly above it says `<!-- not run: reason -->`. The
language says what it is: `console` commands with their output, `sh` commands, `python` a program; `text` and the
formats of data do not run.
"""

import re
from dataclasses import dataclass
from pathlib import Path

RUN = ("console", "sh", "bash", "python")
DATA = ("text", "json", "toml", "yaml", "html", "js", "ini", "csv", "rego")
_BLOCK = re.compile(
    r"(?:^[ ]*<!-- not run: (?P<reason>[^>\n]+?) -->\n)?^[ ]*```(?P<language>\w*)\n(?P<text>.*?)^[ ]*```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        reason: why it does not run, or None.
    """

    line: int
    language: str
    text: str
    reason: str | None

    @property
    def runs(self) -> bool:
        """True if a reader would run it here."""
        return self.language in RUN and self.reason is None

    @property
    def is_known(self) -> bool:
        """True if the language says what the block is."""
        return self.language in RUN or self.language in DATA


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            line=text.count("\n", 0, found.start()) + 1,
            language=found["language"],
            text=found["text"],
            reason=found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]
