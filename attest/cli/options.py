"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import click

from attest.cli.option_values import hex_of, nonce_text, relaxation, trusted_issuer, utc
from attest.terminal.display import Display, display_options, gathered, stacked

if TYPE_CHECKING:
    from attest.checks import Unchecked

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
    "dstack-json",
    "provider-json",
    "token",
)
"""The same as ``attest.evidence.input_files.FORMS``, without importing it; a test compares them."""
PRODUCTS = ("Milan", "Genoa", "Turin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The services that endorsements are fetched from, and the cache of their answers; None: the default."""

    cache: str | None = None
    kds: str | None = None
    pcs: str | None = None
    pcs_update: Literal["standard", "early"] = "standard"
    rim_url: str | None = None
    ocsp_url: str | None = None
    nvidia_service_key: str | None = None
    product: str | None = None


network_options = gathered(
    "network",
    Network,
    (
        click.option(
            "--cache",
            metavar="DIR",
            help="Cache of fetched endorsements. Default: attest/endorsements in the user's cache directory.",
        ),
        click.option(
            "--kds",
            metavar="URL",
            help="Key distribution service instead of AMD's: a mirror, or 'attest simulate kds'.",
        ),
        click.option(
            "--pcs",
            metavar="URL",
            help="Provisioning certification service instead of Intel's: a PCCS, or 'attest simulate pcs'.",
        ),
        click.option(
            "--pcs-update",
            type=click.Choice(["standard", "early"]),
            default="standard",
            show_default=True,
            help="Intel's TCB evaluation to fetch: early includes a new flaw months before standard.",
        ),
        click.option(
            "--rim-url",
            metavar="URL",
            help="RIM service instead of NVIDIA's: a mirror, or 'attest simulate nvidia'.",
        ),
        click.option(
            "--ocsp-url", metavar="URL", help="OCSP responder instead of NVIDIA's, or 'attest simulate nvidia'."
        ),
        click.option(
            "--nvidia-service-key",
            metavar="FILE",
            help="A file with a key for NVIDIA's two services, which raises their rate limits.",
        ),
        click.option(
            "--product",
            type=click.Choice(PRODUCTS),
            help="Product line of a version 2 report, which does not name it. Only used to fetch.",
        ),
    ),
    title="Fetching endorsements",
)
"""Add ``--cache``, ``--product`` and the addresses of the vendors' services; the command gets one ``network``."""


nonce_options = stacked(
    (
        click.option(
            "--nonce",
            type=hex_of(longest=64),
            metavar="HEX",
            help="The freshness value in the evidence: left-aligned in REPORT_DATA, rest zero.",
        ),
        click.option("--nonce-text", type=nonce_text, metavar="TEXT", help="The same, as text."),
        click.option("--report-data", type=hex_of(64), metavar="HEX", help="All 64 bytes of REPORT_DATA."),
    )
)
"""Add the options for REPORT_DATA: ``--nonce``, ``--nonce-text`` and ``--report-data``."""


# -- verification


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOptions:
    """The arguments and options that ``verify`` and ``appraise`` share, as given."""

    inputs: tuple[str, ...]
    endorsements: tuple[str, ...] = ()
    at: datetime | None = None
    nonce: bytes | None = None
    nonce_text: bytes | None = None
    report_data: bytes | None = None
    offline: bool = False
    unchecked: tuple[Unchecked, ...] = ()
    eventlog: str | None = None
    reference_log: str | None = None
    trust: tuple[tuple[str, str], ...] = ()
    audience: str | None = None
    form: str | None = None
    anchors: str | None = None
    allow_simulated: bool = False
    bundle_keys: tuple[str, ...] = ()
    network: Network = Network()
    display: Display


trust_options = stacked(
    (
        click.option(
            "--endorsements",
            metavar="PATH",
            multiple=True,
            help="File or directory with certificates, CRLs, certificate tables or bundles. Repeatable.",
        ),
        click.option("--offline", is_flag=True, help="Do not fetch: a missing endorsement ends with exit code 5."),
        click.option(
            "--unchecked",
            type=relaxation,
            metavar="CHECK=REASON",
            multiple=True,
            help="Leave one check unchecked: revocation, freshness, rim, tcb, eventlog or topology. "
            "Shown in every result. Repeatable.",
        ),
        click.option("--anchors", metavar="FILE", help="Add and remove trust anchors (TOML)."),
        click.option(
            "--allow-simulated",
            is_flag=True,
            help="Also accept the simulator's roots, whose keys are public. Every result is marked SIMULATED.",
        ),
        click.option(
            "--bundle-key",
            "bundle_keys",
            metavar="FILE",
            multiple=True,
            help="Only use endorsement bundles signed by this key (PEM, Ed25519). Repeatable.",
        ),
    ),
    title="Endorsements and trust",
)
"""Add the options for endorsements, relaxations and trust anchors."""


question_options = gathered(
    "question",
    VerificationOptions,
    (
        click.argument("inputs", metavar="INPUT...", nargs=-1, required=True),
        stacked(
            (
                nonce_options,
                click.option(
                    "--eventlog", metavar="FILE", help="Event log that must replay to the evidence's registers."
                ),
                click.option(
                    "--reference-log",
                    metavar="FILE",
                    help="Event log of a known good boot: shows, for each register, the first event that differs.",
                ),
                click.option(
                    "--form",
                    type=click.Choice(FORMS),
                    help="The form that INPUT must have. Default: recognised by content.",
                ),
                click.option("--at", type=utc, metavar="TIME", help="Moment of appraisal, RFC 3339. Default: now."),
            ),
            title="Evidence and its freshness",
        ),
        trust_options,
        network_options,
        stacked(
            (
                click.option(
                    "--trust",
                    type=trusted_issuer,
                    metavar="ISSUER=FILE",
                    multiple=True,
                    help="Keys or certificate that may sign tokens of this issuer. Repeatable.",
                ),
                click.option(
                    "--audience", metavar="NAME", help="Audience of the token; required if the token names one."
                ),
            ),
            title="Tokens of other Verifiers",
        ),
        display_options,
    ),
)
"""Add every argument and option that ``verify`` and ``appraise`` share; the command gets them as one ``question``."""
