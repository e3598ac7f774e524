"""`python -m documentation`: write the generated parts of the documentation, or compare them with `--check`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from documentation import checks, recording
from documentation.diagrams import DIAGRAMS

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
CAST: Final = DOCS / "images" / "demo.cast"


def generated() -> Iterator[tuple[str, str]]:
    """Yield each generated file: its path under docs/, and its text."""
    for name, draw in DIAGRAMS.items():
        yield f"images/{name}.svg", draw().svg()
    yield "checks.md", checks.page()
    yield "images/demo.svg", recording.svg(recording.read(CAST))


def main() -> int:
    """Write or compare; return 1 if a file differs."""
    parser = argparse.ArgumentParser(prog="python -m documentation", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a file differs")
    parser.add_argument("--record", action="store_true", help="run the demonstration first, and keep its output")
    options = parser.parse_args()
    if options.record:
        recording.record(CAST)
    differing = []
    for name, text in generated():
        path = DOCS / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        differing.append(name)
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in differing:
        print(f"{'differs' if options.check else 'written'}: docs/{name}", file=sys.stderr)
    return 1 if options.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
