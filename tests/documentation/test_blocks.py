"""Every code block of README and docs/ runs in reading order, in a folder of its own, or says why it does not."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cli.test_documentation import matches
from tests.conftest import REPOSITORY
from tests.documentation.blocks import Block, blocks_of

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
HERE = ("README.md", "docs/verify-in-python.md")
"""Pages that this module runs."""
ELSEWHERE = {
    "docs/administration.md": "tests/kms/test_administration_page.py",
    "docs/channel.md": "tests/channel/test_documentation.py",
    "docs/cookbook.md": "tests/examples/test_cookbook.py",
    "docs/getting-started.md": "tests/cli/test_documentation.py",
    "docs/rag-embedding.md": "tests/rag_demo/embedding/test_page.py",
    "docs/sdk.md": "tests/session/test_sdk_page.py",
    "docs/sealed-access.md": "tests/sealed_access/test_page.py",
    "docs/sealed-files.md": "tests/sealed/test_page.py",
    "docs/tutorial-sealed-model.md": "tests/examples/test_tutorial.py",
}
"""Pages that run against a service of their own, with the test that runs them."""
UNSETTLED = {
    line.split()[1]: int(line.split()[0])
    for line in (Path(__file__).parent / "unsettled.txt").read_text().splitlines()
    if line
}
"""Blocks that neither run nor say why, by page. A number may fall, and not rise."""


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def is_settled(page: str, block: Block) -> bool:
    return block.is_known and (not block.runs or page in HERE or page in ELSEWHERE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_block_runs_or_says_why_it_does_not(page: Path) -> None:
    name = name_of(page)
    unsettled = [block for block in blocks_of(page) if not is_settled(name, block)]
    assert len(unsettled) == UNSETTLED.get(name, 0), [(block.line, block.language) for block in unsettled]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_block_of_data_is_well_formed(page: Path) -> None:
    for block in blocks_of(page):
        if "…" in block.text or "..." in block.text:
            continue
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "yaml":
            YAML(typ="safe").load(block.text)
        elif block.language == "json":
            json.loads(block.text)


def test_the_tests_that_run_pages_are_there() -> None:
    assert [path for path in ELSEWHERE.values() if not (REPOSITORY / path).is_file()] == []
    assert set(UNSETTLED) <= {name_of(page) for page in PAGES}


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, each with its expected output; a program is one command."""
    if block.language != "console":
        program = ["bash", "-euo", "pipefail", "-c"] if block.language in {"sh", "bash"} else ["python", "-c"]
        return [(shlex.join([*program, block.text]), [])]
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def run(folder: Path, command: str) -> list[str]:
    """Run one command as a reader does, and return what it prints, with its exit code."""
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "80",
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return [*ran.stdout.decode().splitlines(), f"[exit {ran.returncode}]"]


@pytest.mark.parametrize("name", HERE)
def test_a_page_runs_from_its_first_block_to_its_last(name: str, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "policies", tmp_path / "policies")
    for block in blocks_of(REPOSITORY / name):
        if not block.runs:
            continue
        for command, expected in commands(block):
            got = run(tmp_path, command)
            if not (expected and re.fullmatch(r"\[exit \d+\]", expected[-1])):
                assert got.pop() == "[exit 0]", f"{name}, line {block.line}: {command}\n" + "\n".join(got)
            assert not expected or matches(expected, got), f"$ {command}\n" + "\n".join(got)
