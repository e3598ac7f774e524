"""New files: whole or not there, whatever happens to the disk, the process or the place."""

import errno
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attest.errors import OutputError
from attest.files import (
    PART_SUFFIX,
    NewFile,
    flush_folder,
    new_file,
    rename_new,
    require_absent,
    write_all,
    write_file,
    write_result,
)
from tests.disk import NEEDS_MOUNT, Disk

REPOSITORY = Path(__file__).resolve().parent.parent
NAMES = pytest.mark.parametrize("nameless", [True, False], ids=["without a name", "under a temporary name"])
CHOICES = pytest.mark.parametrize("replace", [False, True], ids=["new", "replaced"])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    made.close()


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def refused(run: Callable[[], object]) -> OutputError:
    with pytest.raises(OutputError) as caught:
        run()
    return caught.value


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- a full disk ---


KEYGEN = "from attest.cli.main import main; raise SystemExit(main())"


@NEEDS_MOUNT
def test_a_key_on_a_full_disk_leaves_nothing_and_the_next_try_makes_it(disk: Disk) -> None:
    place = disk.folder / "k.pem"
    command = [sys.executable, "-c", KEYGEN, "token", "keygen", "-o", str(place)]
    disk.fill()
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(f"error: {place} cannot be written: No space left on device\nhint: ".encode())
    assert names_in(disk.folder) == ["filler"]
    disk.free()
    subprocess.run(command, cwd=REPOSITORY, check=True)
    assert place.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert mode_of(place) == 0o600


@NEEDS_MOUNT
@NAMES
@CHOICES
def test_a_disk_that_fills_up_half_way_leaves_nothing_of_the_file(disk: Disk, nameless: bool, replace: bool) -> None:
    target = disk.folder / "target"
    if replace:
        target.write_bytes(b"as it was")
    disk.fill(leave=64 * 1024)
    before = names_in(disk.folder)

    def write() -> None:
        with new_file(target, replace=replace, nameless=nameless) as file:
            file.write(bytes(32 * 1024))
            file.write(bytes(64 * 1024))

    error = refused(write)
    assert (error.code, error.got, error.written, error.exit_code) == ("output-unwritable", "ENOSPC", False, 2)
    assert error.field == str(target)
    assert error.hint is not None
    assert names_in(disk.folder) == before
    assert not replace or target.read_bytes() == b"as it was"
    disk.free()
    write()
    assert target.stat().st_size == 96 * 1024


def test_a_limit_of_the_process_counts_as_a_full_disk(tmp_path: Path) -> None:
    script = (
        "import resource, sys; from attest.errors import OutputError; from attest.files import write_file\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: write_file(sys.argv[1], bytes(101))\n"
        "except OutputError as exc: print(exc.code, exc.got)\n"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # half a compiled module would stay
    command = [sys.executable, "-c", script, str(tmp_path / "target")]
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=True)
    assert ran.stdout == b"output-unwritable EFBIG\n"
    assert names_in(tmp_path) == []


def test_what_a_device_refuses_is_said(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        file = NewFile("target", full.fileno())
        for write in (lambda: file.write(b"x"), lambda: file.write_at(0, b"x")):
            error = refused(write)
            assert (error.message, error.got) == ("target cannot be written: No space left on device", "ENOSPC")


# --- killed at any moment ---

KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from attest.files import new_file

def kill_before(left, folder):
    def look(event, arguments):
        nonlocal left
        touching = event in {"open", "os.link", "os.rename", "os.remove", "os.chmod"}
        if touching and any(folder in str(one) or one == 0o640 for one in arguments):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(look)

base, nameless, replace = Path(sys.argv[1]), sys.argv[2] == "True", sys.argv[3] == "True"
for number in itertools.count():
    folder = base / str(number)
    folder.mkdir()
    if replace:
        (folder / "target").write_bytes(b"as it was")
    child = os.fork()
    if child == 0:
        kill_before(number, str(folder))
        with new_file(folder / "target", replace=replace, nameless=nameless, mode=0o640) as file:
            file.write(b"wh")
            open(folder / "target", "rb") if replace else None  # a moment in the middle
            file.write(b"ole")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        sys.exit(os.WEXITSTATUS(status))
"""


@NAMES
@CHOICES
def test_a_process_that_is_killed_at_any_step_leaves_the_whole_file_or_what_was_there(
    tmp_path: Path, nameless: bool, replace: bool
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(nameless), str(replace)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    folders = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    assert len(folders) >= 4
    before = b"as it was" if replace else None
    seen = []
    for folder in folders:
        target = folder / "target"
        found = target.read_bytes() if target.exists() else None
        assert found in {before, b"whole"}
        assert found is None or found == before or mode_of(target) == 0o640
        seen.append(found)
        parts = [path for path in folder.iterdir() if path != target]
        assert all(path.name.endswith(PART_SUFFIX) for path in parts)
        # Without a name only a whole file is left, between its two names; and no rest is in the way of the next try.
        assert not nameless or all(path.read_bytes() == b"whole" for path in parts)
        write_file(target, b"next", replace=True)
        assert target.read_bytes() == b"next"
    assert seen == sorted(seen, key=lambda found: found == b"whole")
    assert set(seen) == {before, b"whole"}


# --- what already exists ---


@NAMES
def test_a_file_that_is_there_is_refused_and_left_alone(tmp_path: Path, nameless: bool) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")

    def write() -> None:
        with new_file(target, nameless=nameless, hint="name another") as file:
            file.write(b"x")

    error = refused(write)
    assert (error.code, error.hint, error.written) == ("output-exists", "name another", False)
    assert error.message == f"{target} already exists"
    assert refused(lambda: require_absent(target)).code == "output-exists"
    assert target.read_bytes() == b"precious"
    assert names_in(tmp_path) == ["target"]


@NAMES
def test_a_file_that_comes_meanwhile_is_not_overwritten(tmp_path: Path, nameless: bool) -> None:
    target = tmp_path / "target"

    def write() -> None:
        with new_file(target, nameless=nameless) as file:
            file.write(b"ours")
            target.write_bytes(b"theirs")

    assert refused(write).code == "output-exists"
    assert target.read_bytes() == b"theirs"
    assert names_in(tmp_path) == ["target"]


@NAMES
@CHOICES
def test_a_link_in_place_of_the_file_is_never_followed(tmp_path: Path, nameless: bool, replace: bool) -> None:
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"untouched")
    for leads_to in (elsewhere, tmp_path / "nowhere"):
        target.symlink_to(leads_to)

        def write() -> None:
            with new_file(target, nameless=nameless, replace=replace) as file:
                file.write(b"new")

        if replace:
            write()
            assert not target.is_symlink()
            assert target.read_bytes() == b"new"
        else:
            assert refused(write).code == "output-exists"
            assert target.readlink() == leads_to
        target.unlink()
        assert elsewhere.read_bytes() == b"untouched"
        assert names_in(tmp_path) == ["elsewhere"]


def test_a_link_in_place_of_the_temporary_name_is_never_followed(tmp_path: Path) -> None:
    part = tmp_path / (".target." + "00" * 8 + PART_SUFFIX)
    part.symlink_to(tmp_path / "victim")

    def write() -> None:
        with new_file(tmp_path / "target", random=bytes, nameless=False):
            pass

    refused(write)
    assert names_in(tmp_path) == [part.name]


@NAMES
def test_the_temporary_file_is_its_owners_alone_and_gone_after_an_exception(tmp_path: Path, nameless: bool) -> None:
    def write() -> None:
        with new_file(tmp_path / "target", mode=0o644, random=lambda n: b"\xab" * n, nameless=nameless) as file:
            file.write(b"half")
            assert names_in(tmp_path) == ([] if nameless else [".target." + "ab" * 8 + PART_SUFFIX])
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert names_in(tmp_path) == []


@CHOICES
def test_of_two_writers_at_once_one_whole_file_is_left(tmp_path: Path, replace: bool) -> None:
    target = tmp_path / "target"
    contents = [bytes([number]) * 100_000 for number in range(8)]
    start, lost = threading.Barrier(len(contents)), []

    def write(content: bytes) -> None:
        try:
            with new_file(target, replace=replace) as file:
                file.write(content[:1000])
                start.wait()
                file.write(content[1000:])
        except OutputError as exc:
            lost.append(exc.code)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == ([] if replace else ["output-exists"] * 7)
    assert target.read_bytes() in contents
    assert names_in(tmp_path) == ["target"]


# --- the place ---


@pytest.mark.parametrize(
    ("name", "reason", "got"),
    [
        ("none/file", "No such file or directory", "ENOENT"),
        ("file/below", "Not a directory", "ENOTDIR"),
        ("a\0b", "no file name", None),
        ("n" * 300, "File name too long", "ENAMETOOLONG"),
    ],
)
def test_a_place_that_takes_no_file_is_said(tmp_path: Path, name: str, reason: str, got: str | None) -> None:
    (tmp_path / "file").write_bytes(b"")
    for replace in (False, True):
        error = refused(lambda: write_file(f"{tmp_path}/{name}", b"x", replace=replace))  # noqa: B023  called at once
        assert (error.code, error.reason, error.got) == ("output-unwritable", reason, got)
        assert error.message.endswith(f"cannot be written: {reason}")
    assert names_in(tmp_path) == ["file"]


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert refused(lambda: write_file(tmp_path / "folder", b"x", replace=True)).got == "EISDIR"
    assert refused(lambda: write_result(tmp_path / "folder", b"x", replace=True)).got == "EISDIR"
    assert refused(lambda: write_file("", b"x", replace=True)).reason == "no file name"
    assert names_in(tmp_path) == ["folder"]


READ_ONLY = """
import os, sys
from attest.errors import OutputError
from attest.files import write_file
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    write_file(sys.argv[1], b"x", replace=sys.argv[2] == "True")
except OutputError as exc:
    print(exc.code, exc.got, exc.written)
"""


@CHOICES
def test_a_directory_that_is_read_only_is_said(tmp_path: Path, replace: bool) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o555)
    try:
        command = [sys.executable, "-c", READ_ONLY, str(tmp_path / "target"), str(replace)]
        ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    finally:
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o700)
    assert ran.stdout == b"output-unwritable EACCES False\n"
    assert names_in(tmp_path) == []


# --- who may read it ---


@NAMES
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_mode_counts_whatever_the_umask_is(
    tmp_path: Path, umask: Callable[[int], int], mask: int, nameless: bool
) -> None:
    umask(mask)
    for mode, expected in ((0o600, 0o600), (0o644, 0o644), (None, 0o666 & ~mask)):
        with new_file(tmp_path / f"{mode}", mode=mode, nameless=nameless):
            pass
        assert mode_of(tmp_path / f"{mode}") == expected
    write_file(tmp_path / "default", b"x")
    assert mode_of(tmp_path / "default") == 0o600


def test_text_is_written_as_utf_8_and_pieces_go_where_they_belong(tmp_path: Path) -> None:
    write_file(tmp_path / "text", "é\n")
    assert (tmp_path / "text").read_bytes() == "é\n".encode()
    with new_file(tmp_path / "pieces") as file:
        file.write_at(3, memoryview(b"def"))
        file.write_at(0, bytearray(b"abc"))
    assert (tmp_path / "pieces").read_bytes() == b"abcdef"


# --- results of commands ---


def test_a_result_replaces_what_a_link_leads_to_and_keeps_its_mode(tmp_path: Path, umask: Callable[[int], int]) -> None:
    umask(0o022)
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    write_result(tmp_path / "link", b"new", replace=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert mode_of(tmp_path / "file") == 0o640
    assert refused(lambda: write_result(tmp_path / "link", b"x", hint="with --force")).hint == "with --force"
    write_result(tmp_path / "fresh", b"x", replace=True)
    assert mode_of(tmp_path / "fresh") == 0o644
    assert names_in(tmp_path) == ["file", "fresh", "link"]


def test_a_device_or_a_pipe_takes_a_result_as_it_comes(tmp_path: Path) -> None:
    write_result("/dev/null", b"x", replace=True)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert refused(lambda: write_result("/dev/full", b"x", replace=True)).got == "ENOSPC"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_result(tmp_path / "pipe", b"result", replace=True)
    assert os.read(reader, 100) == b"result"
    os.close(reader)
    assert refused(lambda: write_result("a\0b", b"x", replace=True)).reason == "no file name"


def test_a_reader_that_went_away_is_no_full_disk() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        write_all(writer, b"x", name="descriptor")
    os.close(writer)


# --- file systems of another kind ---


def test_a_name_is_given_where_a_file_has_one_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)  # as the kernel answers on FAT
    for name in ("part", "other"):
        (tmp_path / name).write_bytes(b"whole")
    rename_new(tmp_path / "part", tmp_path / "final")
    assert names_in(tmp_path) == ["final", "other"]
    assert refused(lambda: rename_new(tmp_path / "other", tmp_path / "final")).code == "output-exists"
    with new_file(tmp_path / "another", nameless=False) as file:
        file.write(b"x")
    assert (tmp_path / "another").read_bytes() == b"x"


@pytest.mark.parametrize(("code", "is_said"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_flushed_is_said_where_that_means_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_said: bool
) -> None:
    flush = os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    if is_said:
        error = refused(lambda: write_file(tmp_path / "target", b"whole"))
        assert (error.code, error.written, error.got) == ("output-unwritable", True, "EIO")
        with pytest.raises(OSError, match="Input/output"):
            flush_folder(tmp_path)
    else:
        write_file(tmp_path / "target", b"whole")
    assert (tmp_path / "target").read_bytes() == b"whole"


# --- one primitive ---

HOMES = {"attest/files.py", "attest/unfinished_file.py"}
BY_HAND = re.compile(
    r"O_EXCL|O_TMPFILE|mkstemp|NamedTemporaryFile|\bos\.link|\bos\.replace|\.write_(bytes|text)\(|open\(\"x"
)
BY_HAND_FOR_A_REASON = {
    "simulator/attest_simulator/machine_access.py": "the tree of a simulated machine, which goes when it ends",
    "simulator/attest_simulator/nvidia/driver_library.py": "the folder of a simulated driver, which goes when it ends",
    "simulator/attest_simulator/kernel/mounts.py": "files of /proc that a write changes in place",
    "attest/nvsdk/worker.py": "runs in the interpreter of another SDK, in a folder that goes with it",
    "rag_demo/demo/owner.py": "the demonstration's own folder",
    "rag_demo/demo/parties.py": "the demonstration's own folder, and the lock of it",
    "rag_demo/demo/story.py": "the demonstration's own folder",
}


def test_no_other_module_writes_whole_files_by_hand() -> None:
    found = {
        name
        for package in ("attest", "kms", "rag_demo", "simulator")
        for path in (REPOSITORY / package).rglob("*.py")
        if (name := path.relative_to(REPOSITORY).as_posix()) not in HOMES
        if BY_HAND.search(path.read_text())
    }
    assert found == BY_HAND_FOR_A_REASON.keys()
