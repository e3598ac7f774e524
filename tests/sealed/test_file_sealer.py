"""Sealing and unsealing files: whole or not there, the owner's alone, and of a source that stood still."""

import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attest.errors import SealedFileError, SealedSourceError, SealedTamperError
from attest.files import PART_SUFFIX
from attest.sealed import FileSource, SealedFile, SealedReader, seal_file, seal_to, unseal_file
from attest.sealed.layout import FIRST_PLAINTEXT_BYTES, SEGMENT_BYTES, ciphertext_size
from tests.sealed.segments import AAD, KEY, MemorySource, content, sealed

LONG = content(5 * SEGMENT_BYTES + 77)
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_bytes(LONG)
    return tmp_path / "plain"


def seal(
    source: Path | int,
    target: Path,
    *,
    key: bytes = KEY,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
    digests: bool = False,
) -> SealedFile:
    return seal_file(
        source,
        target,
        key=key,
        associated_data=AAD,
        random=os.urandom,
        threads=threads,
        progress=progress,
        digests=digests,
    )


def opened(path: Path) -> SealedReader:
    return SealedReader(FileSource(path), key=KEY, associated_data=AAD)


def plaintext_of(path: Path) -> bytes:
    with opened(path) as reader:
        return bytes(reader.read(0, reader.size))


def refused(call: Callable[[], object]) -> SealedFileError:
    with pytest.raises(SealedFileError) as caught:
        call()
    return caught.value


# --- what is written ---


@pytest.mark.parametrize("size", [0, 1, FIRST_PLAINTEXT_BYTES, FIRST_PLAINTEXT_BYTES + 1, len(LONG)])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_sizes_and_digests_are_those_of_the_files(size: int, threads: int, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(LONG[:size])
    told: list[int] = []
    done = seal(tmp_path / "plain", tmp_path / "sealed", threads=threads, progress=told.append, digests=True)
    raw = (tmp_path / "sealed").read_bytes()
    assert done == SealedFile(
        plaintext_size=size,
        ciphertext_size=len(raw),
        header=raw[:40],
        plaintext_sha256=hashlib.sha256(LONG[:size]).digest(),
        ciphertext_sha256=hashlib.sha256(raw).digest(),
    )
    assert len(raw) == ciphertext_size(size)
    assert told == sorted(told)
    assert told[-1] == size
    again = seal(tmp_path / "plain", tmp_path / "sealed", threads=threads)
    assert (again.plaintext_sha256, again.ciphertext_sha256) == (None, None)
    assert plaintext_of(tmp_path / "sealed") == LONG[:size]


def test_the_same_file_sealed_twice_shares_no_segment(plain: Path, tmp_path: Path) -> None:
    seal(plain, tmp_path / "one")
    seal(plain, tmp_path / "two")
    one, two = (tmp_path / "one").read_bytes(), (tmp_path / "two").read_bytes()
    assert one[:1] == two[:1] == b"\x28"
    assert one[1:33] != two[1:33]
    assert all(one[at : at + 64] != two[at : at + 64] for at in range(40, len(one) - 64, SEGMENT_BYTES))


@pytest.mark.parametrize("name", ["sealed", "x" * 255, "ü" * 127])
def test_both_are_the_owners_alone_and_leave_nothing_beside_them(name: str, plain: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    os.umask(os.umask(0))
    seal(plain, folder / name)
    with opened(folder / name) as reader:
        unseal_file(reader, folder / "plain", random=os.urandom)
    assert sorted(path.name for path in folder.iterdir()) == sorted([name, "plain"])
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert (folder / "plain").read_bytes() == LONG


def test_a_descriptor_is_sealed_from_its_start_and_stays_open(plain: Path, tmp_path: Path) -> None:
    with plain.open("rb") as file:
        file.seek(100)
        seal(file.fileno(), tmp_path / "sealed")
        assert file.tell() == 100
    assert plaintext_of(tmp_path / "sealed") == LONG


def test_a_file_may_be_replaced_by_what_is_sealed_from_it(plain: Path) -> None:
    seal(plain, plain)
    assert plaintext_of(plain) == LONG


def test_a_link_at_the_target_is_replaced_and_not_followed(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "sealed").symlink_to(tmp_path / "victim")
    seal(plain, tmp_path / "sealed")
    assert not (tmp_path / "sealed").is_symlink()
    assert (tmp_path / "victim").read_bytes() == b"untouched"


def test_a_relative_name_is_in_the_current_folder(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seal(Path("plain"), Path("sealed"))
    assert plaintext_of(tmp_path / "sealed") == LONG


def test_pieces_go_anywhere(plain: Path) -> None:
    out = bytearray(ciphertext_size(len(LONG)))

    def put(offset: int, piece: memoryview) -> None:
        out[offset : offset + len(piece)] = piece

    seal_to(plain, put, key=KEY, associated_data=AAD, random=os.urandom, threads=3)
    with SealedReader(MemorySource(out), key=KEY, associated_data=AAD) as reader:
        assert reader.read(0, reader.size) == LONG


# --- refusals, each of which leaves the target as it was ---


class Unchanged:
    """A folder with a target in it, which must be the same afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = folder / "target"
        folder.mkdir()
        self.target.write_bytes(b"as it was")

    def check(self) -> None:
        assert [path.name for path in self.folder.iterdir()] == ["target"]
        assert self.target.read_bytes() == b"as it was"


@pytest.fixture
def kept(tmp_path: Path) -> Unchanged:
    return Unchanged(tmp_path / "kept")


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def shorten(path: Path) -> None:
    os.truncate(path, len(LONG) // 2)


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def rewrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"y")


@pytest.mark.parametrize("change", [grow, shorten, touch, rewrite])
@pytest.mark.parametrize("digests", [False, True])
def test_a_source_that_changes_while_it_is_sealed_is_refused(
    change: Callable[[Path], None], digests: bool, plain: Path, kept: Unchanged
) -> None:
    os.utime(plain, ns=(5, 5))
    done: list[int] = []

    def progress(count: int) -> None:
        if not done:
            change(plain)
        done.append(count)

    error = refused(lambda: seal(plain, kept.target, threads=1, progress=progress, digests=digests))
    assert error.code == "sealed-source-changed"
    kept.check()


def test_what_is_no_regular_file_is_not_sealed(tmp_path: Path, kept: Unchanged) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        assert refused(lambda source=source: seal(source, kept.target)).code == "sealed-source-not-a-file"  # type: ignore[misc] # mypy infers no type for a default of a lambda
    assert refused(lambda: seal(tmp_path / "none", kept.target)).code == "sealed-source-unreadable"
    read, write = os.pipe()
    assert refused(lambda: seal(read, kept.target)).code == "sealed-source-not-a-file"
    os.close(read)
    os.close(write)
    assert refused(lambda: seal(read, kept.target)).code == "sealed-source-unreadable"
    kept.check()


def test_a_source_that_may_not_be_read_is_told(plain: Path, kept: Unchanged) -> None:
    fd = os.open(plain, os.O_WRONLY)
    assert refused(lambda: seal(fd, kept.target)).code == "sealed-source-unreadable"
    os.close(fd)
    kept.check()


def test_a_target_that_cannot_be_written_is_told(plain: Path, tmp_path: Path, kept: Unchanged) -> None:
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "none" / "sealed", plain / "below", tmp_path / "folder", tmp_path / ("x" * 256)):
        error = refused(lambda target=target: seal(plain, target))  # type: ignore[misc] # as above
        assert error.code == "sealed-target-unwritable"
        with SealedReader(MemorySource(sealed(b"x")), key=KEY, associated_data=AAD) as reader:
            error = refused(lambda target=target, reader=reader: unseal_file(reader, target, random=os.urandom))  # type: ignore[misc] # as above
        assert error.code == "sealed-target-unwritable"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "kept", "plain"]
    kept.check()


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33)])
def test_a_key_of_another_length_leaves_the_target_as_it_was(key: bytes, plain: Path, kept: Unchanged) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        seal(plain, kept.target, key=key)
    with pytest.raises(ValueError, match="thread"):
        seal(plain, kept.target, threads=0)
    kept.check()


class StopError(Exception):
    """Of the caller."""


def stop(_: int) -> None:
    raise StopError


@pytest.mark.parametrize("digests", [False, True])
def test_what_the_caller_raises_leaves_the_target_as_it_was(digests: bool, plain: Path, kept: Unchanged) -> None:
    with pytest.raises(StopError):
        seal(plain, kept.target, progress=stop, digests=digests)
    with (
        SealedReader(MemorySource(sealed(LONG)), key=KEY, associated_data=AAD) as reader,
        pytest.raises(StopError),
    ):
        unseal_file(reader, kept.target, random=os.urandom, progress=stop)
    kept.check()


@pytest.mark.parametrize("segment", [0, 1, 3])
def test_a_file_with_a_bad_segment_is_not_unsealed(segment: int, kept: Unchanged) -> None:
    raw = sealed(LONG)
    raw[segment * SEGMENT_BYTES + 1000] ^= 1
    with SealedReader(MemorySource(raw), key=KEY, associated_data=AAD, threads=2) as reader:
        with pytest.raises(SealedTamperError):
            unseal_file(reader, kept.target, random=os.urandom)
        kept.check()
    with pytest.raises(ValueError, match="closed"):
        unseal_file(reader, kept.target, random=os.urandom)
    kept.check()


def test_a_place_that_takes_no_file_is_told(plain: Path, tmp_path: Path) -> None:
    error = refused(lambda: seal(plain, tmp_path / "none" / "target"))
    assert isinstance(error, SealedSourceError)
    assert (error.code, error.got) == ("sealed-target-unwritable", "ENOENT")


# --- killed at any moment ---

LOOP = """
import os, sys
from itertools import count
from pathlib import Path
from attest.sealed import FileSource, SealedReader, seal_file, unseal_file
folder, work = Path(sys.argv[1]), sys.argv[2]
key, aad = bytes(range(32)), b"x"
readers = [SealedReader(FileSource(folder / f"{n}.sealed"), key=key, associated_data=aad, threads=2) for n in "01"]
print("ready", flush=True)
for n in count():
    if work == "seal":
        seal_file(folder / str(n % 2), folder / "target", key=key, associated_data=aad, random=os.urandom, threads=2)
    else:
        unseal_file(readers[n % 2], folder / "target", random=os.urandom)
"""


def killed(folder: Path, work: str, seconds: float) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LOOP, str(folder), work], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(seconds)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()


def rounds(folder: Path, work: str, count: int) -> None:
    contents = [content(3 * SEGMENT_BYTES, seed) for seed in (1, 2)]
    for n, data in enumerate(contents):
        (folder / str(n)).write_bytes(data)
        seal_file(folder / str(n), folder / f"{n}.sealed", key=KEY, associated_data=b"x", random=os.urandom)
    rng = random.Random(work)
    for _ in range(count):
        killed(folder, work, rng.uniform(0, 0.08))
        target = folder / "target"
        if not target.exists():
            continue
        if work == "seal":
            with SealedReader(FileSource(target), key=KEY, associated_data=b"x") as reader:
                got = bytes(reader.read(0, reader.size))
        else:
            got = target.read_bytes()
        assert got in contents
    for path in folder.iterdir():
        # Only between its two names can a whole file be left under the first.
        assert not path.name.endswith(PART_SUFFIX) or path.stat().st_size >= len(contents[0])


@pytest.mark.parametrize("work", ["seal", "unseal"])
def test_a_process_that_is_killed_leaves_a_whole_target_or_none(work: str, tmp_path: Path) -> None:
    rounds(tmp_path, work, 4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("work", ["seal", "unseal"])
def test_a_process_that_is_killed_hundreds_of_times_leaves_a_whole_target_or_none(work: str, tmp_path: Path) -> None:
    rounds(tmp_path, work, 300)


# --- memory ---

MEASURE = """
import os, sys
from pathlib import Path
from attest.sealed import FileHeader, SealedReader, SegmentCipher, ciphertext_size, seal_to
from attest.sealed.layout import segment_count, segment_place
folder, size = Path(sys.argv[1]), int(sys.argv[2])
key, aad = bytes(range(32)), b"x"

def most():  # resource.getrusage would count what the process was before it became this one
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

class Made:  # the sealed file of so many zeros, encrypted where it is asked for
    name, size = "made", ciphertext_size(size)
    header = FileHeader.fresh(os.urandom)
    cipher, zeros = SegmentCipher(key, header, aad), memoryview(bytes(1 << 20))
    def read_into(self, offset, buffer):
        if offset == 0:
            buffer[:] = bytes(self.header)
            return
        place = segment_place(offset >> 20, self.size)
        self.cipher.encrypt_into(place.index, place.last, self.zeros[:place.plaintext_size], buffer)
    def close(self):
        pass

source, before = Made(), most()
with open(folder / "sparse", "wb") as file:
    file.truncate(size)
seal_to(folder / "sparse", lambda at, piece: None, key=key, associated_data=aad, random=os.urandom)
seal_to(folder / "sparse", lambda at, piece: None, key=key, associated_data=aad, random=os.urandom, digests=True)
with SealedReader(source, key=key, associated_data=aad, expected_size=size) as reader:
    reader.stream(len)
    reader.scatter(lambda at, piece: None)
    for at in range(0, size, size // 50):
        reader.read(at, min(4096, size - at))
    assert reader.read(size - 2_000_000, 2_000_000) == bytes(2_000_000)
print(most() - before)
"""
MAX_KIBIBYTES = 64 << 10


def memory_of(folder: Path, size: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), str(size)],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    )
    return int(done.stdout)


def test_sealing_and_reading_take_constant_memory(tmp_path: Path) -> None:
    assert 0 < memory_of(tmp_path, 150 << 20) < MAX_KIBIBYTES


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_gibibytes_take_no_more_memory_than_one_would(tmp_path: Path) -> None:
    assert 0 < memory_of(tmp_path, 20 << 30) < MAX_KIBIBYTES
