"""Credentials of systemd's units and volumes: by the name of the peer's socket, for root alone."""

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.agent.config import AgentConfig
from attest.agent.peers import Peer
from attest.agent.systemd_config import SystemdConfig
from attest.agent.systemd_credentials import SystemdCredentials, shown_name
from attest.release.names import KeyReference
from tests.agent.running import KEY, Place, Running
from tests.kms.support import MATERIAL

UNIT = b"\x00adf9d86b6eda275e/unit/app.service/database"
VOLUME = b"\x000d7067f78d982741/cryptsetup/data"
LARGE = bytes(range(256)) * 4096
CONFIG = AgentConfig(
    systemd=SystemdConfig(
        socket=Path("/not/used"),
        units={
            "app.service": {"database": KeyReference.parse(KEY), "none": KeyReference.parse("acme/none")},
            "other.service": {"large": KeyReference.parse("acme/large")},
        },
        volumes={"data": KeyReference.parse(KEY)},
    )
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the agent serves processes of root alone")


@pytest.fixture
def running(folder: Path, place: Place, caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    caplog.set_level(logging.DEBUG)
    with Running.start(folder, place, config=CONFIG, materials={"acme/large": LARGE}) as made:
        yield made


def ask(running: Running, name: bytes | None) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        if name is not None:
            sock.bind(name)
        sock.connect(str(running.credentials))
        sock.shutdown(socket.SHUT_WR)
        found = b""
        while more := sock.recv(1 << 16):
            found += more
    return found


@needs_root
def test_a_credential_is_the_bytes_of_its_key(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(running, UNIT) == MATERIAL
    assert ask(running, b"\x000000000000000001/unit/other.service/large") == LARGE
    (logged,) = [one for one in caplog.records if getattr(one, "target", "").endswith("/database")]
    assert logged.getMessage() == f"a credential was given: {KEY}"
    assert "bytes" not in logged.__dict__


@needs_root
def test_a_volume_gets_its_key(running: Running) -> None:
    assert ask(running, VOLUME) == MATERIAL


@needs_root
@pytest.mark.parametrize(
    ("name", "code"),
    [
        (None, "agent-request-invalid"),
        (b"\x00adf9d86b6eda275e", "agent-request-invalid"),
        (b"\x00/unit/app.service/database", "agent-request-invalid"),
        (b"\x00adf9d86b6eda275e/unit/app.service/database/", "agent-request-invalid"),
        (b"\x00adf9d86b6eda275e/unit/app.service", "agent-request-invalid"),
        (b"\x00ADF9D86B6EDA275E/unit/app.service/database", "agent-request-invalid"),
        (b"\x00adf9d86b6eda275e0/unit/app.service/database", "agent-request-invalid"),
        (b"\x00adf9d86b6eda275e/unit/app.service/database\x00", "agent-unknown"),
        (b"\x00adf9d86b6eda275e/unit/app.service/\xff", "agent-unknown"),
        (b"\x00adf9d86b6eda275e/unit/app.service/large", "agent-unknown"),
        (b"\x00adf9d86b6eda275e/unit/unknown.service/database", "agent-unknown"),
        (b"\x00adf9d86b6eda275e/cryptsetup/app.service", "agent-unknown"),
        (b"\x00adf9d86b6eda275e/unit/app.service/none", "key-unknown"),
    ],
)
def test_everything_else_is_closed_without_a_byte_and_logged(
    running: Running, caplog: pytest.LogCaptureFixture, name: bytes | None, code: str
) -> None:
    caplog.clear()
    assert ask(running, name) == b""
    (logged,) = [one for one in caplog.records if one.getMessage().startswith("a credential is refused")]
    assert (logged.levelname, logged.__dict__["code"]) == ("WARNING", code)


@needs_root
def test_a_socket_with_a_name_in_the_file_system_gets_nothing(running: Running, folder: Path) -> None:
    (folder / "aa" / "unit" / "app.service").mkdir(parents=True)
    assert ask(running, os.fsencode(folder / "aa/unit/app.service/database")) == b""


@needs_root
def test_a_lost_lease_gives_nothing_from_then_on(running: Running) -> None:
    assert ask(running, UNIT) == MATERIAL
    running.session.lose(KEY)
    assert ask(running, UNIT) == b""


@needs_root
def test_a_reader_that_does_not_read_ends_its_own_connection(running: Running) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(b"\x000000000000000002/unit/other.service/large")
        sock.connect(str(running.credentials))
    assert ask(running, UNIT) == MATERIAL


def test_a_process_of_another_user_is_turned_away() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        refusal = SystemdCredentials.refusal(sock, Peer(uid=1000, gid=0, pid=1))
        assert refusal is not None
        assert SystemdCredentials.refused(refusal) is None
        assert SystemdCredentials.refusal(sock, Peer(uid=0, gid=1000, pid=1)) is None


@needs_root
def test_such_a_process_gets_no_byte(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    assert running.credentials is not None
    running.credentials.parent.chmod(0o755)
    running.credentials.chmod(0o666)
    child = os.fork()
    if child == 0:
        os.setresgid(65533, 65533, 65533)
        os.setresuid(65533, 65533, 65533)
        os._exit(0 if ask(running, UNIT) == b"" else 1)
    assert os.waitpid(child, 0)[1] == 0
    (logged,) = [one for one in caplog.records if one.getMessage() == "a connection was turned away"]
    assert (logged.__dict__["uid"], logged.__dict__["code"]) == (65533, "agent-peer-refused")


@pytest.mark.parametrize(("address", "shown"), [(UNIT, "adf9d86b6eda275e/unit/app.service/database"), ("", "")])
def test_the_log_shows_the_name_of_the_peer(address: object, shown: str) -> None:
    assert shown_name(address) == shown
