"""A session against services that are slow, die, come back, or have to prove themselves; over real connections."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import attest
from attest import load_policy
from attest.clock import system_clock
from attest.release.mutual_attestation import ServiceExpectation
from attest.session import LeaseLostError, ServiceNotGenuineError, ServiceUnreachableError, SessionTiming
from tests.kms.process import ServedProcess
from tests.kms.proving import POLICIES, endorsements
from tests.kms.support import MATERIAL, FakeRandom, policy_text
from tests.session.serving import key_for, machine, prepared, url_of

pytestmark = pytest.mark.loopback
KEY = key_for("snp")


@dataclass
class Later:
    """The machine's clocks, and how much later a test wants it to be."""

    seconds: float = 0.0

    @property
    def timing(self) -> SessionTiming:
        return SessionTiming(ticks=lambda: time.monotonic() + self.seconds, random=lambda: 0.5)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return prepared(tmp_path)


def restarted(config: Path, process: ServedProcess) -> ServedProcess:
    return ServedProcess.start(config, "--port", str(process.port))


def test_a_service_that_was_killed_and_comes_back_renews_what_it_granted(config: Path) -> None:
    later, process = Later(), ServedProcess.start(config)
    url = url_of(process)
    session = attest.Session(
        url, service=process.identity, attester=machine("snp"), timing=later.timing, background=False, timeout=5
    )
    with session:
        key = session.key(KEY)
        before = key.lease_id
        process.kill()
        with pytest.raises(ServiceUnreachableError) as caught:
            session.key(key_for("tdx"), timeout=0.3)
        assert caught.value.url == url
        assert session.key(KEY) is key
        later.seconds = 60_000
        session.renew()
        assert (key.valid, key.lease_id) == (True, before)
        process = restarted(config, process)
        try:
            later.seconds += 60
            session.renew()
            assert key.lease_id != before
            assert key.material == MATERIAL
        finally:
            assert process.terminate() == 0
        later.seconds += 90_000
        session.renew()
        with pytest.raises(LeaseLostError):
            key.require()


def mutual(**changes: object) -> ServiceExpectation:
    base = ServiceExpectation(
        policy=load_policy(POLICIES["snp"]),
        anchors=attest.TrustAnchors.simulation(),
        endorsements=endorsements(system_clock()),
        clock=system_clock,
        random=FakeRandom("session"),
        unchecked_tls="a test over plain HTTP",
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # fields of an expectation


def test_mc_30_a_service_proves_its_machine_before_it_is_asked_for_a_key(served: ServedProcess, tmp_path: Path) -> None:
    url, identity = url_of(served), served.identity
    with attest.Session(url, service=identity, attester=machine("snp"), policy=mutual()) as session:
        assert session.proven is None
        assert session.key(KEY).material == MATERIAL
        assert session.proven is not None
        assert session.proven.result.verified.simulated
    asyncio.run(proven_on_asyncio(url, identity))
    bad = mutual(policy=load_policy(policy_text(measurement=bytes(48))))
    with attest.Session(url, service=identity, attester=machine("snp"), policy=bad) as session:
        with pytest.raises(ServiceNotGenuineError) as caught:
            session.key(KEY)
        assert caught.value.code == "service-policy-not-met"
        assert any(check.id == "policy.snp.measurement" for check in caught.value.checks)
    by_settings(url, identity, tmp_path)


async def proven_on_asyncio(url: str, identity: str) -> None:
    async with attest.AsyncSession(url, service=identity, attester=machine("snp"), policy=mutual()) as session:
        assert session.proven is None
        key = await session.key(KEY)
        assert key.material == MATERIAL
        assert session.proven is not None
        assert session.settings.url == url


def by_settings(url: str, identity: str, folder: Path) -> None:
    """Everything that is expected may stand in the file of the image."""
    (folder / "service.yaml").write_bytes(POLICIES["snp"])
    names = []
    for number, crl in enumerate(endorsements(system_clock()).crls):
        names.append(f"crl{number}.der")
        (folder / names[-1]).write_bytes(crl.der)
    (folder / "kms.key").write_text(identity + "\n")
    (folder / "attest.toml").write_text(
        f'[kms]\nurl = "{url}"\nkey_file = "kms.key"\npolicy = "service.yaml"\n'
        f'endorsements = {json.dumps(names)}\nallow_simulated = true\noffline = true\nunchecked_tls = "a test"\n'
        'log_memory = "log"\n'
    )
    settings = attest.session.load_settings({}, environ={}, files=(folder / "attest.toml",))
    with attest.Session(settings=settings, attester=machine("snp")) as session:
        assert session.key(KEY).material == MATERIAL
    assert (folder / "log").read_text().startswith("kms.test/session\n")
    # Without the CRL nothing can be said of the service's machine, and nothing is asked of it.
    poorer = replace(settings, endorsements=())
    with (
        attest.Session(settings=poorer, attester=machine("snp")) as session,
        pytest.raises(attest.AttestError) as caught,
    ):
        session.key(KEY)
    assert (caught.value.exit_code, caught.value.code) == (5, "crl-missing")


# -- slow ones


@contextmanager
def listening(answer: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Listen until the block ends; each connection is answered in a thread."""
    over = threading.Event()
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve() -> None:
            while not over.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                threads.append(threading.Thread(target=handle, args=(connection,)))
                threads[-1].start()

        def handle(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65536)
                    answer(connection, over)
                except OSError:
                    return

        acceptor = threading.Thread(target=serve)
        acceptor.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            for thread in (acceptor, *threads):
                thread.join()


def silent(connection: socket.socket, over: threading.Event) -> None:
    del connection
    over.wait()


def dripping(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not over.wait(0.02):
        connection.sendall(b" ")


def hanging_up(connection: socket.socket, over: threading.Event) -> None:
    del over
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")


@pytest.mark.parametrize("answer", [silent, dripping, hanging_up])
@pytest.mark.parametrize("waits", [False, True], ids=["blocking", "asyncio"])
def test_no_service_takes_longer_than_the_time_it_was_given(
    answer: Callable[[socket.socket, threading.Event], None], waits: bool, identity: str
) -> None:
    with listening(answer) as url:
        if waits:

            async def program() -> None:
                async with attest.AsyncSession(url, service=identity, attester=machine("snp"), timeout=0.4) as session:
                    await session.key(KEY)

            run: Callable[[], object] = lambda: asyncio.run(program())  # noqa: E731
        else:

            def run() -> object:
                with attest.Session(url, service=identity, attester=machine("snp"), timeout=0.4) as session:
                    return session.key(KEY)

        with pytest.raises(ServiceUnreachableError) as caught:
            run()
    assert "within 0.4 s" in caught.value.message
    assert caught.value.retryable


@pytest.fixture(scope="module")
def identity() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from attest.release import verifier_key

    return verifier_key("kms.test/slow", Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()).text
