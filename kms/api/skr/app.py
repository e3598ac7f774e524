"""The protocol's endpoints below ``/keys``: one dispatcher, since clients spell one path in four ways.

Every refusal is JSON of one shape, also for a path or a method that does not exist.

Spec: specs/azure-skr.md, sections 4, 5 and 13.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from attest.clock import ticks
from attest.encoding import JsonValue
from attest.errors import AttestError
from kms.api.body import read_body
from kms.api.context import Context
from kms.api.skr.bundles import list_of
from kms.api.skr.callers import Caller, Callers
from kms.api.skr.errors import SkrRefusal, bad_parameter, no_key, refusal_of
from kms.api.skr.identifiers import is_version
from kms.api.skr.keys import VaultKeys
from kms.api.skr.releases import ReleaseTarget, VaultReleases
from kms.api.skr.rotation import VaultRotation
from kms.config.skr import SkrSettings, Vault
from kms.controls.pace import require_pace
from kms.domain.aliases import is_vault_name
from kms.domain.errors import BodyTooLargeError, RequestError

PATH: Final = "/keys"
MAX_BODY_BYTES: Final = 256 * 1024
API_VERSIONS: Final = ("7.3", "7.4", "7.5", "7.6", "2025-07-01")
_JSON: Final = "application/json"
_log = logging.getLogger("kms")
Document: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrServices:
    """Services behind the endpoints."""

    keys: VaultKeys
    rotation: VaultRotation
    releases: VaultReleases
    callers: Callers
    settings: SkrSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request.

    Attributes:
        name: of the key; empty for the list of all.
        version: as it was asked for, or None.
    """

    vault: Vault
    caller: Caller
    name: str
    version: str | None
    api_version: str
    body: bytes

    @property
    def target(self) -> tuple[Vault, str, str | None]:
        """The vault, and the key with its version."""
        return self.vault, self.name, self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    """An endpoint, and the permission that it takes."""

    action: str
    answer: Callable[[_Asked], Document]


class SkrApp:
    """The ASGI application of the protocol, mounted at its path."""

    def __init__(self, services: SkrServices, context: Context) -> None:
        self._services = services
        self._context = context
        self._vaults = {one.host: one for one in services.settings.vaults}
        self._of_list: Mapping[str, _Route] = {"GET": _Route(action="list", answer=self._list)}
        self._of_key: Mapping[str, _Route] = {
            "GET": _Route(action="get", answer=self._get),
            "PUT": _Route(action="import", answer=self._import),
            "PATCH": _Route(action="update", answer=self._update),
            "DELETE": _Route(action="delete", answer=self._delete),
        }
        self._of_version: Mapping[str, _Route] = {name: self._of_key[name] for name in ("GET", "PATCH")}
        self._of_verb: Mapping[str, Mapping[str, _Route]] = {
            "create": {"POST": _Route(action="create", answer=self._create)},
            "rotate": {"POST": _Route(action="rotate", answer=self._rotate)},
            "release": {"POST": _Route(action="release", answer=self._release)},
            "rotationpolicy": {
                "GET": _Route(action="get", answer=self._rotation_policy),
                "PUT": _Route(action="rotate", answer=self._set_rotation_policy),
            },
            "versions": {"GET": _Route(action="list", answer=self._versions)},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        response = await self._answered(request)
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        try:
            # The challenge comes before anything else: a client's first request has neither a token nor its body.
            vault = self._vault(request)
            caller = await self._caller(request, vault)
            name, version, verb = _segments(request)
            api_version = _api_version(request)
            route = self._route(request.method, name, version, verb)
            caller.require(route.action)
            seconds = self._context.settings.request_seconds
            body = await read_body(request, limit=MAX_BODY_BYTES, seconds=seconds)
            asked = _Asked(
                vault=vault,
                caller=caller,
                name=name,
                version=version,
                api_version=api_version,
                body=body,
            )
            return _json(await self._context.run(partial(route.answer, asked)))
        except SkrRefusal as exc:
            if exc.status is HTTPStatus.FORBIDDEN:
                _log.info("a request to a vault was refused: %s", exc.inner)
            return exc.response()
        except BodyTooLargeError as exc:
            return SkrRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "BadParameter", exc.message, exc.code).response()
        except RequestError as exc:
            return bad_parameter(exc.message, exc.code).response()
        except AttestError as exc:
            return refusal_of(exc).response()
        except Exception as exc:  # noqa: BLE001  a bug is a refusal in the protocol's form; the log has the cause
            _log.error("internal error in %s %s", request.method, request.url.path, exc_info=exc)
            text = "the service failed; nothing was released"
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            return SkrRefusal(status, "InternalServerError", text, "internal-error").response()

    def _vault(self, request: Request) -> Vault:
        host = request.headers.get("host", "").lower().removesuffix(":443")
        found = self._vaults.get(host)
        if found is None:
            text = f"no vault is served at {host[:80]!r}"
            raise SkrRefusal(HTTPStatus.NOT_FOUND, "NotFound", text, "skr-vault-unknown")
        return found

    async def _caller(self, request: Request, vault: Vault) -> Caller:
        context, callers = self._context, self._services.callers
        token = callers.token(request.headers.getlist("authorization"), vault)
        # Signatures are checked outside of the event loop, in as many threads as the settings allow.
        caller = await context.run(partial(callers.identify, token, vault, at=context.services.clock()))
        if context.rates is not None:
            name = f"{caller.actor.means}:{caller.actor.name}"
            require_pace(context.rates, name, what="this identity", at=ticks())
        return caller

    def _route(self, method: str, name: str, version: str | None, verb: str | None) -> _Route:
        if not name:
            routes = self._of_list
        elif verb is not None:
            routes = self._of_verb[verb]
        else:
            routes = self._of_key if version is None else self._of_version
        route = routes.get(method)
        if route is None:
            text = f"{method} is not a method of this address"
            headers = {"Allow": ", ".join(routes)}
            code = "method-not-allowed"
            raise SkrRefusal(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", text, code, headers)
        return route

    def _list(self, asked: _Asked) -> Document:
        return list_of(self._services.keys.keys(asked.vault))

    def _versions(self, asked: _Asked) -> Document:
        return list_of(self._services.keys.versions(asked.vault, asked.name))

    def _get(self, asked: _Asked) -> Document:
        return self._services.keys.show(*asked.target).bundle()

    def _create(self, asked: _Asked) -> Document:
        return self._services.keys.create(asked.vault, asked.name, asked.body, actor=asked.caller.actor).bundle()

    def _import(self, asked: _Asked) -> Document:
        return self._services.keys.import_key(asked.vault, asked.name, asked.body, actor=asked.caller.actor).bundle()

    def _update(self, asked: _Asked) -> Document:
        return self._services.keys.update(*asked.target, asked.body, actor=asked.caller.actor).bundle()

    def _rotate(self, asked: _Asked) -> Document:
        return self._services.rotation.rotate(asked.vault, asked.name, actor=asked.caller.actor).bundle()

    def _rotation_policy(self, asked: _Asked) -> Document:
        return self._services.rotation.policy(asked.vault, asked.name)

    def _set_rotation_policy(self, asked: _Asked) -> Document:
        return self._services.rotation.set_policy(asked.vault, asked.name, asked.body, actor=asked.caller.actor)

    def _delete(self, asked: _Asked) -> Document:
        return self._services.keys.delete(asked.vault, asked.name, actor=asked.caller.actor).bundle()

    def _release(self, asked: _Asked) -> Document:
        target = ReleaseTarget(
            vault=asked.vault,
            name=asked.name,
            version=asked.version,
            api_version=asked.api_version,
            actor=asked.caller.actor,
        )
        at = self._context.services.clock()
        return self._services.releases.release(target, asked.body, at=at)


_VERBS: Final = frozenset({"create", "rotate", "rotationpolicy", "release", "versions"})


def _segments(request: Request) -> tuple[str, str | None, str | None]:
    """Return the name, the version and the verb of an address.

    Empty segments count for nothing: clients leave one where they have no version, or none. Nothing is decoded.
    """
    raw = (request.scope.get("raw_path") or b"").decode("ascii", errors="replace")
    _, *rest = [one for one in raw.split("/") if one] or [""]
    verb = rest.pop() if len(rest) > 1 and rest[-1] in _VERBS else None
    name, version = (*rest, "", "")[:2]
    if len(rest) > 2 or (version and verb not in {None, "release"}):
        raise SkrRefusal(HTTPStatus.NOT_FOUND, "NotFound", "there is nothing at this address", "route-unknown")
    if name and not is_vault_name(name):
        raise bad_parameter("the name of a key has 1 to 127 letters, digits and '-'", "skr-name-invalid")
    if version and not is_version(version):
        raise no_key(f"{name}/{version}")
    return name, version or None, verb


def _api_version(request: Request) -> str:
    """Return the version of the protocol; some clients percent-encode the parameter's name."""
    found = request.query_params.get("api-version", "")
    if found not in API_VERSIONS:
        text = f"api-version: expected one of {', '.join(API_VERSIONS)}"
        raise bad_parameter(text, "skr-api-version-unsupported")
    return found


def _json(document: Document) -> Response:
    return Response(json.dumps(document, separators=(",", ":")), media_type=_JSON)
