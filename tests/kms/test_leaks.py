"""The search that follows every test of the service finds what it is there to find."""

from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest

from tests.kms.leaks import found_in_files, found_in_texts, secrets_below
from tests.kms.support import MATERIAL, FakeRandom, Harness


@pytest.mark.parametrize(
    "text",
    [
        MATERIAL.hex(),
        MATERIAL.hex().upper(),
        b64encode(MATERIAL).decode(),
        b64encode(MATERIAL + b"more").decode(),
        urlsafe_b64encode(MATERIAL).decode().rstrip("="),
        repr(MATERIAL),
        f"SecretBytes({MATERIAL!r})",
        str(list(MATERIAL)),
    ],
)
def test_mc_33_a_key_is_found_however_it_is_spelled(text: str, tmp_path: Path) -> None:
    told = f"a line that tells {text} and goes on"
    assert found_in_texts({"stderr": told, "stdout": "nothing"}, [MATERIAL]) == ["stderr"]
    (tmp_path / "log").write_text(told, encoding="utf-8")
    (tmp_path / "other").write_text("nothing", encoding="utf-8")
    assert found_in_files(tmp_path, [MATERIAL]) == ["log"]


def test_mc_33_a_file_that_is_a_key_is_its_owners_and_one_that_holds_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "model.key").write_bytes(MATERIAL)
    assert found_in_files(tmp_path, [MATERIAL]) == []
    (tmp_path / "dump").write_bytes(b"core" + MATERIAL)
    assert found_in_files(tmp_path, [MATERIAL]) == ["dump"]


def test_mc_33_the_key_encryption_key_of_a_service_is_among_what_is_looked_for(harness: Harness) -> None:
    (kek,) = secrets_below(harness.folder)
    assert len(kek) == 32
    assert kek == FakeRandom()(32), "the first thing that a service draws"
    assert found_in_files(harness.folder, [kek]) == []
