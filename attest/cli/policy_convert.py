"""``attest policy convert``: policies of Azure and NVIDIA into ours, and ours into Azure's."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from attest.cli.reference_options import NO_REFERENCES, References, references_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.policy.foreign.convert import Conversion, Language, Loss
    from attest.policy.foreign.export_skr import GuestLayout

__all__ = ["convert"]

CONVERSION_SCHEMA = "attest.policy-conversion/1"
EXIT_NOT_ACCEPTED = 1
_NAME = "converted"
_LOSS = ("name", "demand", "why", "remedy", "accepted")


class _Acceptance(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``NAME=REASON``."""

    name = "name=reason"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Read it, or fail as wrong usage."""
        if isinstance(value, tuple):
            return value
        name, sign, reason = str(value).partition("=")
        if not sign or not name or not reason.strip():
            self.fail(f"expected NAME=REASON, got {value!r}", param, ctx)
        return name, reason


@click.command(
    cls=ExampleCommand,
    short_help="Turn Azure's and NVIDIA's policies into ours, and ours into Azure's.",
    examples=(
        "attest policy convert release-policy.json --accept-loss 'authority=we verify ourselves' -o policy.json",
        "attest policy convert NVGPULocalPolicy.json --name gpu --json",
        "attest policy convert production.yaml --to skr --authority https://verifier.example --json",
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "skr", "nvidia", "attest"]),
    default="auto",
    show_default=True,
    help="Language of FILE: Azure's secure key release, the JSON of NVIDIA's tools, ours.",
)
@click.option(
    "--to",
    "target",
    type=click.Choice(["attest", "skr"]),
    help="Language of the outcome. Default: ours; of one of ours, skr.",
)
@click.option(
    "--accept-loss",
    "accepted",
    type=_Acceptance(),
    metavar="NAME=REASON",
    multiple=True,
    help="Accept that a demand is not carried. Repeatable; the reason is kept in a policy of ours.",
)
@click.option("--name", metavar="NAME", help=f"Name of the outcome, if it is ours. Default: {_NAME}.")
@click.option(
    "--authority", metavar="URL", help="Issuer of the tokens. To skr: required. From skr: whose conditions to take."
)
@click.option(
    "--guest",
    type=click.Choice(["cvm", "container"]),
    help="To skr: where Azure's tokens have the facts of a report. Default: cvm.",
)
@click.option(
    "--extended", is_flag=True, help="Operators beside equals, which Azure's service ignores: read or write them."
)
@references_options
@click.option("-o", "--output", metavar="FILE", help="Write the outcome there. Default: standard output.")
@click.option("--force", is_flag=True, help="Replace FILE of -o if it is there.")
@display_options
def convert(
    *,
    file: str,
    source: str,
    target: str | None,
    accepted: tuple[tuple[str, str], ...],
    name: str | None,
    authority: str | None,
    guest: GuestLayout | None,
    extended: bool,
    references: References,
    output: str | None,
    force: bool,
    display: Display,
) -> int:
    """Turn Azure's release policies and NVIDIA's policies into ours, and ours into Azure's; report what is lost.

    Every demand that the other language cannot say is listed: what, why, and what to do instead. Nothing is written
    while one of them is not accepted by name with --accept-loss.

    Exit codes: 0 converted, 1 a loss is not accepted, 2 FILE is no such policy, or cannot be converted.
    """
    from attest.cli.files import read_file
    from attest.cli.policies import read_reference_documents
    from attest.policy.document import MAX_POLICY_BYTES, read_document
    from attest.policy.foreign.convert import export_skr, recognised
    from attest.policy.model import decode_policy

    data = read_file(file, limit=MAX_POLICY_BYTES, what="FILE")
    language = cast("Language", recognised(data) if source == "auto" else source)
    target = target or ("skr" if language == "attest" else "attest")
    if language == "attest":  # first: for a file that is no policy at all, this is the error to report
        _require_ours(data, file)
    _require_sense(
        language,
        target,
        name=name,
        authority=authority,
        guest=guest,
        extended=extended,
        references=references != NO_REFERENCES,
    )
    accept = dict(accepted)
    if len(accept) != len(accepted):
        raise click.UsageError("--accept-loss names one loss twice")
    match language:
        case "skr":
            conversion = _from_skr(data, name or _NAME, accept, authority, extended=extended, display=display)
        case "nvidia":
            conversion = _from_nvidia(data, name or _NAME, accept)
        case _:
            documents = read_reference_documents(references)
            policy = decode_policy(read_document(data, name=file), documents=documents)
            conversion = export_skr(
                policy, authority=str(authority), layout=guest or "cvm", extended=extended, accept=accept
            )
    file_of_outcome = None if output == "-" else output  # standard output is where it goes anyway
    return _show(conversion, language, target, output=file_of_outcome, force=force, display=display)


def _require_ours(data: bytes, file: str) -> None:
    """Refuse a document that is no policy of ours; its reference documents are not needed yet."""
    from attest.errors import InvalidValueError
    from attest.policy.document import placed, read_document
    from attest.policy.model import decode_policy

    document = read_document(data, name=file)
    try:
        decode_policy(document, incomplete=True)
    except InvalidValueError as exc:
        raise placed(exc, data, name=file) from exc


def _require_sense(language: Language, target: str, **options: object) -> None:
    """Refuse options that would have no effect: the user expects one."""
    if (language == "attest") is (target == "attest"):
        raise click.UsageError(f"a policy of language {language} is not converted to {target}")
    fitting = {
        "skr": ("name", "authority", "extended"),
        "nvidia": ("name",),
        "attest": ("authority", "guest", "extended", "references"),
    }
    for option, value in options.items():
        if value and option not in fitting[language]:
            raise click.UsageError(f"--{option} says nothing about a conversion from {language} to {target}")
    if target == "skr" and not options["authority"]:
        raise click.UsageError("a release policy names the issuer of tokens: give --authority URL")


def _from_skr(
    data: bytes, name: str, accept: dict[str, str], authority: str | None, *, extended: bool, display: Display
) -> Conversion:
    """Convert a release policy, after the warnings about it."""
    from attest.policy.foreign.convert import convert_skr
    from attest.policy.foreign.skr import parse_skr
    from attest.policy.foreign.skr_review import review_skr

    policy = parse_skr(data, extended=extended)
    for finding in review_skr(policy):
        display.warn(f"{finding.path}: {finding.message} ({finding.kind})")
    return convert_skr(policy, name=name, accept=accept, authority=authority)


def _from_nvidia(data: bytes, name: str, accept: dict[str, str]) -> Conversion:
    from attest.policy.foreign.convert import convert_nvidia
    from attest.policy.foreign.nvidia_json import parse_nvidia

    return convert_nvidia(parse_nvidia(data), name=name, accept=accept)


# -- what is shown


def _show(
    conversion: Conversion, language: str, target: str, *, output: str | None, force: bool, display: Display
) -> int:
    """Write the result and report it; while a loss is not accepted, report only, and return 1."""
    from attest.cli.output import print_document
    from attest.terminal.boundary import report_error

    if conversion.document is not None and output is not None:
        _write(output, conversion.document, force=force)
    if display.json:
        print_document(_document(conversion, language, target))
    elif conversion.document is not None:
        _tell(conversion, display)
        if output is None:
            print_document(conversion.document)
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        print_tree({"not carried": list(map(_loss, conversion.losses))}, display=display)
    if conversion.document is not None:
        return 0
    names = dict.fromkeys(loss.name for loss in conversion.open_losses)
    hint = "accept each with --accept-loss NAME=REASON, or change the source"
    report_error(f"not carried, and not accepted: {', '.join(names)}", hint)
    return EXIT_NOT_ACCEPTED


def _write(output: str, document: JsonValue, *, force: bool) -> None:
    import json

    from attest.cli.files import write_output

    write_output(output, f"{json.dumps(document, indent=2)}\n".encode(), force=force)


def _tell(conversion: Conversion, display: Display) -> None:
    """Report on standard error the demands that the result lacks, and those that it adds."""
    for loss in conversion.losses:
        display.warn(f"not carried: {loss.name} ({loss.demand}): {loss.why}; accepted: {loss.accepted}")
    for line in conversion.stricter:
        display.note(f"stricter than the source: {line}")
    for one in conversion.carried:
        display.note(f"carried: {one.source} as {one.target}")


def _document(conversion: Conversion, language: str, target: str) -> dict[str, JsonValue]:
    carried: list[JsonValue] = [{"source": one.source, "target": one.target} for one in conversion.carried]
    return {
        "schema": CONVERSION_SCHEMA,
        "outcome": "not-accepted" if conversion.document is None else "converted",
        "from": language,
        "to": target,
        "policy": conversion.document,
        "carried": carried,
        "losses": list(map(_loss, conversion.losses)),
        "stricter": list(conversion.stricter),
    }


def _loss(loss: Loss) -> JsonValue:
    return {name: getattr(loss, name) for name in _LOSS}
