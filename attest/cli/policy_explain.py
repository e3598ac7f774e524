"""``attest policy explain``: a policy in words, and the remedies for a machine that fails it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.options import VerificationOptions, question_options
from attest.cli.policy_init import optional_inputs
from attest.cli.reference_options import References, references_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.appraisal import AttestationResult
    from attest.encoding import JsonValue
    from attest.policy import Policy

EXIT_NOT_AFFIRMED = 1


@click.command(
    cls=ExampleCommand,
    short_help="Explain a policy in words, and why evidence does not meet it.",
    examples=(
        "attest policy explain my-policy.yaml",
        "attest policy explain my-policy.yaml --against evidence.json --nonce 5f1c...",
        "attest policy explain my-policy.yaml --against report.bin --unchecked freshness='recorded last week' --json",
    ),
)
@click.argument("policy_file", metavar="POLICY")
@click.option(
    "--against",
    "sources",
    metavar="FILE",
    multiple=True,
    help="Evidence, as INPUT: show its failed checks. Repeatable.",
)
@references_options
@question_options
def explain(
    *, question: VerificationOptions, policy_file: str, sources: tuple[str, ...], references: References
) -> int:
    """Explain a policy in words; against evidence, explain each failed check: expected, got, clause, how to fix.

    Exit codes: 0 explained, or affirmed; 1 not affirmed; 2 the policy does not load; 3, 4, 5 as 'attest appraise'.
    """
    from attest.cli.policies import read_reference_documents
    from attest.cli.policy_documents import read_policy_file
    from attest.policy.authoring.explanation import explanation_document, explanation_text

    display = question.display
    if question.inputs and not sources:
        raise click.UsageError("name the evidence: --against FILE")
    read = read_policy_file(policy_file, documents=read_reference_documents(references))
    policy, values = read.policy, read.document.reference_values
    if sources:
        return _against(policy, replace(question, inputs=(*sources, *question.inputs)))
    if display.json:
        print_document(explanation_document(policy, values))
    elif not display.quiet:
        from attest.terminal.visible_text import visible

        for line in explanation_text(policy, values).splitlines():
            click.echo(visible(line))
    return 0


def _against(policy: Policy, question: VerificationOptions) -> int:
    """Appraise the evidence by this policy, and print the failed checks."""
    from attest.cli.output import REFUSALS, show_refusal
    from attest.cli.policies import relaxations
    from attest.cli.verification_inputs import Case, appraise_case, open_case
    from attest.clock import this_second

    at = question.at or this_second()
    unchecked = relaxations(question, policy)
    try:
        case = open_case(question, at=at)
        if not isinstance(case, Case):
            raise click.UsageError("a token has no evidence to appraise; use the evidence")
        result = appraise_case(case, policy)
    except REFUSALS as exc:
        return show_refusal(exc, command="appraise", at=at, question=question, unchecked=unchecked)
    return _show(result, question)


def _show(result: AttestationResult, question: VerificationOptions) -> int:
    from attest.policy.authoring.explanation import failures_text
    from attest.terminal.visible_text import visible

    display, policy = question.display, result.policy
    if display.json:
        print_document(_document(result))
    elif not display.quiet:
        count = len(result.failed)
        shout = "SIMULATED evidence: " if result.verified.simulated else ""
        word = "AFFIRMED" if result.affirmed else f"NOT AFFIRMED, {count} check{'s' * (count != 1)} failed"
        click.echo(f"{shout}{word} by policy {policy.name!r} version {policy.version}\n")
        for line in failures_text(result.failed).splitlines():
            click.echo(visible(line))
    return 0 if result.affirmed else EXIT_NOT_AFFIRMED


def _document(result: AttestationResult) -> dict[str, JsonValue]:
    from attest.encoding import rfc3339_text
    from attest.policy.authoring.explanation import failures_document

    policy = result.policy
    return {
        "schema": "attest.policy-explanation/1",
        "name": policy.name,
        "version": policy.version,
        "digest": policy.digest.hex(),
        "at": rfc3339_text(result.at),
        "outcome": "affirmed" if result.affirmed else "not-affirmed",
        "simulated": result.verified.simulated,
        "unchecked": [{"check": entry.check, "reason": entry.reason} for entry in result.unchecked],
        "failed": failures_document(result.failed),
    }


optional_inputs(explain)
