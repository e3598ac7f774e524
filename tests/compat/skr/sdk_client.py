"""Azure's SDK for Python, run in an environment of its own: operations on standard input, outcomes on standard output.

It imports nothing of this project. Names under ``localhost`` lead to this machine, since not every resolver says so.
"""

import asyncio
import base64
import json
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError
from azure.identity import ClientSecretCredential
from azure.keyvault.keys import (
    JsonWebKey,
    KeyClient,
    KeyReleasePolicy,
    KeyRotationLifetimeAction,
    KeyRotationPolicy,
    KeyRotationPolicyAction,
)
from azure.keyvault.keys.aio import KeyClient as AsyncKeyClient

Document = dict[str, Any]  # Any: JSON
_TEXTS = {"kty", "crv", "key_ops"}
_found = socket.getaddrinfo


def _here(host: Any, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401  as the function that it replaces
    name = host.decode() if isinstance(host, bytes) else host
    return _found("127.0.0.1" if str(name).endswith(".localhost") else host, *arguments, **more)


socket.getaddrinfo = _here


class Given:
    """A credential that has its token already."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.asked: list[list[str | None]] = []

    def get_token(self, *scopes: str, **more: Any) -> Any:  # noqa: ANN401  a token of the library
        self.asked.append([*scopes, more.get("tenant_id")])
        return AccessToken(self._token, 2**31)


class GivenAsync(Given):
    """The same for asynchronous clients."""

    async def get_token(self, *scopes: str, **more: Any) -> Any:  # noqa: ANN401
        return super().get_token(*scopes, **more)

    async def close(self) -> None:
        pass


def key(bundle: Any) -> Document:  # noqa: ANN401  a key of the library
    members = {name: getattr(bundle.key, name, None) for name in ("n", "e", "x", "y")}
    return {
        "id": bundle.id,
        "name": bundle.name,
        "version": bundle.properties.version,
        "type": str(bundle.key_type.value),
        "tags": bundle.properties.tags,
        "exportable": bundle.properties.exportable,
        "policy": bundle.properties.release_policy.encoded_policy.decode(),
        **{name: base64.b64encode(one).decode() for name, one in members.items() if one},
    }


def own_key(jwk: Document) -> Any:  # noqa: ANN401  a key of the library
    members = {name: one if name in _TEXTS else base64.b64decode(one) for name, one in jwk.items()}
    return JsonWebKey(**members)


def scheduled(client: Any, name: str, after: str) -> list[list[str]]:  # noqa: ANN401  a client of the library
    action = KeyRotationLifetimeAction(KeyRotationPolicyAction.rotate, time_after_create=after)
    updated = client.update_key_rotation_policy(name, KeyRotationPolicy(), lifetime_actions=[action])
    actions = [*updated.lifetime_actions, *client.get_key_rotation_policy(name).lifetime_actions]
    return [[str(one.action.value).lower(), one.time_after_create] for one in actions]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "create_rsa": lambda client, **given: key(client.create_rsa_key(**given)),
    "create_ec": lambda client, **given: key(client.create_ec_key(**given)),
    "create_oct": lambda client, **given: key(client.create_oct_key(**given)),
    "import": lambda client, jwk, **given: key(client.import_key(key=own_key(jwk), **given)),
    "get": lambda client, **given: key(client.get_key(**given)),
    "update": lambda client, **given: key(client.update_key_properties(**given)),
    "list": lambda client: [one.id for one in client.list_properties_of_keys()],
    "versions": lambda client, **given: [one.id for one in client.list_properties_of_key_versions(**given)],
    "rotate": lambda client, **given: key(client.rotate_key(**given)),
    "schedule": scheduled,
    "delete": lambda client, **given: client.begin_delete_key(**given).result().id,
    "release": lambda client, **given: client.release_key(**given).value,
}


async def released(settings: Document, options: Document, given: Document) -> Any:  # noqa: ANN401  text
    async with AsyncKeyClient(settings["vault"], GivenAsync(settings["token"]), **options) as client:
        return (await client.release_key(**given)).value


def outcome(work: Callable[[], Any]) -> Document:
    try:
        return {"value": work()}
    except HttpResponseError as exc:
        return {"error": type(exc).__name__, "status": exc.status_code, "text": str(exc)}


def credential_of(settings: Document) -> Any:  # noqa: ANN401  a credential of the library, or ours
    if "secret" not in settings:
        return Given(settings["token"])
    return ClientSecretCredential(
        settings["tenant"],
        "workload-1",
        settings["secret"],
        authority=settings["login"],
        disable_instance_discovery=True,
        connection_verify=settings["ca"],
    )


def main() -> None:
    settings = json.load(sys.stdin)
    options = {"connection_verify": settings["ca"], "retry_total": settings.get("retries", 1)}
    options |= settings.get("options", {})
    credential = credential_of(settings)
    client = KeyClient(settings["vault"], credential, **options)
    results = []
    for name, given in settings["operations"]:
        if "policy" in given:
            given["release_policy"] = KeyReleasePolicy(given.pop("policy").encode())
        if "policy_text" in given:  # not what its type says, and what programs do
            given["release_policy"] = KeyReleasePolicy(given.pop("policy_text"))
        if name == "release_async":
            results.append(outcome(partial(asyncio.run, released(settings, options, given))))
        else:
            results.append(outcome(partial(OPERATIONS[name], client, **given)))
    json.dump({"results": results, "asked": getattr(credential, "asked", [])}, sys.stdout)


if __name__ == "__main__":
    main()
