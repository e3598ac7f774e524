"""The client: what it does with an agent that goes, and with one that lies."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from attest.agent import AgentClient, AgentUnavailableError
from attest.errors import AttestError
from attest.sealed import load_model
from tests.agent.running import BIG, FILES, KEY, QUICK, Place, Running
from tests.kms.support import MATERIAL


def test_a_connection_that_was_kept_too_long_is_made_anew(folder: Path, place: Place) -> None:
    with Running.start(folder, place, limits=replace(QUICK, idle_seconds=1)) as running, running.client() as agent:
        for _ in range(2):
            assert agent.key(KEY) == MATERIAL
            for one in threading.enumerate():
                if one.name == "agent-connection":
                    one.join(30)


def test_threads_share_a_client(running: Running) -> None:
    with running.client() as agent:
        file = agent.model("llama").open(BIG)
        found: dict[int, bool] = {}

        def read(number: int) -> None:
            first = number * 600_000
            found[number] = bytes(file.read(first, 600_000)) == FILES[BIG][first : first + 600_000]

        threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == dict.fromkeys(range(8), True)


def test_a_range_outside_of_the_file_is_wrong_use(running: Running) -> None:
    with running.client() as agent:
        file = agent.model("llama").open("config.json")
        for offset, length in ((-1, 1), (0, file.size + 1), (file.size, 1)):
            with pytest.raises(ValueError, match="of a file of"):
                file.read(offset, length)
        assert file.read(file.size, 0) == b""
        with pytest.raises(AttestError):
            agent.model("llama").open("../config.json")


def test_a_closed_client_asks_nobody(running: Running) -> None:
    agent = running.client()
    agent.key(KEY)
    agent.close()
    agent.close()
    with pytest.raises(ValueError, match="closed"):
        agent.key(KEY)


def test_tensors_are_loaded_through_the_agent(folder: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    from tests.sealed.made import KEY as SEALED_KEY
    from tests.sealed.made import Place as SealedPlace

    tensors = {"a": numpy.arange(600_000, dtype=numpy.float32), "b": numpy.ones((3, 4), dtype=numpy.int8)}
    made = SealedPlace(folder / "model", files={"model.safetensors": safetensors.save(tensors)})
    made.seal(key=SEALED_KEY)
    with Running.start(folder, Place(sealed=made.sealed, key=SEALED_KEY)) as running, running.client() as agent:
        loaded = load_model(agent.model("llama"))
    assert {name: (one == tensors[name]).all() for name, one in loaded.items()} == {"a": True, "b": True}


@contextmanager
def saying(folder: Path, answer: bytes) -> Iterator[Path]:
    """Somebody who runs as the right user, and says the same to everybody."""
    path = folder / "liar.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def run() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        yield path
        thread.join(30)


PART = 'Content-Range: bytes 0-3/9\r\nETag: "aa"\r\n'


def answer(body: bytes, *, status: str = "206 Partial Content", length: int | None = None, more: str = "") -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{more}\r\n".encode() + body


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"", "agent-unreachable"),
        (b"SSH-2.0-OpenSSH\r\n", "agent-unreachable"),
        (b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", "agent-unreachable"),
        (answer(b"abcd"), "agent-answer-invalid"),
        (answer(b"abcd", status="200 OK"), "agent-answer-invalid"),
        (answer(b"abcd", more="Content-Range: bytes 1-4/9\r\n"), "agent-answer-invalid"),
        (answer(b"abcd", more="Content-Range: bytes 0-3/9\r\n"), "agent-answer-invalid"),
        (answer(b"abcd", more=PART.replace("aa", "bb")), "sealed-source-changed"),
        (answer(b"abcde", more=PART), "agent-answer-invalid"),
        (answer(b"abc", more=PART), "agent-answer-invalid"),
        (answer(b"abc", length=4, more=PART), "agent-unreachable"),
        (f"HTTP/1.1 206 x\r\n{PART}\r\nabcd".encode(), "agent-answer-invalid"),
        (f"HTTP/1.1 206 x\r\n{PART}Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n".encode(),
         "agent-answer-invalid"),
        (answer(b"no", status="503 No"), "agent-answer-invalid"),
        (answer(b"[]", status="403 No"), "agent-answer-invalid"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_what_was_asked_for_is_none(folder: Path, said: bytes, code: str) -> None:
    buffer = bytearray(b"xxxx")
    with saying(folder, said) as path, AgentClient(path, uid=os.geteuid(), timeout=20) as agent:
        from attest.agent.client import AgentFile

        with pytest.raises(AttestError) as caught:
            AgentFile(client=agent, model="m", id="aa", path="p", size=9).read_into(0, buffer)
    assert (caught.value.code, bytes(buffer)) == (code, bytes(4))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"files": 1}',
        b'{"files": []}',
        b'{"files": [], "id": 1}',
        b'{"files": [1]}',
        b'{"files": [{"path": 1, "size": 1}]}',
        b"[" * 10_000,
    ],
)
def test_a_list_that_is_none_is_refused(folder: Path, body: bytes) -> None:
    said = answer(body, status="200 OK")
    with (
        saying(folder, said) as path,
        AgentClient(path, uid=os.geteuid(), timeout=20) as agent,
        pytest.raises(AgentUnavailableError) as caught,
    ):
        agent.model("m")
    assert caught.value.code == "agent-answer-invalid"


def test_an_answer_that_is_too_long_is_not_read(folder: Path) -> None:
    said = answer(b"", status="200 OK", length=1 << 40)
    with (
        saying(folder, said) as path,
        AgentClient(path, uid=os.geteuid(), timeout=20) as agent,
        pytest.raises(AgentUnavailableError) as caught,
    ):
        agent.key("k")
    assert caught.value.code == "agent-answer-invalid"
