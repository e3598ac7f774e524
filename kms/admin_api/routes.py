"""Declaration of routes: execution of handlers, their bodies, and the refusals of each kind of request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Generic, ParamSpec, TypeVar

from fastapi import Request
from fastapi.params import Depends
from fastapi.routing import APIRoute
from pydantic import BaseModel

from kms.admin_api.context import MAX_BODY_BYTES, MAX_VALUES, WithCaller
from kms.api.body import read_json
from kms.api.schema import refusals, request_body

Model = TypeVar("Model", bound=BaseModel)
P = ParamSpec("P")
T = TypeVar("T")


class BodyReader(Generic[Model]):
    """Reader of the body of a request, strict JSON in the shape of a model, after the caller is identified."""

    def __init__(self, model: type[Model]) -> None:
        """Create a reader; the body is read later."""
        self.model = model

    async def __call__(self, request: Request, caller: WithCaller) -> Model:
        """Read a body.

        Raises:
            RequestError: as ``read_json``.
        """
        seconds = caller.settings.request_seconds
        found, _ = await read_json(request, self.model, limit=MAX_BODY_BYTES, seconds=seconds, values=MAX_VALUES)
        return found


def body(model: type[Model]) -> Depends:
    """Return a dependency that passes the body of the request to a handler."""
    return Depends(BodyReader(model))


class AdminRoute(APIRoute):
    """Route with a blocking handler; the OpenAPI document describes its body."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  as FastAPI's own
        """Wrap the handler to run in a thread, and describe its body."""
        # FastAPI may create a route again from its parts.
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _in_thread(endpoint), **options)
        if self.body_model is not None:
            self.openapi_extra = request_body(self.body_model)

    @property
    def body_model(self) -> type[BaseModel] | None:
        """The model of the body; None without a body."""
        readers = (one.call for one in self.dependant.dependencies)
        return next((one.model for one in readers if isinstance(one, BodyReader)), None)


def _in_thread(handler: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Run a handler, which takes a ``caller``, in a thread, within the limits of concurrency and time."""

    @wraps(handler)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        caller: Any = kwargs["caller"]  # Any: a Caller, by the handler's own signature
        done: T = await caller.context.room.run(partial(handler, *args, **kwargs))
        return done

    return run


def reads(*more: int) -> dict[int | str, dict[str, Any]]:  # Any: a piece of an OpenAPI document
    """Describe the refusals of a read request."""
    return refusals(401, 403, 500, 503, *more)


def changes(*more: int) -> dict[int | str, dict[str, Any]]:  # Any: as above
    """Describe the refusals of a request that has a body."""
    return refusals(400, 401, 403, 413, 415, 422, 500, 503, *more)
