"""docs/cli.md names every command and option; what transcripts show is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from attest.cli.main import cli
from tests.documentation.shell import matches
from tests.pages import page_text

REPOSITORY = Path(__file__).resolve().parents[2]
CLI = page_text("cli")
TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.md"))


def every_command() -> list[tuple[str, click.Command]]:
    context = click.Context(cli)
    found = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        found.append((name, command))
        found += [(f"{name} {below}", one) for below, one in getattr(command, "commands", {}).items()]
    return found


@pytest.mark.parametrize(
    ("name", "command"), every_command(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_and_every_option_is_documented(name: str, command: click.Command) -> None:
    group, _, below = name.partition(" ")
    assert f"attest {group}" in CLI
    assert not below or f"attest {name}" in CLI or re.search(rf"`{below}`", CLI)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for option in parameter.opts:
                assert re.search(rf"{re.escape(option)}(?![\w-])", CLI), f"{name} {option}"


def test_no_option_is_documented_that_does_not_exist() -> None:
    known = {option for _, command in every_command() for p in command.params for option in p.opts}
    known |= {"--version", "--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", CLI)) - known == set()


def blocks(document: Path) -> list[tuple[str, list[str]]]:
    """Return the commands of all console blocks, each with the lines that are expected of it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.mark.parametrize("document", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_is_what_happens(document: Path, tmp_path: Path) -> None:
    commands = blocks(document)
    assert commands
    for policy in (REPOSITORY / "policies").glob("*.yaml"):
        (tmp_path / policy.name).write_bytes(policy.read_bytes())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, expected in commands:
        ran = subprocess.run(
            ["bash", "-c", f"{command}"],
            cwd=tmp_path,
            env={
                "PATH": path,
                "COLUMNS": "80",
                "HOME": str(tmp_path),
                "LC_ALL": "C.UTF-8",
                "PYTHONPATH": str(REPOSITORY),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        got = ran.stdout.decode().splitlines()
        if expected and re.fullmatch(r"\[exit \d+\]", expected[-1]):
            got.append(f"[exit {ran.returncode}]")
        assert matches(expected, got), f"$ {command}\n" + "\n".join(got)
