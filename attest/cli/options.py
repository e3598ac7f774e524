"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

if TYPE_CHECKING:
    from attest.checks import Unchecked

__all__ = [
    "FORMS",
    "PRODUCTS",
    "TIME",
    "Display",
    "Hex",
    "Network",
    "NonceText",
    "VerificationOptions",
    "display_options",
    "network_options",
    "nonce_options",
    "question_options",
]

FORMS = (
    "envelope",
    "snp-report",
    "snp-extended",
    "tdx-quote",
    "sgx-quote",
    "nvidia-report",
    "nvidia-json",
    "azure-json",
    "hcl",
    "ccel",
    "coco-json",
    "token",
)
"""The same as ``attest.evidence.input_files.FORMS``, without importing it; a test compares them."""
PRODUCTS = ("Milan", "Genoa", "Turin")

_Command: TypeAlias = Callable[..., Any]  # Any: a command takes what its options give
_Decorator: TypeAlias = Callable[[_Command], _Command]


# -- values


class _Time(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """An RFC 3339 moment."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read it, or fail as wrong usage."""
        if isinstance(value, datetime):
            return value
        from attest.encoding import rfc3339
        from attest.errors import EvidenceError

        try:
            return rfc3339(str(value), what="time")
        except EvidenceError as exc:
            self.fail(exc.message.removeprefix("time: "), param, ctx)


class Hex(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Bytes as hex digits.

    Args:
        length: exactly so many bytes, if given.
        longest: at most so many bytes, at least one.
    """

    name = "hex"

    def __init__(self, *, length: int | None = None, longest: int | None = None) -> None:
        """Keep the bounds."""
        self._length = length
        self._longest = longest

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Read it, or fail as wrong usage."""
        if isinstance(value, bytes):
            return value
        from attest.encoding import hex_bytes
        from attest.errors import EvidenceError

        try:
            data = hex_bytes(str(value), what="hex", length=self._length)
        except EvidenceError as exc:
            self.fail(exc.message.removeprefix("hex: "), param, ctx)
        if self._longest is not None and not 0 < len(data) <= self._longest:
            self.fail(f"expected 1 to {self._longest} bytes of hex, got {len(data) or 'nothing'}", param, ctx)
        return data


class NonceText(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Text whose UTF-8 bytes are the nonce."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Read it, or fail as wrong usage."""
        if isinstance(value, bytes):
            return value
        data = str(value).encode("utf-8", "surrogateescape")
        if not 0 < len(data) <= 64:
            self.fail(f"expected text of 1 to 64 bytes, got {len(data) or 'nothing'}", param, ctx)
        return data


class _Relaxation(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``CHECK=REASON``."""

    name = "check=reason"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Unchecked:
        """Read it, or fail as wrong usage."""
        from attest.checks import Unchecked

        if isinstance(value, Unchecked):
            return value
        check, sign, reason = str(value).partition("=")
        if not sign:
            self.fail(f"expected CHECK=REASON, got {value!r}", param, ctx)
        try:
            return Unchecked(check=check, reason=reason)
        except ValueError as exc:
            self.fail(str(exc), param, ctx)


class _Trusted(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``ISSUER=FILE``."""

    name = "issuer=file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Read it, or fail as wrong usage."""
        if isinstance(value, tuple):
            return value
        issuer, _, file = str(value).rpartition("=")
        if not issuer or not file:
            self.fail(f"expected ISSUER=FILE, got {value!r}", param, ctx)
        return issuer, file


TIME = _Time()


# -- what is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """How a command talks.

    Attributes:
        json: one JSON document on standard output.
        quiet: no result for people, no warnings; errors remain.
        verbose: every detail, and notes about what was passed over.
        colour: colours where standard output is a terminal and NO_COLOR is not set.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    colour: bool = True

    def warn(self, text: str) -> None:
        """Say on standard error what a person should know."""
        if not self.quiet:
            self._say("warning", text)

    def note(self, text: str) -> None:
        """Say on standard error what a curious person may want to know."""
        if self.verbose and not self.quiet:
            self._say("note", text)

    def _say(self, word: str, text: str) -> None:
        from attest.cli.terminal_text import visible

        click.echo(f"{word}: {visible(text)}", err=True)


def _stack(options: Sequence[_Decorator]) -> _Decorator:
    """Make one decorator of several options, shown in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def display_options(command: _Command) -> _Command:
    """Add ``--json``, ``--quiet``, ``--verbose`` and ``--no-colour``; the command gets one ``display``."""

    @wraps(command)
    def run(*, json_: bool, quiet: bool, verbose: bool, no_colour: bool, **options: object) -> object:
        display = Display(json=json_, quiet=quiet, verbose=verbose, colour=not no_colour)
        return command(display=display, **options)

    return _stack(
        [
            click.option(
                "--json", "json_", is_flag=True, help="Print one JSON document, and nothing else, on standard output."
            ),
            click.option("-q", "--quiet", is_flag=True, help="Print errors only; the exit code tells the outcome."),
            click.option(
                "-v", "--verbose", is_flag=True, help="Print every detail, and notes about what was passed over."
            ),
            click.option("--no-colour", "--no-color", is_flag=True, help="No colours. The same as NO_COLOR=1."),
        ]
    )(run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Whom to ask for what is missing, and where answers are kept; None: as everybody does."""

    cache: str | None
    kds: str | None
    pcs: str | None
    pcs_update: Literal["standard", "early"]
    rim_url: str | None
    ocsp_url: str | None
    nvidia_service_key: str | None
    product: str | None


def network_options(command: _Command) -> _Command:
    """Add ``--cache``, ``--product`` and what names the vendors' services; the command gets one ``network``."""

    @wraps(command)
    def run(
        *,
        cache: str | None,
        kds: str | None,
        pcs: str | None,
        pcs_update: Literal["standard", "early"],
        rim_url: str | None,
        ocsp_url: str | None,
        nvidia_service_key: str | None,
        product: str | None,
        **options: object,
    ) -> object:
        network = Network(
            cache=cache,
            kds=kds,
            pcs=pcs,
            pcs_update=pcs_update,
            rim_url=rim_url,
            ocsp_url=ocsp_url,
            nvidia_service_key=nvidia_service_key,
            product=product,
        )
        return command(network=network, **options)

    return _stack(
        [
            click.option(
                "--cache",
                metavar="DIR",
                help="Where fetched endorsements are kept. Default: attest/endorsements in the user's cache directory.",
            ),
            click.option(
                "--kds",
                metavar="URL",
                help="Another key distribution service than AMD's: a mirror, or 'attest simulate kds'.",
            ),
            click.option(
                "--pcs",
                metavar="URL",
                help="Another provisioning certification service than Intel's: a PCCS, or 'attest simulate pcs'.",
            ),
            click.option(
                "--pcs-update",
                type=click.Choice(["standard", "early"]),
                default="standard",
                show_default=True,
                help="Which of Intel's TCB evaluations to fetch: early knows a new flaw months before standard does.",
            ),
            click.option(
                "--rim-url",
                metavar="URL",
                help="Another RIM service than NVIDIA's: a mirror, or 'attest simulate nvidia'.",
            ),
            click.option(
                "--ocsp-url", metavar="URL", help="Another OCSP responder than NVIDIA's, or 'attest simulate nvidia'."
            ),
            click.option(
                "--nvidia-service-key",
                metavar="FILE",
                help="A file with a key for NVIDIA's two services, which then answer more requests in a row.",
            ),
            click.option(
                "--product",
                type=click.Choice(PRODUCTS),
                help="Product line of a version 2 report, which does not name it. Only used to fetch.",
            ),
        ]
    )(run)


def nonce_options(command: _Command) -> _Command:
    """Add what names REPORT_DATA: ``--nonce``, ``--nonce-text`` and ``--report-data``."""
    return _stack(
        [
            click.option(
                "--nonce",
                type=Hex(longest=64),
                metavar="HEX",
                help="The freshness value that the evidence carries: left-aligned in REPORT_DATA, rest zero.",
            ),
            click.option("--nonce-text", type=NonceText(), metavar="TEXT", help="The same, as text."),
            click.option("--report-data", type=Hex(length=64), metavar="HEX", help="All 64 bytes of REPORT_DATA."),
        ]
    )(command)


# -- what is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOptions:
    """Everything that ``verify`` and ``appraise`` are asked with, as given."""

    inputs: tuple[str, ...]
    endorsements: tuple[str, ...]
    at: datetime | None
    nonce: bytes | None
    nonce_text: bytes | None
    report_data: bytes | None
    offline: bool
    unchecked: tuple[Unchecked, ...]
    eventlog: str | None
    reference_log: str | None
    trust: tuple[tuple[str, str], ...]
    audience: str | None
    form: str | None
    anchors: str | None
    allow_simulated: bool
    bundle_keys: tuple[str, ...]
    network: Network
    display: Display


_QUESTION_FIELDS = frozenset(field.name for field in fields(VerificationOptions))
_QUESTION: tuple[_Decorator, ...] = (
    click.argument("inputs", metavar="INPUT...", nargs=-1, required=True),
    click.option(
        "--endorsements",
        metavar="PATH",
        multiple=True,
        help="File or directory with certificates, CRLs, certificate tables or bundles. Repeatable.",
    ),
    click.option("--at", type=TIME, metavar="TIME", help="Moment of appraisal, RFC 3339. Default: now."),
    nonce_options,
    click.option("--offline", is_flag=True, help="Fetch nothing: a missing endorsement is exit 5."),
    click.option(
        "--unchecked",
        type=_Relaxation(),
        metavar="CHECK=REASON",
        multiple=True,
        help="Tolerate that one thing cannot be judged: revocation, freshness, rim, tcb, eventlog or topology. "
        "Shown in every result. Repeatable.",
    ),
    click.option("--eventlog", metavar="FILE", help="Event log that must replay to the evidence's registers."),
    click.option(
        "--reference-log",
        metavar="FILE",
        help="Event log of a known good boot: names, for each register, the first event that differs from it.",
    ),
    click.option(
        "--trust",
        type=_Trusted(),
        metavar="ISSUER=FILE",
        multiple=True,
        help="Keys or certificate that may sign tokens of this issuer. Repeatable.",
    ),
    click.option("--audience", metavar="NAME", help="Whom a token must be for; one that names an audience needs it."),
    click.option(
        "--form", type=click.Choice(FORMS), help="The form that INPUT must have. Default: recognised by content."
    ),
    click.option("--anchors", metavar="FILE", help="Add and remove trust anchors (TOML)."),
    click.option(
        "--allow-simulated",
        is_flag=True,
        help="Also accept the simulator's roots, whose keys everybody has. Every result says SIMULATED.",
    ),
    click.option(
        "--bundle-key",
        "bundle_keys",
        metavar="FILE",
        multiple=True,
        help="Only use endorsement bundles signed by this key (PEM, Ed25519). Repeatable.",
    ),
    network_options,
    display_options,
)


def question_options(command: _Command) -> _Command:
    """Add every argument and option that ``verify`` and ``appraise`` share.

    The command gets them as one ``question``, and its own options by their names.
    """

    @wraps(command)
    def run(**options: Any) -> object:  # noqa: ANN401  what click passes
        shared = {name: options.pop(name) for name in tuple(options) if name in _QUESTION_FIELDS}
        return command(question=VerificationOptions(**shared), **options)

    return _stack(_QUESTION)(run)
