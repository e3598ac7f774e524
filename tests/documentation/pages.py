"""Runs a page from its first block to its last, in one shell, with what its reader has."""

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.conftest import REPOSITORY, vectors_root
from tests.documentation import programs
from tests.documentation.blocks import Block, blocks_of
from tests.documentation.shell import Command, commands_of, require_shown, run
from tests.documentation.warm_commands import CLIENT

HERE: Final = Path(__file__).parent
PLACEHOLDERS: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads((HERE / "placeholders.toml").read_text())


def names_of(block: Block) -> list[str]:
    """Return the settings of a block, as functions are called."""
    return [re.sub(r"[ -]", "_", name.strip()) for name in (block.said or "").split(",") if name.strip()]


def page_commands(name: str) -> Iterator[Command]:
    """Yield the commands of a page, each of which comes after what is made for it."""
    values = PLACEHOLDERS.get(name, {})
    for shown in blocks_of(REPOSITORY / name):
        if not (shown.runs or shown.kind == "file"):
            continue
        block = replace(shown, text=replaced(shown.text, values))
        prelude = ""
        if block.kind == "with":
            for setting in names_of(block):
                if hasattr(programs, setting):
                    prelude += f"from tests.documentation.programs import {setting}; globals().update({setting}())\n"
                else:
                    yield Command(block.line, setting)
        yield from commands_of(block, prelude=prelude)


def replaced(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of placeholders, the longest first."""
    if not values:
        return text
    pattern = "|".join(re.escape(one) for one in sorted(values, key=len, reverse=True))
    return re.sub(pattern, lambda found: values[found[0]], text)


def run_page(name: str, *, folder: Path, warm: Path, made: Path, more: Mapping[str, str]) -> None:
    """Run a page, and require what it shows.

    Args:
        name: the page.
        folder: the reader's.
        warm: the socket of the warm commands.
        made: what settings make once for all pages.
        more: variables of the environment that name what the test started.
    """
    shutil.copytree(REPOSITORY / "policies", folder / "policies")
    commands = [Command(0, f". {HERE / 'settings.sh'}"), *page_commands(name)]
    vectors = vectors_root()
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(REPOSITORY),
        "REPOSITORY": str(REPOSITORY),
        "MADE": str(made),
        "WARM": f"{sys.executable} -I -S {CLIENT} {warm}",
        "VECTORS": "" if vectors is None else str(vectors),
        **more,
    }
    for command, got in run(commands, folder=folder, env=env, timeout=240):
        require_shown(command, got)
