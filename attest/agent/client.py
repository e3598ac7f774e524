"""Client of the agent's socket: keys and files for a program in the same pod.

::

    with AgentClient("/run/attest/agent.sock", uid=65532) as agent:
        key = agent.key("llama-70b")
        model = agent.model("llama")
        with open_file(model, "config.json") as file: …
        tensors = load_model(model)

The peer's credentials authenticate the agent: the kernel reports the user of the listening process, and ``uid`` is the
one to expect. A returned key is a copy that survives the loss of its lease; files are refused from then on.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final
from urllib.parse import quote

from attest.agent.peers import peer_of
from attest.context_managers import ClosedOnExit
from attest.encoding import JsonValue, json_value
from attest.errors import AgentRefusedError, AgentUnavailableError, AttestError, SealedSourceError, VerificationError

MAX_KEY_BYTES: Final = 64 * 1024
MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""Room for a list of 100 000 files with long names."""
PROBLEM: Final = "application/problem+json"
MAX_IDLE: Final = 8
"""Idle connections kept for the next request."""


class _Connection(HTTPConnection):
    """HTTP over a UNIX socket to a process that runs as one given user."""

    def __init__(self, path: str, *, uid: int, timeout: float) -> None:
        super().__init__("agent", timeout=timeout)
        self._path = path
        self._uid = uid
        self.used = False

    def connect(self) -> None:
        """Connect, and check the user of the listening process before sending anything."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._path)
            self._require(peer_of(sock).uid)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def _require(self, found: int) -> None:
        if found == self._uid:
            return
        raise VerificationError(
            f"the process that listens at {self._path} runs as user {found}, not as {self._uid}",
            code="agent-not-genuine",
            field="uid",
            expected=str(self._uid),
            got=str(found),
            hint="look at the owner of the socket: only the agent may be able to write to its directory",
        )


class AgentClient(ClosedOnExit):
    """Client of this pod's agent, on the standard library alone; thread-safe.

    ``uid`` is the user that the agent runs as; any other listener is refused. A request fails after ``timeout`` seconds
    without data.
    """

    def __init__(self, path: str | os.PathLike[str], *, uid: int, timeout: float = 60.0) -> None:
        self._path = os.fspath(path)
        self._uid = uid
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._closed = False

    def key(self, name: str, /) -> bytes:
        """Return a key: ``KEY`` or ``TENANT/KEY``, or either with ``@VERSION``, as the agent's rules name it.

        Raises:
            AgentRefusedError: the agent refuses; ``code`` is the reason.
            AgentUnavailableError: no answer, or an incomplete one.
            VerificationError: ``agent-not-genuine``: another user's process listens.
            ValueError: the client is closed.
        """
        with self._exchange(f"/v1/keys/{quote(name)}") as answer:
            return self._whole(answer, limit=MAX_KEY_BYTES)

    def model(self, name: str, /) -> AgentModel:
        """Return a model that the agent unseals; errors as for ``key``."""
        with self._exchange(f"/v1/models/{quote(name, safe='')}") as answer:
            text = self._whole(answer, limit=MAX_DOCUMENT_BYTES)
        try:
            identity, entries = _description(json_value(text, what="the agent's answer"))
            return AgentModel(client=self, name=name, id=identity, entries=entries)
        except (AttestError, KeyError, TypeError) as exc:
            raise self._invalid("a list of files") from exc

    def health(self) -> JsonValue:
        """Return the agent's state, also during its start; errors as for ``key``."""
        with self._exchange("/healthz", also=HTTPStatus.SERVICE_UNAVAILABLE) as answer:
            text = self._whole(answer, limit=MAX_DOCUMENT_BYTES)
        try:
            return json_value(text, what="the agent's answer")
        except AttestError as exc:
            raise self._invalid("JSON") from exc

    def read_into(self, model: str, path: str, offset: int, buffer: memoryview, *, model_id: str) -> None:
        """Fill a buffer from a file of the sealing with this identity; see ``AgentFile``."""
        last = offset + len(buffer) - 1
        target = f"/v1/models/{quote(model, safe='')}/files/{quote(path)}"
        with self._exchange(target, Range=f"bytes={offset}-{last}") as answer:
            stated = (answer.getheader("Content-Range") or "").partition("/")[0]
            if answer.status != HTTPStatus.PARTIAL_CONTENT or stated != f"bytes {offset}-{last}":
                raise self._invalid(f"bytes {offset} to {last}")
            self._require_same(answer.getheader("ETag"), model, model_id)
            self._fill(answer, buffer)

    def _require_same(self, tag: str | None, model: str, model_id: str) -> None:
        """Require a part of the sealing whose files were listed: the agent may reopen the model at any time."""
        if tag is None:
            raise self._invalid("a part that names its sealing")
        if tag != f'"{model_id}"':
            raise SealedSourceError(
                f"the agent has another sealing of {model} by now",
                code="sealed-source-changed",
                field=model,
                expected=model_id,
                got=tag.strip('"')[:80],
                hint="request the model from the agent again",
            )

    @contextmanager
    def _exchange(self, target: str, *, also: HTTPStatus | None = None, **headers: str) -> Iterator[HTTPResponse]:
        """Send a request and yield the answer; the connection is reused only after the answer was read completely."""
        connection, answer = self._sent(target, headers)
        try:
            is_problem = answer.getheader("Content-Type") == PROBLEM
            if is_problem or answer.status not in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT, also}:
                raise _refusal(answer, self._whole(answer, limit=MAX_DOCUMENT_BYTES))
            yield answer
        except (OSError, HTTPException) as exc:
            raise self._unavailable(exc) from exc
        finally:
            self._give_back(connection, answer)

    def _sent(self, target: str, headers: Mapping[str, str]) -> tuple[_Connection, HTTPResponse]:
        while True:
            connection = self._taken()
            try:
                with suppress(BrokenPipeError):  # the agent refuses a surplus connection without reading its request
                    connection.request("GET", target, headers=dict(headers))
                answer = connection.getresponse()
                HTTPStatus(answer.status)
            except (OSError, HTTPException, ValueError) as exc:
                connection.close()
                if connection.used and isinstance(exc, OSError):
                    continue  # idle for too long: the agent has closed it
                raise self._unavailable(exc) from exc
            except BaseException:
                connection.close()
                raise
            return connection, answer

    def _taken(self) -> _Connection:
        with self._lock:
            if self._closed:
                raise ValueError("the client is closed")
            if self._idle:
                return self._idle.pop()
        return _Connection(self._path, uid=self._uid, timeout=self._timeout)

    def _give_back(self, connection: _Connection, answer: HTTPResponse) -> None:
        read = answer.isclosed()
        answer.close()
        with self._lock:
            if read and not self._closed and connection.sock is not None and len(self._idle) < MAX_IDLE:
                connection.used = True
                self._idle.append(connection)
                return
        connection.close()

    def _whole(self, answer: HTTPResponse, *, limit: int) -> bytes:
        if answer.length is None or answer.length > limit:
            raise self._invalid(f"at most {limit} bytes")
        found = bytearray(answer.length)
        self._fill(answer, memoryview(found))
        return bytes(found)

    def _fill(self, answer: HTTPResponse, buffer: memoryview) -> None:
        """Fill a buffer with the body, which must have exactly that length."""
        if answer.length != len(buffer):
            raise self._invalid(f"{len(buffer)} bytes")
        done = 0
        while done < len(buffer):
            count = answer.readinto(buffer[done:])
            if not count:
                raise self._unavailable(f"the connection was lost after {done} of {len(buffer)} bytes")
            done += count
        answer.read()

    def _unavailable(self, reason: Exception | str) -> AgentUnavailableError:
        return AgentUnavailableError(
            f"no complete answer from the agent at {self._path}: {reason}",
            code="agent-unreachable",
            hint="does 'attest agent' run, and is its socket mounted here? Its log has the reason",
        )

    def _invalid(self, expected: str) -> AgentUnavailableError:
        return AgentUnavailableError(
            f"the agent at {self._path} did not answer with {expected}", code="agent-answer-invalid"
        )

    def close(self) -> None:
        """Close the connections; repeated calls are harmless."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModel:
    """A model that the agent unseals, for ``open_file`` and ``load_model`` like a local one.

    ``id`` is the identity of its sealing, 32 hex digits; all files are of this sealing. ``entries`` has their sizes in
    bytes, by their paths.
    """

    client: AgentClient = field(repr=False)
    name: str
    id: str
    entries: Mapping[str, int]

    def open(self, path: str) -> AgentFile:
        """Return a file for random access; nothing is requested yet.

        Raises:
            AgentRefusedError: ``agent-unknown``: the model has no such file.
        """
        size = self.entries.get(path)
        if size is None:
            raise AgentRefusedError(
                f"the model {self.name} has no file {path[:200]!r}", code="agent-unknown", status=HTTPStatus.NOT_FOUND
            )
        return AgentFile(client=self.client, model=self.name, id=self.id, path=path, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile(ClosedOnExit):
    """A file of a model that the agent unseals; any number of threads may read parts of it. ``size`` is in bytes."""

    client: AgentClient = field(repr=False)
    model: str
    id: str
    path: str
    size: int

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.model}/{self.path}"

    def read_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill a buffer from this offset. On an error the whole buffer is zeros.

        Raises:
            AgentRefusedError, AgentUnavailableError, VerificationError: as ``AgentClient.key``.
            SealedSourceError: ``sealed-source-changed``: the agent has opened another sealing of the model.
            ValueError: the range exceeds the file.
        """
        view = memoryview(buffer).cast("B")
        if offset < 0 or offset + len(view) > self.size:
            raise ValueError(f"bytes {offset} to {offset + len(view)} of a file of {self.size}")
        if not len(view):
            return
        try:
            self.client.read_into(self.model, self.path, offset, view, model_id=self.id)
        except BaseException:
            view[:] = bytes(len(view))
            raise

    def read(self, offset: int, length: int) -> bytearray:
        """Return ``length`` bytes from this offset; errors as ``read_into``."""
        found = bytearray(max(0, length))
        self.read_into(offset, found)
        return found

    def close(self) -> None:
        """Do nothing: the connections belong to the client."""


def _description(document: JsonValue) -> tuple[str, dict[str, int]]:
    """Return the identity of a model and the sizes of its files (``KeyError`` or ``TypeError``: another form)."""
    if not isinstance(document, dict) or not isinstance(document["id"], str) or not isinstance(document["files"], list):
        raise TypeError
    sizes: dict[str, int] = {}
    for one in document["files"]:
        if not isinstance(one, dict) or not isinstance(one["path"], str) or not isinstance(one["size"], int):
            raise TypeError
        sizes[one["path"]] = one["size"]
    return document["id"], sizes


def _refusal(answer: HTTPResponse, text: bytes) -> AgentRefusedError:
    try:
        document = json_value(text, what="the agent's answer")
    except AttestError:
        document = None
    problem = document if isinstance(document, dict) else {}
    checks, hint, wait = problem.get("failed_checks"), problem.get("hint"), answer.getheader("Retry-After") or ""
    return AgentRefusedError(
        str(problem.get("detail") or "no reason given"),
        code=str(problem.get("code") or "agent-answer-invalid"),
        status=HTTPStatus(answer.status),
        hint=hint if isinstance(hint, str) else None,
        failed_checks=tuple(checks) if isinstance(checks, list) else (),
        retry_after=float(wait) if wait.isascii() and wait.isdigit() else None,
    )
