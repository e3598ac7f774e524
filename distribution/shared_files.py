"""Manual pages and completions of both commands, as a system's packages lay them."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class
from click_man.man import ManPage

from attest import __version__
from attest.cli.main import cli as attest
from attest.terminal import ExampleCommand
from kms.cli.main import cli as kms

COMMANDS: Final = {"attest": attest, "kms": kms}
COMPLETIONS: Final = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}


def write_shared_files(folder: Path, *, date: str) -> None:
    """Write all of them below a folder; the date stands in the manual pages."""
    for name, command in COMMANDS.items():
        for page, text in man_pages(name, command, date=date):
            _write(folder / "man" / "man1" / f"{page}.1", text)
        for shell, place in COMPLETIONS.items():
            _write(folder / place.format(name), _completion(name, command, shell))


def man_pages(name: str, command: click.Command, *, date: str) -> Iterator[tuple[str, str]]:
    """Yield the manual pages of a command and of all below it, each with its name."""
    yield from _man_pages(click.Context(command, info_name=name), date=date)


def _man_pages(context: click.Context, *, date: str) -> Iterator[tuple[str, str]]:
    below = [click.Context(command, info_name=name, parent=context) for name, command in _commands_of(context)]
    yield context.command_path.replace(" ", "-"), _man_page(context, below, date=date)
    for one in below:
        yield from _man_pages(one, date=date)


def _commands_of(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of a group but those of another distribution."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        entry = getattr(group, "lazy", {}).get(name)
        command = None if entry is not None and entry.distribution else group.get_command(context, name)
        if command is not None and not command.hidden:
            yield name, command


def _man_page(context: click.Context, below: list[click.Context], *, date: str) -> str:
    command = context.command
    page = ManPage(context.command_path)
    page.version, page.date = __version__, date
    page.short_help = _escaped(command.get_short_help_str(200).rstrip("."))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.description = _description(command)
    records = (one.get_help_record(context) for one in command.params if isinstance(one, click.Option))
    page.options = [(option, _escaped(text)) for option, text in filter(None, records)]
    page.commands = [(str(one.info_name), _escaped(one.command.get_short_help_str(200))) for one in below]
    return str(page)


def _description(command: click.Command) -> str:
    """Return the help as roff: paragraphs, and examples as they are."""
    paragraphs = []
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        verbatim = paragraph.startswith("\b\n")
        text = _escaped(paragraph.removeprefix("\b\n"))
        paragraphs.append(f".nf\n{text}\n.fi" if verbatim else text)
    examples = command.examples if isinstance(command, ExampleCommand) else ()
    if examples:
        paragraphs.append(".SH EXAMPLES\n.nf\n" + _escaped("\n".join(examples)) + "\n.fi")
    return "\n\n".join(paragraphs)


def _escaped(text: str) -> str:
    """Escape what roff would take for a command: a backslash, and a dot or quote that starts a line."""
    lines = text.replace("\\", "\\e").split("\n")
    return "\n".join(f"\\&{line}" if line.lstrip().startswith((".", "'")) else line for line in lines)


def _completion(name: str, command: click.Command, shell: str) -> str:
    kind = get_completion_class(shell)
    if kind is None:
        raise RuntimeError(f"click has no completion for {shell}")
    return kind(command, {}, name, f"_{name.upper()}_COMPLETE").source()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
