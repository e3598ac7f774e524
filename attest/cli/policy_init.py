"""``attest policy init``: a first policy from the evidence of a machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.firmware_options import FirmwareOptions, firmware_options
from attest.cli.options import VerificationOptions, question_options
from attest.terminal.display import Display
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attest.encoding import JsonValue
    from attest.policy.authoring.draft import DraftSource, PolicyDraft, SourceItem
    from attest.verification import VerifiedEvidence, VerifiedItem

INIT_SCHEMA = "attest.policy-init/1"


def optional_inputs(command: click.Command) -> None:
    """Let evidence follow an option that names the first file of it (``--from a b``)."""
    for parameter in command.params:
        if parameter.name == "inputs":
            parameter.required = False
            parameter.metavar = "[EVIDENCE]..."


@click.command(
    cls=ExampleCommand,
    short_help="Write a policy that affirms exactly this machine.",
    examples=(
        "attest policy init --from evidence.json -o my-policy.yaml",
        "attest policy init --from report.bin --endorsements certs/ --offline --default or-newer -o my-policy.yaml",
        "attest policy init --from evidence.json --exactly gpu.device --or-newer gpu.driver -o my-policy.yaml",
        "attest policy init --from evidence.json --interactive -o my-policy.yaml",
    ),
)
@click.option("--from", "sources", metavar="FILE", multiple=True, help="Evidence, as INPUT. Repeatable.")
@click.option(
    "--exactly",
    metavar="FIELD",
    multiple=True,
    help="Demand exactly the present value: gpu.driver, snp.chip, ... Repeatable.",
)
@click.option("--or-newer", metavar="FIELD", multiple=True, help="Accept newer ones too: gpu.driver, ... Repeatable.")
@click.option(
    "--default",
    type=click.Choice(["exactly", "or-newer"]),
    help="For versions that neither option names. Default: exactly, if it can be demanded.",
)
@click.option("--interactive", is_flag=True, help="Prompt for each field.")
@click.option("--name", metavar="NAME", default="my-policy", show_default=True, help="Name of the policy.")
@click.option(
    "--reference", metavar="NAME", default="this-machine", show_default=True, help="Name of the reference values."
)
@click.option("-o", "--output", metavar="FILE", default="-", help="Output file. Default: standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE of -o.")
@firmware_options
@question_options
def init(
    *,
    question: VerificationOptions,
    firmware: FirmwareOptions,
    sources: tuple[str, ...],
    exactly: tuple[str, ...],
    or_newer: tuple[str, ...],
    default: str | None,
    interactive: bool,
    name: str,
    reference: str,
    output: str,
    force: bool,
) -> int:
    """Write a policy that affirms exactly this machine, from its verified evidence.

    It takes every option of 'attest verify', and refuses what that refuses. Where the machine is not what a strict
    policy demands, or has firmware older than the fix of a bulletin, the draft states it: read it before you rely
    on it.

    Exit codes: 0 written, 2 usage, 3 malformed or unsupported evidence, 4 verification failed, 5 endorsement missing.
    """
    from attest.cli.firmware_options import findings_in, read_firmware_table
    from attest.cli.verification_inputs import verify_machine
    from attest.clock import this_second
    from attest.policy.authoring.draft import choose, draft_policy

    question = replace(question, inputs=(*sources, *question.inputs))
    if not question.inputs:
        raise click.UsageError("name the evidence: --from FILE")
    table = read_firmware_table(firmware)
    verified = verify_machine(question, at=question.at or this_second())
    source = source_of(verified)
    kinds = tuple(dict.fromkeys(item.kind for item in source.items))
    chosen: Mapping[str, str] = choose(kinds, exactly=exactly, or_newer=or_newer, default=default)
    if interactive:
        chosen = _prompted(kinds, chosen)
    draft = draft_policy(
        source, name=name, reference=reference, chosen=chosen, old_firmware=findings_in(verified, table)
    )
    _require_affirming(draft, verified)
    _write(draft, chosen, output=output, force=force, display=question.display, simulated=verified.simulated)
    return 0


def _source_item(item: VerifiedItem) -> SourceItem:
    from attest.evidence.dstack.facts import dstack_facts_of
    from attest.evidence.eventlog.facts import facts_of
    from attest.policy.authoring.draft import SourceItem

    log = item.eventlog
    return SourceItem(
        name=item.name,
        kind=item.kind,
        verified=item.verified,
        silicon=item.silicon,
        facts=None if log is None else facts_of(log),
        dstack=None if log is None else dstack_facts_of(log),
    )


def source_of(verified: VerifiedEvidence) -> DraftSource:
    """Return the parts of verified evidence that a draft uses."""
    from attest.appraisal import device_set
    from attest.policy.authoring.draft import DraftSource

    return DraftSource(
        items=tuple(map(_source_item, verified.items)),
        devices=device_set(verified),
        digest=verified.evidence.digest,
        at=verified.at,
        simulated=verified.simulated,
        unchecked=verified.unchecked,
    )


def _require_affirming(draft: PolicyDraft, verified: VerifiedEvidence) -> None:
    from attest.appraisal import appraise
    from attest.policy.loader import load_policy

    if load_policy(draft.yaml.encode()).digest != draft.policy.digest:
        raise RuntimeError("the written policy is not the drafted one")
    result = appraise(verified, policy=draft.policy, at=verified.at)
    failed = [check.id for check in result.failed if check.id != "freshness"]
    if failed:
        raise RuntimeError(f"the draft does not affirm its source: {', '.join(failed)}")


def _prompted(kinds: tuple[str, ...], chosen: Mapping[str, str]) -> dict[str, str]:
    """Ask about each field that has a choice; questions go to standard error."""
    from attest.policy.authoring.draft import fields_of

    answers = dict(chosen)
    for field in fields_of(kinds):
        if len(field.choices) > 1:
            answers[field.name] = click.prompt(
                f"{field.about} ({field.name})",
                type=click.Choice(field.choices),
                default=chosen[field.name],
                err=True,
            )
    return answers


def _write(
    draft: PolicyDraft, chosen: Mapping[str, str], *, output: str, force: bool, display: Display, simulated: bool
) -> None:
    """Write the draft, and warn of its weak demands."""
    from attest.cli.files import STDIN, write_text

    if simulated:
        display.warn("the policy accepts SIMULATED evidence, which anyone can make")
    for key, reason in draft.weak:
        display.warn(f"WEAKER than a strict policy: {key}: {reason}")
    for field, choice in chosen.items():
        display.note(f"{field}: {choice}")
    digest = draft.policy.digest.hex()
    if output != STDIN or not display.json:
        write_text(output, draft.yaml, force=force)
    if display.json:
        weak: JsonValue = [{"key": key, "reason": reason} for key, reason in draft.weak]
        facts: dict[str, JsonValue] = {"simulated": simulated, "digest": digest, "fields": dict(chosen), "weak": weak}
        print_document({"schema": INIT_SCHEMA, **facts, "policy": dict(draft.document)})
    elif output != STDIN and not display.quiet:
        click.echo(f"{output}: policy {draft.policy.name!r}, digest {digest}")


optional_inputs(init)
