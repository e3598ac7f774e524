"""The scheduled examination: slices, what it reports, and what readiness and metrics show of it."""

import multiprocessing
import threading
from dataclasses import dataclass, field

import pytest
from fastapi.testclient import TestClient

from kms.api.app import create_app
from kms.controls.admin import freeze
from kms.domain.freezes import target
from kms.running.fsck_verdict import FsckVerdict, SharedVerdict
from kms.running.metrics import Meter
from kms.running.scheduled_fsck import (
    FULL_SECONDS,
    MAX_REPORTED,
    PAUSES,
    RETRY_SECONDS,
    SLICE_ENTRIES,
    ScheduledFsck,
    examined,
)
from kms.running.scheduled_tasks import repeated
from tests.kms.support import ACTOR, AT, Harness, Workload
from tests.kms.test_metrics import samples_of

EVERY = 3600.0


@dataclass
class Scene:
    """An examination with its own monotonic clock, which each look moves on by a second."""

    harness: Harness
    ticks: float = FULL_SECONDS
    lines: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    verdict: SharedVerdict = field(default_factory=SharedVerdict)
    ends_after: int = 10_000

    def __post_init__(self) -> None:
        self.fsck = ScheduledFsck(
            store=self.harness.services.store,
            clock=self.harness.clock,
            every=EVERY,
            verdict=self.verdict,
            report=self.lines.append,
            monotonic=self.monotonic,
        )

    def monotonic(self) -> float:
        self.ticks += 1
        return self.ticks

    def pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return len(self.pauses) >= self.ends_after

    def run(self) -> float:
        self.lines.clear()
        self.pauses.clear()
        return self.fsck.run(self.pause)

    @property
    def findings(self) -> int:
        found = self.verdict.get()
        assert found is not None
        return found.findings


@pytest.fixture
def scene(harness: Harness) -> Scene:
    harness.add_key("model")
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    return Scene(harness)


def grow(harness: Harness, entries: int) -> None:
    with harness.services.store.writing() as tx:
        for _ in range(entries):
            tx.log.add(kind="decision", at=AT, body={"outcome": "deny", "keys": []})


def test_a_sound_database_is_reported_as_such(scene: Scene) -> None:
    assert scene.run() == EVERY
    assert scene.lines == ["fsck: the database matches the 3 entries of its log"]
    assert scene.verdict.get() == FsckVerdict(ended_at=AT.timestamp(), findings=0, seconds=3.0)


def test_a_difference_is_reported_until_it_is_gone(scene: Scene) -> None:
    scene.run()
    scene.harness.alter("UPDATE keys SET enabled = FALSE")
    for _ in range(2):
        assert scene.run() == EVERY
        assert scene.findings == 1
        assert scene.lines[0] == (
            "error: fsck: keys: key model: release disabled in the database, enabled since entry 2 of the log"
        )
        assert "the service is not ready" in scene.lines[1]
    scene.harness.alter("UPDATE keys SET enabled = TRUE")
    scene.run()
    assert scene.findings == 0


def test_a_long_log_is_read_in_slices_with_pauses_in_between(scene: Scene) -> None:
    grow(scene.harness, 2 * SLICE_ENTRIES)
    scene.run()
    assert scene.pauses == [PAUSES * 1.0] * 2
    assert scene.findings == 0
    scene.run()
    assert scene.pauses == [], "the second run reads what was added"


def test_a_lease_that_is_deleted_later_is_found_by_the_next_whole_run(scene: Scene) -> None:
    scene.run()
    for table in ("leases", "lease_claims"):
        scene.harness.unprotect(table)
    scene.harness.alter("DELETE FROM leases")
    scene.run()
    assert scene.findings == 0
    scene.ticks += FULL_SECONDS
    scene.run()
    assert scene.findings == 1
    scene.run()
    assert scene.findings == 1, "after a difference each run is a whole one"


def test_a_database_that_does_not_answer_changes_no_result(scene: Scene) -> None:
    scene.run()
    scene.harness.alter("ALTER TABLE freezes RENAME TO elsewhere")
    assert scene.run() == RETRY_SECONDS
    assert scene.lines[0].startswith("error: fsck: ")
    assert scene.lines[0].endswith("[store-failed]; retrying")
    assert scene.findings == 0


def test_a_log_that_cannot_be_read_is_a_difference(scene: Scene) -> None:
    scene.harness.unprotect("log_entries")
    scene.harness.alter("UPDATE log_entries SET entry = 5 WHERE seq = 2")
    assert scene.run() == EVERY
    assert scene.findings == 1
    assert "[log-entry-invalid]" in scene.lines[0]


def test_the_lines_of_a_run_are_bounded(scene: Scene) -> None:
    with scene.harness.services.store.writing() as tx:
        for _ in range(MAX_REPORTED + 5):
            tx.log.add(kind="unheard-of", at=AT, body={})
    scene.run()
    assert scene.findings == MAX_REPORTED + 5
    assert len(scene.lines) == MAX_REPORTED + 1


def test_a_service_that_ends_ends_the_run(scene: Scene) -> None:
    grow(scene.harness, 3 * SLICE_ENTRIES)
    scene.ends_after = 2
    scene.run()
    assert (len(scene.pauses), scene.verdict.get()) == (2, None)


def test_it_runs_beside_the_service_and_ends_with_it(harness: Harness) -> None:
    done = threading.Event()
    fsck = Scene(harness).fsck
    fsck.report = lambda _: done.set()
    before = threading.active_count()
    with examined(fsck, after=0.001):
        assert done.wait(60)
    assert threading.active_count() == before
    fsck.every = 0
    with examined(fsck):
        assert threading.active_count() == before


def test_a_bug_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    called, again = threading.Event(), threading.Event()

    def work(_: object) -> float:
        (again if called.is_set() else called).set()
        if not again.is_set():
            raise RuntimeError
        return 60.0

    with repeated("test", work, after=0.001):
        assert again.wait(60)
    assert "internal error in the test" in caplog.text


@pytest.mark.parametrize("findings", [None, 0, 2])
def test_readiness_and_metrics_show_the_result(harness: Harness, findings: int | None) -> None:
    verdict = SharedVerdict()
    if findings is not None:
        verdict.put(FsckVerdict(ended_at=AT.timestamp(), findings=findings, seconds=1.5))
    app = create_app(harness.settings, harness.services, fsck=verdict.get)
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.get("/readyz")
    samples = samples_of(Meter(harness.settings, harness.services, fsck=verdict.get).text().decode())
    found = {name: value for (name, _), value in samples.items() if name.startswith("kms_fsck")}
    if findings:
        assert (answer.status_code, answer.json()["code"]) == (500, "state-differs-from-log")
    else:
        assert answer.status_code == 200
        assert "stored-state" in answer.json()["ready"]
    expected = {
        "kms_fsck_end_timestamp_seconds": AT.timestamp(),
        "kms_fsck_findings": float(findings or 0),
        "kms_fsck_seconds": 1.5,
    }
    assert found == ({} if findings is None else expected)


def test_the_result_is_shared_with_processes_that_were_forked_before(harness: Harness) -> None:
    verdict = SharedVerdict()
    assert verdict.get() is None
    made = FsckVerdict(ended_at=AT.timestamp(), findings=7, seconds=2.0)
    worker = multiprocessing.get_context("fork").Process(target=verdict.put, args=(made,))
    worker.start()
    worker.join()
    assert verdict.get() == made


def test_a_result_that_is_being_written_is_not_read() -> None:
    verdict = SharedVerdict()
    verdict.put(FsckVerdict(ended_at=1.0, findings=7, seconds=2.0))
    verdict._memory[8] ^= 1  # noqa: SLF001  a torn write
    assert verdict.get() is None


def test_findings_of_a_run_are_of_one_state(scene: Scene) -> None:
    """Changes while it runs are entries as well, and no differences."""
    grow(scene.harness, 2 * SLICE_ENTRIES)
    store = scene.harness.services.store
    pause = scene.pause

    def change(seconds: float) -> bool:
        freeze(
            store, target("all", None) if not scene.pauses else target("key", "model"), reason="x", actor=ACTOR, at=AT
        )
        return pause(seconds)

    scene.fsck.run(change)
    assert len(scene.pauses) == 2
    assert scene.findings == 0
