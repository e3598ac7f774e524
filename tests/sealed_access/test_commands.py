"""`attest sealed ls` and `attest sealed cat`."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from attest.cli.main import cli
from tests.sealed.made import FILES, KEY, OTHER_KEY, OWNER, STRANGER, Place, public_pem, read_files
from tests.sealed_access.servers import Shelf, serving


@dataclass
class Ran:
    code: int
    out: bytes
    err: str


def attest(*arguments: object) -> Ran:
    found = CliRunner().invoke(cli, ["sealed", *[str(argument) for argument in arguments]])
    assert "Traceback" not in found.output
    return Ran(code=found.exit_code, out=found.stdout_bytes, err=found.stderr)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path)
    made.seal()
    (tmp_path / "owner.pub").write_bytes(public_pem(OWNER))
    (tmp_path / "stranger.pub").write_bytes(public_pem(STRANGER))
    for name, key in (("model.key", KEY), ("other.key", OTHER_KEY)):
        (tmp_path / name).write_bytes(key)
        (tmp_path / name).chmod(0o600)
    return made


TRUST = ("--trust", "owner.pub")
OPEN = (*TRUST, "--key-file", "model.key")


def test_ls_lists_names_and_sizes_without_a_key(place: Place) -> None:
    ran = attest("ls", place.sealed, *TRUST)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.decode() == (
        "    15  config.json\n     0  empty\n320000  model.safetensors\n     4  tokenizer/vocab.txt\n"
    )
    document = json.loads(attest("ls", place.sealed, *TRUST, "--json").out)
    assert document["schema"] == "attest.sealed-files/1"
    assert document["files"] == [{"path": name, "size": len(content)} for name, content in sorted(FILES.items())]


def test_ls_lists_a_folder_or_a_file(place: Place) -> None:
    for folder in ("tokenizer", "tokenizer/", "tokenizer/vocab.txt"):
        assert attest("ls", place.sealed, folder, *TRUST).out == b"4  tokenizer/vocab.txt\n"
    ran = attest("ls", place.sealed, "token", *TRUST)
    assert ran.code == 2
    assert "the model has nothing called 'token'" in ran.err


def test_cat_writes_a_file_or_a_range_of_it(place: Place) -> None:
    for name, content in FILES.items():
        assert attest("cat", place.sealed, name, *OPEN) == Ran(code=0, out=content, err="")
    content = FILES["model.safetensors"]
    for offset, length in ((0, 5), (7, 0), (1000, 250_000), (319_999, 10), (320_000, 1), (10**12, 5)):
        ran = attest("cat", place.sealed, "model.safetensors", *OPEN, "--offset", offset, "--length", length)
        assert ran == Ran(code=0, out=content[offset : offset + length], err="")
    assert attest("cat", place.sealed, "model.safetensors", *OPEN, "--offset", 100).out == content[100:]


def test_nothing_is_read_that_nobody_trusted_signed(place: Place) -> None:
    for command in (("ls", place.sealed), ("cat", place.sealed, "config.json", "--key-file", "model.key")):
        ran = attest(*command, "--trust", "stranger.pub")
        assert (ran.code, ran.out) == (4, b"")
        assert attest(*command).code == 2


@pytest.mark.parametrize(
    "command",
    [("ls", "sealed", *TRUST), ("cat", "sealed", "empty", *OPEN), ("keyset", "sealed", "-o", "keyset.json", *OPEN)],
)
def test_an_older_model_is_refused_where_one_is_pinned(place: Place, command: tuple[str, ...]) -> None:
    with place.open() as model:
        own = model.manifest.model
    assert attest(*command, "--model-id", own.hex()).code == 0
    Path("keyset.json").unlink(missing_ok=True)
    ran = attest(*command, "--model-id", bytes(16).hex())
    assert (ran.code, ran.out) == (4, b"")
    assert "another model" in ran.err


def test_cat_needs_the_key_and_a_file_that_is_there(place: Place) -> None:
    ran = attest("cat", place.sealed, "config.json", *TRUST)
    assert ran.code == 2
    assert "--key-file" in ran.err
    ran = attest("cat", place.sealed, "config.json", *TRUST, "--key-file", "other.key")
    assert (ran.code, ran.out) == (4, b"")
    ran = attest("cat", place.sealed, "none", *OPEN)
    assert (ran.code, ran.out) == (6, b"")


def test_cat_gives_nothing_of_a_segment_that_does_not_verify(place: Place) -> None:
    path = place.sealed / "model.safetensors.sealed"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    ran = attest("cat", place.sealed, "model.safetensors", *OPEN)
    assert (ran.code, ran.out) == (4, b"")


def test_cat_writes_to_no_terminal(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from attest.cli import sealed_access

    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

    monkeypatch.setattr(sealed_access, "standard_output", Terminal)
    ran = attest("cat", place.sealed, "config.json", *OPEN)
    assert (ran.code, ran.out) == (2, b"")
    assert "terminal" in ran.err


@pytest.mark.loopback
def test_a_model_on_a_web_server_is_read_with_the_headers_of_a_file(place: Place, tmp_path: Path) -> None:
    files = {f"/m/{name}": content for name, content in read_files(place.sealed).items()}
    shelf = Shelf(files=files)
    (tmp_path / "headers").write_text("Authorization: Bearer made up\n\nX-Team:a\n")
    with serving(shelf.handler()) as url:
        ran = attest("ls", f"{url}/m", *TRUST, "--headers", "headers")
        assert ran.out.count(b"\n") == 4
        ran = attest("cat", f"{url}/m", "config.json", *OPEN, "--headers", "headers")
        assert ran == Ran(code=0, out=FILES["config.json"], err="")
        ran = attest("cat", f"{url}/none", "config.json", *OPEN)
        assert ran.code == 6
        assert "does not exist" in ran.err
    # The last command gave no headers.
    given = {(headers.get("Authorization"), headers.get("X-Team")) for path, headers in shelf.seen if "/m/" in path}
    assert given == {("Bearer made up", "a")}


@pytest.mark.parametrize("content", ["no header", "Bad Name: x", "X: ü", ": x", "X" * 70_000])
def test_headers_that_are_none_are_refused_and_not_shown(place: Place, tmp_path: Path, content: str) -> None:
    (tmp_path / "headers").write_text(content)
    ran = attest("ls", "https://models.example/m", *TRUST, "--headers", "headers")
    assert ran.code == 2
    assert "does not contain headers" in ran.err
    assert content[:20] not in ran.err


def test_an_address_that_is_none_is_a_wrong_use(place: Place) -> None:
    ran = attest("ls", "ftp://models.example/m", *TRUST)
    assert ran.code == 2
    assert os.sep not in ran.out.decode()
