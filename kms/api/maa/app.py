"""The endpoints: ``/attest/TEE``, ``/certs`` and ``/.well-known/openid-configuration``.

Every refusal is JSON of one shape, also for a path or a method that does not exist.

Spec: specs/azure-skr.md, section 11.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from attest.encoding import JsonValue
from attest.errors import AttestError
from kms.api.body import read_body
from kms.api.context import Context
from kms.api.maa.attestation import Attestation
from kms.api.maa.errors import MaaRefusal, refusal_of
from kms.api.maa.messages import TEES, Tee, require_version
from kms.api.maa.signing import CERTIFICATES, TokenSigner

PATH: Final = "/attest/"
DISCOVERY: Final = "/.well-known/openid-configuration"
MAX_BODY_BYTES: Final = 512 * 1024
_AZURE_GUEST: Final = "azureguest"
_log = logging.getLogger("kms")


class MaaApp:
    """The ASGI application of the protocol."""

    def __init__(self, attestation: Attestation, signer: TokenSigner, context: Context) -> None:
        self._attestation = attestation
        self._context = context
        self._documents: Mapping[str, Mapping[str, JsonValue]] = {
            CERTIFICATES: signer.key_set(),
            DISCOVERY: signer.configuration(),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response = await self._answered(Request(scope, receive))
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        try:
            document = self._documents.get(request.scope["path"])
            if document is not None:
                _require_method(request, "GET", "HEAD")
                return _json(document)
            tee = _tee_of(request.scope["path"])
            _require_method(request, "POST")
            require_version(request.query_params)
            seconds = self._context.settings.request_seconds
            body = await read_body(request, limit=MAX_BODY_BYTES, seconds=seconds)
            token = await self._context.run(partial(self._attestation.attest, body, tee))
            return _json({"token": token})
        except MaaRefusal as exc:
            return exc.response()
        except AttestError as exc:
            return refusal_of(exc).response()
        except Exception as exc:  # noqa: BLE001  a bug is a refusal in the protocol's form; the log has the cause
            _log.error("internal error in %s %s", request.method, request.url.path, exc_info=exc)
            text = "the service failed; nothing was attested"
            return MaaRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, text, "internal-error").response()


def _tee_of(path: str) -> Tee:
    """Return the TEE of an address, whatever its case.

    Raises:
        MaaRefusal: there is none.
    """
    name = path.removeprefix(PATH)
    for tee in TEES:
        if name.lower() == tee:
            return tee
    if name.lower() == _AZURE_GUEST:
        text = "AzureGuest: the form of these requests is not published; send the report to SevSnpVm or TdxVm"
        raise MaaRefusal(HTTPStatus.BAD_REQUEST, text, "maa-azure-guest-unsupported")
    raise MaaRefusal(HTTPStatus.NOT_FOUND, f"there is no {path[:200]!r} here", "route-unknown")


def _require_method(request: Request, *methods: str) -> None:
    if request.method not in methods:
        text = f"{request.method[:40]} is not a method of this address"
        raise MaaRefusal(HTTPStatus.METHOD_NOT_ALLOWED, text, "method-not-allowed")


def _json(document: Mapping[str, object]) -> Response:
    return Response(json.dumps(document, separators=(",", ":")), media_type="application/json")
