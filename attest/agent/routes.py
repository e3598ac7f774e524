"""Routes of the agent: each looks its target up among the grants of the authenticated peer.

::

    GET  /healthz                            state of the agent, its keys and models
    GET  /v1/keys/KEY                        the key, raw bytes
    GET  /v1/models/MODEL                    the model's files
    GET  /v1/models/MODEL/files/PATH         a file's plaintext, or with Range a part of it

Names are looked up in the configuration and in the signed manifest; none becomes a path of a file system. A missing
entry and an entry of other peers get the same answer: a peer learns nothing about the grants of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_to_bytes

from attest.agent.answers import AgentAnswer, AgentRequest, json_answer, problem
from attest.agent.config import AgentConfig
from attest.agent.keys import AgentKeys
from attest.agent.models import Model, OpenModel, no_such_file
from attest.agent.peers import Peer
from attest.agent.ranges import ByteRange, wanted_range
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AgentRefusedError, AttestError
from attest.release.padded_secret import SECRET_PURPOSE
from attest.sealed.layout import FIRST_PLAINTEXT_BYTES, PLAINTEXT_BYTES, segment_index
from attest.sealed.manifest import SealedEntry
from attest.sealed.segment_reader import SealedReader
from attest.sealed.worker_threads import wipe

HEALTH_SCHEMA: Final = "attest.agent-health/1"
MODEL_SCHEMA: Final = "attest.agent-model/1"
_BINARY: Final = "application/octet-stream"
_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FAR_SEGMENTS: Final = 32
"""Parallel requests for one model in a remote store."""
_READ: Final = ("GET", "HEAD")


@dataclass(slots=True, kw_only=True, eq=False)
class Routes:
    """Answers to requests; thread-safe. The agent's own user, ``own_uid``, may read its state."""

    config: AgentConfig
    keyring: AgentKeys
    models: dict[str, Model]
    own_uid: int
    file_states: Callable[[], dict[str, str]] = field(default=dict)
    started: bool = False

    def admits(self, peer: Peer) -> bool:
        """Return whether this peer may send requests at all."""
        return peer.uid == self.own_uid or self.config.knows(peer)

    def answer(self, peer: Peer, request: AgentRequest) -> AgentAnswer:
        """Answer a request; errors of this package become refusals."""
        try:
            return self._answer(peer, request)
        except AttestError as exc:
            return problem(exc)

    def _answer(self, peer: Peer, request: AgentRequest) -> AgentAnswer:
        parts = _parts(request.target)
        if parts == ("healthz",):
            _require_method(request, _READ)
            return self._health(peer)
        if parts[:2] == ("v1", "keys") and len(parts) > 2:
            return self._key(peer, request, "/".join(parts[2:]))
        if parts[:2] == ("v1", "models") and len(parts) == 3:
            _require_method(request, _READ)
            return self._model(peer, parts[2])
        if parts[:2] == ("v1", "models") and len(parts) > 4 and parts[3] == "files":
            _require_method(request, _READ)
            return self._file(peer, request, parts[2], "/".join(parts[4:]))
        raise _unknown("no such address")

    def _health(self, peer: Peer) -> AgentAnswer:
        keys = {str(one.reference): self.keyring.is_held(one.reference) for one in self.config.keys_for(peer)}
        status = HTTPStatus.OK if self.started else HTTPStatus.SERVICE_UNAVAILABLE
        document: dict[str, JsonValue] = {
            "schema": HEALTH_SCHEMA,
            "status": "ok" if self.started else "starting",
            "keys": {name: "held" if held else "missing" for name, held in keys.items()},
            "models": {
                one.name: "open" if self.models[one.name].is_open else "closed" for one in self.config.models_for(peer)
            },
        }
        if peer.uid == self.own_uid and self.config.files:
            document["files"] = dict[str, JsonValue](self.file_states())
        return json_answer(document, status=status)

    # -- keys

    def _key(self, peer: Peer, request: AgentRequest, name: str) -> AgentAnswer:
        served = self.config.key_for(peer, name)
        if served is None:
            raise _unknown("no such key for this peer")
        _require_method(request, ("GET",))  # HEAD: no copy of the key is made
        try:
            key, material = self.keyring.copied(served.reference)
        except AttestError as exc:
            return problem(exc, retry_after=self.keyring.seconds_until_retry(served.reference))
        headers = (
            ("Content-Type", _BINARY),
            ("Cache-Control", "no-store"),
            ("Attest-Key-Version", str(key.version)),
            ("Attest-Key-Purpose", key.purpose),
            ("Attest-Lease-Expires", rfc3339_text(key.expires_at)),
        )
        secret = key.purpose == SECRET_PURPOSE
        return AgentAnswer(
            status=HTTPStatus.OK, headers=headers, body=material, length=len(material), hides_size=secret
        )

    # -- models

    def _opened(self, peer: Peer, name: str) -> OpenModel:
        served = self.config.model_for(peer, name)
        if served is None:
            raise _unknown("no such model for this peer")
        return self.models[served.name].opened()

    def _model(self, peer: Peer, name: str) -> AgentAnswer:
        manifest = self._opened(peer, name).manifest
        document: dict[str, JsonValue] = {
            "schema": MODEL_SCHEMA,
            "model": name,
            "id": manifest.model.hex(),
            "key": str(manifest.key),
            "files": [_entry(one) for one in manifest.files],
        }
        return json_answer(document)

    def _file(self, peer: Peer, request: AgentRequest, name: str, path: str) -> AgentAnswer:
        model = self._opened(peer, name)
        entry = model.manifest.entry(path)
        if entry is None:
            raise no_such_file(path)
        etag = f'"{model.manifest.model.hex()}"'  # one sealing never changes; another sealing has another identity
        part = wanted_range(
            request.headers.get("range"), if_range=request.headers.get("if-range"), etag=etag, size=entry.size
        )
        answer = _file_answer(part, etag)
        answer.needs, answer.require = model.key.reference, model.key.require
        if request.method != "HEAD":
            with ExitStack() as opened:
                reader = opened.enter_context(model.reading(path))
                pieces = _pieces(model, reader, part)
                opened.callback(pieces.close)
                answer.pieces = pieces
                answer.close = opened.pop_all().close
        return answer


def _file_answer(part: ByteRange, etag: str) -> AgentAnswer:
    """Return the answer for a part of a file, without its content."""
    headers = (("Content-Type", _BINARY), ("Cache-Control", "no-store"), ("Accept-Ranges", "bytes"), ("ETag", etag))
    answer = AgentAnswer(status=HTTPStatus.OK, headers=headers, length=part.length)
    if part.partial:
        answer.status = HTTPStatus.PARTIAL_CONTENT
        answer.headers += (("Content-Range", part.content_range),)
    return answer


def _pieces(model: OpenModel, reader: SealedReader, part: ByteRange) -> Generator[memoryview]:
    """Yield a part of a file, verified, in one reused buffer that is overwritten at the end."""
    segments = _FAR_SEGMENTS if model.connections else 1
    buffer = memoryview(bytearray(min(part.length, segments * PLAINTEXT_BYTES)))
    position = part.first
    try:
        while position < part.end:
            end = min(part.end, _border(position, segments))
            piece = buffer[: end - position]
            reader.read_into(position, piece)
            yield piece
            position = end
    finally:
        wipe(buffer)


def _border(position: int, segments: int) -> int:
    """Return the end of the n-th segment from this position, so that no segment is decrypted twice."""
    return FIRST_PLAINTEXT_BYTES + (segment_index(position) + segments - 1) * PLAINTEXT_BYTES


def _entry(entry: SealedEntry) -> JsonValue:
    document: dict[str, JsonValue] = {"path": entry.path, "size": entry.size}
    if entry.sha256 is not None:
        document["sha256"] = entry.sha256.hex()
    return document


def _parts(target: str) -> tuple[str, ...]:
    """Return the segments of a path, each percent-decoded by itself.

    Raises:
        AgentRefusedError: ``agent-request-invalid``.
    """
    if not target.startswith("/") or "?" in target or "#" in target or _PERCENT.search(target):
        raise _invalid("an absolute path without a query")
    try:
        return tuple(unquote_to_bytes(part).decode() for part in target[1:].split("/"))
    except UnicodeDecodeError as exc:
        raise _invalid("UTF-8, percent-encoded") from exc


def _require_method(request: AgentRequest, allowed: tuple[str, ...]) -> None:
    if request.method not in allowed:
        raise AgentRefusedError(
            f"{request.method[:20]!r} is not possible here",
            code="method-not-allowed",
            status=HTTPStatus.METHOD_NOT_ALLOWED,
            expected=" or ".join(allowed),
            headers=(("Allow", ", ".join(allowed)),),
        )


def _invalid(expected: str) -> AgentRefusedError:
    return AgentRefusedError(
        f"the request's target is not {expected}",
        code="agent-request-invalid",
        status=HTTPStatus.BAD_REQUEST,
        expected=expected,
    )


def _unknown(text: str) -> AgentRefusedError:
    return AgentRefusedError(
        text,
        code="agent-unknown",
        status=HTTPStatus.NOT_FOUND,
        hint="the agent's configuration lists the grants of each peer",
    )
