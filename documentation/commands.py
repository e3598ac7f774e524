"""The command reference: a page for each command of `attest` and `kms`, from the commands themselves."""

import re
from collections.abc import Iterator
from typing import Final

import click

from attest.cli.main import cli as attest
from kms.cli.main import cli as kms

PROGRAMS: Final = {"attest": attest, "kms": kms}
MAX_LINES: Final = 400
"""No page is longer."""
_INDENTED: Final = re.compile(r"^(?: {2,}|\t)\S")


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page: its path under docs/, and its text."""
    listing = ["# Commands", "", "Each command with its options, as `--help` shows them."]
    for program, group in PROGRAMS.items():
        listing += ["", f"## `{program}`", ""]
        for name, command in _below(group):
            path = f"{program}-{name}"
            listing.append(f"* [`{program} {name}`]({path}.md): {command.get_short_help_str(200)}")
            yield from _pages_of(path, f"{program} {name}", command)
    yield "commands/index.md", "\n".join([*listing, ""])


def _pages_of(path: str, name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield the page of a command; the commands of a large group have pages of their own."""
    lines = [*_section(name, command, level=1), ""]
    if len(lines) <= MAX_LINES:
        yield f"commands/{path}.md", "\n".join(lines)
        return
    lines = [*_one(name, command, level=1)]
    for below, one in _below(command):
        lines.append(f"* [`{name} {below}`]({path}-{below}.md): {one.get_short_help_str(200)}")
        yield f"commands/{path}-{below}.md", "\n".join([*_section(f"{name} {below}", one, level=1), ""])
    yield f"commands/{path}.md", "\n".join([*lines, ""])


def _below(group: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield name, command


def _section(name: str, command: click.Command, *, level: int) -> Iterator[str]:
    yield from _one(name, command, level=level)
    for below, one in _below(command):
        yield from _section(f"{name} {below}", one, level=level + 1)


def _one(name: str, command: click.Command, *, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} `{name}`", "")
    yield from _paragraphs(command.help or "")
    # The names that all our commands have: a command remembers them.
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```text", f"{name} {usage}", "```", "")
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if options:
        yield from ("| Option | Meaning |", "| --- | --- |")
        for option in options:
            yield f"| {_names(option, context)} | {_cell(option.help or '')} |"
        yield ""


def _names(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} `{_cell(option.make_metavar(context))}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a help text; what click keeps as it is becomes a block."""
    for part in re.sub(r"\f", "", text).split("\n\n"):
        lines = [line.rstrip() for line in part.splitlines()]
        if any(line.strip() == "\b" for line in lines) or any(_INDENTED.match(line) for line in lines):
            yield from ("```text", *(line for line in lines if line.strip() not in {"", "\b"}), "```", "")
        elif lines:
            yield from (" ".join(line.strip() for line in lines).replace("<", "&lt;"), "")
