"""``attest policy diff``: the effect of the difference between two policies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.option_values import utc
from attest.cli.reference_options import References, references_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from datetime import datetime

    from attest.cli.policy_documents import PolicyFile
    from attest.cli.policy_replay import PolicyComparison
    from attest.encoding import JsonValue
    from attest.policy.authoring.policy_diff import PolicyDifference

DIFF_SCHEMA = "attest.policy-diff/1"
EXIT_DIFFERENT = 1
_STYLES = {"looser": "bold yellow", "stricter": "green", "changed": "bold", "label": "dim"}


@click.command(
    cls=ExampleCommand,
    short_help="Compare what two policies accept.",
    examples=(
        "attest policy diff in-use.yaml proposed.yaml",
        "attest policy diff in-use.yaml proposed.yaml --evidence recorded/ --endorsements collateral/",
        "attest policy diff my.yaml my.yaml --references-a images-3.json --references-b images-4.json",
    ),
)
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option(
    "--evidence",
    metavar="DIR",
    help="Recorded evidence to appraise by both policies: files, or those that DIR/evidence.yaml describes.",
)
@click.option(
    "--endorsements",
    metavar="PATH",
    multiple=True,
    help="File or directory with endorsements of the evidence. Nothing is fetched. Repeatable.",
)
@click.option("--at", type=utc, metavar="TIME", help="Moment of appraisal of evidence without one. Default: now.")
@click.option("--allow-simulated", is_flag=True, help="Also accept the simulator's roots, as a policy may.")
@references_options
@click.option("--references-a", metavar="FILE", multiple=True, help="The same, only for A. Repeatable.")
@click.option("--references-b", metavar="FILE", multiple=True, help="The same, only for B. Repeatable.")
@display_options
def diff(
    *,
    old: str,
    new: str,
    evidence: str | None,
    endorsements: tuple[str, ...],
    at: datetime | None,
    allow_simulated: bool,
    references: References,
    references_a: tuple[str, ...],
    references_b: tuple[str, ...],
    display: Display,
) -> int:
    """Show which demands of policy B are stricter, looser or changed, compared with policy A.

    What counts is the meaning: the order of lists, a default that is written out, another name for the same value are
    no difference. Values that come from documents of reference values count as the policy's own: with one policy and
    two versions of a document it shows what the new version adds and removes.

    Exit codes: 0 both accept the same, 1 they do not, 2 usage.
    """
    from attest.cli.policies import read_reference_documents
    from attest.cli.policy_documents import read_policy_file
    from attest.cli.policy_replay import replay
    from attest.clock import this_second
    from attest.policy.authoring.policy_diff import diff_policies

    if evidence is None and (endorsements or at is not None or allow_simulated):
        raise click.UsageError("--endorsements, --at and --allow-simulated are about evidence: give --evidence DIR")
    if old == new == "-":
        raise click.UsageError("standard input can be read once: give '-' once")
    before, after = (
        read_policy_file(
            file, documents=read_reference_documents(replace(references, documents=(*references.documents, *own)))
        )
        for file, own in ((old, references_a), (new, references_b))
    )
    difference = diff_policies(before.document, after.document)
    replayed: tuple[PolicyComparison, ...] = ()
    if evidence is not None:
        replayed = replay(
            evidence,
            (before.policy, after.policy),
            endorsements=endorsements,
            at=at or this_second(),
            allow_simulated=allow_simulated,
            display=display,
        )
    if display.json:
        print_document(_document(before, after, difference, None if evidence is None else replayed))
    elif not display.quiet:
        _show(difference, replayed, display)
    return 0 if difference.same_meaning and not any(one.changed for one in replayed) else EXIT_DIFFERENT


def _document(
    old: PolicyFile, new: PolicyFile, difference: PolicyDifference, replayed: tuple[PolicyComparison, ...] | None
) -> dict[str, JsonValue]:
    changes: list[JsonValue] = [
        {"path": change.path, "effect": str(change.effect), "text": change.text} for change in difference.changes
    ]
    document: dict[str, JsonValue] = {
        "schema": DIFF_SCHEMA,
        "old": _identity(old),
        "new": _identity(new),
        "same_meaning": difference.same_meaning,
        "effect": None if difference.effect is None else str(difference.effect),
        "changes": changes,
    }
    if replayed is not None:
        document["evidence"] = [one.document() for one in replayed]
    return document


def _identity(one: PolicyFile) -> JsonValue:
    policy = one.policy
    return {"file": one.file, "name": policy.name, "version": policy.version, "digest": policy.digest.hex()}


_SUMMARY = {
    "looser": "B accepts more than A",
    "stricter": "B accepts less than A",
    "changed": "B accepts something that A refuses, and refuses something that A accepts, or may do so",
}


def _show(difference: PolicyDifference, replayed: tuple[PolicyComparison, ...], display: Display) -> None:
    from rich.text import Text

    from attest.terminal.console import facts, plain, text_console

    out = text_console(display)
    for change in difference.changes:
        line = plain(change.effect.ljust(9), _STYLES[change.effect])
        out.print(Text.assemble(line, plain(change.path)))
        out.print(facts([("", plain(change.text))], indent=8))
    effect = "" if difference.effect is None else str(difference.effect)
    out.print(plain(_SUMMARY.get(effect, "both accept the same")))
    for one in replayed:
        out.print()
        out.print(plain(f"{one.name}: {'CHANGES' if one.changed else 'the same'}", "bold" if one.changed else ""))
        out.print(facts((("A", plain(one.old.text)), ("B", plain(one.new.text)))))
