"""Sections of the options in a command's help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import click

_OWN: Final = "Options"
OUTPUT: Final = "Output"
"""The last section, with ``--help``."""
_titles: WeakKeyDictionary[click.Parameter, str] = WeakKeyDictionary()


def parameters_of(command: object) -> Sequence[click.Parameter]:
    """Return the parameters that decorators have added to a function so far; click keeps them in this attribute."""
    found: Sequence[click.Parameter] = getattr(command, "__click_params__", ())
    return found


def set_title(parameters: Iterable[click.Parameter], title: str) -> None:
    """Show these options under a title; one that has a title keeps it."""
    for parameter in parameters:
        _titles.setdefault(parameter, title)


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command, a section for each title, in the order of the command."""
    options = [parameter for parameter in command.get_params(ctx) if isinstance(parameter, click.Option)]
    last = OUTPUT if OUTPUT in {_titles.get(option) for option in options} else _OWN
    sections: dict[str, list[tuple[str, str]]] = {_OWN: []}
    for option in options:
        title = last if "--help" in option.opts else _titles.get(option, _OWN)
        record = option.get_help_record(ctx)
        if record is not None:
            sections.setdefault(title, []).append(record)
    sections |= {OUTPUT: sections.pop(OUTPUT, [])}
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
