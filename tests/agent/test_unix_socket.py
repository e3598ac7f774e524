"""The socket: whole or not there, in a directory that is safe, and never two."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from attest.agent.config import SocketConfig
from attest.agent.unix_socket import MAX_PATH_BYTES, AgentSocket
from attest.errors import ConfigurationError
from tests.kms.process import REPOSITORY


def refused(path: Path, config: SocketConfig | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        AgentSocket(path, config or SocketConfig())
    return caught.value.code


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.connect(str(path))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_it_has_its_mode_and_leaves_no_name_behind(folder: Path, mode: int) -> None:
    path = folder / "a.sock"
    group = os.getegid() if mode == 0o660 else None
    with AgentSocket(path, SocketConfig(mode=mode, group=group)):
        status = path.lstat()
        assert (stat.S_ISSOCK(status.st_mode), stat.S_IMODE(status.st_mode)) == (True, mode)
        assert sorted(one.name for one in folder.iterdir()) == [".a.sock.lock", "a.sock"]
        assert listens(path)
        assert os.umask(os.umask(0o022)) != 0o177
    assert [one.name for one in folder.iterdir()] == [".a.sock.lock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a socket to any group takes root (id -u: not 0)")
def test_it_has_its_group(folder: Path) -> None:
    with AgentSocket(folder / "a.sock", SocketConfig(mode=0o660, group=4321)):
        assert (folder / "a.sock").lstat().st_gid == 4321


def test_two_agents_do_not_share_a_place(folder: Path) -> None:
    path = folder / "a.sock"
    with AgentSocket(path, SocketConfig()):
        assert refused(path) == "agent-running"
        assert listens(path)
    with AgentSocket(path, SocketConfig()):
        assert listens(path)


def test_a_stale_socket_is_replaced_after_a_kill(folder: Path) -> None:
    path = folder / "a.sock"
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from attest.agent.config import SocketConfig\n"
        "from attest.agent.unix_socket import AgentSocket\n"
        "AgentSocket(Path(sys.argv[1]), SocketConfig())\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], cwd=REPOSITORY, timeout=60, check=False)
    assert ran.returncode == -9
    assert (path.is_socket(), listens(path)) == (True, False)
    with AgentSocket(path, SocketConfig()):
        assert listens(path)


def test_a_program_that_listens_there_keeps_its_place(folder: Path) -> None:
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        assert refused(path) == "agent-socket-in-use"
        assert listens(path)


def test_what_is_no_socket_is_left_alone(folder: Path) -> None:
    path = folder / "a.sock"
    target = folder / "target"
    target.write_bytes(b"precious")
    for make in (
        lambda: path.write_bytes(b"x"),
        lambda: path.symlink_to(target),
        lambda: path.symlink_to(folder / "absent"),
        path.mkdir,
        lambda: os.mkfifo(path),
    ):
        make()
        before = path.lstat()
        assert refused(path) == "agent-socket-unsafe"
        assert path.lstat() == before
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert target.read_bytes() == b"precious"


def test_a_link_to_a_socket_is_no_socket(folder: Path) -> None:
    real, path = folder / "real.sock", folder / "a.sock"
    with AgentSocket(real, SocketConfig()):
        path.symlink_to(real)
        assert refused(path) == "agent-socket-unsafe"


def test_a_directory_in_which_others_write_is_refused(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir(mode=0o755)
    for mode in (0o777, 0o775, 0o757):
        folder.chmod(mode)
        assert refused(folder / "a.sock") == "agent-socket-unsafe"
        assert refused(inner / "a.sock") == "agent-socket-unsafe"
        with AgentSocket(inner / "a.sock", SocketConfig(unchecked_directory="a test")):
            pass
    folder.chmod(0o1777)  # there only the owner of a name takes it away
    with AgentSocket(inner / "a.sock", SocketConfig()):
        pass
    folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="a directory of another user takes root (id -u: not 0)")
def test_a_directory_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder, 12345, 0)
    assert refused(folder / "a.sock") == "agent-socket-unsafe"
    folder.chmod(0o1755)
    assert refused(folder / "a.sock") == "agent-socket-unsafe"


def test_a_link_on_the_way_is_refused(folder: Path) -> None:
    (folder / "real").mkdir(mode=0o700)
    (folder / "link").symlink_to(folder / "real")
    assert refused(folder / "link" / "a.sock") == "agent-socket-unsafe"
    assert refused(folder / "real" / ".." / "a.sock") == "agent-socket-unsafe"


def test_a_lock_that_is_no_file_is_refused(folder: Path) -> None:
    lock = folder / ".a.sock.lock"
    lock.symlink_to(folder / "elsewhere")
    assert refused(folder / "a.sock") == "agent-socket-unsafe"
    assert not (folder / "elsewhere").exists()
    lock.unlink()
    os.mkfifo(lock)
    assert refused(folder / "a.sock") == "agent-socket-unsafe"


def test_a_place_that_cannot_be_is_refused_in_the_systems_words(folder: Path) -> None:
    assert refused(folder / "absent" / "a.sock") == "agent-socket-unusable"
    assert refused(folder / ("x" * (MAX_PATH_BYTES + 1))) == "agent-socket-unusable"
    (folder / "file").write_bytes(b"")
    assert refused(folder / "file" / "a.sock") == "agent-socket-unusable"
    longest = folder / ("x" * (MAX_PATH_BYTES - len(str(folder)) - 1))
    with AgentSocket(longest, SocketConfig()):
        assert listens(longest)


def test_a_name_that_became_anothers_is_not_taken_away(folder: Path) -> None:
    path = folder / "a.sock"
    made = AgentSocket(path, SocketConfig())
    path.unlink()
    path.write_bytes(b"another's")
    made.close()
    made.close()
    assert path.read_bytes() == b"another's"
