"""What disks and strangers can do to a folder that is worked on; and models of any shape."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import AttestError, ConfigurationError, SealedFileError, SealedSourceError, SealedTamperError
from attest.sealed import FolderStore, SealingNames, rewrap, unseal_directory
from attest.sealed import stores as stores_module
from attest.sealed.atomic_file import write_whole
from attest.sealed.journal import Journal
from attest.sealed.key_rotation import finish_rewrap
from attest.sealed.names import names_problem
from tests.sealed.made import KEY, NAMES, OTHER_KEY, OWNER, Place, read_files

TRUSTED = (OWNER.public_key(),)
NAME = st.text(st.characters(categories=["L", "N", "P"], exclude_characters="/\\"), min_size=1, max_size=12)
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)


@settings(max_examples=25)
@given(st.dictionaries(PATH, st.binary(max_size=200), min_size=1, max_size=6))
def test_a_model_of_any_shape_is_opened_as_it_was_or_refused_before_all(
    files: dict[str, bytes],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            place = Place(Path(name), files=files)
        except OSError:
            return  # A name that is a file and a folder, or "..".
        if read_files(place.model) != files:
            return
        if names_problem(files) is not None or any(one.split("/")[0] in {".git", ".github"} for one in files):
            with pytest.raises(ConfigurationError):
                place.seal()
            return
        place.seal()
        with place.open(digests=True) as model:
            unseal_directory(model, Path(name) / "plain", random=os.urandom, allow_disk=True, verify_digests=True)
        assert read_files(Path(name) / "plain") == files


# -- rewrapping


def put_under(place: Place, names: SealingNames = NAMES) -> None:
    rewrap(place.sealed, key=KEY, new_key=OTHER_KEY, names=names, signer=OWNER, trusted=TRUSTED, random=os.urandom)


def test_a_rewrapping_that_was_not_decided_is_forgotten(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    before = read_files(place.sealed)
    work = tmp_path / ".sealed.rewrapping"
    work.mkdir()
    (work / "sealed.json").write_bytes(b"half")
    assert not finish_rewrap(place.sealed, trusted=TRUSTED)
    assert not work.exists()
    assert read_files(place.sealed) == before


def prepared(place: Place) -> Path:
    """Leave a rewrapping that was decided and not ended."""
    place.seal()
    before = read_files(place.sealed)
    put_under(place)
    work = place.folder / ".sealed.rewrapping"
    work.mkdir()
    for name in ("sealed.json", "model.sig"):
        (place.sealed / name).rename(work / name)
        (place.sealed / name).write_bytes(before[name])
    return work


def test_a_rewrapping_that_was_decided_is_ended_from_either_side_of_the_first_name(tmp_path: Path) -> None:
    for first in (False, True):
        place = Place(tmp_path / str(first))
        work = prepared(place)
        if first:
            (work / "sealed.json").replace(place.sealed / "sealed.json")
            with pytest.raises(AttestError) as refused:
                place.open(key=OTHER_KEY)
            assert "rewrap" in str(refused.value.hint)
        assert finish_rewrap(place.sealed, trusted=TRUSTED)
        place.open(key=OTHER_KEY, digests=True).close()
        assert not work.exists()


def test_a_rewrapping_whose_manifest_was_exchanged_is_not_ended(tmp_path: Path) -> None:
    place = Place(tmp_path)
    work = prepared(place)
    (work / "sealed.json").write_bytes((work / "sealed.json").read_bytes() + b" ")
    before = read_files(place.sealed)
    with pytest.raises(ConfigurationError) as refused:
        finish_rewrap(place.sealed, trusted=TRUSTED)
    assert refused.value.code == "sealed-work-differs"
    assert read_files(place.sealed) == before


def test_a_model_that_is_gone_cannot_be_rewrapped_to_its_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    prepared(place)
    place.sealed.rename(tmp_path / "elsewhere")
    with pytest.raises(SealedSourceError) as refused:
        finish_rewrap(place.sealed, trusted=TRUSTED)
    assert refused.value.code == "sealed-target-unwritable"


def test_a_place_for_a_rewrapping_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    (tmp_path / ".sealed.rewrapping").write_bytes(b"in the way")
    with pytest.raises(ConfigurationError) as refused:
        put_under(place)
    assert refused.value.code == "output-unwritable"


# -- journals, folders, files


@pytest.mark.parametrize("line", [b"0" * 64 + b" 1\n", b"0" * 64 + b" {\n", b"\n", b"x\n"])
def test_a_journal_of_something_else_is_refused(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "journal").write_bytes(line)
    journal = Journal(tmp_path / "journal")
    with pytest.raises(SealedTamperError) as refused:
        journal.head()
    assert refused.value.code == "sealed-journal-invalid"
    journal.close()


def test_a_journal_beyond_any_size_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "journal").open("wb") as file:
        file.truncate(1 << 29)
    journal = Journal(tmp_path / "journal")
    with pytest.raises(SealedTamperError):
        journal.head()
    journal.close()


def test_a_journal_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "journal").symlink_to(tmp_path / "target")
    with pytest.raises(SealedSourceError):
        Journal(tmp_path / "journal")


def test_a_journal_on_a_full_disk_is_said(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    journal = Journal(full)
    with pytest.raises(SealedSourceError):
        journal.append({"path": "x"})
    journal.close()


def test_a_folder_with_too_many_entries_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores_module, "_MAX_ENTRIES", 2)
    for name in "abc":
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(SealedFileError) as refused:
        FolderStore(tmp_path).sizes()
    assert refused.value.code == "sealed-folder-unsafe"


def test_a_folder_that_is_not_there_cannot_be_listed_or_written_to(tmp_path: Path) -> None:
    with pytest.raises(SealedSourceError):
        FolderStore(tmp_path / "none").sizes()
    with pytest.raises(SealedSourceError) as refused:
        write_whole(tmp_path / "none" / "file", b"x")
    assert refused.value.code == "sealed-target-unwritable"


def test_a_file_larger_than_its_limit_is_read_to_one_byte_beyond(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert len(FolderStore(tmp_path).read_small("file", 10)) == 11
    assert len(FolderStore(tmp_path).read_small("file", 100)) == 100


# -- whose folder it is


@pytest.mark.parametrize("kind", ["sealing", "unsealing", "rewrapping"])
def test_a_workplace_to_which_others_may_write_is_refused(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path)
    if kind != "sealing":
        place.seal()
    target = {"sealing": "sealed", "unsealing": "plain", "rewrapping": "sealed"}[kind]
    work = tmp_path / f".{target}.{kind}"
    work.mkdir()
    work.chmod(0o777)
    runs: dict[str, Callable[[], object]] = {
        "sealing": place.seal,
        "unsealing": lambda: unseal_directory(place.open(), tmp_path / "plain", random=os.urandom, allow_disk=True),
        "rewrapping": lambda: put_under(place),
    }
    with pytest.raises(ConfigurationError) as refused:
        runs[kind]()
    assert refused.value.code == "sealed-work-unsafe"
    assert list(work.iterdir()) == []


def test_a_workplace_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / ".sealed.sealing").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError) as refused:
        place.seal()
    assert refused.value.code == "sealed-work-unsafe"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_workplace_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make folders of others")
    place = Place(tmp_path)
    (tmp_path / ".sealed.sealing").mkdir(mode=0o700)
    os.chown(tmp_path / ".sealed.sealing", 65534, 65534)
    with pytest.raises(ConfigurationError) as refused:
        place.seal()
    assert refused.value.code == "sealed-work-unsafe"


def test_a_refused_workplace_is_free_for_the_next_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    model = tmp_path / ".sealed.sealing" / "model"
    model.mkdir(parents=True, mode=0o700)
    model.parent.chmod(0o700)
    model.chmod(0o777)
    with pytest.raises(ConfigurationError) as refused:
        place.seal()
    assert refused.value.code == "sealed-work-unsafe"
    model.chmod(0o700)
    place.seal()
    place.open(digests=True).close()
