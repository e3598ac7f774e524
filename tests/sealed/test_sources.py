"""Local files as sources: regular ones, that stay as they were."""

import os
import threading
from pathlib import Path

import pytest

from attest.errors import SealedSourceError
from attest.sealed import FileSource, Source
from tests.sealed.segments import MemorySource


def read(source: Source, offset: int, length: int) -> bytes:
    out = bytearray(length)
    source.read_into(offset, memoryview(out))
    return bytes(out)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 64)
    return path


def refused(source: FileSource) -> str:
    with pytest.raises(SealedSourceError) as caught:
        read(source, 10, 100)
    return caught.value.code


def test_a_file_is_read_anywhere(path: Path) -> None:
    source = FileSource(path)
    assert (source.name, source.size) == (str(path), 256 * 64)
    assert read(source, 250, 12) == bytes((250, 251, 252, 253, 254, 255, 0, 1, 2, 3, 4, 5))
    assert read(source, source.size, 0) == b""
    assert read(FileSource(str(path)), 0, source.size) == path.read_bytes()
    source.close()


def test_what_has_the_members_is_a_source(path: Path) -> None:
    assert isinstance(FileSource(path), Source)
    assert isinstance(MemorySource(b""), Source)
    assert not isinstance(path, Source)


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 16385), (16384, 1)])
def test_a_range_beyond_the_file_is_a_mistake_of_the_caller(path: Path, offset: int, length: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        read(FileSource(path), offset, length)


def test_a_closed_file_is_not_read(path: Path) -> None:
    source = FileSource(path)
    source.close()
    source.close()
    with pytest.raises(ValueError, match="closed"):
        read(source, 0, 1)


def test_a_link_to_a_file_is_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    assert FileSource(tmp_path / "link").size == 16384


def test_what_is_missing_or_not_allowed_is_told_in_the_words_of_the_system(path: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, error in (("none", "ENOENT"), ("file/below", "ENOTDIR"), ("loop", "ELOOP")):
        with pytest.raises(SealedSourceError) as caught:
            FileSource(tmp_path / name)
        assert (caught.value.code, caught.value.got) == ("sealed-source-unreadable", error)
        assert str(tmp_path / name) in caught.value.message


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(SealedSourceError) as caught:
            FileSource(name)
        assert caught.value.code == "sealed-source-not-a-file"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("size", [0, 50, 16383, 16385, 1 << 20])
def test_a_file_that_becomes_shorter_or_longer_is_refused(path: Path, size: int) -> None:
    source = FileSource(path)
    assert len(read(source, 10, 100)) == 100
    os.truncate(path, size)
    assert refused(source) == "sealed-source-changed"


def test_a_file_that_is_replaced_stays_the_one_that_was_opened(path: Path, tmp_path: Path) -> None:
    source = FileSource(path)
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "other").replace(path)
    assert read(source, 1, 3) == b"\1\2\3"


def test_several_threads_read_one_file(path: Path) -> None:
    source, wrong = FileSource(path), []

    def look(at: int) -> None:
        if any(read(source, at, 256) != bytes(range(256)) for _ in range(200)):
            wrong.append(at)

    threads = [threading.Thread(target=look, args=(256 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
