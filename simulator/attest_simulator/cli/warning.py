"""The warning of everything that is simulated."""

from __future__ import annotations

import click

__all__ = ["shout"]

SHOUT = "SIMULATED: everybody has the keys; it proves nothing about hardware"


def shout() -> None:
    """Say on standard error what nobody should overlook; there is no way to silence it."""
    click.echo(f"*** {SHOUT} ***", err=True)
