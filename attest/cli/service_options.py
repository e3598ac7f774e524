"""Options of a key-release service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from attest.cli.machine import TCTI
from attest.cli.option_values import hex_of
from attest.terminal.display import Decorator, gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """The options of a service, and of this machine, which proves itself to the service."""

    kms: str | None
    identity: str | None
    tls_ca: str | None
    expect_policy: str | None
    expect_configuration: bytes | None
    unchecked_tls: str | None
    endorsements: tuple[str, ...]
    anchors: str | None
    allow_simulated: bool
    offline: bool
    log_memory: str | None
    tcti: str | None
    no_gpus: bool


KEY_SERVICE: Final = "Key-release service"
"""Title of the options of a service in help."""
SERVICE_MACHINE_OPTIONS: Final = (
    click.option("--tls-ca", metavar="FILE", help="The only CA accepted for its TLS certificate (PEM)."),
    click.option(
        "--expect-policy",
        metavar="FILE",
        help="Policy that the service's own machine must meet before any request.",
    ),
    click.option(
        "--expect-configuration",
        type=hex_of(32),
        metavar="HEX",
        help="SHA-256 of the configuration that the service must use.",
    ),
    click.option(
        "--unchecked-tls",
        metavar="REASON",
        help="Permit a TLS connection that does not end at the attested service.",
    ),
    click.option("--endorsements", metavar="PATH", multiple=True, help="Endorsements of the service's machine."),
    click.option("--anchors", metavar="FILE", help="Add and remove trust anchors (TOML)."),
    click.option("--allow-simulated", is_flag=True, help="Also accept a service on a simulated machine."),
    click.option("--offline", is_flag=True, help="Fetch no endorsements of the service's machine."),
    click.option("--log-memory", metavar="FILE", help="File that stores the state of the service's log between calls."),
    TCTI,
    click.option("--no-gpus", is_flag=True, help="Leave out NVIDIA GPUs."),
)
"""Demands on a service and its machine, and the evidence of this machine: the same for every command with a service."""


def service_options(*, required: bool) -> Decorator:
    """Add the options of a service; the command gets one ``service``. Its URL and identity may be required."""
    options = (
        click.option("--kms", metavar="URL", required=required, help="URL of the service."),
        click.option(
            "--identity",
            metavar="TEXT",
            required=required,
            help="Its verifier key, as 'kms init' printed it; never taken from the service.",
        ),
        *SERVICE_MACHINE_OPTIONS,
    )
    return gathered("service", ServiceOptions, options, title=KEY_SERVICE)
