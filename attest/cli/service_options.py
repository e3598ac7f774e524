"""Options of a key-release service, and the connection that they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from attest.cli.machine import TCTI, machine_of
from attest.cli.option_values import hex_of
from attest.cli.options import Network
from attest.terminal.display import Decorator, Display, gathered

if TYPE_CHECKING:
    from attest.release.client import KeyReleaseClient
    from attest.release.exchange import Attester


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


SERVICE_MACHINE_OPTIONS: Final = (
    click.option("--tls-ca", metavar="FILE", help="Who may vouch for its TLS certificate (PEM), and nobody else."),
    click.option(
        "--expect-policy",
        metavar="FILE",
        help="The policy that the service's own machine has to meet before anything is asked of it.",
    ),
    click.option(
        "--expect-configuration",
        type=hex_of(32),
        metavar="HEX",
        help="SHA-256 of the configuration that the service has to decide under.",
    ),
    click.option(
        "--unchecked-tls",
        metavar="REASON",
        help="Let the connection end elsewhere than where the service proves to be.",
    ),
    click.option("--endorsements", metavar="PATH", multiple=True, help="What vendors say of the service's machine."),
    click.option("--anchors", metavar="FILE", help="Add and remove trust anchors (TOML)."),
    click.option("--allow-simulated", is_flag=True, help="Also accept a service on a simulated machine."),
    click.option("--offline", is_flag=True, help="Ask no vendor about the service's machine."),
    click.option("--log-memory", metavar="FILE", help="Remembers the service's log from one call to the next."),
    TCTI,
    click.option("--no-gpus", is_flag=True, help="Leave NVIDIA GPUs out."),
)
"""Demands on a service and its machine, and the evidence of this machine: the same for every command with a service."""


def service_options(*, required: bool) -> Decorator:
    """Add the options of a service; the command gets one ``service``. Its URL and identity may be required."""
    options = (
        click.option("--kms", metavar="URL", required=required, help="Where the service is."),
        click.option(
            "--identity",
            metavar="TEXT",
            required=required,
            help="Its verifier key, as 'kms init' printed it; never from itself.",
        ),
        *SERVICE_MACHINE_OPTIONS,
    )
    return gathered("service", ServiceOptions, options)


@contextmanager
def connect_service(
    ctx: click.Context, service: ServiceOptions, *, network: Network, display: Display
) -> Iterator[tuple[KeyReleaseClient, Attester]]:
    """Prepare the connection to a service, and the evidence of this machine; errors as ``attest.cli.release_run``."""
    from attest.cli.release_run import expectation, open_client
    from attest.collect import collect_machine

    if service.kms is None or service.identity is None:
        raise click.UsageError("--kms and --identity go together")
    demands = (service.expect_configuration, service.unchecked_tls)
    if service.expect_policy is None and demands != (None, None):
        raise click.UsageError("--expect-configuration and --unchecked-tls go with --expect-policy")
    expect = expectation(service, network=network, display=display)
    if service.unchecked_tls is not None:
        display.warn(f"the TLS connection is not compared with what the service proves: {service.unchecked_tls}")
    access = machine_of(ctx, service.tcti)
    attester = partial(collect_machine, access=access, with_gpus=False if service.no_gpus else None)
    with open_client(service.kms, service.identity, service, expect=expect) as client:
        yield client, attester
