"""Every code block of README and docs/ runs in reading order, or says what runs it."""

import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from ruamel.yaml import YAML

from tests.conftest import REPOSITORY
from tests.documentation import programs
from tests.documentation.blocks import PAGES, Block, blocks_of, command_lines
from tests.documentation.pages import names_of, run_page
from tests.documentation.parsing import require_parsed
from tests.documentation.warm_commands import warm_commands
from tests.kms.postgres import running_server


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


ELSEWHERE = {
    "docs/channel.md": "tests/channel/test_documentation.py",
    "docs/cookbook.md": "tests/examples/test_cookbook.py",
    "docs/first-hour.md": "tests/packaging/test_installation.py",
    "docs/rag-embedding.md": "tests/rag_demo/embedding/test_page.py",
    "docs/receipts.md": "tests/receipts/test_documentation.py",
    "docs/sdk.md": "tests/session/test_sdk_page.py",
    "docs/sealed-access.md": "tests/sealed_access/test_page.py",
    "docs/sealed-files.md": "tests/sealed/test_page.py",
    "docs/tutorial-sealed-model.md": "tests/examples/test_tutorial.py",
}
"""Pages that run against a service of their own, with the test that runs them."""
READ = {
    "docs/channel.md": {"python"},
    "docs/cookbook.md": {"python", "sh"},
    "docs/rag-embedding.md": {"python"},
    "docs/receipts.md": {"console", "python"},
    "docs/sdk.md": {"python"},
    "docs/sealed-files.md": {"python"},
}
"""The languages that such a test looks for, where it does not read every block."""
HERE = [
    name_of(page) for page in PAGES if any(block.runs for block in blocks_of(page)) and name_of(page) not in ELSEWHERE
]
"""Pages that this module runs."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_language_of_each_block_says_what_it_is(page: Path) -> None:
    assert [(block.line, block.language) for block in blocks_of(page) if not block.is_known] == []


PARSED = [(name_of(page), block) for page in PAGES for block in blocks_of(page) if block.is_parsed]


@pytest.mark.parametrize(("name", "block"), PARSED, ids=lambda value: value if isinstance(value, str) else value.line)
def test_the_commands_of_a_block_that_does_not_run_exist(name: str, block: Block) -> None:
    assert block.kind == "synopsis" or block.said, f"{name}, line {block.line}: say why"
    require_parsed(block)


CODE = [(name_of(page), block) for page in PAGES for block in blocks_of(page) if block.is_code]


def test_no_block_of_commands_is_a_form() -> None:
    assert [(name, block.line) for name, block in CODE if block.kind == "synopsis" or block.is_form] == []


@pytest.mark.parametrize(
    "form",
    [
        "attest verify INPUT... [OPTIONS]\n",
        "attest key get KEY (--out FILE | --out-fd N)\n",
        "attest docs --serve [--port N]\n",
        "attest run [--key NAME=KEY]... -- COMMAND...\n",
    ],
)
def test_a_form_is_told_by_its_marks(form: str) -> None:
    assert Block(line=1, language="bash", text=form, kind=None, said=None).is_form


SCRIPT = ".ci/run"
"""What CI runs; it cannot be started from a test, so that each line of a block is one of its own."""
ELSEWHERE_RUN = [(name, block) for name, block in CODE if block.kind == "run by"]


@pytest.mark.parametrize(("name", "block"), ELSEWHERE_RUN, ids=lambda one: one if isinstance(one, str) else one.line)
def test_what_runs_a_block_takes_it_from_its_page(name: str, block: Block) -> None:
    assert block.said, f"{name}, line {block.line}: say what runs it"
    text = (REPOSITORY / block.said).read_text(encoding="utf-8")
    if block.said == SCRIPT:
        assert [line for line in command_lines(block) if line not in map(str.strip, text.splitlines())] == []
    else:
        assert f'blocks_run_by("{block.said}")' in text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("bash", "attest verify report.bin --no-such-option\n"),
        ("bash", "attest verify report.bin && kms no-such-command\n"),
        ("bash", "kms key import model\n"),
        ("bash", "make no-such-target\n"),
        ("bash", "python -m rag_demo --no-such-option\n"),
        ("bash", "if true\n"),
        ("console", "$ attest no-such-command\noutput\n"),
        ("python", "from attest.fetch import NoSuchName\n"),
        ("python", "with nothing\n"),
    ],
)
def test_what_does_not_exist_is_found_without_running_it(language: str, text: str) -> None:
    with pytest.raises((click.UsageError, ImportError, SyntaxError, subprocess.CalledProcessError)):
        require_parsed(Block(line=1, language=language, text=text, kind="not run", said="a test"))


def counted() -> Counter[str]:
    """Return the number of blocks by what becomes of them."""
    found = Counter[str]()
    for page in PAGES:
        for block in blocks_of(page):
            if block.runs:
                found["run by `tests/documentation`" if name_of(page) in HERE else "run by a test of their page"] += 1
            elif block.kind == "run by":
                found[f"run by `{block.said}`"] += 1
            elif block.is_parsed and block.is_code:
                found[f"parsed only: {block.said}"] += 1
    return found


def test_contributing_counts_the_blocks_that_run_and_those_that_are_parsed() -> None:
    rows = "\n".join(f"| {what} | {number} |" for what, number in sorted(counted().items()))
    assert f"| Block | Number |\n| --- | --- |\n{rows}\n\n" in (REPOSITORY / "CONTRIBUTING.md").read_text(), rows


def test_what_a_reader_has_is_made_by_a_function() -> None:
    named = {
        setting for page in PAGES for block in blocks_of(page) if block.kind == "with" for setting in names_of(block)
    }
    known = set(re.findall(r"^(\w+)\(\) \{", (Path(__file__).parent / "settings.sh").read_text(), re.MULTILINE))
    assert {name for name in named if name not in known and not hasattr(programs, name)} == set()


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


@pytest.mark.parametrize("name", READ)
def test_a_page_has_no_block_that_its_test_does_not_look_for(name: str) -> None:
    assert {block.language for block in blocks_of(REPOSITORY / name) if block.runs} <= READ[name]


def test_the_tests_that_run_pages_are_there() -> None:
    assert [path for path in ELSEWHERE.values() if not (REPOSITORY / path).is_file()] == []


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What settings make once for all pages, and for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket at which both commands are called."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ATTEST", "KMS", "COV"))}
    shown = {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}
    with (
        tempfile.TemporaryDirectory() as short,
        warm_commands(Path(short) / "s", env | shown) as path,
    ):
        yield path


@pytest.fixture
def database() -> Iterator[dict[str, str]]:
    """What names a PostgreSQL server, whose administrator the reader is; the service has to give its password."""
    with running_server(owner="postgres", rules="local all kms scram-sha-256\nlocal all all trust\n") as server:
        yield {"PGHOST": str(server.folder), "PGUSER": server.owner}


@pytest.mark.loopback
@pytest.mark.parametrize("name", HERE)
def test_a_page_runs_from_its_first_block_to_its_last(
    name: str, tmp_path: Path, warm: Path, made: Path, request: pytest.FixtureRequest
) -> None:
    needed = " ".join(block.said or "" for block in blocks_of(REPOSITORY / name) if block.kind == "with")
    if "recorded" in needed:
        request.getfixturevalue("vectors_dir")
    more = request.getfixturevalue("database") if "a PostgreSQL server" in needed else {}
    run_page(name, folder=tmp_path, warm=warm, made=made, more=more)
