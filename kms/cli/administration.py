"""The service that a command administers: at a server, or in this process on the machine's own files."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kms.cli.options import FILE, SETTINGS, load, vault, with_options

if TYPE_CHECKING:
    from kms.cli.admin_client import AdminClient
    from kms.config.settings import LoadedSettings
    from kms.keys.vault import Vault

SERVER = (
    click.option("--server", metavar="URL", help="Administer the service with its API at this https address."),
    click.option("--ca", type=FILE, help="Authority of its certificate (PEM)."),
    click.option("--client-cert", type=FILE, help="Your certificate (PEM)."),
    click.option("--client-key", type=FILE, help="The key of your certificate (PEM)."),
    click.option("--token-file", type=FILE, help="File with your bearer token."),
)
_PLACES = ("database", "database_password_file", "database_connections", "kek_file", "origin", "anchors_file")


def administering(
    *options: Callable[[Any], Any],  # Any: click's own
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that name the service to administer, and others; the command gets the client as ``service``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(*, config: Path | None, **given: object) -> None:
            remote = {name: given.pop(name) for name in ("server", "ca", "client_cert", "client_key", "token_file")}
            flags = {name: given.pop(name) for name in _PLACES if name in given}
            service = _client(remote, config, flags)
            click.get_current_context().call_on_close(service.close)
            command(service=service, **given)

        return with_options(*SETTINGS, *SERVER, *options)(called)

    return decorate


def _client(remote: dict[str, Any], config: Path | None, flags: dict[str, object]) -> AdminClient:  # Any: click's own
    if remote["server"] is None:
        from kms.cli.local_admin import in_this_process

        if any(value is not None for value in remote.values()):
            raise click.UsageError("--ca, --client-cert, --client-key and --token-file belong to --server")
        return in_this_process(lambda: load(config, flags).settings)
    from kms.cli.admin_client import at_server

    if config is not None or any(value is not None for value in flags.values()):
        raise click.UsageError("--server has the settings of the service: leave --config and other settings out")
    return at_server(**remote)


def local(loaded: LoadedSettings) -> tuple[AdminClient, Vault]:
    """Open the database and the key-encryption key, and the administration API in this process on them."""
    from kms.cli.admin_client import AdminClient
    from kms.cli.local_admin import connected

    opened = vault(loaded)
    service = AdminClient(lambda: connected(loaded.settings, opened), is_remote=False)
    click.get_current_context().call_on_close(service.close)
    return service, opened
