"""Web application, created from settings and services; an import has no side effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from attest.rate_limits import Rate, RateTable
from kms.api import challenges, health, identity, log, prompt_keys, releases
from kms.api.context import Context
from kms.api.limits import ForeignFace, RequestLimits
from kms.api.observation import Observing, Watching
from kms.api.problems import add_problem_handlers
from kms.api.schema import application_of, document_of
from kms.auth.authentication import Authenticator
from kms.config.configuration import Configuration
from kms.config.settings import Settings
from kms.config.tls import ServerTls
from kms.controls.pace import GuestPace
from kms.release.service import ReleaseService
from kms.release.services import Services
from kms.running.fsck_verdict import FsckVerdict
from kms.running.self_evidence import EvidenceSource, open_attestation

_DESCRIPTION = """Releases keys to workloads that prove their identity by attestation.

Request a challenge. Collect evidence whose binding commits to the nonce, to the verifier key of this service and to
your own public key. Send the evidence with the ids of the keys that you need. The response contains the keys, sealed to
your public key, and a signed receipt."""


def describe() -> FastAPI:
    """Create the application without services, for its OpenAPI document."""
    modules = (challenges, releases, prompt_keys, identity, log, health)
    app = application_of("Key-release service", _DESCRIPTION, [module.router for module in modules])
    app.openapi = lambda: document_of(app)  # type: ignore[method-assign]  # the way FastAPI documents
    return app


def create_app(
    settings: Settings,
    services: Services,
    *,
    tls: ServerTls | None = None,
    evidence: EvidenceSource | None = None,
    watching: Watching | None = None,
    draining: Callable[[], bool] = lambda: False,
    callers: Authenticator | None = None,
    meaning: Callable[[], Configuration] | None = None,
    fsck: Callable[[], FsckVerdict | None] = lambda: None,
) -> FastAPI:
    """Create the application; the caller opens and closes the services.

    The service's own evidence commits to ``tls`` and to the configuration that ``meaning`` returns, or by default to
    the one of this call. ``callers`` is required if, and only if, the settings require identified callers.

    Raises:
        ValueError: the settings and ``callers`` disagree.
    """
    if (settings.callers == "identified") is not (callers is not None):
        raise ValueError("callers must be given if, and only if, the settings require identified callers")
    app = describe()
    add_problem_handlers(app, simulated=settings.allow_simulated)
    faces = foreign_faces(settings)
    equip(app, settings, watching=watching or Watching(), faces=faces)
    per_second = settings.identity_requests_per_second
    per_minute = settings.chip_releases_per_minute
    app.state.context = Context(
        settings=settings,
        services=services,
        releases=ReleaseService(services, pace=GuestPace(per_minute) if per_minute else None),
        rates=RateTable(Rate(per_second=per_second, burst=settings.identity_burst)) if per_second else None,
        limiter=CapacityLimiter(settings.max_concurrent),
        attestation=open_attestation(settings, services, tls=tls, evidence=evidence, meaning=meaning),
        draining=draining,
        callers=callers,
        fsck=fsck,
    )
    for face in faces:
        app.router.routes.append(_FaceRoute(face, face.open(app.state.context)))
    return app


class _FaceRoute(BaseRoute):
    """Every path of a foreign protocol, whatever its characters: a mount does not match a path with a line break."""

    def __init__(self, face: ForeignFace, served: ASGIApp) -> None:
        self._face = face
        self._served = served

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match by the path alone."""
        found = scope["type"] == "http" and self._face.serves(scope["path"])
        return (Match.FULL if found else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: object) -> NoReturn:
        """Refuse: these paths have no names."""
        raise NoMatchFound(name, dict(path_params))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        await self._served(scope, receive, send)


def foreign_faces(settings: Settings) -> tuple[ForeignFace, ...]:
    """Return the foreign protocols that the settings turn on. Their code is imported only then."""
    faces: list[ForeignFace] = []
    if settings.kbs_file is not None:
        from kms.api.kbs.opening import kbs_face  # noqa: PLC0415

        faces.append(kbs_face(settings.kbs_file))
    if settings.maa_file is not None:
        from kms.api.maa.opening import maa_face  # noqa: PLC0415

        faces.append(maa_face(settings.maa_file))
    if settings.skr_file is not None:
        from kms.api.skr.opening import skr_face  # noqa: PLC0415

        faces.append(skr_face(settings.skr_file))
    return tuple(faces)


def equip(app: FastAPI, settings: Settings, *, watching: Watching, faces: tuple[ForeignFace, ...] = ()) -> None:
    """Add the middleware of every application of this service: limits, headers, request ids and observers."""
    app.add_middleware(RequestLimits, settings=settings, limited=watching.limited, faces=faces)
    app.add_middleware(Observing, watching=watching)  # the outermost
