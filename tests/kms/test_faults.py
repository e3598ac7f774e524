"""What is taken away and given back while the service works: room on the disk, and the time.

A real disk that is full: a small file system in memory, which takes a superuser to mount.
"""

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kms.domain.errors import ChallengeError, ChallengeUsedError, UnavailableError
from kms.domain.log_verification import verify_log
from tests.disk import NEEDS_MOUNT, Disk
from tests.kms.postgres import Server
from tests.kms.support import Harness, Workload


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    made.close()


def released(harness: Harness) -> None:
    request = Workload().request(harness.releases.challenge(), "model")
    assert [key.key_id for key in harness.releases.release(request).keys] == ["model"]


def until_full(harness: Harness) -> UnavailableError:
    """Ask for keys until there is no room for another decision."""
    for _ in range(200):
        request = Workload().request(harness.releases.challenge(), "model")
        before = len(harness.decisions())
        try:
            harness.releases.release(request)
        except UnavailableError as exc:
            assert len(harness.decisions()) == before, "a decision that was refused for want of room is in the log"
            return exc
        assert len(harness.decisions()) == before + 1
    pytest.fail("the disk did not fill")


def verified(harness: Harness) -> None:
    with harness.services.store.reading() as tx:
        verify_log(tx.log)


@NEEDS_MOUNT
@pytest.mark.parametrize("leave", [0, 4096, 65536, 400_000])
def test_mc_24_without_room_for_the_entry_nothing_is_released_and_with_room_it_goes_on(disk: Disk, leave: int) -> None:
    harness = Harness.make(disk.folder)
    try:
        harness.add_key("model")
        released(harness)
        disk.fill(leave=leave)
        refusal = until_full(harness)
        assert (refusal.code, refusal.retryable) == ("store-failed", True)
        assert "disk is full" in (refusal.hint or "")
        disk.free()
        released(harness)
        verified(harness)
    finally:
        harness.close()


@NEEDS_MOUNT
def test_mc_24_a_challenge_that_met_a_full_disk_counts_once_there_is_room(disk: Disk) -> None:
    harness = Harness.make(disk.folder)
    try:
        harness.add_key("model")
        request = Workload().request(harness.releases.challenge(), "model")
        disk.fill()
        with pytest.raises(UnavailableError):
            harness.releases.release(request)
        disk.free()
        harness.releases.release(request)
        with pytest.raises(ChallengeUsedError):
            harness.releases.release(request)
    finally:
        harness.close()


@NEEDS_MOUNT
@pytest.mark.loopback
def test_mc_24_a_full_disk_of_the_database_server_releases_nothing_either(tmp_path: Path, postgres: Server) -> None:
    disk = Disk(postgres.folder / "small")
    url = postgres.fresh()
    harness = Harness.make(tmp_path, database=url)
    try:
        harness.add_key("model")
        place = disk.folder / "tables"
        place.mkdir()
        place.chmod(0o777)
        subprocess.run(["chown", "nobody:nogroup", str(place)], check=True)
        with postgres.connected(url) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
            connection.execute("ALTER TABLE log_entries SET TABLESPACE small")
        released(harness)
        disk.fill()
        refusal = until_full(harness)
        assert (refusal.code, refusal.retryable) == ("store-failed", True)
        disk.free()
        released(harness)
        verified(harness)
        with postgres.connected(url) as connection:
            connection.execute("ALTER TABLE log_entries SET TABLESPACE pg_default")
            connection.execute("DROP TABLESPACE small")
    finally:
        harness.close()
        disk.close()
        disk.folder.rmdir()


def test_mc_35_a_clock_that_jumps_revives_nothing_and_comes_back_by_itself(harness: Harness) -> None:
    harness.add_key("model")
    released(harness)
    old = Workload().request(harness.releases.challenge(), "model")
    used = Workload().request(harness.releases.challenge(), "model")
    harness.releases.release(used)
    for jump in (timedelta(hours=2), -timedelta(hours=4)):
        right = harness.clock.at
        harness.clock.at = right + jump
        with pytest.raises(ChallengeError):
            harness.releases.release(old)
        with pytest.raises(ChallengeError):
            harness.releases.release(used)
        if jump < timedelta(0):
            with pytest.raises(UnavailableError) as refusal:
                released(harness)
            assert refusal.value.code == "clock-went-back"
        harness.clock.at = right
    with pytest.raises(ChallengeUsedError):
        harness.releases.release(used)
    harness.releases.release(old)
    verified(harness)
