"""How a session keeps its leases: renewals that come, fail, or are refused, and clocks that lie."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from attest import Binding, Evidence
from attest.errors import LeaseEndedError, PolicyNotMetError, ReleaseRefusedError
from attest.session import LeaseLostError, ServiceUnreachableError
from tests.kms.support import MATERIAL
from tests.kms.test_key_lifecycle import rotate
from tests.session.acts import DAY, TWO_THIRDS, disable, enable, live, stop
from tests.session.line import Scene, away, defective, refusing


def test_a_lease_is_renewed_when_it_is_due_and_not_before(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        before = key.lease_id
        assert session.renew() == pytest.approx(TWO_THIRDS)
        assert scene.line.releases == 1
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        view = key.material
        assert session.renew() == pytest.approx(TWO_THIRDS)
        assert key.lease_id != before
        assert live(scene) == [key.lease_id]
        assert scene.told.renewed == [key]
        assert key.seconds_left == DAY
        assert session.key("model") is key
        assert view == MATERIAL
        assert scene.harness.decisions()[-1]["keys"][0]["lease"]["renewed_from"] == before  # type: ignore[index]


def test_keys_that_are_due_together_are_renewed_together(scene: Scene) -> None:
    with scene.session() as session:
        session.keys("model", "other")
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        assert scene.line.releases == 2
        assert scene.harness.decisions()[-1]["requested"] == ["model", "other"]


@pytest.mark.parametrize(("refuse", "code"), [(disable, "key-disabled"), (stop, "lease-stopped")])
def test_mc_26_a_refused_renewal_takes_the_key_away_at_once(
    scene: Scene, refuse: Callable[[Scene], None], code: str
) -> None:
    with scene.session() as session:
        key = session.key("model")
        view = key.material
        refuse(scene)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        assert session.renew() is None
        ((lost, error, seen),) = scene.told.lost
        assert lost is key
        assert seen == MATERIAL  # those who use it hear of it before it is overwritten
        assert (error.code, error.got, key.valid, key.seconds_left) == ("lease-renewal-refused", code, False, 0)
        assert key.lost is error
        assert view != MATERIAL
        assert bytes(view) != bytes(32)
        with pytest.raises(LeaseLostError) as caught:
            key.export()
        assert caught.value is error
        with pytest.raises(ReleaseRefusedError) as refused:
            session.key("model")
        assert refused.value.code == code
        assert session.held == ()


def test_a_stopped_lease_is_told_by_its_own_type(scene: Scene) -> None:
    with scene.session() as session:
        session.key("model")
        stop(scene)
        with scene.session() as again, pytest.raises(LeaseEndedError) as caught:
            again.key("model")
        assert caught.value.code == "lease-stopped"


def test_of_several_keys_only_the_refused_one_is_lost(scene: Scene) -> None:
    with scene.session() as session:
        model, other = session.keys("model", "other")
        disable(scene)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        assert (model.valid, other.valid) == (False, True)
        assert other.seconds_left == DAY
        assert [key for key, _, _ in scene.told.lost] == [model]
        assert session.held == (other,)


def test_a_changed_machine_loses_its_key_and_is_told_which_checks_failed(scene: Scene) -> None:
    machine = scene.workload

    def attest(binding: Binding) -> Evidence:
        return machine.attest(binding)

    with scene.session(attester=attest) as session:
        key = session.key("model")
        machine = machine.with_measurement(bytes(48))
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        with pytest.raises(LeaseLostError) as lost:
            key.require()
        with pytest.raises(PolicyNotMetError) as refused:
            session.key("model")
        assert lost.value.failed_checks == refused.value.failed_checks
        assert refused.value.failed_check_ids == ("policy.snp.measurement",)


def test_a_key_that_was_lost_may_be_asked_for_again(scene: Scene) -> None:
    with scene.session() as session:
        before = session.key("model")
        disable(scene)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        enable(scene)
        again = session.key("model")
        assert again is not before
        assert again.material == MATERIAL
        assert not before.valid


def test_an_absent_service_costs_no_key_until_the_lease_ends(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        scene.line.always = away
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        waits: list[float] = []
        while (seconds := session.renew()) is not None:
            waits.append(seconds)
            scene.harness.clock.forward(seconds=seconds)
        assert waits[:7] == [1, 2, 4, 8, 15, 15, 15]
        assert sum(waits) == pytest.approx(DAY - TWO_THIRDS)
        ((_, error, _),) = scene.told.lost
        assert (error.code, error.got, key.valid) == ("lease-lost", "service-unreachable", False)
        with pytest.raises(ServiceUnreachableError):
            session.key("model")
        scene.line.always = None
        assert session.key("model").material == MATERIAL


@pytest.mark.parametrize("fault", [away, refusing(503), refusing(429), refusing(500, "internal"), refusing(502)])
def test_what_may_pass_costs_no_key(scene: Scene, fault: Any) -> None:  # noqa: ANN401  a fault
    with scene.session() as session:
        key = session.key("model")
        scene.line.faults = [fault]
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        seconds = session.renew()
        assert key.valid
        assert seconds is not None
        scene.harness.clock.forward(seconds=seconds)
        session.renew()
        assert key.seconds_left == DAY


def test_what_nobody_foresaw_ends_no_renewing_and_the_loss_is_told(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        scene.line.always = defective
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        while (seconds := session.renew()) is not None:
            assert key.valid
            scene.harness.clock.forward(seconds=seconds)
        ((_, error, _),) = scene.told.lost
        assert (error.code, error.got) == ("lease-lost", "session-renewal-failed")


def test_no_renewal_takes_much_longer_than_the_lease_lives(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        asked: list[float] = []

        def slow(request: httpx.Request) -> httpx.Response | None:
            asked.append(request.extensions["timeout"]["read"])
            return away(request)

        scene.line.always = slow
        for left in (100, 5, 0):
            scene.harness.clock.forward(seconds=key.seconds_left - left)
            session.renew()
        assert asked == [30, 5, 1]
        assert len(scene.told.lost) == 1


def test_somebody_else_who_answers_a_renewal_costs_no_key_while_it_lives(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        scene.line.faults = [lambda _: httpx.Response(200, json={"keys": []})]
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        assert key.valid


def test_an_answer_that_got_lost_costs_no_lease(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        scene.line.lost = 1
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        seconds = session.renew()
        scene.harness.clock.forward(seconds=seconds or 0)
        session.renew()
        assert key.valid
        assert live(scene) == [key.lease_id]


def test_a_key_follows_the_current_version_and_one_that_was_named_does_not(scene: Scene) -> None:
    with scene.session() as session:
        current, first = session.key("model"), session.key("model@1")
        old = current.material
        rotate(scene.harness)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        assert (current.version, first.version) == (2, 1)
        assert (current.valid, first.valid) == (True, True)
        assert current.material != MATERIAL
        assert first.material == MATERIAL
        assert old == MATERIAL  # whoever reads it meanwhile goes on reading it
    assert old != MATERIAL


def test_a_machine_that_gives_no_evidence_for_a_moment_keeps_its_key(scene: Scene) -> None:
    fails: list[bool] = []

    def attest(binding: Binding) -> Evidence:
        if fails:
            fails.pop()
            msg = "the device is busy"
            raise OSError(msg)
        return scene.workload.attest(binding)

    with scene.session(attester=attest) as session:
        key = session.key("model")
        fails.append(True)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        seconds = session.renew()
        assert (key.valid, seconds) == (True, 1)
        scene.harness.clock.forward(seconds=1)
        session.renew()
        assert key.seconds_left == DAY


def test_the_time_of_a_lease_is_measured_and_not_read_off_the_machines_clock(scene: Scene) -> None:
    """A machine whose clock is a year wrong keeps its key as long as the service meant."""
    wrong = replace(scene.clock.timing, now=lambda: scene.clock.now() - timedelta(days=365))
    with scene.session(timing=wrong) as session:
        key = session.key("model")
        assert key.seconds_left == DAY
        scene.harness.clock.forward(seconds=DAY)
        assert not key.valid


def test_a_clock_that_is_turned_back_prolongs_no_lease(scene: Scene) -> None:
    moved = timedelta()
    timing = replace(scene.clock.timing, now=lambda: scene.clock.now() + moved)
    with scene.session(timing=timing) as session:
        key = session.key("model")
        moved = -timedelta(days=10)
        scene.harness.clock.forward(seconds=DAY)
        assert not key.valid
        assert key.lost is not None
        assert key.lost.code == "lease-lost"


def test_ticks_that_stood_still_prolong_no_lease(scene: Scene) -> None:
    """A virtual machine that was halted for a day has slept, whatever its counter says."""
    timing = replace(scene.clock.timing, ticks=lambda: 0.0)
    with scene.session(timing=timing) as session:
        key = session.key("model")
        scene.harness.clock.forward(seconds=DAY)
        assert not key.valid


def test_a_lease_is_renewed_sooner_where_the_program_wants_that_and_never_later(scene: Scene) -> None:
    with scene.session(timing=replace(scene.clock.timing, renew_after=60)) as session:
        session.key("model")
        assert session.renew() == pytest.approx(60)
        scene.harness.clock.forward(seconds=60)
        before = scene.line.releases
        session.renew()
        assert scene.line.releases == before + 1
    with scene.session(timing=replace(scene.clock.timing, renew_after=2 * DAY)) as session:
        session.key("model")
        assert session.renew() == pytest.approx(TWO_THIRDS)
