"""``attest policy``: policy documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.policy_convert import convert
from attest.cli.policy_diff import diff
from attest.cli.policy_explain import explain
from attest.cli.policy_init import init
from attest.cli.policy_lint import lint
from attest.cli.policy_sign import sign, verify
from attest.cli.policy_template import template
from attest.cli.policy_test import test_
from attest.cli.reference_options import References, references_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.policy import Policy

POLICY_CHECK_SCHEMA = "attest.policy-check/1"


@click.group(
    cls=ExampleGroup,
    examples=("attest policy check production.yaml", "attest policy schema > attest-policy.schema.json"),
)
def policy() -> None:
    """Check policy documents, and describe their keys."""


@policy.command(
    short_help="Load policies and show what they demand.",
    examples=("attest policy check production.yaml", "attest policy check policies/*.yaml --json"),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@references_options
@display_options
def check(files: tuple[str, ...], *, references: References, display: Display) -> int:
    """Load policies and show their demands: every rule, including strict defaults.

    Exit codes: 0 all of them load, 2 one does not.
    """
    from attest.cli.policies import read_policies
    from attest.cli.policy_documents import policies_among

    named = policies_among(files, display=display)
    loaded = read_policies(named, references=references, what="FILE")
    if display.json:
        print_document({"schema": POLICY_CHECK_SCHEMA, "policies": [_described(one) for one in loaded]})
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        for file, one in zip(named, loaded, strict=True):
            print_tree({"file": file, **_described(one)}, display=display)
    return 0


def _described(one: Policy) -> dict[str, JsonValue]:
    return {
        "name": one.name,
        "version": one.version,
        "digest": one.digest.hex(),
        "simulated": "refused" if one.simulated is None else f"UNCHECKED: {one.simulated}",
        "unchecked": {entry.check: entry.reason for entry in one.unchecked},
        "rules": {
            rule.id: rule.expected if rule.relaxed is None else f"UNCHECKED: {rule.relaxed}"
            for kind in (*one.rules.values(), one.set_rules)
            for rule in kind
        },
    }


@policy.command(
    short_help="Print the JSON Schema of policies.",
    examples=(
        "attest policy schema > attest-policy.schema.json",
        "attest policy schema --editor-line ./attest-policy.schema.json",
    ),
)
@click.option(
    "--editor-line",
    metavar="LOCATION",
    help="Print only the first line of a policy, with which editors find the schema at this path or URL.",
)
def schema(editor_line: str | None) -> None:
    """Print the JSON Schema of policy documents, for editors; loading a policy checks more than it can say."""
    from attest.cli.policy_schema import policy_schema

    if editor_line is None:
        print_document(policy_schema())
    elif not editor_line.isprintable() or " " in editor_line or not editor_line:
        raise click.UsageError("--editor-line takes a path or URL without blanks")
    else:
        click.echo(f"# yaml-language-server: $schema={editor_line}")


for _command in (convert, init, explain, test_, diff, lint, sign, template, verify):
    policy.add_command(_command)
