"""Options of a command's output, its warnings and notes, and the decorators that add options to a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeAlias

import click

from attest.terminal.visible_text import visible

Command: TypeAlias = Callable[..., Any]  # Any: a command takes what its options give
Decorator: TypeAlias = Callable[[Command], Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """The settings of a command's output.

    Attributes:
        json: one JSON document on standard output.
        quiet: no result for people, no warnings; errors remain.
        verbose: every detail, and notes about what was passed over.
        no_colour: no colours, even where standard output is a terminal and NO_COLOR is not set.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    no_colour: bool = False

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        if not self.quiet:
            self._say("warning", text)

    def note(self, text: str) -> None:
        """Print a note on standard error, with ``--verbose`` only."""
        if self.verbose and not self.quiet:
            self._say("note", text)

    def _say(self, word: str, text: str) -> None:
        click.echo(f"{word}: {visible(text)}", err=True)


def stacked(options: Sequence[Decorator]) -> Decorator:
    """Make one decorator of several options, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def gathered(argument: str, record: type[Any], options: Sequence[Decorator]) -> Decorator:  # Any: a dataclass
    """Make one decorator of the options that fill a frozen record, which the command gets as ``argument``.

    Each field of the record has the name of an option. Other options go to the command by their own names.
    """
    names = [field.name for field in fields(record)]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**given: object) -> object:
            stated = {name: given.pop(name) for name in names}
            return command(**{argument: record(**stated)}, **given)

        return stacked(options)(run)

    return decorate


display_options = gathered(
    "display",
    Display,
    (
        click.option("--json", is_flag=True, help="Print one JSON document, and nothing else, on standard output."),
        click.option("-q", "--quiet", is_flag=True, help="Print errors only; the exit code tells the outcome."),
        click.option("-v", "--verbose", is_flag=True, help="Print every detail, and notes about what was passed over."),
        click.option("--no-colour", "--no-color", is_flag=True, help="No colours. The same as NO_COLOR=1."),
    ),
)
"""Add ``--json``, ``--quiet``, ``--verbose`` and ``--no-colour``; the command gets one ``display``."""
