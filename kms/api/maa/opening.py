"""Opening of the face from its file."""

from __future__ import annotations

import secrets
from functools import partial
from http import HTTPStatus
from pathlib import Path

from starlette.types import ASGIApp

from kms.api.context import Context
from kms.api.limits import HEADER_BYTES, ForeignFace
from kms.api.maa.app import DISCOVERY, PATH, MaaApp
from kms.api.maa.attestation import Attestation
from kms.api.maa.errors import refusal_response
from kms.api.maa.signing import CERTIFICATES, TokenSigner
from kms.config.maa import read_maa_settings
from kms.release.attestations import Attestations


def _refuse(status: HTTPStatus, text: str, headers: dict[str, str]) -> ASGIApp:
    """Return a refusal before routing, whose text ends with the code in brackets."""
    message, _, code = text.removesuffix("]").rpartition(" [")
    return refusal_response(status, message, code=code, headers=headers)


def maa_face(path: Path) -> ForeignFace:
    """Return the protocol as the file at this path states it."""
    return ForeignFace(
        path=PATH,
        files=(CERTIFICATES, DISCOVERY),
        open=partial(open_maa, path=path),
        groups={CERTIFICATES: "other", DISCOVERY: "other"},
        header_bytes=HEADER_BYTES,
        refuse=_refuse,
    )


def open_maa(context: Context, path: Path) -> MaaApp:
    """Create the application of the protocol.

    Raises:
        ConfigurationError: as ``read_maa_settings``.
    """
    settings, services = read_maa_settings(path), context.services
    signer = TokenSigner(settings, random=secrets.token_bytes)
    port = Attestations(services, context.releases)
    return MaaApp(Attestation(port, settings, signer, clock=services.clock), signer, context)
