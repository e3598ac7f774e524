"""The code blocks of a page, and the convention that says which of them run.

A block runs as it stands, in reading order. The language says what it is: `console` commands with their output, `sh`
and `bash` commands, `python` a program; `text` and the formats of data do not run. A comment directly above a block
changes that:

* `<!-- run by: TEST -->`: the file TEST runs it, and takes it from the page with `blocks_run_by`;
* `<!-- not run: reason -->`: it does not run here, and its commands are parsed;
* `<!-- synopsis -->`: `text` with the forms that a command takes, which are parsed;
* `<!-- file: NAME -->`: the reader saves it under this name;
* `<!-- with: NAME -->`: what a reader has there, which the function NAME of `settings.sh` makes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY

PAGES = (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
RUN = ("console", "sh", "bash", "python")
DATA = ("text", "json", "toml", "yaml", "html", "js", "ini", "csv", "rego")
_BLOCK = re.compile(
    r"(?:^[ ]*<!-- (?P<kind>run by|not run|synopsis|file|with)(?:: (?P<said>[^>\n]+?))? -->\n)?"
    r"^[ ]*```(?P<language>\w*)\n(?P<text>.*?)^[ ]*```$",
    re.MULTILINE | re.DOTALL,
)
_FORM = re.compile(r"\[OPTIONS\]|(?<!\w)\[-{1,2}\w|\([-\w ]+ \| [-\w ]+\)|[A-Z\]]\.\.\.")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        kind: the kind of the comment above it, or None.
        said: what the comment says.
    """

    line: int
    language: str
    text: str
    kind: str | None
    said: str | None

    @property
    def is_code(self) -> bool:
        """True if a reader would run it."""
        return self.language in RUN and self.kind != "file"

    @property
    def runs(self) -> bool:
        """True if it runs in its page's shell."""
        return self.is_code and self.kind in {None, "with"}

    @property
    def is_parsed(self) -> bool:
        """True if its commands are parsed, and do not run."""
        return self.kind == "synopsis" or (self.is_code and self.kind == "not run")

    @property
    def is_form(self) -> bool:
        """True if it has marks that only the forms of a command have."""
        return _FORM.search(self.text) is not None

    @property
    def is_known(self) -> bool:
        """True if the language says what the block is."""
        return self.language in RUN or self.language in DATA


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            kind=found["kind"],
            said=found["said"],
        )
        for found in _BLOCK.finditer(text)
    ]


def blocks_run_by(test: str) -> Iterator[tuple[Path, Block]]:
    """Yield the pages' blocks that a file of the repository runs, each with its page, in reading order."""
    for page in PAGES:
        for block in blocks_of(page):
            if (block.kind, block.said) == ("run by", test):
                yield page, block


def command_lines(block: Block) -> list[str]:
    """Return the lines of a block of commands without prompts and comments."""
    lines = [re.sub(r"\s+#.*$", "", line).removeprefix("$ ") for line in block.text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]
