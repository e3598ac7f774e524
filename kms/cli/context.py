"""``kms context``, ``kms login`` and ``kms logout``: the servers of this user, and sign-in."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleCommand, ExampleGroup
from kms.cli.options import AS_JSON, FILE, print_rows, say

if TYPE_CHECKING:
    from kms.cli.contexts_file import Context, ContextsFile
    from kms.cli.device_login import Prompt


@click.group(cls=ExampleGroup, examples=("kms context list", "kms context use prod"))
def context() -> None:
    """Name the servers that you administer, and choose one.

    A command without --config, --server and KMS_CONFIG administers the current context. --context NAME or KMS_CONTEXT
    choose another one for one command.
    """


@context.command(
    "add",
    examples=(
        "kms context add prod --server https://kms.example:8751 --ca ca.crt --client-cert me.crt --client-key me.key",
        "kms context add prod --server https://kms.example:8751 --issuer https://login.example --client-id kms-cli",
    ),
)
@click.argument("name")
@click.option("--server", required=True, metavar="URL", help="The administration API, https.")
@click.option("--ca", type=FILE, help="CA certificate of the server (PEM).")
@click.option("--client-cert", type=FILE, help="Your client certificate (PEM).")
@click.option("--client-key", type=FILE, help="Private key of your client certificate (PEM).")
@click.option("--token-file", type=FILE, help="File that contains your bearer token.")
@click.option("--issuer", metavar="URL", help="OIDC issuer that 'kms login' signs in at, instead of a token file.")
@click.option("--issuer-ca", type=FILE, help="CA certificate of the issuer (PEM).")
@click.option("--client-id", metavar="TEXT", help="Identifier of this command at the issuer.")
@click.option("--scope", default="openid", show_default=True, help="Scopes to request at the issuer.")
@click.option(
    "--token",
    type=click.Choice(["access_token", "id_token"]),
    default="access_token",
    show_default=True,
    help="Which of the issuer's tokens the service accepts.",
)
@click.option("--use", is_flag=True, help="Make it the current context.")
@click.option("--replace", "again", is_flag=True, help="Replace a context of this name.")
def context_add(name: str, *, use: bool, again: bool, **given: str | Path | None) -> None:
    """Add a context. The first one becomes the current one."""
    from attest.errors import ConfigurationError
    from kms.cli.contexts_file import Context, require_name

    if (given["issuer"] is None) != (given["client_id"] is None):
        raise click.UsageError("--issuer and --client-id belong together")
    if given["issuer"] is not None and given["token_file"] is not None:
        raise click.UsageError("give --token-file or --issuer, not both")
    contexts = _contexts()
    if require_name(name) in contexts.contexts and not again:
        raise ConfigurationError(f"there is a context {name!r} already", code="context-exists", hint="add --replace")
    values = {key: str(value.absolute()) if isinstance(value, Path) else value for key, value in given.items()}
    after = contexts.added(name, Context(**values), use=use)  # type: ignore[arg-type]  # texts, by the options
    say(f"written: {_write(after)}{'; this is the current context' if after.current == name else ''}")


@context.command("list", examples=("kms context list", "kms context list --json"))
@AS_JSON
def context_list() -> None:
    """List the contexts; '*' marks the current one."""
    contexts = _contexts()
    rows = [
        {"name": name, "current": name == contexts.current, **asdict(one)} for name, one in contexts.contexts.items()
    ]
    print_rows(
        {"schema": "kms.contexts/1", "contexts": rows},
        rows,
        lambda row: f"{'*' if row['current'] else ' '} {row['name']}  {row['server']}",
        none="there are no contexts; 'kms context add NAME --server URL' adds one",
    )


@context.command("use", examples=("kms context use prod",))
@click.argument("name", required=False)
@click.option("--none", "nothing", is_flag=True, help="Choose no context.")
def context_use(name: str | None, *, nothing: bool) -> None:
    """Make NAME the current context."""
    if (name is None) != nothing:
        raise click.UsageError("give the name of a context, or --none")
    contexts = _contexts()
    if name is not None:
        contexts.context(name)
    _write(replace(contexts, current=name))
    say("no context is chosen" if name is None else f"current context: {name}")


@context.command("remove", examples=("kms context remove test",))
@click.argument("name")
def context_remove(name: str) -> None:
    """Remove a context, and the token that 'kms login' wrote for it."""
    from kms.cli.contexts_file import token_path
    from kms.cli.device_login import remove_token

    contexts = _contexts()
    _write(contexts.removed(name))
    place = token_path(name, os.environ)
    if place is not None:
        remove_token(place)
    say(f"removed: {name}")


@context.command("name", examples=('kms context name "$(kms admin whois alice.crt | head -1)" alice',))
@click.argument("identity")
@click.argument("name", required=False)
@click.option("--remove", is_flag=True, help="Remove the name.")
def context_name(identity: str, name: str | None, *, remove: bool) -> None:
    """Show NAME beside IDENTITY in lists, on this machine only. No decision depends on these names."""
    from kms.auth.names import parse_identity
    from kms.cli.contexts_file import require_name

    parse_identity(identity)
    if (name is None) != remove:
        raise click.UsageError("give a name, or --remove")
    contexts = _contexts()
    others = {one: label for one, label in contexts.identities.items() if one != identity}
    _write(replace(contexts, identities=others if name is None else {**others, identity: require_name(name)}))


@click.command(cls=ExampleCommand, examples=("kms login", "kms login --context prod"))
@click.option("--context", "name", metavar="NAME", envvar="KMS_CONTEXT", help="Context (default: the current one).")
def login(name: str | None) -> None:
    """Sign in at the OIDC issuer of a context, with a browser on any machine (RFC 8628).

    The token is written to a file that only you can read. Commands in this context send it to the server.
    """
    from attest.files import write_file
    from kms.cli.contexts_file import token_path
    from kms.cli.device_login import Client, sign_in

    name, chosen = _chosen(name)
    place = token_path(name, os.environ)
    if chosen.issuer is None or chosen.client_id is None or place is None:
        raise click.UsageError(f"context {name!r} has no --issuer; it authenticates without 'kms login'")
    client = Client(
        issuer=chosen.issuer,
        client_id=chosen.client_id,
        scope=chosen.scope,
        token=chosen.token,
        ca=chosen.issuer_ca,
    )
    token = sign_in(client, show=_show, sleep=time.sleep, monotonic=time.monotonic)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(place, token, replace=True)
    say(f"signed in: {name}")


@click.command(cls=ExampleCommand, examples=("kms logout", "kms logout --context prod"))
@click.option("--context", "name", metavar="NAME", envvar="KMS_CONTEXT", help="Context (default: the current one).")
def logout(name: str | None) -> None:
    """Remove the token that 'kms login' wrote. It stays valid at the issuer until it expires."""
    from kms.cli.contexts_file import token_path
    from kms.cli.device_login import remove_token

    name, _ = _chosen(name)
    place = token_path(name, os.environ)
    removed = place is not None and remove_token(place)
    say(f"signed out: {name}" if removed else f"note: there is no token for {name}")


def _show(prompt: Prompt) -> None:
    say(f"open {prompt.address}\nand enter the code {prompt.code}, if it is not already there; waiting …")


def _contexts() -> ContextsFile:
    from kms.cli.contexts_file import read_contexts

    return read_contexts(os.environ)


def _write(contexts: ContextsFile) -> Path:
    from kms.cli.contexts_file import write_contexts

    return write_contexts(contexts, os.environ)


def _chosen(name: str | None) -> tuple[str, Context]:
    contexts = _contexts()
    name = name or contexts.current
    if name is None:
        raise click.UsageError("there is no current context; name one with --context, or choose one: kms context use")
    return name, contexts.context(name)
