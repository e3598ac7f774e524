"""``attest appraise``: appraisal of evidence by policies."""

from __future__ import annotations

import click

from attest.cli.ear_output import TokenRequest, prepare_token, token_options, write_token
from attest.cli.firmware_options import FirmwareOptions, firmware_options
from attest.cli.options import VerificationOptions, question_options
from attest.cli.reference_options import References, references_options
from attest.cli.rego import read_rego, rego_options
from attest.terminal.display import stacked
from attest.terminal.lazy_commands import ExampleCommand

policy_option = stacked(
    (
        click.option(
            "--policy",
            "policies",
            metavar="FILE",
            multiple=True,
            help="Appraisal policy, YAML or JSON. Repeatable: all of them must affirm. Default: the built-in baseline.",
        ),
    ),
    title="Policies and reference values",
)


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest appraise report.bin --nonce 5f1c... --policy production.yaml",
        "attest appraise report.bin --nonce 5f1c...          # built-in baseline: not a production policy",
        "attest appraise envelope.json --policy site.yaml --policy team.yaml --json",
        "attest appraise report.bin --unchecked freshness='recorded last week'",
        "attest appraise envelope.json --nonce 5f1c... --policy site.yaml --token result.jwt --token-key verifier.pem",
    ),
)
@policy_option
@references_options
@rego_options
@token_options
@firmware_options
@question_options
def appraise(
    *,
    question: VerificationOptions,
    policies: tuple[str, ...],
    token_request: TokenRequest | None,
    references: References,
    firmware: FirmwareOptions,
    rego: tuple[str, ...],
    rego_data: str | None,
) -> int:
    """Appraise evidence: verify that it is genuine and fresh, and that its verified state meets the policy.

    Firmware that lacks the fix of a known bulletin is a warning: whether it is refused is for the policy.

    Exit codes: 0 affirmed, 1 not affirmed, 2 usage, 3 malformed or unsupported evidence, 4 verification failed,
    5 endorsement missing, stale or not yet valid.
    """
    from attest.cli.firmware_options import findings_in, read_firmware_table, warnings_of
    from attest.cli.output import REFUSALS, show_appraised, show_refusal
    from attest.cli.policies import read_policies, relaxations
    from attest.cli.verification_inputs import Case, appraise_case, open_case
    from attest.clock import this_second
    from attest.errors import ConfigurationError

    at = question.at or this_second()
    loaded = read_policies(policies, references=references)
    others = read_rego(rego, rego_data)
    table = read_firmware_table(firmware)
    try:
        case = open_case(question, at=at)
    except REFUSALS as exc:
        return show_refusal(exc, command="appraise", at=at, question=question)
    if not isinstance(case, Case):
        if token_request is not None or rego:
            raise ConfigurationError(
                "--token, --rego: only for evidence, and the input is a token",
                code="option-not-applicable",
                hint="omit them, or pass the evidence instead of the token",
            )
        return case.show_appraised(loaded if policies else ())
    issuer = None if token_request is None else prepare_token(token_request)
    results = []
    for policy in loaded:
        # A policy's own relaxations apply to that policy alone; the others keep their demands.
        try:
            results.append(appraise_case(case, policy))
        except REFUSALS as exc:
            unchecked = relaxations(question, policy)
            return show_refusal(
                exc, command="appraise", at=at, question=question, unchecked=unchecked, reference=case.reference
            )
    judged = others.judge(results)
    if token_request is not None and issuer is not None:
        write_token(judged, token_request, issuer)
    warnings = warnings_of(findings_in(judged[0].verified, table))
    return show_appraised(judged, question=question, reference=case.reference, warnings=warnings)
