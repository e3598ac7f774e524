"""Unfinished files: each has one maker, and an interrupted one is continued."""

import fcntl
import os
from pathlib import Path

import pytest

from attest.errors import OutputError
from attest.unfinished_file import UNFINISHED_SUFFIX, tidy_unfinished, unfinished_file


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make(path: Path, content: bytes) -> None:
    with unfinished_file(path) as draft:
        draft.write(content)
        draft.place()


def test_a_draft_gets_its_name_when_it_is_placed(tmp_path: Path) -> None:
    with unfinished_file(tmp_path / "file") as draft:
        draft.write(b"longer than the next one")
        draft.write(b"whole")
        assert names_in(tmp_path) == ["file" + UNFINISHED_SUFFIX]
        assert draft.file.stat().st_mode & 0o777 == 0o600
        draft.place()
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert names_in(tmp_path) == ["file"]


def test_what_was_left_is_taken_up_or_discarded(tmp_path: Path) -> None:
    with unfinished_file(tmp_path / "file") as draft:
        draft.write(b"left")
    with unfinished_file(tmp_path / "file") as draft:
        assert draft.content(100) == b"left"
        assert draft.content(2) == b"le"
        draft.discard()
    assert names_in(tmp_path) == []


def test_what_another_process_is_making_is_left_to_it(tmp_path: Path) -> None:
    with unfinished_file(tmp_path / "file") as draft:
        draft.write(b"half")
        with pytest.raises(OutputError) as refused:
            make(tmp_path / "file", b"other")
        assert (refused.value.code, refused.value.reason) == ("output-unwritable", "another process is making it")
        assert draft.content(10) == b"half"


def test_a_draft_that_others_could_have_written_is_refused(tmp_path: Path) -> None:
    draft = tmp_path / ("kek" + UNFINISHED_SUFFIX)
    draft.write_bytes(b"")
    draft.chmod(0o660)
    with pytest.raises(OutputError, match="not this user's alone"):
        make(tmp_path / "kek", b"x")
    draft.unlink()
    draft.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="symbolic"):
        make(tmp_path / "kek", b"x")
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_came_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with unfinished_file(tmp_path / "file") as draft:
        draft.write(b"mine")
        (tmp_path / "file").write_bytes(b"theirs")
        with pytest.raises(OutputError) as refused:
            draft.place()
    assert refused.value.code == "output-exists"
    assert (tmp_path / "file").read_bytes() == b"theirs"


def test_the_lock_of_a_draft_that_is_gone_is_worth_nothing(tmp_path: Path) -> None:
    make(tmp_path / "file", b"whole")
    with pytest.raises(OutputError) as refused:
        make(tmp_path / "file", b"other")
    assert refused.value.code == "output-exists"
    # Interrupted between the two names.
    os.link(tmp_path / "file", tmp_path / "file.new")
    with pytest.raises(OutputError):
        make(tmp_path / "file", b"other")
    assert names_in(tmp_path) == ["file"]
    with (tmp_path / "file").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and nobody holds it


def test_a_draft_of_another_file_is_not_tidied_away(tmp_path: Path) -> None:
    make(tmp_path / "file", b"whole")
    (tmp_path / "file.new").write_bytes(b"another")
    tidy_unfinished(tmp_path / "file")
    assert names_in(tmp_path) == ["file", "file.new"]


def test_a_place_that_takes_no_draft_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as refused:
        make(tmp_path / "none" / "file", b"x")
    assert (refused.value.code, refused.value.got) == ("output-unwritable", "ENOENT")
