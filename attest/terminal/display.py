"""The options by which a command decides how it shows its result, and its warnings and notes on standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias

import click

from attest.terminal.visible_text import visible

__all__ = ["Command", "Decorator", "Display", "display_options", "stacked"]

Command: TypeAlias = Callable[..., Any]  # Any: a command takes what its options give
Decorator: TypeAlias = Callable[[Command], Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """How a command talks.

    Attributes:
        json: one JSON document on standard output.
        quiet: no result for people, no warnings; errors remain.
        verbose: every detail, and notes about what was passed over.
        colour: colours where standard output is a terminal and NO_COLOR is not set.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    colour: bool = True

    def warn(self, text: str) -> None:
        """Say on standard error what a person should know."""
        if not self.quiet:
            self._say("warning", text)

    def note(self, text: str) -> None:
        """Say on standard error what a curious person may want to know."""
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


def display_options(command: Command) -> Command:
    """Add ``--json``, ``--quiet``, ``--verbose`` and ``--no-colour``; the command gets one ``display``."""

    @wraps(command)
    def run(*, json_: bool, quiet: bool, verbose: bool, no_colour: bool, **options: object) -> object:
        display = Display(json=json_, quiet=quiet, verbose=verbose, colour=not no_colour)
        return command(display=display, **options)

    return stacked(
        [
            click.option(
                "--json", "json_", is_flag=True, help="Print one JSON document, and nothing else, on standard output."
            ),
            click.option("-q", "--quiet", is_flag=True, help="Print errors only; the exit code tells the outcome."),
            click.option(
                "-v", "--verbose", is_flag=True, help="Print every detail, and notes about what was passed over."
            ),
            click.option("--no-colour", "--no-color", is_flag=True, help="No colours. The same as NO_COLOR=1."),
        ]
    )(run)
