"""The commands of a page in one shell, as its reader has it, and what each of them prints."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.documentation.blocks import Block, blocks_of

MARK = "\x1e"
"""A mark before what each command prints."""
_EXIT = re.compile(r"\[exit \d+\]")


@dataclass(frozen=True, slots=True)
class Command:
    """One command; a block of commands without their output is one.

    Attributes:
        expected: the lines that the page shows; `...` stands for any lines, and at the end of a line for its rest.
    """

    line: int
    text: str
    expected: tuple[str, ...] = ()


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        return int(sock.getsockname()[1])


def commands_of(block: Block, *, prelude: str = "") -> Iterator[Command]:
    """Yield the commands of a block; the file that a reader saves is written by one.

    Args:
        prelude: what a program has before its first line.
    """
    if block.kind == "file":
        yield Command(block.line, f"cat > {shlex.quote(str(block.said))} <<{_end(block)}\n{block.text}{MARK}")
    elif block.language == "console":
        yield from _shown(block)
    elif block.language == "python":
        yield Command(block.line, f"python - <<{_end(block)}\n{prelude}{block.text}{MARK}")
    else:
        yield Command(block.line, f"set -euo pipefail\n{block.text}set +euo pipefail")


def _end(block: Block) -> str:
    """Return the end of a block as a document of the shell, whose own values may stand for placeholders."""
    return MARK if "${" in block.text else f"'{MARK}'"


def commands_of_page(page: Path) -> Iterator[Command]:
    """Yield the commands of the blocks of a page that need nothing but what the page says."""
    for block in blocks_of(page):
        if block.runs or block.kind == "file":
            yield from commands_of(block)


def _shown(block: Block) -> Iterator[Command]:
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif found and found[-1][1][-1].endswith("\\"):
            found[-1][1].append(line)
        elif found:
            found[-1][2].append(line)
    for number, text, expected in found:
        yield Command(number, "\n".join(text), tuple(expected))


def run(
    commands: Sequence[Command], *, folder: Path, env: Mapping[str, str], timeout: float
) -> list[tuple[Command, list[str]]]:
    """Run commands in one shell, and return what each printed, with its exit code as the last line.

    The shell and what it started end with it. A failed block of commands ends the shell.
    """
    parts = (f"printf '{MARK}'\n{command.text}\necho \"[exit $?]\"\n" for command in commands)
    script = folder / ".script"
    script.write_text("".join(parts), encoding="utf-8")
    shell = subprocess.Popen(
        ["bash", str(script)],
        cwd=folder,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as exc:
        raise AssertionError((exc.output or b"").decode(errors="replace")) from exc
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    got = [part.splitlines() for part in said.decode().split(f"{MARK}")[1:]]
    last, code = commands[len(got) - 1], shell.returncode
    assert len(got) == len(commands), f"line {last.line}: ended with {code}\n{last.text}\n" + "\n".join(got[-1])
    return list(zip(commands, got, strict=True))


def shell_environment() -> dict[str, str]:
    """Return the environment of a shell with the commands of this checkout, which no `make` has started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "MAKE", "MFLAGS"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "PYTHONPATH": str(REPOSITORY)}


def run_script(script: str, *, folder: Path, typed: str = "", timeout: float = 200) -> str:
    """Run commands as a reader's shell does, and return what they print.

    Args:
        typed: what the reader enters.
    """
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=shell_environment(),
        input=typed,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, (script, done)
    return done.stdout


def require_shown(command: Command, got: list[str]) -> None:
    """Require that a command printed what its page shows, and that it succeeded if the page shows no exit code.

    Empty lines are not compared.
    """
    shown = f"line {command.line}: {command.text}\n" + "\n".join(got)
    lines = [line for line in got if line]
    if not command.expected or not _EXIT.fullmatch(command.expected[-1]):
        assert lines.pop() == "[exit 0]", shown
    assert not command.expected or matches([line for line in command.expected if line], lines), shown


def matches(expected: list[str], got: list[str]) -> bool:
    """Compare lines; `...` stands for any number of lines, and at the end of a line for the rest of it."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else _line_pattern(line) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in got)) is not None


def _line_pattern(line: str) -> str:
    return re.escape(line.removesuffix("...")) + ".*" if line.endswith(" ...") else re.escape(line)
