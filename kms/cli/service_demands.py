"""An owner's demands on the machine of a service, checked before a secret is sealed to it (MC-30)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.inputs import read_hex
from kms.cli.options import FILE, say, with_options

if TYPE_CHECKING:
    from attest.release import VerifierKey
    from attest.session import SessionSettings

_OPTIONS = (
    click.option("--kms", "url", metavar="URL", help="Where the service is: it has to prove its machine first."),
    click.option("--expect-policy", "policy", type=FILE, help="The policy that its machine has to meet."),
    click.option("--expect-configuration", "configuration", metavar="HEX", help="SHA-256 of its configuration."),
    click.option("--unchecked-tls", metavar="REASON", help="Let the connection end elsewhere than it proves."),
    click.option("--tls-ca", type=FILE, help="Who may vouch for its TLS certificate (PEM), and nobody else."),
    click.option("--endorsements", multiple=True, type=FILE, help="What vendors say of its machine. Repeatable."),
    click.option("--anchors", type=FILE, help="Add and remove trust anchors (TOML)."),
    click.option("--allow-simulated", is_flag=True, help="Also accept a simulated machine."),
    click.option("--offline", is_flag=True, help="Ask no vendor about its machine."),
)


def service_demands(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; the command gets ``require_machine``, which demands the proof of a service by its identity."""

    @wraps(command)
    def called(
        *,
        url: str | None,
        policy: Path | None,
        configuration: str | None,
        unchecked_tls: str | None,
        tls_ca: Path | None,
        endorsements: tuple[Path, ...],
        anchors: Path | None,
        allow_simulated: bool,
        offline: bool,
        **given: object,
    ) -> None:
        demands = (configuration, unchecked_tls, tls_ca, anchors, *endorsements)
        if (url is None) != (policy is None):
            raise click.UsageError("--kms and --expect-policy go together")
        if url is None and (any(one is not None for one in demands) or allow_simulated or offline):
            raise click.UsageError("demands on the service's machine go with --kms and --expect-policy")
        wanted = None if configuration is None else read_hex(configuration, "--expect-configuration")

        def require_machine(service: VerifierKey) -> None:
            from attest.session import SessionSettings

            if url is None:
                say("note: the machine of the service is not checked; --kms and --expect-policy demand its proof")
                return
            settings = SessionSettings(
                url=url,
                service=service,
                policy=policy,
                configuration=wanted,
                unchecked_tls=unchecked_tls,
                tls_ca=tls_ca,
                endorsements=endorsements,
                anchors=anchors,
                allow_simulated=allow_simulated,
                offline=offline,
            )
            _prove(settings)

        command(require_machine=require_machine, **given)

    return with_options(*_OPTIONS)(called)


def _prove(settings: SessionSettings) -> None:
    from attest.release import KeyReleaseClient
    from attest.session import expectation_of, open_http

    if settings.unchecked_tls is not None:
        say(f"warning: the TLS connection is not compared with what the service proves: {settings.unchecked_tls}")
    if settings.allow_simulated:
        say("warning: a service on a SIMULATED machine is accepted; that proves nothing about hardware")
    with open_http(settings) as http:
        KeyReleaseClient(http, service=settings.service, expect=expectation_of(settings, None)).prove()
