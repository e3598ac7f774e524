"""Client of the administration API: of a server, or in this process on the files of this machine.

A command sends the same requests to both. In this process the application raises a refusal as an error. A server sends
it as problem details, and the client raises the same error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attest.errors import ConfigurationError
from attest.terminal import stacked
from kms.cli.options import FILE, SETTINGS, JsonObject, load, vault

if TYPE_CHECKING:
    import httpx

    from kms.config.settings import LoadedSettings
    from kms.domain.secret import SecretBytes
    from kms.keys.vault import Vault

SERVER = stacked(
    (
        click.option("--server", metavar="URL", help="Administer the service through its API at this https address."),
        click.option("--ca", type=FILE, help="CA certificate that the server's certificate must chain to (PEM)."),
        click.option("--client-cert", type=FILE, help="Your client certificate (PEM)."),
        click.option("--client-key", type=FILE, help="Private key of your client certificate (PEM)."),
        click.option("--token-file", type=FILE, help="File that contains your bearer token."),
        click.option("--context", metavar="NAME", help="Context, in place of the current one; see 'kms context'."),
    ),
    title="Administration over the network",
)
_REMOTE = ("server", "ca", "client_cert", "client_key", "token_file", "context")
_PLACES = ("database", "database_password_file", "database_connections", "kek_file", "origin", "anchors_file")


class AdminClient:
    """The administration API, of another process if ``is_remote``; the first request connects."""

    def __init__(self, connect: Callable[[], httpx.Client], *, is_remote: bool) -> None:
        """Create a client; the first request connects."""
        self._connect = connect
        self.is_remote = is_remote

    @cached_property
    def _http(self) -> httpx.Client:
        return self._connect()

    def close(self) -> None:
        """Close the client."""
        if "_http" in self.__dict__:
            self._http.close()

    def get(self, where: str, **query: object) -> JsonObject:
        """Send a GET request; members of the query that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        answer: JsonObject = self._send("GET", where, params=given).json()
        return answer

    def post(
        self, where: str, document: JsonObject | None = None, *, material: SecretBytes | None = None
    ) -> JsonObject:
        """Send a POST request to a path of the API; without a document the body is an empty object.

        Raises:
            ValueError: key material was given for a server; only the application in this process accepts it.
        """
        if material is not None and self.is_remote:
            raise ValueError("key material is sent to a server only in sealed form")
        extensions: dict[str, object] | None = None
        if material is not None:
            from kms.admin_api.context import MATERIAL

            extensions = {MATERIAL: material}
        answer: JsonObject = self._send("POST", where, json=document or {}, extensions=extensions).json()
        return answer

    def note(self, method: str, where: str, **query: object) -> str:
        """Return a response that is a signed note."""
        document: JsonObject | None = {} if method == "POST" else None
        return self._send(method, where, params=query, json=document).text

    def _send(
        self,
        method: str,
        where: str,
        *,
        params: Mapping[str, Any] | None = None,  # Any: what httpx writes into a query
        json: JsonObject | None = None,
        extensions: dict[str, object] | None = None,
    ) -> httpx.Response:
        import httpx

        from kms.cli.remote_admin import refusal, unreachable

        try:
            answer = self._http.request(method, where, params=params, json=json, extensions=extensions)
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise unreachable(exc) from exc
        if not answer.is_success:
            raise refusal(answer)
        return answer


def administering(
    *options: Callable[[Any], Any],  # Any: click's own
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that name the service to administer, and others; the command gets the client as ``service``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(*, config: Path | None, **given: object) -> None:
            remote = {name: given.pop(name) for name in _REMOTE}
            flags = {name: given.pop(name) for name in _PLACES if name in given}
            service = _client(remote, config, flags)
            click.get_current_context().call_on_close(service.close)
            command(service=service, **given)

        return stacked((SETTINGS, SERVER, *options))(called)

    return decorate


def _client(remote: dict[str, Any], config: Path | None, flags: dict[str, object]) -> AdminClient:  # Any: click's own
    stated = remote["server"] is not None or remote["context"] is not None
    has_settings = config is not None or any(value is not None for value in flags.values())
    if stated and has_settings:
        raise click.UsageError("the server has its own settings: omit --config and other settings with --server")
    if not stated and any(value is not None for value in remote.values()):
        raise click.UsageError("--ca, --client-cert, --client-key and --token-file require --server")
    context = remote.pop("context")
    if remote["server"] is None and not has_settings:
        remote = _of_context(context, remote)
    elif context is not None:
        raise click.UsageError("give --server or --context, not both")
    if remote["server"] is None:
        from kms.cli.local_admin import in_this_process

        return AdminClient(lambda: in_this_process(load(config, flags).settings), is_remote=False)
    from kms.cli.remote_admin import at_server

    return AdminClient(at_server(**remote), is_remote=True)


def _of_context(name: str | None, remote: dict[str, Any]) -> dict[str, Any]:
    """Return the server of the context with this name, or of the current one where KMS_CONFIG names no service."""
    from kms.cli.contexts_file import read_contexts, token_path
    from kms.config.settings import CONFIG_VARIABLE, CONTEXT_VARIABLE

    contexts = read_contexts(os.environ)
    name = name or os.environ.get(CONTEXT_VARIABLE) or (None if os.environ.get(CONFIG_VARIABLE) else contexts.current)
    if name is None:
        return remote
    chosen = contexts.context(name)
    token = chosen.token_file if chosen.issuer is None else token_path(name, os.environ)
    if chosen.issuer is not None and (token is None or not Path(token).is_file()):
        raise ConfigurationError(
            f"you are not signed in to {name}", code="login-required", hint=f"kms login --context {name}"
        )
    files = {"ca": chosen.ca, "client_cert": chosen.client_cert, "client_key": chosen.client_key, "token_file": token}
    return {"server": chosen.server, **{one: None if path is None else Path(path) for one, path in files.items()}}


def local(loaded: LoadedSettings) -> tuple[AdminClient, Vault]:
    """Open the database, the key-encryption key, and the administration API in this process."""
    from kms.cli.local_admin import connected

    opened = vault(loaded)
    service = AdminClient(lambda: connected(loaded.settings, opened), is_remote=False)
    click.get_current_context().call_on_close(service.close)
    return service, opened
