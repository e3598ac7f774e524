"""A whole service on a loopback port, its key-release services, and clients that check it."""

import asyncio
import base64
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.channel import AttestedTrust, ChannelExpectation
from attest.channel.transport import ChannelTransport
from attest.clock import system_clock
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.policy import load_policy
from attest.release.notes import verifier_key
from attest.session import load_settings
from attest_simulator.machines import SimulatedMachine
from kms.config.settings import load_settings as load_kms_settings
from kms.config.settings_file import prepare_directory
from kms.domain.keys import KeyName
from kms.domain.material import new_material
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_CREATED, KEY_IMPORTED, add_key
from kms.operations.services import initialise, open_vault
from rag_demo.enclave.service.assembly import RagService
from rag_demo.enclave.service.settings import (
    EnclaveSettings,
    KeySource,
    MachineSettings,
    ModelSettings,
    ServiceLimits,
)
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, FakeRandom
from tests.kms.warm import run_warm
from tests.rag_demo.service.parts import Workshop

NAME = "rag.example"
BASE = f"https://{NAME}"
MODEL_KEY, DATABASE_KEY = sha256(b"model").digest(), sha256(b"database").digest()
# Always the same: it is part of the names of tests, which every worker has to collect alike.
VERIFIER = verifier_key("kms.test/nowhere", Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()).text


def machine() -> SimulatedMachine:
    since = system_clock().replace(microsecond=0) - timedelta(days=7)
    return SimulatedMachine.of("snp", certified_from=since)


@dataclass(frozen=True)
class Owner:
    """An owner's key-release service."""

    config: Path
    process: ServedProcess

    def source(self, key: str) -> KeySource:
        return source(self.process, key)

    def set_policy(self, key: str, policy: bytes) -> None:
        """Change the policy of a key, as its owner does at the command line."""
        file = self.config.parent / f"{key}.policy.json"
        file.write_bytes(policy)
        done = run_warm("key", "policy", "set", key, "--policy", str(file), "--config", str(self.config))
        assert done.returncode == 0, done.stderr


def policy_of(key: str, *, version: int, other: bool = False) -> bytes:
    """Return a version of a key's policy; ``other`` is one that the machine does not meet."""
    made = machine().with_other_image() if other else machine()
    document = json.loads(made.policy(name=key))
    return json.dumps(document | {"version": version}).encode()


def prepared(folder: Path, keys: Mapping[str, bytes], *, prompts: bool = False) -> Path:
    """Make an owner's key-release service with its keys, each for the simulated machine."""
    config = prepare_directory(folder, origin=f"kms.test/{folder.name}", allow_simulated=True)
    with config.open("a", encoding="utf-8") as file:
        file.write('endorsements = ["endorsements"]\nself_evidence = "simulated-snp"\n')
    settings = load_kms_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=FakeRandom(folder.name))
    endorsements = config.parent / "endorsements"
    endorsements.mkdir()
    for name, content in machine().endorsement_files(at=system_clock()).items():
        (endorsements / name).write_bytes(content)
    vault = open_vault(settings, random=FakeRandom("wrap"))
    for key, material in keys.items():
        add_key(
            vault.store,
            vault.kek,
            name=KeyName.parse(key),
            material=SecretBytes(material),
            policy=machine().policy(name=key),
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=system_clock(),
        )
    if prompts:
        algorithm = "hpke-mlkem768-x25519"
        add_key(
            vault.store,
            vault.kek,
            name=KeyName.parse("prompts"),
            material=new_material(algorithm, random=os.urandom),
            policy=machine().policy(name="prompts"),
            kind=KEY_CREATED,
            actor=ACTOR,
            at=system_clock(),
            algorithm=algorithm,
        )
    vault.store.close()
    return config


def source(process: ServedProcess, key: str) -> KeySource:
    given = {"url": f"http://127.0.0.1:{process.port}", "key": process.identity, "timeout_seconds": 10.0}
    return KeySource(name=key, service=load_settings(given, environ={}, files=()))


def source_nowhere(key: str) -> KeySource:
    """A key whose service does not answer."""
    given = {"url": "http://127.0.0.1:9", "key": VERIFIER, "timeout_seconds": 0.2}
    return KeySource(name=key, service=load_settings(given, environ={}, files=()))


def settings_of(
    model: KeySource,
    database: KeySource,
    *,
    limits: ServiceLimits | None = None,
    **more: Any,  # noqa: ANN401  fields of the settings
) -> EnclaveSettings:
    usual: dict[str, Any] = {
        "name": NAME,
        "model": ModelSettings(place=Path("nowhere"), trust=()),
        "model_key": model,
        "database": Path("nowhere.db"),
        "database_key": database,
        "machine": MachineSettings(simulate="snp"),
        "limits": limits or ServiceLimits(retry_seconds=0.2),
    }
    return EnclaveSettings(**usual | more)


@dataclass
class Site:
    """A service that is served."""

    service: RagService
    workshop: Workshop
    port: int
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.url}/v1/state", trust_env=False).json()
        return found

    def wait_for(self, state: str, seconds: float = 30) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while (found := self.state())["state"] != state:
            assert time.monotonic() < end, found
            time.sleep(0.02)
        return found

    def trust(self) -> AttestedTrust:
        return AttestedTrust(
            ChannelExpectation(
                audience=NAME,
                policy=load_policy(machine().policy(), name="policy"),
                anchors=TrustAnchors.simulation(),
                endorsements=NO_ENDORSEMENTS,  # what vendors say comes with the offer
            ),
            random=os.urandom,
        )

    def client(self, user: str | None = None) -> httpx.Client:
        transport = ChannelTransport(self.url, self.trust(), clock=system_clock)
        headers = {} if user is None else {"authorization": f"Bearer {token(user)}"}
        return httpx.Client(transport=transport, base_url=BASE, headers=headers, timeout=30, trust_env=False)

    def call(self, function: Callable[[], object]) -> None:
        """Call something in the service's own loop, and wait for it."""
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(60)


def token(user: str) -> str:
    return base64.urlsafe_b64encode(user.encode().ljust(32, b"\1")).rstrip(b"=").decode()


def remote(port: int) -> Site:
    """Return a service of another process."""
    return Site(None, None, port, None)  # type: ignore[arg-type]  # nothing of it can be reached but its port


@contextmanager
def serving(service: RagService, workshop: Workshop) -> Iterator[Site]:
    """Serve on a free port in a thread of its own."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        if not loops:
            loops.append(asyncio.get_running_loop())
        await service.app(scope, receive, send)

    config = uvicorn.Config(
        application,
        host="127.0.0.1",
        port=0,
        log_level="critical",
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield Site(service, workshop, server.servers[0].sockets[0].getsockname()[1], loops[0])
    finally:
        server.should_exit = True
        thread.join()


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Read server-sent events; comments fill them up."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert [line.partition(": ")[0] for line in lines] == ["event", "data"], lines
            found.append((lines[0].partition(": ")[2], json.loads(lines[1].partition(": ")[2])))
    return found


def upload(client: httpx.Client, name: str, data: bytes, media_type: str = "text/plain") -> dict[str, Any]:
    """Upload, and return the stored document or the problem."""
    answer = client.post("/v1/documents", params={"name": name}, content=data, headers={"content-type": media_type})
    assert answer.status_code == 200, answer.text
    kind, last = events(answer.text)[-1]
    found: dict[str, Any] = last["document" if kind == "stored" else "problem"]
    return found


def ask(client: httpx.Client, question: str) -> list[tuple[str, dict[str, Any]]]:
    answer = client.post("/v1/questions", json={"question": question})
    assert answer.status_code == 200, answer.text
    return events(answer.text)


@contextlib.contextmanager
def ended(process: ServedProcess) -> Iterator[ServedProcess]:
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.terminate()
