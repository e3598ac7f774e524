"""The warning about simulated output."""

from __future__ import annotations

import click

SHOUT = "SIMULATED: the keys are public; it proves nothing about hardware"


def shout() -> None:
    """Print the warning on standard error; it cannot be suppressed."""
    click.echo(f"*** {SHOUT} ***", err=True)
