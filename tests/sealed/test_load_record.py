"""The record of a load: what was decrypted of each file, counted by the reader itself."""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from attest.errors import SealedTamperError
from attest.sealed import SealedDirectory, load_model
from attest.sealed.layout import PLAINTEXT_BYTES, segment_count
from attest.sealed.load_record import LoadedFile, LoadMeter
from attest.sealed.manifest import MANIFEST_NAME
from tests.sealed.made import FILES, Place

LARGE = {"a.bin": bytes(range(256)) * 4096 * 3, "b.bin": b"b", "empty": b""}


@pytest.fixture
def large(tmp_path: Path) -> SealedDirectory:
    place = Place(tmp_path, dict(LARGE))
    place.seal()
    return place.open()


def counts(directory: SealedDirectory) -> dict[str, int]:
    return {one.path: one.decrypted for one in directory.loaded.files}


def segments(directory: SealedDirectory, path: str) -> int:
    return segment_count(directory.entries[path].sealed_size)


def test_nothing_is_loaded_before_a_file_is_opened(large: SealedDirectory) -> None:
    assert large.loaded.files == ()


def test_the_record_names_the_manifest_that_the_owner_signed(large: SealedDirectory, tmp_path: Path) -> None:
    assert large.loaded.manifest == sha256((tmp_path / "sealed" / MANIFEST_NAME).read_bytes()).digest()
    assert large.loaded.model == large.manifest.model


def test_opening_a_file_decrypts_its_last_segment_alone(large: SealedDirectory) -> None:
    large.open("a.bin").close()
    assert counts(large) == {"a.bin": 1}
    assert segments(large, "a.bin") == 4


def test_a_file_that_is_read_completely_is_counted_completely_and_once(large: SealedDirectory) -> None:
    for path, content in LARGE.items():
        assert large.read(path) == content
        large.read(path)
    assert counts(large) == {path: segments(large, path) for path in LARGE}
    assert [one.header for one in large.loaded.files] == [large.entries[path].header for path in sorted(LARGE)]


@pytest.mark.parametrize("way", ["stream", "scatter", "parts"])
def test_every_way_of_reading_is_counted(large: SealedDirectory, way: str) -> None:
    with large.open("a.bin") as reader:
        if way == "stream":
            reader.stream(lambda _piece: None)
        elif way == "scatter":
            reader.scatter(lambda _offset, _piece: None)
        else:
            reader.read_parts([(at, bytearray(1000)) for at in range(0, reader.size - 1000, PLAINTEXT_BYTES // 2)])
    assert counts(large) == {"a.bin": 4}


def test_a_part_of_a_file_is_counted_by_its_segments(large: SealedDirectory) -> None:
    with large.open("a.bin") as reader:
        reader.read(0, 10)
        reader.read(20, 10)
    assert counts(large) == {"a.bin": 2}


def test_a_segment_that_does_not_verify_is_not_counted(tmp_path: Path) -> None:
    place = Place(tmp_path, dict(LARGE))
    place.seal()
    sealed = bytearray((place.sealed / "a.bin.sealed").read_bytes())
    sealed[100] ^= 1
    (place.sealed / "a.bin.sealed").write_bytes(sealed)
    directory = place.open()
    with pytest.raises(SealedTamperError):
        directory.read("a.bin")
    assert counts(directory).get("a.bin", 0) < 4


def test_a_file_of_which_nothing_verifies_is_not_in_the_record(tmp_path: Path) -> None:
    place = Place(tmp_path, dict(FILES))
    place.seal()
    sealed = bytearray((place.sealed / "config.json.sealed").read_bytes())
    sealed[-1] ^= 1
    (place.sealed / "config.json.sealed").write_bytes(sealed)
    directory = place.open()
    with pytest.raises(SealedTamperError):
        directory.read("config.json")
    assert directory.loaded.files == ()


def test_threads_count_each_segment_once() -> None:
    meter = LoadMeter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: meter.count("x", b"h", 50).add(at % 50), range(1000)))
    assert meter.files() == (LoadedFile(path="x", header=b"h", decrypted=50),)


def test_tensors_are_counted_as_they_are_loaded(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="tensors are arrays")
    safetensors = pytest.importorskip("safetensors.numpy", reason="another writer of tensors")
    weights = {"w": numpy.arange(900_000, dtype=numpy.float32)}
    place = Place(tmp_path, {"model.safetensors": safetensors.save(weights)})
    place.seal()
    directory = place.open()
    assert (load_model(directory)["w"] == weights["w"]).all()
    assert counts(directory) == {"model.safetensors": segments(directory, "model.safetensors")}
