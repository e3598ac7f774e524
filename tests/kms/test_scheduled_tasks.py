"""What a running service does by itself, and when it rather waits."""

import threading
from datetime import timedelta

from attest.release import KeyReference
from kms.keys.destruction import schedule_destruction
from kms.keys.rotation import Rotator, set_schedule
from kms.running.scheduled_tasks import LEAP_SECONDS, SETTLING_SECONDS, SteadyClock, Upkeep, kept_up
from tests.kms.stores import write_genuine
from tests.kms.support import ACTOR, AT, MODEL, FakeClock, Harness

DAY = timedelta(days=1)


class Ticks:
    """The machine's monotonic clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_clock_is_steady_after_it_ran_evenly_for_a_while() -> None:
    clock, ticks = FakeClock(), Ticks()
    steady = SteadyClock(clock=clock, monotonic=ticks)
    assert steady.look() == (AT, False)

    def after(seconds: float, *, told: float | None = None) -> bool:
        ticks.seconds += seconds
        clock.forward(seconds=seconds if told is None else told)
        return steady.look()[1]

    assert not after(SETTLING_SECONDS - 1)
    assert after(1)
    assert after(30, told=30 + LEAP_SECONDS)
    assert not after(30, told=31 + LEAP_SECONDS)
    assert not after(SETTLING_SECONDS - 1)
    assert after(1)
    assert not after(30, told=-86_400)


def made(harness: Harness) -> tuple[Upkeep, Ticks, list[str]]:
    ticks = Ticks()
    lines: list[str] = []
    services = harness.services
    upkeep = Upkeep(
        rotator=Rotator(store=services.store, kek=services.kek, random=harness.random),
        clock=SteadyClock(clock=harness.clock, monotonic=ticks),
        report=lines.append,
    )
    return upkeep, ticks, lines


def test_what_is_due_is_done_and_told(harness: Harness) -> None:
    harness.add_key("model")
    set_schedule(harness.services.store, MODEL, every=DAY, overlap=DAY, actor=ACTOR, at=AT)
    upkeep, ticks, lines = made(harness)
    upkeep.round()
    assert lines == []
    harness.clock.forward(days=1)
    upkeep.round()
    assert lines == ["the key model was rotated: version 2 is current"]
    first = KeyReference(name=MODEL, version=1)
    store = harness.services.store
    schedule_destruction(store, first, after=DAY, minimum=DAY, actor=ACTOR, at=harness.clock())
    ticks.seconds += SETTLING_SECONDS
    harness.clock.forward(seconds=SETTLING_SECONDS)
    upkeep.round()
    assert len(lines) == 1
    ticks.seconds += 86_400
    harness.clock.forward(days=1)
    upkeep.round()
    assert lines[-1] == "model@1 was destroyed"


def test_mc_35_nothing_is_destroyed_just_after_the_clock_leapt(harness: Harness) -> None:
    harness.add_key("model")
    asked = KeyReference(name=MODEL)
    schedule_destruction(harness.services.store, asked, after=DAY, minimum=DAY, actor=ACTOR, at=AT)
    upkeep, ticks, lines = made(harness)
    upkeep.round()
    harness.clock.forward(days=400)
    ticks.seconds += 2 * SETTLING_SECONDS
    upkeep.round()
    assert lines == []
    for _ in range(2):
        harness.clock.forward(seconds=SETTLING_SECONDS / 2)
        ticks.seconds += SETTLING_SECONDS / 2
        upkeep.round()
    assert lines == ["model@1 was destroyed"]


def test_what_fails_is_told_and_the_service_goes_on(harness: Harness) -> None:
    harness.add_key("model")
    set_schedule(harness.services.store, MODEL, every=DAY, overlap=DAY, actor=ACTOR, at=AT)
    write_genuine(harness, "keys", purpose="coffee")
    upkeep, _, lines = made(harness)
    harness.clock.forward(days=1)
    upkeep.round()
    assert "error: scheduled task for model: " in lines[0]
    assert "[key-record-invalid]" in lines[0]
    harness.alter("ALTER TABLE key_schedules RENAME TO elsewhere")
    upkeep.round()
    assert "[store-failed]" in lines[1]


def test_upkeep_runs_beside_the_service_and_ends_with_it(harness: Harness) -> None:
    harness.add_key("model")
    set_schedule(harness.services.store, MODEL, every=DAY, overlap=DAY, actor=ACTOR, at=AT)
    upkeep, _, _ = made(harness)
    harness.clock.forward(days=1)
    told = threading.Event()
    watched = Upkeep(rotator=upkeep.rotator, clock=upkeep.clock, report=lambda _: told.set())
    before = threading.active_count()
    with kept_up(watched, seconds=0.01):
        assert told.wait(60)
    assert threading.active_count() == before
