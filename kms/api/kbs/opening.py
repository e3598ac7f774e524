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
from kms.api.kbs.administrators import Administrators
from kms.api.kbs.app import KbsApp, KbsServices
from kms.api.kbs.errors import refusal_response
from kms.api.kbs.handshake import Handshake
from kms.api.kbs.policies import Policies
from kms.api.kbs.resources import Resources
from kms.api.kbs.sessions import PATH
from kms.api.kbs.tokens import TokenIssuer
from kms.api.kbs.uploads import Uploads
from kms.api.limits import ForeignFace, Group
from kms.config.kbs import read_kbs_settings
from kms.domain.wires import Wire
from kms.keys.token_key import open_token_key
from kms.release.foreign import ForeignReleases

HEADER_BYTES: Final = 128 * 1024
"""Total size of the headers of a request: a guest sends its token with every one."""


def _refuse(status: HTTPStatus, text: str, headers: dict[str, str]) -> ASGIApp:
    return refusal_response(status, "HTTPFailed", text, headers=headers)


def kbs_face(path: Path) -> ForeignFace:
    """Return the protocol as the file at this path states it."""
    groups: dict[str, Group] = {f"{PATH}/auth": "challenges"}
    return ForeignFace(
        path=PATH, open=partial(open_kbs, path=path), groups=groups, header_bytes=HEADER_BYTES, refuse=_refuse
    )


def open_kbs(context: Context, path: Path) -> KbsApp:
    """Create the application of the protocol.

    Raises:
        ConfigurationError: as ``read_kbs_settings``.
        IntegrityError: the key that signs tokens cannot be unwrapped.
        UnavailableError: the database is in use.
    """
    settings, services = read_kbs_settings(path), context.services
    identity = services.identity.public
    key = open_token_key(
        services.store, services.kek, service=identity, random=secrets.token_bytes, at=services.clock()
    )
    tokens = TokenIssuer(key, issuer=identity.text, lifetime_seconds=settings.token_seconds)
    delay = timedelta(seconds=context.settings.destroy_delay_seconds)
    releases, store, clock = ForeignReleases(services, context.releases, via=Wire.KBS), services.store, services.clock
    found = KbsServices(
        handshake=Handshake(releases, tokens, store, clock=clock, older_clients=settings.older_clients),
        tokens=tokens,
        resources=Resources(releases, store, clock=clock, random=secrets.token_bytes),
        uploads=Uploads(services, settings, random=secrets.token_bytes, destroy_after=delay),
        policies=Policies(services),
        administrators=Administrators(settings),
    )
    return KbsApp(found, context)
