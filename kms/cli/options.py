"""Shared parts of the commands: settings as options, files, and output."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import quote

import click

from attest.terminal import OUTPUT, stacked

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kms.config.settings import LoadedSettings
    from kms.domain.keys import KeyName, KeyReference
    from kms.keys.vault import Vault

P = ParamSpec("P")
T = TypeVar("T")


JsonObject = dict[str, Any]  # Any: each answer has members of its own, which its model describes


def say(line: str) -> None:
    """Print a message on standard error."""
    click.echo(line, err=True)


def print_json(document: object) -> None:
    """Print JSON."""
    click.echo(json.dumps(document, indent=2, sort_keys=True))


def print_rows(
    document: Mapping[str, object],
    rows: Sequence[T],
    line: Callable[[T], str],
    *,
    none: str | None = None,
) -> None:
    """Print a document with ``--json``, else a line for each row, or ``none`` as a note if there are no rows."""
    if wants_json():
        print_json(document)
        return
    for row in rows:
        click.echo(line(row))
    if not rows and none is not None:
        say(f"note: {none}")


def with_name(identity: str) -> str:
    """Return an identity with the name that this user gave it by ``kms context name``; a command reads them once."""
    from kms.cli.contexts_file import ContextsFile, read_contexts

    known = click.get_current_context().meta
    contexts: ContextsFile = known.get(_CONTEXTS) or known.setdefault(_CONTEXTS, read_contexts(os.environ))
    return contexts.named(identity)


def path(*parts: object) -> str:
    """Return a path of the administration API; each part is one segment of it."""
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def key_path(name: KeyName, *more: str) -> str:
    """Return the path of a key, or of a part of it."""
    return path("keys", name.tenant, name.key_id, *more)


def moment() -> datetime:
    """Return the moment of a command."""
    from attest.clock import system_clock

    return system_clock()


FILE = click.Path(path_type=Path)
SETTINGS = stacked(
    (
        click.option("--config", type=FILE, help="Settings file (TOML). Default: KMS_CONFIG."),
        click.option("--database", metavar="FILE|URL", help="SQLite file, or postgresql:// without a password."),
        click.option("--database-password-file", type=FILE, help="File with the password for PostgreSQL."),
        click.option("--database-connections", type=int, help="Maximum connections to PostgreSQL (default 10)."),
        click.option("--kek-file", type=FILE, help="Key-encryption key."),
        click.option("--origin", metavar="NAME", help="Name of the service, such as kms.example/prod."),
    ),
    title="Settings of the service",
)
SERVING = stacked(
    (
        click.option("--host", help="Address to listen on (default 127.0.0.1)."),
        click.option("--port", type=int, help="Port to listen on (default 8750; 0 for any)."),
        click.option("--admin-port", type=int, help="Port of the administration API (default: none; 0 for any)."),
        click.option("--workers", type=int, help="Worker processes (default 1)."),
        click.option("--drain-seconds", type=int, help="Maximum time to finish requests at shutdown (default 10)."),
        click.option("--tls-certificate-file", type=FILE, help="Certificate chain for HTTPS (PEM)."),
        click.option("--tls-key-file", type=FILE, help="Private key of the first certificate (PEM)."),
        click.option("--tls-minimum", type=click.Choice(["1.2", "1.3"]), help="Minimum version of TLS (default 1.3)."),
        click.option(
            "--plain-http",
            type=click.Choice(["warn", "refuse"]),
            help="How to treat a listener without TLS that other machines can reach (default warn).",
        ),
        click.option(
            "--self-evidence",
            type=click.Choice(["off", "auto", "snp", "tdx", "azure", "simulated-snp", "simulated-tdx"]),
            help="Evidence with which the service proves its own machine (default off).",
        ),
        click.option("--self-evidence-per-minute", type=int, help="Maximum reports per minute (default 60)."),
        click.option(
            "--lock-memory/--no-lock-memory", default=None, help="Lock memory, so that it is not swapped out."
        ),
        click.option("--endorsements", multiple=True, type=FILE, help="File or directory of endorsements. Repeatable."),
        click.option(
            "--bundle-keys", multiple=True, type=FILE, help="Public key that signs bundles (PEM). Repeatable."
        ),
        click.option("--fetch/--no-fetch", default=None, help="Fetch endorsements that the files lack."),
        click.option("--cache-directory", type=FILE, help="Cache of fetched endorsements."),
        click.option("--anchors-file", type=FILE, help="Changes to the default trust anchors (TOML)."),
        click.option("--verifiers-file", type=FILE, help="Verifiers whose EARs and tokens are accepted (TOML)."),
        click.option("--witnesses-file", type=FILE, help="Witnesses that cosign the log."),
        click.option("--publish-entries/--no-publish-entries", default=None, help="Make the log's entries public."),
        click.option("--destroy-delay-seconds", type=int, help="Minimum delay before a destruction (default 604800)."),
        click.option("--challenge-seconds", type=int, help="Validity of a challenge (default 300)."),
        click.option("--lease-seconds", type=int, help="Default duration of a lease (default 86400)."),
        click.option("--max-body-bytes", type=int, help="Maximum size of a request body (default 2097152)."),
        click.option("--request-seconds", type=int, help="Maximum time for one request (default 30)."),
        click.option("--max-concurrent", type=int, help="Maximum releases at the same time (default 32)."),
        click.option(
            "--allow-simulated/--no-allow-simulated",
            default=None,
            help="Accept evidence of the simulator, which proves nothing.",
        ),
        click.option("--log-format", help="Format of the log on standard error: 'text' or 'json' (default text)."),
        click.option("--metrics-host", help="Address for metrics (default 127.0.0.1)."),
        click.option("--metrics-port", type=int, help="Port for metrics (default: no metrics)."),
        click.option("--otlp-endpoint", metavar="URL", help="Collector of traces, OTLP/HTTP (default: no traces)."),
        click.option("--profile", help="'production' refuses every insecure setting (default standard)."),
    ),
    title="Serving",
)
REASON = click.option("--reason", required=True, metavar="TEXT", help="Reason, recorded permanently in the log.")
_WANTS_JSON = "kms.cli.options.wants_json"
_CONTEXTS = "kms.cli.options.contexts"


def json_flag(text: str) -> Callable[[Any], Any]:  # Any: click's own
    """Make ``--json`` with this help; ``wants_json`` returns its value."""

    def keep(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.meta[_WANTS_JSON] = value

    return stacked((click.option("--json", is_flag=True, expose_value=False, callback=keep, help=text),), title=OUTPUT)


def wants_json() -> bool:
    """Return True if the running command has ``--json``."""
    return bool(click.get_current_context().meta.get(_WANTS_JSON))


AS_JSON = json_flag("Print JSON.")


def read_key(_context: click.Context, _parameter: click.Parameter, value: str | None) -> KeyName | None:
    """Read the name of a key from an argument."""
    from attest.release import KeyName

    return None if value is None else KeyName.parse(value)


key_argument = click.argument("name", metavar="KEY", callback=read_key)
"""A key, as ``KEY`` or ``TENANT/KEY``; the command gets it as ``name``."""


def read_reference(_context: click.Context, _parameter: click.Parameter, value: str | None) -> KeyReference | None:
    """Read the name of a key or of a version from an argument."""
    from attest.release import KeyReference

    return None if value is None else KeyReference.parse(value)


reference_argument = click.argument("reference", metavar="KEY[@VERSION]", callback=read_reference)
"""A key, or one of its versions; the command gets it as ``reference``."""


def duration_option(name: str, text: str) -> Callable[[Any], Any]:  # Any: click's own
    """Make an option that takes a duration, such as ``30d``; None if it is not given."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str | None) -> timedelta | None:
        from kms.domain.durations import parse_duration

        return None if value is None else parse_duration(value)

    return click.option(name, metavar="DURATION", callback=read, help=text)


def with_settings(
    *options: Callable[[Any], Any],  # Any: click's own
    serving: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of the settings, and others; the command gets the settings as ``loaded``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(*, config: Path | None, **given: object) -> None:
            from kms.config.settings import Settings

            flags = {name: given.pop(name) for name in tuple(given) if name in Settings.model_fields}
            command(loaded=load(config, flags), **given)

        return stacked((SETTINGS, *((SERVING,) if serving else ()), *options))(called)

    return decorate


def load(config: Path | None, flags: dict[str, object]) -> LoadedSettings:
    """Combine the settings of all sources."""
    from kms.config.settings import load_settings

    given = {name: value for name, value in flags.items() if value not in {None, ()}}
    return load_settings(flags=given, environ=os.environ, config=config)


def vault(loaded: LoadedSettings, *, guarded: bool = True) -> Vault:
    """Open the database and the key-encryption key; the database is closed when the command ends.

    ``guarded`` is as for ``open_vault``.
    """
    from kms.operations.services import open_vault

    opened = open_vault(loaded.settings, random=secrets.token_bytes, guarded=guarded)
    click.get_current_context().call_on_close(opened.store.close)
    return opened
