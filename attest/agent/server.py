"""The agent's server: bounded connections, a thread for each, and an orderly shutdown."""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from http import HTTPStatus
from typing import Final

from attest.agent.answers import AgentAnswer, AgentRequest, problem
from attest.agent.cdh import CdhRoutes, anyone, foreign, text_answer
from attest.agent.coco_evidence import Collecting, no_evidence
from attest.agent.config import AgentConfig
from attest.agent.face import Face
from attest.agent.http import Answering, Conversation
from attest.agent.keys import AgentKeys, KeyHolder
from attest.agent.logs import RateLimitedLog
from attest.agent.models import Model
from attest.agent.peers import Peer, peer_of
from attest.agent.program import SupervisedProgram
from attest.agent.rendered_files import RenderedFiles
from attest.agent.routes import Routes
from attest.agent.streams import Streams
from attest.agent.systemd_credentials import SystemdCredentials
from attest.clock import ticks
from attest.concurrency import ConcurrencyLimit
from attest.errors import AgentRefusedError, AttestError, LeaseLostError
from attest.release.notes import VerifierKey
from attest.session.key import SessionKey

_RETRY: Final = 1.0
_log = logging.getLogger("attest.agent")


class Agent:
    """Server of keys and files of models for the peers in its configuration.

    Life cycle: construct it, register ``lost`` as a callback of the session, run ``serve`` until ``stop``. The agent's
    own user may read its state: ``own_uid``, by default that of this process.
    """

    def __init__(self, config: AgentConfig, *, ticks: Callable[[], float] = ticks, own_uid: int | None = None) -> None:
        self._config = config
        self._ticks = ticks
        self._own_uid = os.geteuid() if own_uid is None else own_uid
        self._streams = Streams()
        limits = config.limits
        self._connections = ConcurrencyLimit(total=limits.connections, each=limits.connections_per_uid)
        self._files = ConcurrencyLimit(total=limits.streams, each=limits.streams_per_uid)
        self._lock = threading.Lock()
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._ending = threading.Event()
        self._wake: tuple[int, ...] = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._turned_away = RateLimitedLog(ticks)
        self._keyring: AgentKeys | None = None
        self._models: dict[str, Model] = {}
        self._rendered: RenderedFiles | None = None
        self.exit_code = 0
        """Exit code of the program, if it ended by itself."""

    # -- leases

    def renewed(self, key: SessionKey) -> None:
        """Render the files of a key again; the session calls this after each renewal."""
        if self._rendered is not None:
            self._rendered.renewed(key.reference)

    def lost(self, key: SessionKey, error: LeaseLostError) -> None:
        """Stop serving a key and its models at once; the session calls this before it overwrites the key."""
        if self._keyring is not None:
            self._keyring.lost(key, error)
        if self._rendered is not None:
            self._rendered.lost(key.reference)
        for model in self._models.values():
            model.lost(key.reference)
        broken_off = self._streams.lost(key.reference, error)
        text = "%s is no longer served: %s; %d answers were aborted"
        _log.error(text, key.reference, error.message, broken_off, extra={"code": error.code})

    # -- serving

    def serve(
        self,
        listener: socket.socket,
        session: KeyHolder,
        *,
        service: VerifierKey | None = None,
        ready: Callable[[], None] = lambda: None,
        cdh: socket.socket | None = None,
        credentials: socket.socket | None = None,
        collecting: Collecting = no_evidence,
    ) -> None:
        """Serve until ``stop``, then wait a limited time for answers under way.

        The caller closes the listening sockets and the session. ``service`` is the verifier key of the session's
        service, compared with the one in each model's manifest; ``ready`` is called once connections are accepted.
        ``cdh`` listens for what the configuration's table of this name grants, ``credentials`` for systemd.
        ``collecting`` returns the machine's evidence with given report data.

        Raises:
            ConfigurationError: as ``RenderedFiles.prepare``.
        """
        self._keyring = AgentKeys(session, ticks=self._ticks)
        for one in self._config.models:
            self._models[one.name] = Model(config=one, keyring=self._keyring, service=service)
        rendered = self._rendered = self._made_files(self._keyring)
        rendered.prepare()
        routes = Routes(
            config=self._config,
            keyring=self._keyring,
            models=self._models,
            own_uid=self._own_uid,
            file_states=rendered.states,
        )
        rendering = threading.Thread(target=rendered.run, name="agent-files", daemon=True)
        if self._config.files:
            rendering.start()
        threading.Thread(target=self._obtain_all, args=(routes, self._keyring), name="agent-start", daemon=True).start()
        try:
            ready()
            hub = None if cdh is None else self._hub(cdh, self._keyring, collecting)
            self._accept_all(self._faces(listener, routes, self._keyring, hub, credentials))
        finally:
            rendered.close()
            self._end()

    def _faces(
        self,
        listener: socket.socket,
        routes: Routes,
        keyring: AgentKeys,
        hub: Face | None,
        credentials: socket.socket | None,
    ) -> Iterator[Face]:
        """Yield the entrances that are open."""
        yield Face(
            sock=listener,
            identify=peer_of,
            refusal=partial(_unnamed, routes),
            refused=problem,
            talk=partial(self._converse, partial(self._answer, routes), problem),
        )
        if hub is not None:
            yield hub
        if credentials is not None and self._config.systemd is not None:
            seconds = self._config.limits.stall_seconds
            given = SystemdCredentials(config=self._config.systemd, keyring=keyring, seconds=seconds)
            yield Face(
                sock=credentials, identify=peer_of, refusal=given.refusal, refused=given.refused, talk=given.talk
            )

    def _hub(self, sock: socket.socket, keyring: AgentKeys, collecting: Collecting) -> Face | None:
        """Return the interface of the Confidential Data Hub, if the configuration has one."""
        if self._config.cdh is None:
            return None
        answering = CdhRoutes(config=self._config.cdh, keyring=keyring, collecting=collecting).answer
        return Face(
            sock=sock,
            identify=anyone,
            refusal=lambda sock, _: foreign(sock),
            refused=text_answer,
            talk=partial(self._converse, answering, text_answer),
        )

    def _made_files(self, keyring: AgentKeys) -> RenderedFiles:
        program = self._config.program
        supervised = None if program is None else SupervisedProgram(program, ended=self._program_ended)
        return RenderedFiles(self._config.files, keyring=keyring, program=supervised)

    def _program_ended(self, code: int) -> None:
        self.exit_code = code
        self.stop()

    def stop(self) -> None:
        """Make ``serve`` return. Signal handlers may call this; repeated calls are harmless."""
        self._ending.set()
        with suppress(BlockingIOError):
            os.write(self._wake[1], b"x")

    def _obtain_all(self, routes: Routes, keyring: AgentKeys) -> None:
        """Obtain all keys and models in advance; failed ones are retried on demand."""
        steps: list[tuple[str, Callable[[], object]]] = [
            (f"key {reference}", partial(keyring.get, reference)) for reference in self._config.references
        ]
        steps += [(f"model {name}", model.opened) for name, model in self._models.items()]
        for what, obtain in steps:
            if self._ending.is_set():
                return
            try:
                obtain()
            except AttestError as exc:
                _log.error("%s: %s", what, exc.message, extra={"code": exc.code})
            except ValueError:  # the session was closed in the meantime
                return
            else:
                _log.info("%s is ready", what)
        # Other containers wait for the start, and read the files then.
        while self._config.files and self._rendered is not None and not self._rendered.whole.wait(_RETRY):
            if self._ending.is_set():
                return
        routes.started = True

    def _accept_all(self, faces: Iterable[Face]) -> None:
        with selectors.DefaultSelector() as waiting:
            for face in faces:
                face.sock.settimeout(0)
                waiting.register(face.sock, selectors.EVENT_READ, face)
            waiting.register(self._wake[0], selectors.EVENT_READ)
            while not self._ending.is_set():
                for key, _ in waiting.select():
                    if isinstance(key.data, Face) and not self._ending.is_set():
                        self._accept(key.data)

    def _accept(self, face: Face) -> None:
        try:
            sock, _ = face.sock.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return
        except OSError as exc:  # no descriptor or memory left: connections that end release some
            _log.error("a connection cannot be accepted: %s", exc)
            self._ending.wait(_RETRY)
            return
        try:
            peer = face.identify(sock)
            refusal = face.refusal(sock, peer)
            if refusal is None and not self._connections.acquire(peer.uid):
                refusal = busy("connections")
            if refusal is not None:
                self._turn_away(sock, peer, refusal, face.refused(refusal))
                return
            self._begin(sock, peer, face)
        except OSError as exc:
            _log.error("a connection cannot be served: %s", exc)
            sock.close()

    def _turn_away(self, sock: socket.socket, peer: Peer, error: AgentRefusedError, answer: AgentAnswer | None) -> None:
        """Send a refusal, if there is one to send, without reading the request and without waiting."""
        times = self._turned_away.admits()
        if times:
            extra = {"uid": peer.uid, "gid": peer.gid, "pid": peer.pid, "code": error.code, "times": times}
            _log.warning("a connection was turned away", extra=extra)
        with sock, suppress(OSError):
            if answer is None:
                return
            headers = (("Connection", "close"), ("Content-Length", str(answer.length)), *answer.headers)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
            sock.settimeout(0)
            sock.send(f"HTTP/1.1 {int(answer.status)} {answer.status.phrase}\r\n{lines}\r\n".encode() + answer.body)
            sock.shutdown(socket.SHUT_WR)

    def _begin(self, sock: socket.socket, peer: Peer, face: Face) -> None:
        thread = threading.Thread(target=self._talk, args=(face, sock, peer), name="agent-connection", daemon=True)
        with self._lock:
            self._threads[thread] = sock
        try:
            thread.start()
        except RuntimeError as exc:  # no further thread available
            self._forget(thread, peer)
            raise OSError(str(exc)) from exc

    def _talk(self, face: Face, sock: socket.socket, peer: Peer) -> None:
        try:
            face.talk(sock, peer)
        except Exception:  # noqa: BLE001  an internal error ends one connection, not the agent
            _log.exception("a connection of user %d ended with an internal error", peer.uid)
        finally:
            self._forget(threading.current_thread(), peer)

    def _converse(
        self, answering: Answering, refused: Callable[[AttestError], AgentAnswer], sock: socket.socket, peer: Peer
    ) -> None:
        """Answer the requests of a connection."""
        Conversation(
            sock=sock,
            peer=peer,
            answering=answering,
            streams=self._streams,
            limits=self._config.limits,
            ticks=self._ticks,
            ending=self._ending.is_set,
            refused=refused,
        ).run()

    def _forget(self, thread: threading.Thread, peer: Peer) -> None:
        with self._lock:
            self._threads.pop(thread, None)
        self._connections.release(peer.uid)

    def _answer(self, routes: Routes, peer: Peer, request: AgentRequest) -> AgentAnswer:
        """Answer a request; a file waits a limited time for its turn."""
        if not request.target.startswith("/v1/models/") or request.method != "GET":
            return routes.answer(peer, request)
        if not self._files.acquire(peer.uid, seconds=self._config.limits.wait_seconds):
            return problem(busy("files"))
        with ExitStack() as turn:
            turn.callback(self._files.release, peer.uid)
            answer = routes.answer(peer, request)
            if answer.pieces is not None:
                turn.callback(answer.close)
                answer.close = turn.pop_all().close
        return answer

    def _end(self) -> None:
        """Wait for answers under way, then break them off; drop every key."""
        self._ending.set()
        with self._lock:
            threads = dict(self._threads)
        for sock in threads.values():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RD)  # ends idle connections; answers go on
        end = self._ticks() + self._config.limits.drain_seconds
        for thread in threads:
            thread.join(max(0.0, end - self._ticks()))
        broken_off = self._streams.break_off()
        if broken_off:
            _log.warning("%d answers were aborted: their time was over", broken_off)
        for model in self._models.values():
            model.close()

    def close(self) -> None:
        """Release the resources of ``stop``, which must not be called afterwards. Repeated calls are harmless."""
        wake, self._wake = self._wake, ()
        for descriptor in wake:
            os.close(descriptor)


def _unnamed(routes: Routes, sock: socket.socket, peer: Peer) -> AgentRefusedError | None:
    """Return the refusal of a peer that no rule names."""
    del sock
    if routes.admits(peer):
        return None
    return AgentRefusedError(
        f"user {peer.uid} and group {peer.gid} are not named in the agent's configuration",
        code="agent-peer-refused",
        status=HTTPStatus.FORBIDDEN,
        hint="a table [peers.NAME] names users and groups, as this process's user namespace numbers them",
    )


def busy(what: str) -> AgentRefusedError:
    """Return the refusal of a surplus request."""
    return AgentRefusedError(
        f"too many {what} at a time",
        code="agent-busy",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        retry_after=_RETRY,
        hint="limits in the agent's configuration",
    )
