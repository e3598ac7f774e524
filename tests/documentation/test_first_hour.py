"""docs/first-hour.md has ten commands, and leads to the evidence that CI verifies; `make installation` runs it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from attest import __version__
from tests.documentation.blocks import blocks_of
from tests.documentation.first_hour import PAGE, RECORDED
from tests.documentation.shell import commands_of


def recorded_files(value: object) -> Iterator[dict[str, object]]:
    """Yield each file of a manifest, wherever it is named."""
    if isinstance(value, dict):
        if "path" in value and "source" in value:
            yield value
        for one in value.values():
            yield from recorded_files(one)
    elif isinstance(value, list):
        for one in value:
            yield from recorded_files(one)


def test_the_first_hour_has_ten_commands() -> None:
    blocks = [block for block in blocks_of(PAGE) if block.runs]
    assert {block.language for block in blocks} == {"console"}
    assert len([command for block in blocks for command in commands_of(block)]) == 10


def test_the_wheels_of_the_first_hour_have_this_version() -> None:
    named = re.findall(r"attest_(?:kms|simulator)-([^-]+)-py3", PAGE.read_text(encoding="utf-8"))
    assert named == [__version__] * 2


def test_the_first_hour_links_to_the_files_that_were_recorded(vectors_dir: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, recorded in RECORDED.items():
        folder, _, path = recorded.partition("/")
        manifest = json.loads((vectors_dir / folder / "MANIFEST.json").read_text(encoding="utf-8"))
        (source,) = {json.dumps(one["source"]) for one in recorded_files(manifest) if one["path"] == path}
        origin = json.loads(source)
        url = f"https://raw.githubusercontent.com/{origin['repo']}/{origin['commit']}/{origin['path']}"
        assert f"[`{name}`]({url})" in page
