"""``attest verify``: verification of evidence, without a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.options import VerificationOptions, question_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.verification import VerifiedEvidence


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest verify report.bin --nonce 5f1c...            # the answer to my question, made by AMD hardware?",
        "attest verify report.bin vcek.pem --report-data 5f1c...",
        "attest verify report.bin --offline --endorsements ./certs --at 2026-11-21T00:00:00Z",
        "attest verify - --json < envelope.json",
        "attest verify token.jwt --trust https://shared.eus.attest.azure.net=jwks.json --nonce-text 5f1c...",
        "attest verify gpus.json switches.json --nonce 5f1c... --endorsements rims/ --second-opinion nvsdk",
    ),
)
@click.option(
    "--second-opinion",
    "other",
    type=click.Choice(["nvsdk"]),
    help="Also verify GPUs and switches with NVIDIA's Python SDK, and show both results. Does not change the outcome.",
)
@question_options
def verify(question: VerificationOptions, other: str | None) -> int:
    """Verify evidence: made by the vendor's hardware, whole, current, unrevoked, and bound to the expected values.

    INPUT is one or more files of one machine, in any known form; '-' is standard input. Whether genuine evidence is
    also acceptable is for 'attest appraise'.

    Exit codes: 0 verified, 2 usage, 3 malformed or unsupported evidence, 4 verification failed, 5 endorsement missing,
    stale or not yet valid.
    """
    from attest.cli.output import REFUSALS, show_refusal, show_verified
    from attest.cli.verification_inputs import Case, open_case, verify_case
    from attest.clock import this_second
    from attest.errors import AttestError

    at = question.at or this_second()
    try:
        case = open_case(question, at=at)
    except REFUSALS as exc:
        return show_refusal(exc, command="verify", at=at, question=question)
    if not isinstance(case, Case):
        return case.show_verified()
    outcome: VerifiedEvidence | AttestError
    try:
        outcome = verify_case(case, unchecked=question.unchecked)
    except REFUSALS as exc:
        outcome = exc
    opinion: dict[str, JsonValue] = {}
    if other is not None:
        from attest.cli.second_opinion import second_opinion_document

        opinion = second_opinion_document(case, outcome.checks)
    if isinstance(outcome, AttestError):
        return show_refusal(
            outcome, command="verify", at=at, question=question, reference=case.reference, opinion=opinion
        )
    return show_verified(outcome, question=question, reference=case.reference, opinion=opinion)
