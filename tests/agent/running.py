"""An agent in a thread of the test, with a session whose leases are the test's to take, and raw connections to it."""

import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Self

from attest.agent.client import AgentClient
from attest.agent.config import AgentConfig, AgentLimits, ServedKey, ServedModel, SocketConfig
from attest.agent.peers import PeerRule
from attest.agent.server import Agent
from attest.agent.unix_socket import AgentSocket
from attest.errors import AttestError, KeyUnknownError, LeaseLostError
from attest.release.names import KeyReference
from attest.release.released_key import ReleasedKey
from attest.session import SessionKey, SessionTiming
from attest.session.held_keys import Holdings
from tests.kms.support import MATERIAL
from tests.sealed.made import OWNER
from tests.sealed.made import Place as SealedPlace

KEY = "acme/llama"
OTHER = "other@3"
MODEL_KEY = "model@1"
BIG = "weights/big.bin"
FILES = {
    "config.json": b'{"hidden": 384}',
    "empty": b"",
    BIG: random.Random(8).randbytes((5 << 20) + 12345),
}
ME = PeerRule(name="me", uid=os.geteuid(), gid=None)
NOT_ME = PeerRule(name="not-me", uid=os.geteuid() + 12345, gid=None)
QUICK = AgentLimits(head_seconds=20, idle_seconds=20, stall_seconds=20, drain_seconds=20)


@dataclass(frozen=True)
class Place:
    """A sealed model."""

    sealed: Path
    key: bytes

    @staticmethod
    def make(folder: Path, *, seed: object = 0) -> "Place":
        from tests.sealed.made import KEY as SEALED_KEY

        made = SealedPlace(folder, files=FILES)
        made.seal(key=SEALED_KEY, seed=seed)
        return Place(sealed=made.sealed, key=SEALED_KEY)

    def served(self, *peers: PeerRule, name: str = "llama", **more: object) -> ServedModel:
        known = {"name": name, "place": str(self.sealed), "trusted": (OWNER.public_key(),), "verify_digests": False}
        return ServedModel(**(known | {"peers": peers} | more))  # type: ignore[arg-type]  # as their names say


class FakeSession:
    """A session without a service: what the service says, and which leases end, the test says."""

    def __init__(self, materials: dict[str, bytes]) -> None:
        self.materials = materials
        self.asked: list[str] = []
        self.fault: AttestError | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.timing = SessionTiming()
        self.holdings = Holdings(self.timing)
        self.on_lost: Callable[[SessionKey, LeaseLostError], None] = lambda *_: None
        self.on_renewed: Callable[[SessionKey], None] = lambda *_: None
        self.purposes: dict[str, str] = {}

    def key(self, name: str, /) -> SessionKey:
        reference = KeyReference.parse(name)
        held = self.holdings.find(reference)
        if held is None:
            self.asked.append(name)
            assert self.gate.wait(60)
            if self.fault is not None:
                raise self.fault
            if name not in self.materials:
                raise KeyUnknownError("no such key", code="key-unknown", status=404, failed_checks=())
            moment = self.timing.moment()
            self.holdings.take((reference,), (self._released(reference, self.materials[name]),), moment)
            held = self.holdings.find(reference)
        assert held is not None
        return held.key

    def _released(self, reference: KeyReference, material: bytes) -> ReleasedKey:
        now = self.timing.now()
        return ReleasedKey(
            tenant=reference.name.tenant,
            key_id=reference.name.key_id,
            version=reference.version or 7,
            purpose=self.purposes.get(str(reference), "model-key"),
            policy_digest=bytes(32),
            receipt="",
            entry=b"",
            proof="",
            material=material,
            lease_id="lease",
            released_at=now,
            expires_at=now + timedelta(days=1),
            recipient=self.holdings.recipient,
        )

    def rotate(self, name: str, material: bytes) -> None:
        """Renew a lease, with the next version of the key."""
        reference = KeyReference.parse(name)
        self.materials[name] = material
        released = replace(self._released(reference, material), version=8)
        self.holdings.take((reference,), (released,), self.timing.moment())
        self.on_renewed(self.key(name))

    def lose(self, name: str, *, code: str = "lease-renewal-refused") -> None:
        """Take a lease away as a session does: tell first, then overwrite."""
        held = self.holdings.find(KeyReference.parse(name))
        assert held is not None
        error = LeaseLostError(f"the lease of {name} is not renewed: no", code=code)
        self.holdings.lose(held, error)
        self.on_lost(held.key, error)
        self.holdings.wipe(held)


@dataclass
class Ticks:
    """A clock that the test moves."""

    ahead: float = 0.0

    def __call__(self) -> float:
        import time

        return time.monotonic() + self.ahead


@dataclass
class Running:
    """An agent that runs."""

    path: Path
    agent: Agent
    session: FakeSession
    ticks: Ticks
    thread: threading.Thread
    cdh: int | None = None
    credentials: Path | None = None

    @staticmethod
    @contextmanager
    def start(
        folder: Path,
        place: Place,
        *,
        config: AgentConfig | None = None,
        limits: AgentLimits = QUICK,
        own_uid: int | None = None,
        wait: bool = True,
        materials: dict[str, bytes] | None = None,
    ) -> Iterator["Running"]:
        path, ticks = folder / "agent.sock", Ticks()
        session = FakeSession({KEY: MATERIAL, MODEL_KEY: place.key})
        if not wait:
            session.gate.clear()
        agent = Agent(replace(config or usual(place), limits=limits), ticks=ticks, own_uid=own_uid)
        session.on_lost, session.on_renewed = agent.lost, agent.renewed
        session.materials |= materials or {}
        session.purposes |= dict.fromkeys(materials or {}, "secret")
        with (
            AgentSocket(path, SocketConfig()) as listening,
            AgentSocket(folder / "systemd.sock", SocketConfig()) as credentials,
            ExitStack() as opened,
        ):
            ready = threading.Event()
            cdh = None
            if config is not None and config.cdh is not None:
                cdh = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            serve = partial(agent.serve, ready=ready.set, cdh=cdh, credentials=credentials.sock)
            thread = threading.Thread(target=serve, args=(listening.sock, session))
            thread.start()
            made = Running(path=path, agent=agent, session=session, ticks=ticks, thread=thread)
            made.cdh = None if cdh is None else cdh.getsockname()[1]
            made.credentials = credentials.path
            assert ready.wait(30)
            for one in threading.enumerate():
                if wait and one.name == "agent-start":
                    one.join(30)
            try:
                yield made
            finally:
                session.gate.set()
                agent.stop()
                thread.join(60)
                assert not thread.is_alive()
                agent.close()

    def client(self, *, uid: int | None = None) -> AgentClient:
        return AgentClient(self.path, uid=os.geteuid() if uid is None else uid, timeout=30)

    def connect(self) -> "Raw":
        return Raw.to(self.path)

    def ask(self, target: str, *headers: str, method: str = "GET") -> "Said":
        with self.connect() as raw:
            return raw.ask(target, *headers, method=method)


def usual(place: Place) -> AgentConfig:
    return AgentConfig(
        peers=(ME, NOT_ME),
        keys=(
            ServedKey(reference=KeyReference.parse(KEY), peers=(ME,)),
            ServedKey(reference=KeyReference.parse(OTHER), peers=(NOT_ME,)),
        ),
        models=(place.served(ME), place.served(NOT_ME, name="others")),
    )


@dataclass
class Said:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def whole(self) -> bool:
        return len(self.body) == int(self.headers["content-length"])

    @property
    def code(self) -> str:
        import json

        assert self.headers["content-type"] == "application/problem+json"
        document = json.loads(self.body)
        assert document["status"] == self.status
        assert document["type"] == f"tag:attest,2026:agent/{document['code']}"
        return str(document["code"])


class Raw:
    """A connection on which bytes are sent as they are."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @staticmethod
    def to(path: Path) -> "Raw":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(30)
        sock.connect(str(path))
        return Raw(sock)

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def ask(self, target: str, *headers: str, method: str = "GET") -> Said:
        lines = "".join(f"{line}\r\n" for line in headers)
        self.send(f"{method} {target} HTTP/1.1\r\nHost: agent\r\n{lines}\r\n".encode())
        return self.said(bodiless=method == "HEAD")

    def head(self) -> tuple[int, dict[str, str], bytes]:
        """Read up to the end of a head; return what came behind it too."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = self._received()
            assert more, data
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(first.split()[1]), headers, rest

    def said(self, *, bodiless: bool = False) -> Said:
        status, headers, body = self.head()
        while not bodiless and len(body) < int(headers["content-length"]) and (more := self._received()):
            body += more
        return Said(status=status, headers=headers, body=body)

    def rest(self) -> bytes:
        data = b""
        while more := self._received():
            data += more
        return data

    def _received(self) -> bytes:
        try:
            return self.sock.recv(1 << 20)
        except ConnectionResetError:
            return b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
