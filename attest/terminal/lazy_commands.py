"""Commands that are imported when they run, and help that starts with examples.

``attest --help`` lists every command without importing any: names and descriptions stand in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import click

from attest.errors import ConfigurationError
from attest.terminal.help_sections import write_options

_WHOLE = 1000
_GROUP = "attest.commands"


class LazyEntry(NamedTuple):
    """The module of a command, and its entry in the list of commands.

    Attributes:
        target: module and name; or, of another distribution, its entry point in the group ``attest.commands``.
        summary: for the list.
        distribution: None is this one.
    """

    target: str
    summary: str
    distribution: str | None = None

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            ConfigurationError: ``distribution-missing``.
        """
        if self.distribution is not None:
            from attest.extensions import load_extension

            return cast("click.Command", load_extension(self.target, group=_GROUP, of=self.distribution))
        module, _, name = self.target.partition(":")
        return cast("click.Command", getattr(import_module(module), name))  # the table names commands only


class ExampleCommand(click.Command):
    """A command whose help starts with examples."""

    def __init__(self, *, examples: tuple[str, ...] = (), **kwargs: Any) -> None:  # noqa: ANN401  click's own arguments
        super().__init__(**kwargs)
        self.examples = examples

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples first, never re-wrapped: they are there to be copied."""
        if self.examples:
            formatter.write("Examples:\n")
            for example in self.examples:
                formatter.write(f"  {example}\n")
            formatter.write("\n")
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections."""
        write_options(self, ctx, formatter)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first sentence of the help; lists of commands wrap it."""
        del limit
        return super().get_short_help_str(limit=_WHOLE)


class ExampleGroup(ExampleCommand, click.Group):
    """A group whose help starts with examples, as that of each of its commands."""

    command_class = ExampleCommand
    group_class = type

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class LazyGroup(ExampleGroup):
    """A group of commands, each imported on first use."""

    def __init__(self, *, lazy: Mapping[str, LazyEntry], **kwargs: Any) -> None:  # noqa: ANN401  click's own arguments
        super().__init__(**kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(self.lazy)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown one, suggest the nearest name."""
        name = args[0]
        if name not in self.lazy and name[:1] != "-" and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, self.lazy, n=1)
            ctx.fail(f"no such command {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; completion leaves out one that is not installed."""
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return None
        try:
            return entry.load()
        except ConfigurationError:
            if ctx.resilient_parsing:
                return None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.lazy.items()])
