"""``attest policy convert``: policies of Azure and NVIDIA into ours, and ours into Azure's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import click

from attest.cli.documents import print_document
from attest.cli.reference_options import NO_REFERENCES, References, references_options
from attest.terminal.display import Display, display_options, gathered
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.policy.foreign.convert import Conversion, Language, Loss
    from attest.policy.foreign.export_skr import GuestLayout

CONVERSION_SCHEMA = "attest.policy-conversion/1"
EXIT_NOT_ACCEPTED = 1
_NAME = "converted"
_LOSS = ("name", "demand", "why", "remedy", "accepted")


def _acceptance(text: str) -> tuple[str, str]:
    """Read ``NAME=REASON``."""
    name, _, reason = text.partition("=")
    if not name or not reason.strip():
        raise click.BadParameter(f"expected NAME=REASON, got {text!r}")
    return name, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionRequest:
    """The argument and options of ``attest policy convert``, as given."""

    file: str
    source: str
    target: str | None
    accepted: tuple[tuple[str, str], ...]
    name: str | None
    authority: str | None
    guest: GuestLayout | None
    extended: bool
    references: References
    output: str | None
    force: bool
    display: Display


_OPTIONS = (
    click.argument("file", metavar="FILE"),
    click.option(
        "--from",
        "source",
        type=click.Choice(["auto", "skr", "nvidia", "attest"]),
        default="auto",
        show_default=True,
        help="Format of FILE: Azure's secure key release, the JSON of NVIDIA's tools, or attest.",
    ),
    click.option(
        "--to",
        "target",
        type=click.Choice(["attest", "skr"]),
        help="Format of the output. Default: attest; for an attest policy, skr.",
    ),
    click.option(
        "--accept-loss",
        "accepted",
        type=_acceptance,
        metavar="NAME=REASON",
        multiple=True,
        help="Accept the loss of a demand. Repeatable; an attest policy keeps the reason.",
    ),
    click.option("--name", metavar="NAME", help=f"Name of the resulting attest policy. Default: {_NAME}."),
    click.option(
        "--authority", metavar="URL", help="Issuer of the tokens. To skr: required. From skr: use its conditions."
    ),
    click.option(
        "--guest",
        type=click.Choice(["cvm", "container"]),
        help="To skr: location of a report's facts in Azure's tokens. Default: cvm.",
    ),
    click.option(
        "--extended",
        is_flag=True,
        help="Also read or write operators other than equals, which Azure's service ignores.",
    ),
    references_options,
    click.option("-o", "--output", metavar="FILE", help="Output file. Default: standard output."),
    click.option("--force", is_flag=True, help="Replace an existing FILE of -o."),
    display_options,
)


@click.command(
    cls=ExampleCommand,
    short_help="Convert policies from Azure's and NVIDIA's formats, and to Azure's.",
    examples=(
        "attest policy convert release-policy.json --accept-loss 'authority=we verify ourselves' -o policy.json",
        "attest policy convert NVGPULocalPolicy.json --name gpu --json",
        "attest policy convert production.yaml --to skr --authority https://verifier.example --json",
    ),
)
@gathered("request", ConversionRequest, _OPTIONS)
def convert(*, request: ConversionRequest) -> int:
    """Convert Azure's release policies and NVIDIA's policies into attest policies, or attest policies into Azure's.

    Every demand that the other format cannot express is listed, with reason and remedy. Nothing is written
    while one of them is not accepted by name with --accept-loss.

    Exit codes: 0 converted, 1 a loss is not accepted, 2 FILE is not such a policy, or cannot be converted.
    """
    from attest.cli.files import read_file
    from attest.policy.document import MAX_POLICY_BYTES
    from attest.policy.foreign.convert import recognised

    data = read_file(request.file, limit=MAX_POLICY_BYTES, what="FILE")
    language = cast("Language", recognised(data) if request.source == "auto" else request.source)
    target = request.target or ("skr" if language == "attest" else "attest")
    if language == "attest":  # first: for a file that is no policy at all, this is the error to report
        _require_ours(data, request.file)
    _require_sense(request, language, target)
    return _show(_converted(data, language, request), language, target, request)


def _converted(data: bytes, language: Language, request: ConversionRequest) -> Conversion:
    accept = dict(request.accepted)
    if len(accept) != len(request.accepted):
        raise click.UsageError("--accept-loss names one loss twice")
    convert_from = {"skr": _from_skr, "nvidia": _from_nvidia, "attest": _to_skr}[language]
    return convert_from(data, accept, request)


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


_FITTING = {
    "skr": ("name", "authority", "extended"),
    "nvidia": ("name",),
    "attest": ("authority", "guest", "extended", "references"),
}
"""Language of the source to the options that have an effect."""


def _require_sense(request: ConversionRequest, language: Language, target: str) -> None:
    """Refuse options that would have no effect: the user expects one."""
    if (language == "attest") is (target == "attest"):
        raise click.UsageError(f"a policy of language {language} is not converted to {target}")
    given = {
        "name": request.name,
        "authority": request.authority,
        "guest": request.guest,
        "extended": request.extended,
        "references": request.references != NO_REFERENCES,
    }
    for option, value in given.items():
        if value and option not in _FITTING[language]:
            raise click.UsageError(f"--{option} does not apply to a conversion from {language} to {target}")
    if target == "skr" and not request.authority:
        raise click.UsageError("a release policy names the issuer of tokens: give --authority URL")


def _from_skr(data: bytes, accept: dict[str, str], request: ConversionRequest) -> Conversion:
    """Convert a release policy, after the warnings about it."""
    from attest.policy.foreign.convert import convert_skr
    from attest.policy.foreign.skr import parse_skr
    from attest.policy.foreign.skr_review import review_skr

    policy = parse_skr(data, extended=request.extended)
    for finding in review_skr(policy):
        request.display.warn(f"{finding.path}: {finding.message} ({finding.kind})")
    return convert_skr(policy, name=request.name or _NAME, accept=accept, authority=request.authority)


def _from_nvidia(data: bytes, accept: dict[str, str], request: ConversionRequest) -> Conversion:
    from attest.policy.foreign.convert import convert_nvidia
    from attest.policy.foreign.nvidia_json import parse_nvidia

    return convert_nvidia(parse_nvidia(data), name=request.name or _NAME, accept=accept)


def _to_skr(data: bytes, accept: dict[str, str], request: ConversionRequest) -> Conversion:
    from attest.cli.policies import read_reference_documents
    from attest.policy.document import read_document
    from attest.policy.foreign.convert import export_skr
    from attest.policy.model import decode_policy

    documents = read_reference_documents(request.references)
    policy = decode_policy(read_document(data, name=request.file), documents=documents)
    layout = request.guest or "cvm"
    return export_skr(policy, authority=str(request.authority), layout=layout, extended=request.extended, accept=accept)


# -- what is shown


def _show(conversion: Conversion, language: str, target: str, request: ConversionRequest) -> int:
    """Write the result and report it; while a loss is not accepted, report only, and return 1."""
    import json

    from attest.cli.files import write_text
    from attest.terminal.boundary import report_error

    display, result = request.display, conversion.document
    output = None if request.output == "-" else request.output  # standard output is where it goes anyway
    if result is not None and output is not None:
        write_text(output, f"{json.dumps(result, indent=2)}\n", force=request.force)
    if display.json:
        print_document(_document(conversion, language, target))
    elif result is not None:
        _warn_of_losses(conversion, display)
        if output is None:
            print_document(result)
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        print_tree({"not carried": list(map(_loss, conversion.losses))}, display=display)
    if result is not None:
        return 0
    names = dict.fromkeys(loss.name for loss in conversion.open_losses)
    hint = "accept each with --accept-loss NAME=REASON, or change the source"
    report_error(f"not carried, and not accepted: {', '.join(names)}", hint)
    return EXIT_NOT_ACCEPTED


def _warn_of_losses(conversion: Conversion, display: Display) -> None:
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
