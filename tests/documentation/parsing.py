"""Parses the commands of blocks that do not run: every program, command and option of this project exists."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence

import click

import attest.cli.main
import kms.cli.main
import rag_demo.client.cli
import rag_demo.demo.cli
from tests.conftest import REPOSITORY
from tests.documentation.blocks import Block
from tests.documentation.shell import commands_of

_PROGRAMS = {
    ("attest",): attest.cli.main.cli,
    ("kms",): kms.cli.main.cli,
    ("python", "-m", "rag_demo.client"): rag_demo.client.cli.cli,
    ("python", "-m", "rag_demo"): rag_demo.demo.cli.demo,
}
_ENDS = {"|", "||", "&&", ";", "&", "(", ")", ">", ">>", "<", "2>"}
_FORM = re.compile(r"\[OPTIONS\]|[\[\]()]|\.\.\.")


def shell_text(block: Block) -> str:
    """Return the commands of a block without their output."""
    if block.language == "console":
        return "\n".join(command.text for command in commands_of(block))
    return _FORM.sub(" ", block.text).replace("|", "\n") if block.kind == "synopsis" else block.text


def require_parsed(block: Block) -> None:
    """Require that a block can be read, and that each command of this project in it exists with its options.

    Raises:
        SyntaxError: a program that is none.
        ImportError: what it imports is not there.
        subprocess.CalledProcessError: commands that a shell cannot read.
        click.UsageError: an unknown command or option, or a missing one.
    """
    if block.language == "python":
        _require_program(block.text)
        return
    text = shell_text(block)
    if block.kind != "synopsis":
        subprocess.run(["bash", "-n", "-c", text], check=True, capture_output=True, text=True)
    for words in _commands(text):
        _require_command(words, whole=block.kind != "synopsis")


def _commands(text: str) -> Iterator[list[str]]:
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word in _ENDS:
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def _require_command(words: Sequence[str], *, whole: bool) -> None:
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        unknown = [word for word in words[1:] if "=" not in word and word not in targets]
        if unknown:
            raise click.UsageError(f"no target {unknown[0]!r} in the Makefile")
        return
    for program, command in _PROGRAMS.items():
        if tuple(words[: len(program)]) == program:
            _require_options(command, list(words[len(program) :]), whole=whole)
            return


def _require_options(command: click.Command, words: list[str], *, whole: bool) -> None:
    context = click.Context(command, **command.context_settings)  # a command remembers the names of its help option
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        if found is None:
            if words[0].startswith("http"):  # the client takes an address alone for a chat
                found, words = command.get_command(context, "chat"), ["chat", *words]
            else:
                raise click.UsageError(f"no command {words[0]!r}")
        assert found is not None
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    given, *_ = command.make_parser(context).parse_args(words)
    for parameter in command.params:
        if whole and parameter.required and not given.get(str(parameter.name)):
            raise click.MissingParameter(ctx=context, param=parameter)


def _require_program(text: str) -> None:
    compile(text, "block", "exec")
    imports = re.findall(r"^(?:import [^\n]+|from [^\n]+ import (?:\([^)]+\)|[^\n]+))", text, re.MULTILINE)
    exec("\n".join(imports), {})  # noqa: S102  a page of this repository
