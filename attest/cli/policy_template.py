"""``attest policy template``: policies to copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue

TEMPLATES_SCHEMA = "attest.policy-templates/1"


@click.command(
    cls=ExampleCommand,
    short_help="Print a policy to copy, or list them.",
    examples=("attest policy template", "attest policy template snp-production > my-policy.yaml"),
)
@click.argument("name", required=False)
@display_options
def template(name: str | None, *, display: Display) -> None:
    """Print the policy NAME of this version, on standard output; without NAME, list the policies.

    Edit the lines marked CHANGE. Until then, a policy affirms no machine but the simulator's.
    """
    from difflib import get_close_matches

    from attest.shipped import policy_templates

    templates = policy_templates()
    if name is None:
        _list(display)
    elif name in templates:
        click.echo(templates[name].text, nl=False)
    else:
        near = get_close_matches(name, templates, n=1)
        suggestion = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(templates)}"
        raise click.UsageError(f"no policy is called {name!r}; {suggestion}")


def _list(display: Display) -> None:
    from attest.cli.documents import print_document
    from attest.shipped import policy_templates

    templates = policy_templates().values()
    if display.json:
        described: list[JsonValue] = [
            {"name": one.name, "description": one.description, "accepts_simulated": one.accepts_simulated}
            for one in templates
        ]
        print_document({"schema": TEMPLATES_SCHEMA, "policies": described})
        return
    width = max(len(one.name) for one in templates)
    for one in templates:
        click.echo(f"{one.name:{width}}  {one.description}")
