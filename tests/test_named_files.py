"""Files that a setting names: read within a limit, and refused by the setting's name."""

from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from attest.named_files import read_bounded, read_named, unreadable


def test_a_file_is_read_whole_or_up_to_one_byte_beyond_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    assert len(read_named(file, "setting")) == 100
    assert [len(read_named(file, "setting", limit=limit)) for limit in (0, 98, 99, 100, 101)] == [1, 99, 100, 100, 100]


def test_a_file_that_cannot_be_read_is_refused_by_the_name_of_its_setting(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "absent", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigurationError) as refused:
            read_named(path, "policy", limit=9)
        error = refused.value
        assert (error.code, error.field, error.got) == ("file-unreadable", "policy", problem)
        assert error.message == f"policy: {path} cannot be read: {problem}"


def test_a_reason_may_be_the_systems_or_in_words() -> None:
    error = unreadable(Path("f"), "policy", "it is not a regular file", hint="check the path")
    assert (error.got, error.hint) == ("it is not a regular file", "check the path")
    assert unreadable(Path("f"), "policy", OSError("odd")).got == "odd"


def test_a_bounded_file_is_read_up_to_its_bound_and_refused_beyond(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    assert len(read_bounded(file, 100)) == 100
    with pytest.raises(OSError, match="more than 99 bytes"):
        read_bounded(file, 99)
