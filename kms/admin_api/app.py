"""Administration application, created from settings and services; an import has no side effects."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from anyio import CapacityLimiter
from fastapi import FastAPI
from pydantic import BaseModel

from attest.errors import AttestError, ConfigurationError
from kms.admin_api import (
    aliases,
    break_glass,
    changes,
    freezes,
    grants,
    key_life,
    keys,
    leases,
    log,
    policies,
    references,
    rules,
    settings,
    tenant_log,
    tenants,
    trials,
)
from kms.admin_api.context import AdminContext, AdminServices, OwnThread, of_running
from kms.admin_api.routes import AdminRoute
from kms.api.app import equip
from kms.api.context import Workroom
from kms.api.observation import Watching
from kms.api.problems import STATUS, add_problem_handlers, add_request_handlers
from kms.api.schema import application_of, document_of
from kms.auth.authentication import Authenticator, LocalAuthenticator
from kms.config.settings import Settings
from kms.domain.errors import (
    ForbiddenError,
    GrantConflictError,
    GrantUnknownError,
    KeyConflictError,
    PolicyUnknownError,
)
from kms.release.services import Services

ADMIN_STATUS: Final[tuple[tuple[type[AttestError], HTTPStatus], ...]] = (
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (GrantUnknownError, HTTPStatus.NOT_FOUND),
    (PolicyUnknownError, HTTPStatus.NOT_FOUND),
    (GrantConflictError, HTTPStatus.CONFLICT),
    (KeyConflictError, HTTPStatus.CONFLICT),
    # Faults of a request; those of the database are raised as ``UnavailableError``.
    (ConfigurationError, HTTPStatus.UNPROCESSABLE_ENTITY),
    *STATUS,
)
_DESCRIPTION = """Administers the key-release service: keys, policies, reference values, roles and the log.

Every request is authenticated by a bearer token of a configured issuer or by a client certificate. Administrators grant
the caller's identity roles, for one tenant or for all; the roles determine which operations are permitted."""
_ROOMS = (
    tenants,
    keys,
    key_life,
    aliases,
    policies,
    references,
    freezes,
    break_glass,
    leases,
    trials,
    changes,
    rules,
    log,
    tenant_log,
    grants,
    settings,
)
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "certificate": {"type": "mutualTLS"},
}


def describe_admin() -> FastAPI:
    """Create the application without services, for its OpenAPI document."""
    routers = [module.router for module in _ROOMS]
    app = application_of("Key-release service: administration", _DESCRIPTION, routers)
    app.openapi = lambda: document_of(app, also=_bodies(), security=_SCHEMES)  # type: ignore[method-assign]  # the way FastAPI documents
    return app


def _bodies() -> tuple[type[BaseModel], ...]:
    """Return the models of the bodies that handlers read themselves."""
    routes = (route for module in _ROOMS for route in module.router.routes)
    models = (route.body_model for route in routes if isinstance(route, AdminRoute))
    return tuple(dict.fromkeys(one for one in models if one is not None))


def create_admin_app(
    settings: Settings, services: Services, authenticator: Authenticator, *, watching: Watching | None = None
) -> FastAPI:
    """Create the application for a listener; the caller opens and closes the services."""
    app = describe_admin()
    room = Workroom(settings=settings, limiter=CapacityLimiter(settings.max_concurrent))
    app.state.context = AdminContext(room=room, services=of_running(services), authenticator=authenticator)
    add_problem_handlers(app, simulated=settings.allow_simulated, statuses=ADMIN_STATUS)
    equip(app, settings, watching=watching or Watching())
    return app


def create_local_app(settings: Settings, services: AdminServices) -> FastAPI:
    """Create the application for the command line, for the user of this machine; it has no socket.

    It has no limits on requests, and raises a refusal with its full context. The caller closes the services.
    """
    app = describe_admin()
    room = OwnThread(settings=settings)
    app.state.context = AdminContext(room=room, services=services, authenticator=LocalAuthenticator())
    add_request_handlers(app, simulated=settings.allow_simulated)
    return app
