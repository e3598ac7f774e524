"""Who is killed while a service is made leaves nothing that counts, all of it, or what the next one finishes."""

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from attest.clock import system_clock
from attest.errors import ConfigurationError
from attest.unfinished_file import unfinished_file
from kms.config.settings import Settings, load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.actors import Actor, Means
from kms.domain.permissions import Role
from kms.keys.wrapping.file import create_kek_file, read_kek_file
from kms.operations.services import initialise, open_identity, open_vault
from kms.store import open_store
from tests.kms.initialising import ORIGIN, make
from tests.kms.process import REPOSITORY, environment
from tests.kms.stores import make_store
from tests.kms.support import FakeRandom


def killed(base: Path, *, start: int, step: int) -> Iterator[Path]:
    """Have services made and killed at every so many-th moment, and return their folders in that order."""
    command = [sys.executable, "-m", "tests.kms.initialising", str(base), str(start), str(step)]
    subprocess.run(command, cwd=REPOSITORY, env=environment(), capture_output=True, check=True)
    last = max(int(folder.name.removeprefix("killed-")) for folder in base.iterdir())
    assert last > 20  # of so many things it consists at least
    for number in range(start, last + 1, step):
        yield base / f"killed-{number}"


def settings_in(folder: Path) -> Settings:
    return load_settings(flags={}, environ={}, config=folder / "kms.toml").settings


def require_whole(folder: Path, identity: str | None = None) -> None:
    settings = settings_in(folder)
    vault = open_vault(settings, random=FakeRandom())
    try:
        found = open_identity(vault, settings).public.text
        with vault.store.reading() as tx:
            assert [json.loads(entry.raw)["kind"] for entry in tx.log.entries()] == ["initialised"]
    finally:
        vault.store.close()
    assert identity in {None, found}
    assert sorted(path.name for path in folder.iterdir()) == ["guard", "kek", "kms.db", "kms.toml"]


@pytest.mark.parametrize(("start", "step"), [(0, 2), pytest.param(1, 2, marks=pytest.mark.slow)])
def test_a_second_init_makes_whole_what_one_that_was_killed_left(tmp_path: Path, start: int, step: int) -> None:
    seen: set[str] = set()
    for folder in killed(tmp_path, start=start, step=step):
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if "kms.db" in names:  # what has its name is whole
            open_store(str(folder / "kms.db")).close()
        if "kek" in names:
            assert "kms.db" in names, "a key that no database knows has its name"
        if {"kek", "kms.db"} <= names:
            seen.add("whole")
            with pytest.raises(ConfigurationError):
                make(folder)
            require_whole(folder)
            continue
        seen.add("finished" if "kms.db" in names else "made")
        require_whole(folder, make(folder))
    assert seen == {"made", "finished", "whole"}


def test_what_is_finished_is_the_service_that_was_begun(tmp_path: Path) -> None:
    identity = make(tmp_path)
    (tmp_path / "kek").rename(tmp_path / "kek.new")
    alice = Actor(name="https://issuer.test|alice", means=Means.JWT)
    settings = settings_in(tmp_path)
    public = initialise(settings, clock=system_clock, random=secrets.token_bytes, administrator=alice)
    assert public.text == identity
    with closing(open_vault(settings, random=FakeRandom()).store) as store, store.reading() as tx:
        (grant,) = tx.grants.held_by(alice)
        assert (grant.role, grant.counts) == (Role.ADMINISTRATOR, True)
    assert not (tmp_path / "kek.new").exists()


def test_the_draft_of_another_key_is_not_taken_for_that_of_a_database(tmp_path: Path) -> None:
    make(tmp_path)
    kept = (tmp_path / "kek").read_bytes()
    (tmp_path / "kek").rename(tmp_path / "away")
    create_kek_file(tmp_path / "kek", random=FakeRandom("another"))
    (tmp_path / "kek").rename(tmp_path / "kek.new")
    with pytest.raises(ConfigurationError) as caught:
        make(tmp_path)
    assert caught.value.code == "database-exists"
    assert not (tmp_path / "kek").exists()
    assert (tmp_path / "away").read_bytes() == kept


def test_half_a_draft_of_a_key_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "kek.new").write_bytes(b"attest-kms-kek-v1 AAAA")
    (tmp_path / "kek.new").chmod(0o600)
    create_kek_file(tmp_path / "kek", random=FakeRandom())
    read_kek_file(tmp_path / "kek", random=FakeRandom()).close()
    assert [path.name for path in tmp_path.iterdir()] == ["kek"]


def test_settings_of_another_service_are_in_the_way(tmp_path: Path) -> None:
    prepare_directory(tmp_path, origin="kms.test/other", allow_simulated=True)
    with pytest.raises(ConfigurationError) as caught:
        prepare_directory(tmp_path, origin=ORIGIN, allow_simulated=True)
    assert caught.value.code == "config-exists"


def test_what_another_process_is_making_is_left_to_it(tmp_path: Path) -> None:
    makers: tuple[tuple[str, Callable[[Path], object], str], ...] = (
        ("kek", lambda path: create_kek_file(path, random=FakeRandom()), "kek-file-unusable"),
        ("kms.db", lambda path: make_store(str(path)), "database-unusable"),
    )
    for name, begin, code in makers:
        path = tmp_path / name
        with unfinished_file(path) as draft:
            draft.write(b"half")
            with pytest.raises(ConfigurationError) as caught:
                begin(path)
            assert caught.value.code == code
            assert draft.content(10) == b"half"
        begin(path)
