"""Web application, created from settings and services; an import has no side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyio import CapacityLimiter
from fastapi import FastAPI
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
    faces = foreign_faces(settings)
    app.add_middleware(_Faces, served=[(face, face.open(app.state.context)) for face in faces])
    equip(app, settings, watching=watching or Watching(), faces=faces)
    return app


class _Faces:
    """The foreign protocols beside the application: every path of one, whatever its characters.

    They have their own refusals, so the application's routing and handlers of errors have nothing to do for them.
    """

    def __init__(self, app: ASGIApp, *, served: Iterable[tuple[ForeignFace, ASGIApp]]) -> None:
        self._app = app
        self._served = tuple(served)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the protocol of its path, or to the application."""
        if scope["type"] == "http":
            for face, served in self._served:
                if face.serves(scope["path"]):
                    scope["route"] = face  # whose path is the one in metrics
                    await served(scope, receive, send)
                    return
        await self._app(scope, receive, send)


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
