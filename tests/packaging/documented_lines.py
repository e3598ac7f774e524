"""The lines of the documentation that install something."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINE = re.compile(r"(?<!hint: )(?<!uv )pip install [^`\n]+")
"""What a command says, and what uv does with a file of the reader, are not among them."""


def documented_installations() -> list[str]:
    """Return every `pip install` that a reader would copy, as it stands."""
    pages = [ROOT / "README.md", *(ROOT / "simulator").glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = {line.partition("  #")[0].strip() for page in pages for line in _LINE.findall(page.read_text())}
    found.discard("pip install attest")  # the one that the page on installing warns of
    return sorted(line for line in found if ".whl" not in line)  # docs/first-hour.md runs as a whole
