"""Reader of request bodies: strict JSON, within limits of size and time."""

from __future__ import annotations

from typing import Final, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from kms.domain.errors import BodyTooLargeError, MediaTypeError, RequestError, SchemaError

Model = TypeVar("Model", bound=BaseModel)
_JSON = "application/json"
MAX_VALUES: Final = 10_000
"""Maximum values of a request. Evidence is long strings: that of the largest machine has some hundred values."""
INLINE_BYTES: Final = 16 * 1024
"""Longer bodies are parsed in a thread."""


async def read_json(
    request: Request, model: type[Model], *, limit: int, seconds: float, values: int = MAX_VALUES
) -> tuple[Model, JsonValue]:
    """Read the body as strict JSON of a model's shape, and return it as model and as JSON.

    It has at most ``limit`` bytes, counted as they arrive, and at most ``values`` commas and opening brackets. It
    arrives within ``seconds``.

    Raises:
        BodyTooLargeError: ``body-too-large``.
        MediaTypeError: ``media-type-unsupported``.
        RequestError: ``request-malformed`` (not strict JSON), ``request-timeout`` or ``request-aborted``.
        SchemaError: ``request-schema``.
    """
    _require_json(request)
    content = await read_body(request, limit=limit, seconds=seconds)
    if len(content) <= INLINE_BYTES:
        return _parsed(content, model, values)
    # Longer ones take milliseconds, during which the event loop serves other requests.
    return await anyio.to_thread.run_sync(_parsed, content, model, values)


def _parsed(content: bytes, model: type[Model], values: int) -> tuple[Model, JsonValue]:
    try:
        document = json_value(content, what="request body", most=values)
    except EvidenceError as exc:
        raise RequestError(exc.message, code="request-malformed", field="body") from exc
    try:
        return model.model_validate(document), document
    except ValidationError as exc:
        raise _of_schema(exc) from exc


def _require_json(request: Request) -> None:
    header = request.headers.get("content-type", "")
    essence, _, parameters = header.partition(";")
    charset = parameters.replace('"', "").strip().lower()
    if essence.strip().lower() != _JSON or charset not in {"", "charset=utf-8"}:
        raise MediaTypeError(
            "the body must be JSON",
            code="media-type-unsupported",
            field="Content-Type",
            expected=_JSON,
            got=header[:100] or "none",
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise MediaTypeError("the body must not be compressed", code="media-type-unsupported", field="Content-Encoding")


async def read_body(request: Request, *, limit: int, seconds: float) -> bytes:
    """Read the body, whatever it is: at most ``limit`` bytes, counted as they arrive, within ``seconds``.

    Raises:
        BodyTooLargeError: ``body-too-large``.
        RequestError: ``request-timeout`` or ``request-aborted``.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    try:
        with anyio.fail_after(seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                pieces.append(piece)
    except TimeoutError as exc:
        raise RequestError(
            f"the body did not arrive within {seconds:.0f} s", code="request-timeout", field="body"
        ) from exc
    except ClientDisconnect as exc:
        raise RequestError("the caller closed the connection", code="request-aborted", field="body") from exc
    return b"".join(pieces)


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"the body has more than {limit} bytes", code="body-too-large", field="body", expected=f"at most {limit} bytes"
    )


def _of_schema(exc: ValidationError) -> SchemaError:
    """Return the error with the place of the difference, without the content that was sent."""
    first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])[:200]
    return SchemaError(
        f"{path or 'body'}: {first['msg']}", code="request-schema", field=path or "body", expected=first["msg"]
    )
