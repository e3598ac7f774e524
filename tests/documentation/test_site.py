"""The pages of the site: their length, their place, and the reference that the programs generate."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from documentation import commands, diagrams, interfaces, recording, site
from tests.conftest import REPOSITORY

TOO_LONG = set[str]()
"""Pages that are longer than they may be."""


def test_no_page_is_longer_than_400_lines() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in (REPOSITORY / "docs").rglob("*.md")}
    lengths |= {name: len(text.splitlines()) for name, text in (*commands.pages(), *interfaces.pages())}
    assert {name for name, lines in lengths.items() if lines > 400} <= TOO_LONG


def test_every_command_and_option_is_in_the_reference() -> None:
    pages = dict(commands.pages())
    assert "`--nonce`" in pages["commands/attest-verify.md"]
    assert "## `attest policy test`" in pages["commands/attest-policy.md"]
    assert "kms-serve.md" in pages["commands/index.md"]


def test_every_route_of_both_interfaces_is_in_the_reference() -> None:
    text = "".join(text for _, text in interfaces.pages())
    assert "## `POST /v1/releases`" in text
    assert "## `GET /v1/anchors`" in text


def test_the_pages_are_gathered_with_all_that_they_link_to(tmp_path: Path) -> None:
    site.gather(tmp_path)
    assert {"README.md", "docs", "examples", "page"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "docs/images/path.svg").is_file()
    assert not (tmp_path / "docs/images/demo.cast").exists()


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_a_diagram_is_the_one_that_is_checked_in(name: str) -> None:
    assert (REPOSITORY / f"docs/images/{name}.svg").read_text() == diagrams.DIAGRAMS[name]().svg()


def test_the_recording_is_the_one_that_is_checked_in() -> None:
    lines = recording.read(REPOSITORY / "docs/images/demo.cast")
    assert lines[0].text == "$ make demo ARGS=--script"
    assert lines[-1].text.startswith("every step had the expected result")
    assert (REPOSITORY / "docs/images/demo.svg").read_text() == recording.svg(lines)


def test_every_page_has_its_place_in_the_navigation() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text().replace("!!python/object/apply:", "").replace("pymdownx.slugs.", "")
    named = str(YAML(typ="safe").load(text.replace("slugify {", "{"))["nav"])
    pages = [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").rglob("*.md")]
    assert [page for page in pages if f"'{page}'" not in named] == []
