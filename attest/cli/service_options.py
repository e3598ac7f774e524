"""Options of a key-release service, and the connection that they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from attest.cli.machine import TCTI, machine_of
from attest.cli.option_values import Hex
from attest.cli.options import Network
from attest.terminal.display import Decorator, Display, gathered

if TYPE_CHECKING:
    from attest.release.client import KeyReleaseClient
    from attest.release.exchange import Attester

__all__ = ["SERVICE_MACHINE_OPTIONS", "ServiceOptions", "asked_service", "service_options"]


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
        type=Hex(length=32),
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
    """Add the options of a service; the command gets one ``service``.

    Args:
        required: the command is about nothing else, so where the service is and who it is must be said.
    """
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
def asked_service(
    ctx: click.Context, service: ServiceOptions, *, network: Network, display: Display
) -> Iterator[tuple[KeyReleaseClient, Attester]]:
    """Prepare the connection to a service; no request is made yet.

    Args:
        ctx: of the command.
        service: with where it is and who it is.
        network: whom to ask about its machine.
        display: how to warn.

    Raises:
        ConfigurationError: a file is missing or wrong, a relaxation has no reason, or no such service can be.
    """
    from attest.cli.release_run import Expected, expectation, open_client
    from attest.collect import collect_machine

    if service.kms is None or service.identity is None:
        raise click.UsageError("--kms and --identity go together")
    if (
        service.expect_configuration is not None or service.unchecked_tls is not None
    ) and service.expect_policy is None:
        raise click.UsageError("--expect-configuration and --unchecked-tls go with --expect-policy")
    wanted = Expected(
        policy=service.expect_policy,
        configuration=service.expect_configuration,
        unchecked_tls=service.unchecked_tls,
        endorsements=service.endorsements,
        anchors=service.anchors,
        allow_simulated=service.allow_simulated,
        offline=service.offline,
    )
    expect = expectation(wanted, network=network, display=display)
    if service.unchecked_tls is not None:
        display.warn(f"the TLS connection is not compared with what the service proves: {service.unchecked_tls}")
    access = machine_of(ctx, service.tcti)
    attester = partial(collect_machine, access=access, with_gpus=False if service.no_gpus else None)
    with open_client(
        service.kms,
        identity=service.identity,
        tls_ca=service.tls_ca,
        log_memory=service.log_memory,
        expect=expect,
    ) as client:
        yield client, attester
