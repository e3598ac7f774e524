"""``kms serve``: run the service."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleCommand
from kms.cli.options import say, with_settings

if TYPE_CHECKING:
    from kms.config.settings import LoadedSettings, Settings


@click.command(
    cls=ExampleCommand,
    examples=(
        "kms serve --config /etc/kms/kms.toml",
        "kms serve --workers 4 --port 8750 --config kms.toml",
    ),
)
@with_settings(serving=True)
def serve(loaded: LoadedSettings) -> None:
    """Run the service until SIGTERM or SIGINT. SIGHUP reloads endorsements, certificates, Verifiers and token keys.

    Prints its address and identity when it is ready.
    """
    from attest.clock import system_clock
    from kms.config.file_ownership import require_guarded
    from kms.running.logs import report_to_log
    from kms.server import ProcessContext, run

    settings = loaded.settings
    require_guarded(settings, loaded.file)
    report = say if settings.log_format == "text" else report_to_log
    surroundings = ProcessContext(
        clock=system_clock,
        random=secrets.token_bytes,
        report=report,
        announce=lambda identity, *ports: _announce(settings, identity, ports, report=report),
    )
    click.get_current_context().exit(run(settings, surroundings))


def _announce(
    settings: Settings, identity: str, ports: tuple[int, int | None], *, report: Callable[[str], None]
) -> None:
    from kms.config.insecure_switches import relaxed_switches

    port, admin_port = ports
    for name, text in relaxed_switches(settings).items():
        report(f"warning: {text} ({name})")
    if not settings.endorsements and not settings.fetch:
        report("warning: neither endorsements nor fetch is set; evidence must carry its own endorsements")
    scheme = "http" if settings.tls_certificate_file is None else "https"
    click.echo(f"identity: {identity}\nlistening: {scheme}://{_address(settings.host, port)}")
    if admin_port is not None:
        click.echo(f"administration: https://{_address(settings.admin_host, admin_port)}")
    sys.stdout.flush()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
