"""A sealed file as a file object, wherever it lies."""

import io
import json
import pickle
import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import sealed
from attest.errors import ConfigurationError, SealedFileError, SealedSourceError, SealedTamperError
from attest.sealed.file_object import LOCAL_BUFFER_BYTES, REMOTE_BUFFER_BYTES, SealedFileObject
from attest.sealed.http_source import HttpStore
from attest.sealed.locations import connections_of, source_of, store_of
from attest.sealed.s3_source import S3Store
from tests.sealed.made import FILES, KEY, OWNER, Place, read_files
from tests.sealed_access.making import ASSOCIATED, MemorySource, Plain, reader_of, seal
from tests.sealed_access.servers import Shelf, hasty, serving

CONTENT = bytes(range(256)) * 10_000


def opened(content: bytes = CONTENT, *, buffer_size: int = LOCAL_BUFFER_BYTES) -> SealedFileObject:
    return SealedFileObject(reader_of(content), buffer_size=buffer_size)


def test_it_reads_as_a_plain_file_does(tmp_path: Path) -> None:
    path = tmp_path / "x.sealed"
    path.write_bytes(seal(CONTENT))
    with sealed.open(path, key=KEY, associated_data=ASSOCIATED, expected_size=len(CONTENT)) as file:
        assert (file.readable(), file.seekable(), file.writable(), file.closed) == (True, True, False, False)
        assert (file.name, file.mode, file.size) == (str(path), "rb", len(CONTENT))
        assert file.read(10) == CONTENT[:10]
        assert file.tell() == 10
        assert file.seek(-4, io.SEEK_END) == len(CONTENT) - 4
        assert file.read() == CONTENT[-4:]
        assert file.read() == b""
        assert file.seek(5000) == 5000
        assert file.seek(10, io.SEEK_CUR) == 5010
        buffer = bytearray(1000)
        assert file.readinto(buffer) == 1000
        assert buffer == CONTENT[5010:6010]
        assert file.seek(0) == 0
        assert file.read() == CONTENT
        assert file.seek(len(CONTENT) + 10) == len(CONTENT) + 10
        assert file.read(5) == b""
    assert file.closed
    for use in (file.read, file.tell, lambda: file.seek(0), file.readable):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_wrong_seeks_are_refused() -> None:
    with opened() as file:
        with pytest.raises(ValueError, match="before the beginning"):
            file.raw.seek(-1, io.SEEK_SET)
        with pytest.raises(ValueError, match="whence"):
            file.raw.seek(0, 9)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")


def test_the_raw_file_below_it_reads_without_a_buffer() -> None:
    file = opened(b"abcdef")
    raw = file.detach()
    assert raw.read(2) == b"ab"
    assert raw.readall() == b"cdef"
    assert raw.readall() == b""
    raw.close()
    raw.close()
    with pytest.raises(ValueError, match="closed"):
        raw.readall()


def test_it_closes_its_reader_and_does_not_leave_the_process() -> None:
    plain = Plain(b"abc")
    with SealedFileObject(plain) as file, pytest.raises(TypeError, match="process"):
        pickle.dumps(file)
    assert plain.closed


def test_libraries_take_it_for_a_file() -> None:
    with opened(b'{"hidden": 384}\n[1]\n') as file:
        assert json.loads(file.readline()) == {"hidden": 384}
        assert [*file] == [b"[1]\n"]
    with opened(b"line\nline\n") as file, io.TextIOWrapper(file) as text:
        assert text.read() == "line\nline\n"
    with opened() as file:
        copy = io.BytesIO()
        shutil.copyfileobj(file, copy)
    assert copy.getvalue() == CONTENT
    with opened(b"") as file:
        assert file.read() == b""


def test_reading_ahead_ends_where_a_segment_ends() -> None:
    plain = Plain(bytes(3_000_000))
    with SealedFileObject(plain) as file:
        while file.read(1000):
            pass
    assert plain.asked == [(0, 1_048_520), (1_048_520, 1_048_560), (2_097_080, 902_920)]


@given(
    steps=st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 1_500_000)), max_size=4),
    buffer_size=st.sampled_from([1, 1000, 1 << 20]),
)
def test_any_seek_and_read_is_the_slice(steps: list[tuple[int, int]], buffer_size: int) -> None:
    with opened(buffer_size=buffer_size) as file:
        for start, size in steps:
            file.seek(start)
            assert file.read(size) == CONTENT[start : start + size]


def test_several_threads_share_one_file() -> None:
    seen: list[bytes] = []
    with opened(bytes(range(250)) * 4000, buffer_size=1000) as file:

        def work() -> None:
            while block := file.read(250):
                seen.append(block)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 4000
    assert set(seen) == {bytes(range(250))}


def test_a_segment_that_does_not_verify_gives_nothing() -> None:
    content = bytearray(seal(CONTENT))
    content[1_500_000] ^= 1
    with sealed.open(MemorySource(bytes(content)), key=KEY, associated_data=ASSOCIATED) as file:
        assert file.read(1000) == CONTENT[:1000]
        file.seek(1_200_000)
        with pytest.raises(SealedTamperError):
            file.read(1)
        buffer = bytearray(b"?" * 100)
        with pytest.raises(SealedTamperError):
            file.raw.readinto(memoryview(buffer))
        assert buffer == bytes(100)
        file.seek(2_200_000)
        assert file.read(10) == CONTENT[2_200_000:2_200_010]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"key": bytes(32)}, SealedTamperError),
        ({"associated_data": b"else"}, SealedTamperError),
        ({"expected_size": 5}, SealedTamperError),
        ({"key": bytes(31)}, ValueError),
    ],
)
def test_what_it_was_not_sealed_for_does_not_open(changes: dict[str, object], error: type[Exception]) -> None:
    source = MemorySource(seal(b"abc"))
    with pytest.raises(error):
        sealed.open(source, **{"key": KEY, "associated_data": ASSOCIATED, **changes})  # type: ignore[arg-type]  # a test
    assert source.closed


def test_what_is_not_there_or_not_sealed_does_not_open(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(bytes(100))
    with pytest.raises(SealedFileError):
        sealed.open(tmp_path / "plain", key=KEY, associated_data=ASSOCIATED)
    with pytest.raises(SealedSourceError):
        sealed.open(str(tmp_path / "none"), key=KEY, associated_data=ASSOCIATED)
    for place in ("ftp://host/x", "HTTP//x://y", "s3://"):
        with pytest.raises((ConfigurationError, SealedSourceError)):
            sealed.open(place, key=KEY, associated_data=ASSOCIATED)


@pytest.mark.loopback
def test_a_file_on_a_web_server_reads_ahead_on_several_connections() -> None:
    shelf = Shelf(files={"/x.sealed": seal(CONTENT)})
    with (
        serving(shelf.handler()) as url,
        sealed.open(
            source_of(f"{url}/x.sealed", headers=lambda: {"X-Team": "a"}, patience=hasty()),
            key=KEY,
            associated_data=ASSOCIATED,
        ) as file,
    ):
        assert file.read(10) == CONTENT[:10]
        asked = len(shelf.seen)
        assert file.read() == CONTENT[10:]
        assert len(shelf.seen) == asked  # all of it was read ahead
    assert {headers["X-Team"] for _, headers in shelf.seen} == {"a"}
    assert len(CONTENT) < REMOTE_BUFFER_BYTES


@pytest.mark.loopback
def test_a_model_on_a_web_server_opens_verified(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    files = {f"/m/{name}": content for name, content in read_files(place.sealed).items()}
    with serving(Shelf(files=files).handler()) as url, closing(HttpStore(f"{url}/m", patience=hasty())) as store:
        assert connections_of(store) == 4
        with sealed.open_directory(store, key=KEY, trusted=(OWNER.public_key(),)) as model:
            for name, content in FILES.items():
                with sealed.open_file(model, name) as file:
                    assert file.read() == content
        cut = dict(files)
        cut["/m/config.json.sealed"] = cut["/m/config.json.sealed"][:-1]
    with (
        serving(Shelf(files=cut).handler()) as url,
        closing(HttpStore(f"{url}/m", patience=hasty())) as store,
        sealed.open_directory(store, key=KEY, trusted=(OWNER.public_key(),)) as model,
        pytest.raises(SealedFileError),
    ):
        model.open("config.json")


def test_a_place_that_is_here_has_no_connections(tmp_path: Path) -> None:
    assert connections_of(store_of(tmp_path)) is None
    assert connections_of(S3Store("s3://bucket/m", client=object())) == 8
    with pytest.raises(ConfigurationError):
        store_of("ftp://host/m")
