"""The API behind the channel. It never sees a request in the clear.

::

    GET    /v1/state
    POST   /v1/documents?name=…&id=… a file → events: progress …, stored | refused
    GET    /v1/documents
    DELETE /v1/documents             all of them
    DELETE /v1/documents/{id}
    POST   /v1/questions             {"question": …} → events: passage …, text …, answer | refused
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import threading
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from attest.clock import Clock
from attest.concurrency import ConcurrencyLimit
from attest.encoding import json_value
from attest.errors import AttestError, EvidenceError
from attest.rate_limits import Rate, RateTable
from rag_demo.enclave.errors import RefusedError
from rag_demo.enclave.interfaces import IndexedDocument
from rag_demo.enclave.service.concurrency import Threads, in_thread, take_turn, too_often
from rag_demo.enclave.service.events import Events, refused_event
from rag_demo.enclave.service.ingest import Ingest, Upload, sending_to
from rag_demo.enclave.service.lifecycle import Enclave, Life
from rag_demo.enclave.service.models import DocumentModel, DocumentsModel, QuestionModel, json_response
from rag_demo.enclave.service.question import answered
from rag_demo.enclave.service.refusals import defect, invalid, problem
from rag_demo.enclave.service.settings import ServiceLimits
from rag_demo.enclave.service.users import collection_of

MAX_NAME: Final = 255
MAX_QUESTION_BODY: Final = 64 * 1024
_ID: Final = re.compile(r"[0-9a-f]{32}")
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}")
_UNKNOWN_TYPE: Final = "application/octet-stream"
_LOGGED = logging.getLogger("rag.enclave")
_T = TypeVar("_T")
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The parts that the routes use."""

    enclave: Enclave
    state: Callable[[], BaseModel]
    limits: ServiceLimits
    threads: Threads
    clock: Clock
    ticks: Callable[[], float]


def create_app(inside: Inside) -> Starlette:
    """Make the application."""
    api = _Api(inside)
    routes = (
        ("/v1/state", {"GET": api.state}),
        ("/v1/documents", {"GET": api.documents, "POST": api.upload, "DELETE": api.delete_all}),
        ("/v1/documents/{id}", {"DELETE": api.delete}),
        ("/v1/questions", {"POST": api.ask}),
    )
    app = Starlette(
        routes=[
            Route(path, _guarded(handler), methods=[method], name=f"{method} {path}")
            for path, methods in routes
            for method, handler in methods.items()
        ],
        exception_handlers={HTTPException: _no_route},
    )
    app.router.redirect_slashes = False  # one spelling for each path
    return app


def _guarded(handler: Handler) -> Handler:
    """Answer with documented refusals only, and log nothing of a request."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except AttestError as exc:
            return problem(exc)
        except Exception as exc:  # noqa: BLE001  a defect must not tell what it stumbled over
            _LOGGED.error("a request ended with an internal error", exc_info=exc)
            return problem(defect())

    return answer


async def _no_route(_request: Request, exc: Exception) -> Response:
    status = HTTPStatus(exc.status_code) if isinstance(exc, HTTPException) else HTTPStatus.NOT_FOUND
    code = "rag-method-not-allowed" if status is HTTPStatus.METHOD_NOT_ALLOWED else "rag-route-unknown"
    return problem(RefusedError("there is no such path and method", code=code, status=status))


class _Api:
    """The handlers: decode, hand on, encode."""

    def __init__(self, inside: Inside) -> None:
        limits = inside.limits
        self._inside = inside
        self._uploads = ConcurrencyLimit(total=limits.uploads, each=limits.uploads_per_user)
        self._questions = ConcurrencyLimit(total=limits.questions, each=limits.questions_per_user)
        self._calls = ConcurrencyLimit(total=limits.questions, each=limits.questions_per_user)
        self._rates = RateTable(Rate(per_second=limits.requests_per_minute / 60, burst=limits.request_burst))
        self._embedding = threading.Lock()

    # -- state

    async def state(self, request: Request) -> Response:
        """Return the service's state; no token is needed."""
        _require_query(request, set())
        return json_response(self._inside.state())

    # -- documents

    async def documents(self, request: Request) -> Response:
        """List a user's documents."""
        life, user = self._user(request)
        _require_query(request, set())
        found = await self._blocking(life, user, lambda: life.bench.store.documents(user))
        return json_response(DocumentsModel(documents=tuple(map(DocumentModel.of, found))))

    async def delete(self, request: Request) -> Response:
        """Delete a document."""
        life, user = self._user(request)
        _require_query(request, set())
        name = request.path_params["id"]
        # An invalid id names no document; it is neither looked up nor repeated.
        there = _ID.fullmatch(name) is not None and await self._blocking(
            life, user, lambda: life.bench.store.delete(user, name)
        )
        if not there:
            raise RefusedError(
                "there is no such document", code="rag-document-unknown", status=HTTPStatus.NOT_FOUND, field="id"
            )
        return Response(status_code=204, headers={"cache-control": "no-store"})

    async def delete_all(self, request: Request) -> Response:
        """Delete all of a user's documents."""
        life, user = self._user(request)
        _require_query(request, set())
        await self._blocking(life, user, lambda: life.bench.store.delete_all(user))
        return Response(status_code=204, headers={"cache-control": "no-store"})

    async def upload(self, request: Request) -> Response:
        """Take a document in, and report the progress."""
        life, user = self._user(request)
        query = _require_query(request, {"name"}, optional=frozenset({"id"}))
        upload_id = _upload_id(query.get("id"))
        document = IndexedDocument(
            id=secrets.token_hex(16),
            name=_name(query["name"]),
            media_type=_media_type(request),
            size=0,
            pages=0,
            passages=0,
            added=self._inside.clock(),
        )
        data = await self._body(request, self._inside.limits.document_bytes)
        if not data:
            raise invalid("the body", "a file", "nothing")
        upload = Upload(collection=user, document=replace(document, size=len(data)), data=data)
        if upload_id is not None:
            upload = upload.under(upload_id)
        return self._ingest(life, upload, take_turn(self._uploads, user, "uploads"))

    def _ingest(self, life: Life, upload: Upload, give_back: Callable[[], None]) -> Response:
        inside, loop = self._inside, asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        work = Ingest(
            upload=upload,
            life=life,
            limits=inside.limits,
            embedding=self._embedding,
            ticks=inside.ticks,
            send=sending_to(loop, queue),
        )
        running = loop.run_in_executor(inside.threads.uploads, work.run)
        # The turn ends with the thread, even if the user left before.
        running.add_done_callback(lambda _: give_back())

        async def events() -> AsyncGenerator[bytes, None]:
            try:
                while (one := await life.during(queue.get())) is not None:
                    yield one
            except RefusedError as exc:
                yield refused_event(exc)

        return Events(events(), ended=work.leave)

    # -- questions

    async def ask(self, request: Request) -> Response:
        """Answer a question out of a user's documents."""
        life, user = self._user(request)
        _require_query(request, set())
        question = _question(await self._body(request, MAX_QUESTION_BODY), self._inside.limits.question_characters)
        give_back, gone = take_turn(self._questions, user, "questions"), threading.Event()
        inside = self._inside

        async def events() -> AsyncGenerator[bytes, None]:
            try:
                async with asyncio.timeout(inside.limits.question_seconds):
                    source = answered(life, user, question, threads=inside.threads.questions, left=gone.is_set)
                    async for one in source:
                        yield one
            except TimeoutError:
                yield refused_event(_too_slow(inside.limits.question_seconds))
            except AttestError as exc:
                yield refused_event(exc)
            except Exception as exc:  # noqa: BLE001  as in _guarded
                _LOGGED.error("a question ended with an internal error", exc_info=exc)
                yield refused_event(defect())

        def ended() -> None:
            gone.set()
            give_back()

        return Events(events(), ended=ended)

    # -- what all of them do

    def _user(self, request: Request) -> tuple[Life, bytes]:
        """Return the life of the service and the request's user."""
        life = self._inside.enclave.require_ready()
        user = collection_of(request.headers.getlist("authorization"))
        wait = self._rates.wait_of(user.hex(), at=self._inside.ticks())
        if wait > 0:
            raise too_often(wait)
        return life, user

    async def _blocking(self, life: Life, user: bytes, work: Callable[[], _T]) -> _T:
        # Threads are few, and a deletion from a large collection takes half a second: no user may take all of them.
        give_back = take_turn(self._calls, user, "requests")
        try:
            return await life.during(in_thread(self._inside.threads.questions, work))
        finally:
            give_back()

    async def _body(self, request: Request, most: int) -> bytes:
        data = await request.body()
        if len(data) > most:
            raise RefusedError(
                f"the body has {len(data)} bytes, more than {most}",
                code="rag-body-too-large",
                status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                expected=f"at most {most} bytes",
                got=str(len(data)),
            )
        return data


# -- decoding


def _require_query(request: Request, names: set[str], optional: frozenset[str] = frozenset()) -> dict[str, str]:
    found = request.query_params.multi_items()
    given = {name for name, _ in found}
    if not names <= given <= names | optional or len(found) != len(given):
        raise invalid("the query", f"exactly {', '.join(sorted(names))}, once" if names else "none", "another one")
    return dict(found)


def _upload_id(text: str | None) -> bytes | None:
    if text is None:
        return None
    if not re.fullmatch("[0-9a-f]{32}", text):
        raise invalid("id", "16 bytes in hexadecimal digits, lower case", f"{len(text)} characters")
    return bytes.fromhex(text)


def _name(text: str) -> str:
    # Not repeated: the name is confidential, and a client may log problem details.
    text = text.translate(_SPACES).strip()
    if not 0 < len(text) <= MAX_NAME or not text.isprintable():
        raise invalid("name", f"1 to {MAX_NAME} printable characters", f"{len(text)} characters")
    if any(one in text for one in "/\\"):
        raise invalid("name", "the name of a file without a path", "a path")
    return text


def _media_type(request: Request) -> str:
    lines = request.headers.getlist("content-type")
    essence = lines[0].partition(";")[0].strip().lower() if len(lines) == 1 else _UNKNOWN_TYPE
    if len(lines) > 1 or not _MEDIA_TYPE.fullmatch(essence):
        raise RefusedError(
            "content-type: expected one media type",
            code="rag-media-type-invalid",
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            field="content-type",
            expected="one media type, such as application/pdf",
        )
    return essence


def _question(body: bytes, most: int) -> str:
    try:
        text = QuestionModel.model_validate(json_value(body, what="question")).question
    except (EvidenceError, ValidationError):
        raise invalid("the body", '{"question": TEXT}', "something else") from None  # their text would quote it
    text = text.translate(_SPACES | _BREAKS | _JOINERS).strip()
    if not 0 < len(text) <= most or not text.isprintable():
        raise invalid("question", f"1 to {most} printable characters", f"{len(text)} characters")
    return text


_SPACES: Final[dict[int, str | None]] = {code: " " for code in range(0x3001) if unicodedata.category(chr(code)) == "Zs"}
"""Spaces of every width, such as those that systems put into the names of files."""
_BREAKS: Final[dict[int, str | None]] = dict.fromkeys(map(ord, "\n\r\t\u2028\u2029"), " ")
_JOINERS: Final[dict[int, str | None]] = dict.fromkeys((0x200C, 0x200D))
"""They shape letters, and are no part of a word; the text of documents has none, either."""


def _too_slow(seconds: float) -> RefusedError:
    return RefusedError(
        f"no answer within {seconds:g} s",
        code="rag-question-too-slow",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        retry_seconds=5,
    )
