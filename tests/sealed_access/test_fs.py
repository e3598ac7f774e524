"""``sealed://`` through fsspec."""

import io
import pickle
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.core import url_to_fs

from attest.errors import ConfigurationError, SealedTamperError, SignatureError
from attest.sealed import SealedDirectory, SealedReader
from attest.sealed.fs import SealedFileSystem
from attest.sealed.manifest import SealedManifest
from tests.conftest import REPOSITORY
from tests.sealed.made import FILES, KEY, OTHER_KEY, OWNER, STRANGER, Place, public_pem, read_files
from tests.sealed_access.servers import Shelf, hasty, serving

TRUSTED = (OWNER.public_key(),)


@pytest.fixture(autouse=True)
def registered() -> None:
    """As the entry point does where the package is installed afresh."""
    fsspec.register_implementation("sealed", "attest.sealed.fs.SealedFileSystem", clobber=True)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.seal()
    return made


@pytest.fixture
def fs(place: Place) -> Iterator[SealedFileSystem]:
    made = fsspec.filesystem("sealed", place=place.sealed, key=KEY, trusted=TRUSTED)
    assert isinstance(made, SealedFileSystem)
    yield made
    made.close()


def test_the_package_registers_it() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["fsspec.specs"] == {"sealed": "attest.sealed.fs.SealedFileSystem"}


def test_it_lists_and_describes(fs: SealedFileSystem) -> None:
    assert fs.ls("", detail=False) == ["config.json", "empty", "model.safetensors", "tokenizer"]
    assert fs.ls("sealed://tokenizer/") == [{"name": "tokenizer/vocab.txt", "size": 4, "type": "file"}]
    assert fs.ls("config.json", detail=False) == ["config.json"]
    assert fs.info("config.json") == {"name": "config.json", "size": 15, "type": "file"}
    assert fs.info("tokenizer")["type"] == "directory"
    assert fs.info("")["type"] == "directory"
    assert fs.find("") == sorted(FILES)
    assert fs.glob("**/*.txt") == ["tokenizer/vocab.txt"]
    assert fs.exists("empty")
    assert not fs.exists("none")
    assert fs.isdir("tokenizer")
    assert fs.isfile("empty")
    assert fs.du("") == sum(len(content) for content in FILES.values())
    for ask in (fs.ls, fs.info, fs.cat_file, fs.open):
        with pytest.raises(FileNotFoundError):
            ask("none")
    with pytest.raises(FileNotFoundError):
        fs.open("tokenizer")


def test_it_opens_reads_and_copies(fs: SealedFileSystem, tmp_path: Path) -> None:
    for name, content in FILES.items():
        assert fs.cat_file(name) == content
        with fs.open(name) as file:
            assert file.read() == content
    with fs.open("tokenizer/vocab.txt", "r", encoding="utf-8") as text:
        assert text.read() == "a\nb\n"
    fs.get("", str(tmp_path / "copy"), recursive=True)
    assert {
        str(one.relative_to(tmp_path / "copy")): one.read_bytes()
        for one in (tmp_path / "copy").rglob("*")
        if one.is_file()
    } == FILES
    assert fs.head("config.json", 5) == b'{"hid'
    assert fs.tail("config.json", 4) == b"384}"


@pytest.mark.parametrize(
    ("start", "end"),
    [(None, None), (0, 5), (5, None), (-5, None), (None, -3), (3, -3), (9, 2), (10**9, None), (-(10**9), 3)],
)
def test_a_range_is_the_slice(fs: SealedFileSystem, start: int | None, end: int | None) -> None:
    content = FILES["model.safetensors"]
    assert fs.cat_file("model.safetensors", start, end) == content[start:end]
    assert fs.cat_ranges(["model.safetensors"], [start], [end]) == [content[start:end]]


def test_many_ranges_open_each_file_once(fs: SealedFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    model_open = SealedDirectory.open

    def counting(model: SealedDirectory, path: str) -> SealedReader:
        opened.append(path)
        return model_open(model, path)

    monkeypatch.setattr(SealedDirectory, "open", counting)
    content = FILES["model.safetensors"]
    paths = ["model.safetensors"] * 50 + ["config.json"]
    starts = [at * 1000 for at in range(50)] + [0]
    got = fs.cat_ranges(paths, starts, [start + 10 for start in starts])
    assert got == [content[start : start + 10] for start in starts[:50]] + [FILES["config.json"][:10]]
    assert opened == ["model.safetensors", "config.json"]
    assert fs.cat_ranges(["config.json", "empty"], 0, None) == [FILES["config.json"], b""]


def test_ranges_return_or_raise_what_fails(fs: SealedFileSystem, place: Place) -> None:
    sealed = place.sealed / "model.safetensors.sealed"
    content = bytearray(sealed.read_bytes())
    content[100] ^= 1
    sealed.write_bytes(content)
    got = fs.cat_ranges(["config.json", "none", "model.safetensors"], 0, 4)
    assert got[0] == FILES["config.json"][:4]
    assert isinstance(got[1], FileNotFoundError)
    assert isinstance(got[2], SealedTamperError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["config.json", "none"], 0, 4, on_error="raise")
    with pytest.raises(SealedTamperError):
        fs.cat_ranges(["model.safetensors"], 0, 4, on_error="raise")
    with pytest.raises(ValueError, match="argument"):
        fs.cat_ranges(["config.json"], [0, 1], 4)


def test_nothing_is_ever_written(fs: SealedFileSystem, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    writes: tuple[Callable[[], object], ...] = (
        lambda: fs.open("config.json", "wb"),
        lambda: fs.open("new", "ab"),
        lambda: fs.mkdir("new"),
        lambda: fs.makedirs("new"),
        lambda: fs.rm("config.json"),
        lambda: fs.rm_file("config.json"),
        lambda: fs.rmdir("tokenizer"),
        lambda: fs.cp_file("config.json", "new"),
        lambda: fs.mv("config.json", "new"),
        lambda: fs.touch("new"),
        lambda: fs.pipe_file("new", b"x"),
        lambda: fs.put_file(str(tmp_path / "x"), "new"),
    )
    for write in writes:
        with pytest.raises(io.UnsupportedOperation, match="read-only"):
            write()
    for time in (fs.created, fs.modified):
        with pytest.raises(NotImplementedError):
            time("config.json")


def test_addresses_go_with_options_and_chain_to_a_folder(place: Place) -> None:
    options = {"key": KEY, "trusted": TRUSTED}
    with fsspec.open("sealed://config.json", place=str(place.sealed), **options) as file:
        assert file.read() == FILES["config.json"]
    chained, path = url_to_fs(f"sealed://tokenizer/vocab.txt::file://{place.sealed}", **options)
    assert chained.cat_file(path) == FILES["tokenizer/vocab.txt"]


class Ring:
    def __init__(self, found: object) -> None:
        self.found = found
        self.asked: list[str] = []

    def key(self, name: str) -> object:
        self.asked.append(name)
        return self.found


class Held:
    material = memoryview(KEY)


@pytest.mark.parametrize("found", [KEY, Held()])
def test_a_session_gives_the_key_that_the_manifest_names_and_only_when_it_is_needed(
    place: Place, found: object
) -> None:
    ring = Ring(found)
    fs = fsspec.filesystem("sealed", place=place.sealed, key=ring, trusted=TRUSTED)
    assert ring.asked == []
    assert fs.cat_file("config.json") == FILES["config.json"]
    assert ring.asked == ["model@1"]
    fs.close()
    fs.close()
    assert fs.exists("empty")
    assert ring.asked == ["model@1"] * 2


def test_a_function_of_the_manifest_gives_the_key(place: Place) -> None:
    asked: list[SealedManifest] = []

    def give(manifest: SealedManifest) -> bytes:
        asked.append(manifest)
        return KEY

    fs = fsspec.filesystem("sealed", place=place.sealed, key=give, trusted=TRUSTED)
    assert fs.cat_file("empty") == b""
    assert [str(one.key) for one in asked] == ["model@1"]


@pytest.mark.parametrize("key", [None, "00" * 32, bytearray(32), 7])
def test_a_key_is_never_text_and_never_missing(place: Place, key: object) -> None:
    with pytest.raises(TypeError, match="key"):
        fsspec.filesystem("sealed", place=place.sealed, key=key, trusted=TRUSTED)


def test_a_place_is_needed() -> None:
    with pytest.raises(TypeError, match="place"):
        fsspec.filesystem("sealed", key=KEY, trusted=TRUSTED)


def test_trusted_keys_may_be_files(place: Place, tmp_path: Path) -> None:
    (tmp_path / "owner.pem").write_bytes(public_pem(OWNER))
    (tmp_path / "bad.pem").write_bytes(b"bad")
    fs = fsspec.filesystem("sealed", place=place.sealed, key=KEY, trusted=(tmp_path / "owner.pem",))
    assert fs.exists("empty")
    with pytest.raises(ConfigurationError):
        fsspec.filesystem("sealed", place=place.sealed, key=KEY, trusted=(str(tmp_path / "bad.pem"),))


@pytest.mark.parametrize("trusted", [(), (STRANGER.public_key(),)])
def test_a_signature_of_nobody_that_is_trusted_opens_nothing(place: Place, trusted: tuple[Any, ...]) -> None:
    fs = fsspec.filesystem("sealed", place=place.sealed, key=KEY, trusted=trusted)
    with pytest.raises(SignatureError):
        fs.ls("")


def test_an_older_model_of_the_owner_opens_nothing_where_one_is_pinned(place: Place) -> None:
    with place.open() as model:
        own = model.manifest.model
    pinned = fsspec.filesystem("sealed", place=place.sealed, key=KEY, trusted=TRUSTED, model_id=own)
    assert pinned.cat_file("empty") == b""
    another = fsspec.filesystem("sealed", place=place.sealed, key=KEY, trusted=TRUSTED, model_id=bytes(16))
    with pytest.raises(SealedTamperError) as refused:
        another.ls("")
    assert refused.value.code == "sealed-model-mismatch"


def test_another_key_opens_nothing(place: Place) -> None:
    fs = fsspec.filesystem("sealed", place=place.sealed, key=OTHER_KEY, trusted=TRUSTED)
    with pytest.raises(SealedTamperError):
        fs.cat_file("config.json")


def test_the_key_stays_out_of_what_fsspec_remembers(fs: SealedFileSystem, place: Place) -> None:
    again = fsspec.filesystem("sealed", place=place.sealed, key=KEY, trusted=TRUSTED)
    assert again is not fs
    assert set(fs.storage_options) == {"place"}
    assert KEY.hex() not in repr(vars(fs).get("storage_options"))
    leaves: tuple[Callable[[], object], ...] = (lambda: pickle.dumps(fs), fs.to_json, fs.to_dict)
    for leave in leaves:
        with pytest.raises(TypeError, match="process"):
            leave()


@pytest.mark.loopback
def test_a_model_on_a_web_server_is_a_file_system_too(place: Place) -> None:
    files = {f"/m/{name}": content for name, content in read_files(place.sealed).items()}
    shelf = Shelf(files=files)
    with serving(shelf.handler()) as url:
        fs = fsspec.filesystem(
            "sealed", place=f"{url}/m", key=KEY, trusted=TRUSTED, headers=lambda: {"X-A": "b"}, patience=hasty()
        )
        assert {name: fs.cat_file(name) for name in fs.find("")} == FILES
        with fs.open("model.safetensors") as file:
            file.seek(1000)
            assert file.read(8) == FILES["model.safetensors"][1000:1008]
        fs.close()
        with pytest.raises(ValueError, match="closed"):
            fs.ls("")
    assert {headers["X-A"] for _, headers in shelf.seen} == {"b"}
