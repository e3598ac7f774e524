"""OpenAPI document: the part that FastAPI finds, and the bodies, which a stricter reader reads."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from attest import __version__
from kms.api.models import EmptyModel, ProblemModel, ReleaseRequestModel
from kms.api.problems import PROBLEM_MEDIA_TYPE

_OF_LIMITS = (414, 429, 431, 503)
_TEMPLATE = "#/components/schemas/{model}"
_READ_BY_HAND = (EmptyModel, ReleaseRequestModel)


def request_body(model: type[BaseModel]) -> dict[str, Any]:  # Any: a piece of an OpenAPI document
    """Describe a JSON body that the handler reads."""
    schema = {"$ref": _TEMPLATE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def application_of(title: str, description: str, routers: Iterable[APIRouter]) -> FastAPI:
    """Create an application without services; no route serves its schema."""
    app = FastAPI(
        title=title,
        version=__version__,
        description=description,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    for router in routers:
        app.include_router(router)
    return app


def _operation_id(route: APIRoute) -> str:
    """Return the default id of an operation: the name of its handler in camel case."""
    first, *others = route.endpoint.__name__.split("_")
    return first + "".join(map(str.capitalize, others))


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:  # Any: as above
    """Describe responses with problem details, including those of the limits that apply before routing."""
    schema = {"$ref": _TEMPLATE.format(model=ProblemModel.__name__)}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*statuses, *_OF_LIMITS})
    }


def document_of(
    app: FastAPI, *, also: tuple[type[BaseModel], ...] = _READ_BY_HAND, security: dict[str, Any] | None = None
) -> dict[str, Any]:  # Any: as above
    """Return the OpenAPI document of an application.

    ``also`` are models of bodies that handlers read; ``security`` are the schemes of which every request needs one.
    """
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    models: tuple[type[BaseModel], ...] = (*also, ProblemModel)
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_TEMPLATE)
    document.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
    if security is not None:
        document["components"]["securitySchemes"] = security
        document["security"] = [{name: []} for name in security]
    return document
