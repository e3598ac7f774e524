"""The other side of the agent's socket: keys and files for a program in the same pod.

::

    with AgentClient("/run/attest/agent.sock", uid=65532) as agent:
        key = agent.key("llama-70b")
        model = agent.model("llama")
        with open_file(model, "config.json") as file: …
        tensors = load_model(model)

What comes is believed because of who answers: the kernel says as which user the listening process runs, and ``uid``
says as which it has to. The key is a copy that nothing takes back when its lease is lost; files are given no more then.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

from attest.agent.errors import AgentRefusedError, AgentUnavailableError
from attest.agent.peers import peer_of
from attest.encoding import JsonValue, json_value
from attest.errors import AttestError, ConfigurationError, VerificationError

if TYPE_CHECKING:
    import httpx

__all__ = ["AgentClient", "AgentFile", "AgentModel"]

MAX_KEY_BYTES: Final = 64 * 1024
MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""Of a list of 100 000 files with long names."""
_BASE: Final = "http://agent"


class AgentClient:
    """Asks the agent of this pod. Safe to use from several threads.

    Args:
        path: of its socket.
        uid: the user as which it has to run; whoever else listens there is not believed.
        timeout: seconds in which something has to come.

    Raises:
        ConfigurationError: ``http-client-missing``: the extra ``session`` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], *, uid: int, timeout: float = 60.0) -> None:
        """Nothing is asked yet."""
        self._path = os.fspath(path)
        self._uid = uid
        try:
            import httpx  # noqa: PLC0415  of the extra 'session'
        except ImportError as exc:
            raise ConfigurationError(
                "httpx is not installed", code="http-client-missing", hint="pip install attest-kms[session]"
            ) from exc
        self._errors: tuple[type[Exception], ...] = (httpx.HTTPError, httpx.StreamError)
        transport = httpx.HTTPTransport(uds=self._path)
        self._http = httpx.Client(transport=transport, base_url=_BASE, timeout=timeout, trust_env=False)

    def key(self, name: str, /) -> bytes:
        """Return a key: ``KEY`` or ``TENANT/KEY``, or either with ``@VERSION``, as the agent's configuration has it.

        Raises:
            AgentRefusedError: the agent does not give it; ``code`` says why.
            AgentUnavailableError: nobody answers, or not to the end.
            VerificationError: ``agent-not-genuine``: somebody else answers.
        """
        with self._asked(f"/v1/keys/{quote(name)}") as answer:
            return self._whole(answer, limit=MAX_KEY_BYTES)

    def model(self, name: str, /) -> AgentModel:
        """Return a model that the agent unseals; the errors are those of ``key``."""
        with self._asked(f"/v1/models/{quote(name, safe='')}") as answer:
            text = self._whole(answer, limit=MAX_DOCUMENT_BYTES)
        try:
            return AgentModel(client=self, name=name, entries=_entries(json_value(text, what="the agent's answer")))
        except (AttestError, KeyError, TypeError, ValueError) as exc:
            raise self._strange("a list of files") from exc

    def health(self) -> JsonValue:
        """Return what the agent says of itself; the errors are those of ``key``."""
        with self._asked("/healthz") as answer:
            text = self._whole(answer, limit=MAX_DOCUMENT_BYTES)
        try:
            return json_value(text, what="the agent's answer")
        except AttestError as exc:
            raise self._strange("JSON") from exc

    def read_into(self, model: str, path: str, offset: int, buffer: memoryview) -> None:
        """Fill a buffer with a part of a file; see ``AgentFile``."""
        wanted = f"bytes={offset}-{offset + len(buffer) - 1}"
        done = 0
        with self._asked(f"/v1/models/{quote(model, safe='')}/files/{quote(path)}", Range=wanted) as answer:
            stated = answer.headers.get("content-range", "").partition("/")[0]
            if answer.status_code != HTTPStatus.PARTIAL_CONTENT or stated != f"bytes {wanted[6:]}":
                raise self._strange(f"the range {wanted}")
            for piece in self._pieces(answer):
                if done + len(piece) > len(buffer):
                    break
                buffer[done : done + len(piece)] = piece
                done += len(piece)
        if done != len(buffer):
            raise self._strange(f"{len(buffer)} bytes")

    @contextmanager
    def _asked(self, target: str, **headers: str) -> Iterator[httpx.Response]:
        request = self._http.build_request("GET", target, headers=headers)
        try:
            answer = self._http.send(request, stream=True)
        except self._errors as exc:
            raise self._unavailable(exc) from exc
        try:
            self._require_agent(answer)
            if not answer.is_success:
                raise _refusal(answer.status_code, answer.headers, self._whole(answer, limit=MAX_DOCUMENT_BYTES))
            yield answer
        finally:
            answer.close()

    def _require_agent(self, answer: httpx.Response) -> None:
        """Make sure of who listens before anything that came is believed."""
        sock = answer.extensions["network_stream"].get_extra_info("socket")
        found = peer_of(sock).uid if isinstance(sock, socket.socket) else None
        if found == self._uid:
            return
        raise VerificationError(
            f"the process that listens at {self._path} runs as user {found}, not as {self._uid}",
            code="agent-not-genuine",
            field="uid",
            expected=str(self._uid),
            got=str(found),
            hint="see who made the socket: only the agent may be able to write to its directory",
        )

    def _pieces(self, answer: httpx.Response) -> Iterator[bytes]:
        try:
            yield from answer.iter_raw()
        except self._errors as exc:
            raise self._unavailable(exc) from exc

    def _whole(self, answer: httpx.Response, *, limit: int) -> bytes:
        found = bytearray()
        for piece in self._pieces(answer):
            found += piece
            if len(found) > limit:
                raise self._strange(f"at most {limit} bytes")
        return bytes(found)

    def _unavailable(self, exc: Exception) -> AgentUnavailableError:
        return AgentUnavailableError(
            f"no whole answer from the agent at {self._path}: {exc}",
            code="agent-unreachable",
            hint="does 'attest agent' run, and is its socket mounted here? Its log says why an answer broke off",
        )

    def _strange(self, expected: str) -> AgentUnavailableError:
        return AgentUnavailableError(
            f"the agent at {self._path} did not answer with {expected}", code="agent-answer-invalid"
        )

    def close(self) -> None:
        """End the connections. Twice is allowed."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModel:
    """A model that the agent unseals, used as one that is opened here: ``open_file``, ``load_model``.

    Attributes:
        client: asks the agent.
        name: of the model.
        entries: the sizes of its files in bytes, by their paths.
    """

    client: AgentClient = field(repr=False)
    name: str
    entries: Mapping[str, int]

    def open(self, path: str) -> AgentFile:
        """Return a file to be read anywhere; nothing is asked yet.

        Raises:
            AgentRefusedError: ``agent-unknown``: the model has no such file.
        """
        size = self.entries.get(path)
        if size is None:
            raise AgentRefusedError(
                f"the model {self.name} has no file {path[:200]!r}", code="agent-unknown", status=HTTPStatus.NOT_FOUND
            )
        return AgentFile(client=self.client, model=self.name, path=path, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """A file of a model that the agent unseals, read part by part, by any number of threads.

    Attributes:
        client: asks the agent.
        model: whose file it is.
        path: of the file.
        size: in bytes.
    """

    client: AgentClient = field(repr=False)
    model: str
    path: str
    size: int

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"{self.model}/{self.path}"

    def read_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill a buffer from this offset. When it raises, the whole buffer is zeros.

        Raises:
            AgentRefusedError, AgentUnavailableError, VerificationError: as ``AgentClient.key``.
            ValueError: the range does not lie within the file.
        """
        view = memoryview(buffer).cast("B")
        if offset < 0 or offset + len(view) > self.size:
            msg = f"bytes {offset} to {offset + len(view)} of a file of {self.size}"
            raise ValueError(msg)
        if not len(view):
            return
        try:
            self.client.read_into(self.model, self.path, offset, view)
        except BaseException:
            view[:] = bytes(len(view))
            raise

    def read(self, offset: int, length: int) -> bytearray:
        """Return so many bytes from this offset; errors as ``read_into``."""
        found = bytearray(max(0, length))
        self.read_into(offset, found)
        return found

    def close(self) -> None:
        """Do nothing: the connections are the client's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _entries(document: JsonValue) -> dict[str, int]:
    if not isinstance(document, dict) or not isinstance(document["files"], list):
        raise TypeError
    found: dict[str, int] = {}
    for one in document["files"]:
        if not isinstance(one, dict) or not isinstance(one["path"], str) or not isinstance(one["size"], int):
            raise TypeError
        found[one["path"]] = one["size"]
    return found


def _refusal(status: int, headers: httpx.Headers, text: bytes) -> AgentRefusedError:
    try:
        document = json_value(text, what="the agent's answer")
    except AttestError:
        document = None
    problem = document if isinstance(document, dict) else {}
    checks, hint, wait = problem.get("failed_checks"), problem.get("hint"), headers.get("retry-after", "")
    known = status in HTTPStatus._value2member_map_
    return AgentRefusedError(
        str(problem.get("detail") or "no reason given"),
        code=str(problem.get("code") or "agent-answer-invalid"),
        status=HTTPStatus(status) if known else HTTPStatus.BAD_GATEWAY,
        hint=hint if isinstance(hint, str) else None,
        failed_checks=tuple(checks) if isinstance(checks, list) else (),
        retry_after=float(wait) if wait.isdigit() else None,
    )
