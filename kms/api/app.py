"""The web application, made from settings and services; importing this makes nothing."""

from __future__ import annotations

from collections.abc import Callable

from anyio import CapacityLimiter
from fastapi import FastAPI

from attest import __version__
from kms.api import attestation, challenges, health, identity, log, prompt_keys, releases
from kms.api.context import Context
from kms.api.headers import AnswerHeaders
from kms.api.limits import RequestLimits
from kms.api.observation import Observing, Watching
from kms.api.problems import add_problem_handlers
from kms.api.schema import document_of
from kms.auth.authentication import Authenticator
from kms.config.configuration import Configuration
from kms.config.settings import Settings
from kms.config.tls import ServerTls
from kms.release.service import ReleaseService
from kms.release.services import Services
from kms.running.self_evidence import EvidenceSource
from kms.running.self_evidence.opening import open_attestation

_DESCRIPTION = """Releases keys to workloads that prove themselves by attestation.

Ask for a challenge, collect evidence whose binding commits to its nonce, to this service's verifier key and to a key
of your own, and send it back with the ids of the keys you need. Keys come back sealed to your key, with a signed
receipt."""


def describe() -> FastAPI:
    """Make the application without anything behind it, for its OpenAPI document."""
    app = FastAPI(
        title="Key-release service",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    for module in (challenges, releases, prompt_keys, identity, attestation, log, health):
        app.include_router(module.router)
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
) -> FastAPI:
    """Make the application.

    Args:
        settings: limits and what is shown.
        services: everything that is behind it; the caller opened them and closes them.
        tls: what connections to it begin with, which the service's own evidence commits to.
        evidence: proves the machine that it runs on; None for a machine that proves nothing.
        watching: who is told of requests; None tells nobody.
        draining: whether the process is about to end.
        callers: tells who asks for keys, where the settings want to know; None where anybody may.
        meaning: what the settings mean as of now, for the service's own evidence; None fixes what they mean when this
            is called.

    Raises:
        ValueError: the settings want to know, and there is nothing that tells.
    """
    if (settings.callers == "identified") is not (callers is not None):
        msg = "the settings say whether callers are identified, and what identifies them has to be there"
        raise ValueError(msg)
    app = describe()
    add_problem_handlers(app, simulated=settings.allow_simulated)
    equip(app, settings, watching=watching or Watching())
    app.state.context = Context(
        settings=settings,
        services=services,
        releases=ReleaseService(services),
        limiter=CapacityLimiter(settings.max_concurrent),
        attestation=open_attestation(settings, services, tls=tls, evidence=evidence, meaning=meaning),
        draining=draining,
        callers=callers,
    )
    return app


def equip(app: FastAPI, settings: Settings, *, watching: Watching) -> None:
    """Put around an application what every one of this service has: limits, headers, ids, and who is told.

    Args:
        app: without any of it.
        settings: how much a caller may ask.
        watching: who is told.
    """
    app.add_middleware(RequestLimits, settings=settings, limited=watching.limited)
    app.add_middleware(AnswerHeaders)
    app.add_middleware(Observing, watching=watching)  # the outermost
