"""Opening of the protocol's face from its file."""

from __future__ import annotations

import secrets
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from kms.api.context import Context
from kms.api.limits import ForeignFace
from kms.api.skr.app import PATH, SkrApp, SkrServices
from kms.api.skr.authorities import Authorities
from kms.api.skr.callers import Callers
from kms.api.skr.errors import code_of, refusal_response
from kms.api.skr.keys import VaultKeys
from kms.api.skr.releases import VaultReleases
from kms.api.skr.rotation import VaultRotation
from kms.config.skr import read_skr_settings
from kms.config.skr_signer import open_signer
from kms.domain.wires import Wire
from kms.release.foreign import ForeignReleases

HEADER_BYTES: Final = 32 * 1024
"""Total size of the headers of a request: callers send a token with every one."""


def _refuse(status: HTTPStatus, text: str, headers: dict[str, str]) -> ASGIApp:
    inner = text.rpartition("[")[2].removesuffix("]")
    return refusal_response(status, code_of(status), text, inner=inner, headers=headers)


def skr_face(path: Path) -> ForeignFace:
    """Return the protocol as the file at this path states it."""
    return ForeignFace(
        path=PATH, open=partial(open_skr, path=path), groups={}, header_bytes=HEADER_BYTES, refuse=_refuse
    )


def open_skr(context: Context, path: Path) -> SkrApp:
    """Create the application of the protocol.

    Raises:
        ConfigurationError: as ``read_skr_settings`` and ``open_signer``.
    """
    settings, services = read_skr_settings(path, maa_file=context.settings.maa_file), context.services
    signers = {one.host: open_signer(one, at=services.clock()) for one in settings.vaults}
    delay = timedelta(seconds=context.settings.destroy_delay_seconds)
    keys = VaultKeys(services, settings, random=secrets.token_bytes, destroy_after=delay)
    authorities = Authorities(settings.authorities, clock=services.clock)
    authorities.start()
    releases = ForeignReleases(services, context.releases, via=Wire.SKR)
    found = SkrServices(
        keys=keys,
        rotation=VaultRotation(services, keys, random=secrets.token_bytes),
        releases=VaultReleases(releases, keys, authorities, settings, signers, random=secrets.token_bytes),
        callers=Callers(settings.callers),
        settings=settings,
    )
    return SkrApp(found, context)
