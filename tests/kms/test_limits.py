"""Limits of keys: never exceeded under any interleaving, exact at their edges, and none of them forgotten."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, ConfigurationError
from attest.release import KeyName, Release, WorkloadKey
from attest_simulator.nvidia import SimulatedBoard
from kms.domain.errors import IntegrityError, KeyConflictError, QuorumRequiredError, ReleaseDeniedError
from kms.domain.limits import (
    MAX_CHIPS,
    MAX_NUMBER,
    NO_LIMITS,
    Budget,
    KeyLimits,
    Period,
    Usage,
    UseRequest,
    limit_reasons,
    read_limits,
)
from kms.domain.people import ChangeKind
from kms.domain.windows import Window
from kms.keys.vault import Vault
from kms.quorum.admin import QuorumService, change_now
from kms.quorum.changes import QuorumSet, read_change
from kms.quorum.key_limits import KeyLimitsSet
from tests.kms.stores import examined_unauthenticated, write_genuine
from tests.kms.support import ACTOR, AT, CHIP, GUEST, Harness, Workload, live_leases
from tests.kms.test_gpu_release import GpuWorkload, gpu_policy, prepared
from tests.kms.test_quorum import Board, people, rule

MODEL = KeyName(key_id="model")
AMD = f"amd:{CHIP.chip_id.hex()}"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def limit(harness: Harness, key_id: str = "model", **limits: object) -> KeyLimits:
    name = KeyName(key_id=key_id)
    with harness.services.store.reading() as tx:
        now = tx.limits.in_force(name)
    then = replace(NO_LIMITS, version=now.version + 1, **limits)  # type: ignore[arg-type]
    desk = QuorumService(vault=vault(harness), audience=harness.audience, alone=False)
    change_now(desk, KeyLimitsSet(name=name, limits=then), actor=ACTOR, at=harness.clock())
    return then


def vault(harness: Harness) -> Vault:
    return Vault(store=harness.services.store, kek=harness.services.kek)


def release(harness: Harness, *key_ids: str, workload: Workload | None = None) -> Release:
    challenge = harness.releases.challenge()
    return harness.releases.release((workload or Workload()).request(challenge, *(key_ids or ("model",))))


def refused(harness: Harness, *key_ids: str, workload: Workload | None = None) -> set[str]:
    with pytest.raises(ReleaseDeniedError):
        release(harness, *key_ids, workload=workload)
    reasons: object = harness.decisions()[-1]["reasons"]
    assert isinstance(reasons, list)
    return {reason["code"] for reason in reasons}


def somebody() -> Workload:
    return Workload(key=WorkloadKey.generate())


TOTAL_2 = Budget(most=2, per=Period.TOTAL)


# -- budgets


def test_mc_32_a_key_is_released_as_often_as_its_budget_says_and_not_once_more(harness: Harness) -> None:
    harness.add_key("model")
    harness.add_key("other")
    release(harness)
    limit(harness, releases=(TOTAL_2,))
    release(harness)
    assert refused(harness) == {"budget-spent"}
    assert refused(harness, workload=somebody()) == {"budget-spent"}
    assert refused(harness, "other", "model") == {"budget-spent"}
    release(harness, "other")
    limit(harness, releases=(Budget(most=3, per=Period.TOTAL),))
    release(harness)
    assert refused(harness) == {"budget-spent"}


@pytest.mark.parametrize("per", [Period.HOUR, Period.DAY, Period.WEEK])
def test_a_period_slides_and_ends_exactly(harness: Harness, per: Period) -> None:
    harness.add_key("model")
    limit(harness, releases=(Budget(most=1, per=per),))
    length = per.length
    assert length is not None
    release(harness)
    harness.clock.at = AT + timedelta(milliseconds=1)
    assert refused(harness) == {"budget-spent"}
    # The endorsements of a test are good for a day: what is tested is the count.
    with harness.services.store.reading() as tx:
        budget = Budget(most=1, per=per)
        just_before, on = AT + length - timedelta(milliseconds=1), AT + length
        assert tx.leases.counts.released(MODEL, budget, at=just_before) == 1
        assert tx.leases.counts.released(MODEL, budget, at=on) == 0
        assert tx.leases.counts.released(MODEL, TOTAL_2, at=on) == 1


def test_a_request_for_two_versions_is_two_releases(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, releases=(Budget(most=1, per=Period.TOTAL),))
    assert refused(harness, "model", "model@1") == {"budget-spent"}
    release(harness)


def test_a_budget_of_nothing_releases_nothing(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, releases=(Budget(most=0, per=Period.TOTAL),))
    assert refused(harness) == {"budget-spent"}


@pytest.mark.parametrize("most", [1, 3])
def test_mc_37_of_replicas_that_race_for_the_last_release_as_many_win_as_there_are(harness: Harness, most: int) -> None:
    harness.add_key("model")
    limit(harness, releases=(Budget(most=most, per=Period.TOTAL),))
    won = race(harness, [Workload()] * 6)
    assert sum(won) == most
    with harness.services.store.reading() as tx:
        assert tx.leases.counts.released(MODEL, TOTAL_2, at=AT) == most


def test_mc_37_of_replicas_that_race_for_the_last_holder_as_many_win_as_there_are(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, holders=2)
    won = race(harness, [somebody() for _ in range(6)])
    assert sum(won) == 2
    with harness.services.store.reading() as tx:
        assert tx.leases.counts.holders(MODEL, at=AT) == 2


def race(harness: Harness, workloads: list[Workload]) -> list[bool]:
    """Let each ask at a replica of its own at the same moment; return who won. All who lost were refused by a limit."""
    replicas = [harness.reopened() for _ in workloads]
    requests = [
        workload.request(one.releases.challenge(), "model") for one, workload in zip(replicas, workloads, strict=True)
    ]
    ready = threading.Barrier(len(workloads))
    outcomes: list[str] = []

    def run(number: int) -> None:
        ready.wait()
        try:
            replicas[number].releases.release(requests[number])
            outcomes.append("won")
        except AttestError as exc:
            outcomes.append(exc.code)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(workloads))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in replicas:
        one.close()
    assert set(outcomes) <= {"won", "budget-spent", "holders-exceeded"}
    assert len(outcomes) == len(workloads)
    return [one == "won" for one in outcomes]


# -- holders


def test_mc_32_so_many_hold_a_key_and_each_of_them_may_have_it_again(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, holders=2)
    first, second, third = somebody(), somebody(), somebody()
    release(harness, workload=first)
    release(harness, workload=second)
    assert refused(harness, workload=third) == {"holders-exceeded"}
    release(harness, workload=first)
    limit(harness, holders=1)
    assert refused(harness, workload=second) == {"holders-exceeded"}
    limit(harness, holders=0)
    assert refused(harness, workload=first) == {"holders-exceeded"}


def test_a_place_is_free_when_a_lease_expires(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, holders=1)
    release(harness, workload=somebody())
    with harness.services.store.reading() as tx:
        (lease,) = live_leases(tx, MODEL, at=AT)
        assert tx.leases.counts.holders(MODEL, at=lease.expires_at - timedelta(milliseconds=1)) == 1
        assert tx.leases.counts.holders(MODEL, at=lease.expires_at) == 0


# -- chips


def test_a_key_is_released_to_the_chips_of_its_list(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, chips=(AMD,))
    release(harness)
    other = Workload(guest=replace(GUEST, chip=replace(CHIP, hwid=bytes([7]) * 64)))
    assert refused(harness, workload=other) == {"chip-not-allowed"}
    limit(harness, chips=())
    assert refused(harness) == {"chip-not-allowed"}, "a list of none lets nobody through"


def test_mc_32_a_chip_gets_a_key_as_often_as_the_rate_says(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, per_chip=Budget(most=1, per=Period.HOUR))
    release(harness)
    assert refused(harness, workload=somebody()) == {"chip-rate-exceeded"}
    other = Workload(guest=replace(GUEST, chip=replace(CHIP, hwid=bytes([7]) * 64)))
    release(harness, workload=other)


def test_where_the_list_names_a_gpu_every_gpu_has_to_be_on_it(harness: Harness) -> None:
    board = SimulatedBoard.of("unit", gpus=2, switches=0)
    service = prepared(harness, board, gpu_policy(2))
    workload = GpuWorkload(board=board)
    limit(service, chips=(AMD,))
    release(service, workload=workload)
    with service.services.store.reading() as tx:
        (lease,) = live_leases(tx, MODEL, at=AT)
    assert lease.gpus == 2
    limit(service, chips=(AMD, "nvidia:00"))
    assert refused(service, workload=workload) == {"chip-not-allowed"}


# -- windows


@pytest.mark.parametrize(
    ("text", "at", "holds"),
    [
        ("Mon-Fri 08:00-18:00", "2026-06-01T08:00:00", True),  # a Monday
        ("Mon-Fri 08:00-18:00 UTC", "2026-06-01T07:59:59.999999", False),
        ("Mon-Fri 08:00-18:00", "2026-06-01T17:59:59.999999", True),
        ("Mon-Fri 08:00-18:00", "2026-06-01T18:00:00", False),
        ("Mon-Fri 08:00-18:00", "2026-06-05T12:00:00", True),
        ("Mon-Fri 08:00-18:00", "2026-06-06T12:00:00", False),
        ("Sat,Sun 00:00-24:00", "2026-06-06T00:00:00", True),
        ("Sat,Sun 00:00-24:00", "2026-06-07T23:59:59.999999", True),
        ("Sat,Sun 00:00-24:00", "2026-06-08T00:00:00", False),
        ("daily 00:00-00:01", "2026-06-08T00:00:59", True),
        ("daily 00:00-00:01", "2026-06-08T00:01:00", False),
    ],
)
def test_a_window_holds_from_its_first_minute_to_before_its_last(text: str, at: str, holds: bool) -> None:
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert Window.parse(text).holds(moment) is holds
    assert Window.parse(text).holds(moment.astimezone(timezone(timedelta(hours=9)))) is holds
    assert Window.parse(str(Window.parse(text))) == Window.parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "Mon", "Mon 8:00-18:00", "Mon 18:00-08:00", "Mon 08:00-08:00", "Mon 08:60-09:00", "Mon 00:00-24:01",
     "Fri-Mon 08:00-18:00", "mon 08:00-18:00", "Mon- 08:00-18:00", "Mon 08:00-18:00 CET", "Mon,, 08:00-18:00"],
)  # fmt: skip
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Window.parse(text)
    assert caught.value.code == "window-invalid"


def test_a_key_is_released_inside_its_windows_alone(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, windows=(Window.parse("Sun 00:00-24:00"), Window.parse("Mon 12:00-12:01")))
    release(harness)
    harness.clock.forward(minutes=1)
    assert refused(harness) == {"outside-window"}
    limit(harness, windows=())
    assert refused(harness) == {"outside-window"}


# -- the change


def test_limits_have_versions_and_are_logged(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, holders=1)
    then = limit(harness, holders=2)
    assert then.version == 2
    changed = [one for one in harness.entries() if one["kind"] == "key-limits-changed"]
    assert [one["limits"] for one in changed] == [replace(then, version=1, holders=1).members(), then.members()]
    assert changed[1]["before_sha256"] == changed[0]["limits_sha256"]
    desk = QuorumService(vault=vault(harness), audience=harness.audience, alone=False)
    with pytest.raises(KeyConflictError) as caught:
        change_now(desk, KeyLimitsSet(name=MODEL, limits=then), actor=ACTOR, at=AT)
    assert caught.value.code == "limits-version"
    with pytest.raises(AttestError) as unknown:
        change_now(desk, KeyLimitsSet(name=KeyName(key_id="no"), limits=then), actor=ACTOR, at=AT)
    assert unknown.value.code == "key-unknown"


def test_under_a_rule_for_policies_one_person_lifts_no_limit(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, holders=0)
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.KEY_POLICY))
    with pytest.raises(QuorumRequiredError):
        limit(harness, holders=9)
    change = KeyLimitsSet(name=MODEL, limits=replace(NO_LIMITS, version=2, holders=9))
    assert read_change(change.action, change.arguments()) == change
    board.agreed(change)
    release(harness)
    assert isinstance(QuorumSet(then=people("alice")), QuorumSet)


def test_limits_that_somebody_lifted_in_the_database_are_found(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, holders=1)
    limit(harness, holders=0)

    def problems() -> tuple[str, ...]:
        return examined_unauthenticated(harness)["limits"].problems

    assert problems() == ()
    harness.unprotect("key_limits")
    harness.alter("DELETE FROM key_limits WHERE version = 2")
    (problem,) = problems()
    assert problem.startswith("limits of key model with the digest ")


def test_limits_that_cannot_be_read_stop_everything(harness: Harness) -> None:
    harness.add_key("model")
    limit(harness, holders=1)
    write_genuine(harness, "key_limits", document=b"{}")
    with pytest.raises(IntegrityError) as caught:
        release(harness)
    assert caught.value.code == "limits-record-invalid"


# -- pure


def members(**changes: object) -> dict[str, object]:
    return {**NO_LIMITS.members(), "version": 1, **changes}


@pytest.mark.parametrize(
    "wrong",
    [
        members(schema="kms.key-limits/2"),
        members(version=True),
        members(version=-1),
        members(most_holders=-1),
        members(most_holders=MAX_NUMBER + 1),
        members(most_holders="1"),
        members(most_releases=None),
        members(most_releases=["1/year"]),
        members(most_releases=["01"]),
        members(most_releases=["-1"]),
        members(most_releases=["1"] * 33),
        members(most_releases=[str(MAX_NUMBER + 1)]),
        members(most_per_chip="many"),
        members(chips=["amd:00"]),
        members(chips=[AMD, AMD]),
        members(chips=["nvidia:00", AMD]),
        members(chips=[f"nvidia:{number:06x}" for number in range(MAX_CHIPS + 1)]),
        members(chips="amd"),
        members(windows=["always"]),
        members(more=1),
        [],
    ],
)
def test_limits_that_cannot_be_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_limits(wrong)  # type: ignore[arg-type]  # JSON
    assert caught.value.code in {"limits-invalid", "window-invalid"}


LIMITS = st.builds(
    KeyLimits,
    version=st.just(1),
    releases=st.lists(st.builds(Budget, most=st.integers(0, 5), per=st.sampled_from(Period)), max_size=3).map(tuple),
    holders=st.none() | st.integers(0, 4),
    chips=st.none() | st.sampled_from([(), (AMD,), (AMD, "nvidia:00")]),
    per_chip=st.none() | st.builds(Budget, most=st.integers(0, 3), per=st.sampled_from(Period)),
    windows=st.none() | st.sampled_from([(), (Window.parse("Mon 12:00-12:01"),)]),
)
CODES = st.sampled_from([AMD, "amd:" + "00" * 64, None])


@given(LIMITS)
def test_limits_are_read_as_they_are_written(limits: KeyLimits) -> None:
    assert read_limits(limits.members()) == limits


NUMBERS = st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 4), st.integers(1, 2))


@given(LIMITS, CODES, NUMBERS)
def test_a_release_passes_when_every_single_limit_lets_it(
    limits: KeyLimits, chip: str | None, numbers: tuple[int, int, int, int]
) -> None:
    released, holders, to_chip, versions = numbers
    usage = Usage(releases=dict.fromkeys(limits.releases, released), other_holders=holders, to_chip=to_chip)
    asking = UseRequest(cpu=chip, devices=("nvidia:00",), versions=versions)
    found = {one.code for one in limit_reasons(limits, asked="model", asking=asking, usage=usage, at=AT)}
    within = (
        all(released + versions <= one.most for one in limits.releases)
        and (limits.holders is None or holders < limits.holders)
        and (limits.chips is None or chip in limits.chips)
        and (limits.per_chip is None or (chip is not None and to_chip + versions <= limits.per_chip.most))
        and (limits.windows is None or bool(limits.windows))
    )
    assert (found == set()) is within
    stricter = replace(limits, holders=0)
    assert found <= {one.code for one in limit_reasons(stricter, asked="model", asking=asking, usage=usage, at=AT)}, (
        "one more limit never opens anything"
    )


@pytest.mark.parametrize("devices", [(None,), ("nvidia:01",), ("nvidia:00", None)])
def test_a_device_that_is_unknown_is_on_no_list_that_names_devices(devices: tuple[str | None, ...]) -> None:
    usage = Usage(releases={}, other_holders=0, to_chip=0)
    asking = UseRequest(cpu=AMD, devices=devices, versions=1)

    def codes(chips: tuple[str, ...]) -> list[str]:
        limits = replace(NO_LIMITS, chips=chips)
        return [one.code for one in limit_reasons(limits, asked="m", asking=asking, usage=usage, at=AT)]

    assert codes((AMD, "nvidia:00")) == ["chip-not-allowed"]
    assert codes((AMD,)) == []
