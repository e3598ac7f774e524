"""What a session makes of time, refusals and broken lines, against the real service in memory."""

import asyncio
import copy
import json
import logging
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from attest import Binding, Evidence
from attest.errors import CollectionError, ConfigurationError
from attest.release import KeyReference
from attest.release.refusals import KeyUnknownError, LeaseEndedError, PolicyNotMetError, ReleaseRefusedError
from attest.session import LeaseLostError, ServiceNotGenuineError, ServiceUnreachableError, SessionKey
from kms.keys.admin import set_enabled
from kms.leases.admin import stop_renewals
from kms.leases.records import LeaseFilter
from tests.kms.leaks import found_in_texts
from tests.kms.support import ACTOR, MATERIAL, MODEL, Harness, Workload
from tests.kms.test_api import client_of
from tests.kms.test_key_lifecycle import rotate
from tests.session.line import Clock, Line, Scene, away, refusing

DAY = timedelta(days=1).total_seconds()
TWO_THIRDS = DAY * (2 / 3 - 0.05)
"""When a lease of a day is renewed, by a chance of one half."""


@pytest.fixture
def scene(harness: Harness) -> Iterator[Scene]:
    harness.add_key("model")
    harness.add_key("other")
    with client_of(harness) as web:
        yield Scene(harness=harness, line=Line(web=web), clock=Clock(clock=harness.clock), workload=Workload())


def live(scene: Scene) -> list[str]:
    with scene.harness.services.store.reading() as reader:
        return [lease.lease_id for lease in reader.live_leases(MODEL, at=scene.harness.clock())]


def disable(scene: Scene) -> None:
    set_enabled(scene.harness.services.store, MODEL, enabled=False, actor=ACTOR, at=scene.harness.clock())


def enable(scene: Scene) -> None:
    set_enabled(scene.harness.services.store, MODEL, enabled=True, actor=ACTOR, at=scene.harness.clock())


def stop(scene: Scene) -> None:
    stop_renewals(
        scene.harness.services.store,
        LeaseFilter(),
        concerns=(),
        reason="x",
        actor=ACTOR,
        at=scene.harness.clock(),
    )


# -- keys


def test_a_key_is_asked_for_once_as_long_as_its_lease_lives(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        assert key.material == MATERIAL
        assert (key.export(), len(key)) == (MATERIAL, 32)
        assert session.key("model") is key
        assert scene.line.releases == 1
        assert (key.name, key.version, key.purpose) == ("model", 1, "model-key")
        assert key.expires_at == scene.harness.clock() + timedelta(days=1)
        assert key.seconds_left == DAY
        assert session.held == (key,)
        assert live(scene) == [key.lease_id]
        assert json.loads(key.log_entry)["outcome"] == "allow"
        assert scene.harness.services.identity.public.verify(key.receipt)
        assert scene.harness.services.identity.public.verify(key.log_proof.partition("\n\n")[2])
        assert len(key.policy_digest) == 32


def test_several_keys_come_in_one_request_as_far_as_they_are_not_held(scene: Scene) -> None:
    with scene.session() as session:
        (model,) = session.keys("model")
        assert scene.line.releases == 1
        both = session.keys("other", "model", "other")
        assert [key.name for key in both] == ["other", "model"]
        assert both[1] is model
        assert scene.line.releases == 2
        assert scene.harness.decisions()[-1]["requested"] == ["other"]


def test_a_version_is_asked_for_by_number_and_is_another_key_than_the_current_one(scene: Scene) -> None:
    with scene.session() as session:
        first = session.key("model", 1)
        assert (first.reference, session.key("model@1")) == (KeyReference.parse("model@1"), first)
        assert session.key("model") is not first
        with pytest.raises(ValueError, match="names a version already"):
            session.key("model@1", 1)


def test_what_is_no_name_is_no_request(scene: Scene) -> None:
    with scene.session() as session:
        for wrong in ("MODEL", "", "a/b/c", "model@0"):
            with pytest.raises(ConfigurationError):
                session.key(wrong)
        with pytest.raises(ValueError, match="1 to 16 keys, not 0"):
            session.keys()
        with pytest.raises(ValueError, match="1 to 16 keys, not 17"):
            session.keys(*(f"k{number}" for number in range(17)))
    assert not scene.line.asked


def test_threads_that_race_for_one_key_make_one_request(scene: Scene) -> None:
    with scene.session() as session:
        together = threading.Barrier(8)
        found: list[SessionKey] = []

        def ask() -> None:
            together.wait()
            found.append(session.key("model"))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(key) for key in found}) == 1
        assert len(found) == 8
        assert scene.line.releases == 1


# -- leases


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


def defective(_: httpx.Request) -> httpx.Response:
    msg = "nobody foresaw this"
    raise ValueError(msg)


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


def test_on_asyncio_what_nobody_foresaw_ends_no_renewing_either(scene: Scene) -> None:
    async def program() -> None:
        async with scene.async_session() as session:
            await session.key("model")
            scene.line.always = defective
            scene.harness.clock.forward(seconds=DAY)
            assert await session.renew() is None
            assert len(scene.told.lost) == 1

    asyncio.run(program())


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


# -- asking again


def test_what_may_pass_is_asked_again_under_a_fresh_challenge(scene: Scene) -> None:
    scene.line.faults = [away, refusing(503), refusing(429), refusing(409, "challenge-used")]
    with scene.session() as session:
        assert session.key("model").material == MATERIAL
    assert scene.line.asked["/v1/challenges"] == 5
    assert scene.clock.pauses == [0.25, 0.5, 1.0, 2.0]


def test_the_service_is_not_asked_again_before_it_wants_to_be(scene: Scene) -> None:
    scene.line.faults = [refusing(429, "rate-limited", Retry_After="7")]
    with scene.session() as session:
        session.key("model")
    assert scene.clock.pauses == [7.25]


def test_a_pause_that_leads_beyond_the_deadline_is_not_made(scene: Scene) -> None:
    scene.line.always = refusing(429, "rate-limited", Retry_After="31")
    with scene.session() as session, pytest.raises(ServiceUnreachableError) as caught:
        session.key("model")
    assert scene.clock.pauses == []
    assert caught.value.tried == ("x [rate-limited]",)
    assert isinstance(caught.value.__cause__, ReleaseRefusedError)


def test_nothing_takes_longer_than_the_deadline_and_the_error_says_what_was_tried(scene: Scene) -> None:
    scene.line.always = away
    with scene.session(timeout=10) as session:
        begun = scene.harness.clock()
        with pytest.raises(ServiceUnreachableError) as caught:
            session.key("model")
        assert scene.harness.clock() - begun <= timedelta(seconds=10)
        assert f"no key from {URL_TEXT} within 10 s: 6 attempts" in caught.value.message
        assert caught.value.tried[-1].endswith("[service-unreachable]")
        with pytest.raises(ServiceUnreachableError) as shorter:
            session.key("model", timeout=0.1)
        assert "within 0.1 s: 1 attempt," in shorter.value.message


URL_TEXT = "http://kms.test"


def test_a_challenge_that_is_too_old_is_asked_for_anew_but_not_for_ever(scene: Scene) -> None:
    scene.line.always = lambda request: (
        httpx.Response(410, json={"code": "challenge-expired", "detail": "x"})
        if request.url.path == "/v1/releases"
        else None
    )
    with scene.session() as session, pytest.raises(ReleaseRefusedError) as caught:
        session.key("model")
    assert caught.value.code == "challenge-expired"
    assert scene.line.releases == 4


def test_a_machine_that_takes_too_long_for_its_evidence_gets_another_challenge(scene: Scene) -> None:
    slow = [timedelta(minutes=10), timedelta()]

    def attest(binding: Binding) -> Evidence:
        scene.harness.clock.forward(seconds=slow.pop(0).total_seconds())
        return scene.workload.attest(binding)

    with scene.session(attester=attest, timeout=3600) as session:
        assert session.key("model").material == MATERIAL
    assert scene.line.releases == 2


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda _: httpx.Response(200, json={}), "wire-invalid"),
        (lambda _: httpx.Response(200, content=b"<html>log in first</html>"), "json-invalid"),
        (lambda _: httpx.Response(200, content=b"[" + b" " * (4 * 1024 * 1024)), "service-answer-invalid"),
    ],
)
def test_who_answers_something_else_is_not_the_service(scene: Scene, answer: Any, code: str) -> None:  # noqa: ANN401  a fault
    scene.line.always = answer
    with scene.session() as session, pytest.raises(ServiceNotGenuineError) as caught:
        session.key("model")
    assert caught.value.code == code
    assert URL_TEXT in caught.value.message
    assert scene.clock.pauses == []


def test_a_page_of_a_proxy_that_reaches_nobody_is_no_forgery(scene: Scene) -> None:
    scene.line.always = lambda _: httpx.Response(504, content=b"<html>gateway timeout</html>")
    with scene.session() as session, pytest.raises(ServiceUnreachableError):
        session.key("model")


def test_a_log_that_was_forked_is_not_genuine(scene: Scene) -> None:
    with scene.session() as session:
        session.key("model")

        def no_proof(request: httpx.Request) -> httpx.Response | None:
            return httpx.Response(404, json={"code": "x"}) if "consistency" in request.url.path else None

        scene.line.always = no_proof
        with pytest.raises(ServiceNotGenuineError) as caught:
            session.key("other")
        assert caught.value.code == "log-forked"


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_not_asked_again(scene: Scene, status: int) -> None:
    scene.line.always = refusing(status, "key-unknown")
    with scene.session() as session, pytest.raises(KeyUnknownError):
        session.key("model")
    assert scene.line.asked.total() == 1


def broken(_: Binding) -> Evidence:
    msg = "no such device"
    raise OSError(msg)


def test_an_attester_that_fails_is_a_failure_of_this_machine(scene: Scene) -> None:
    with scene.session(attester=broken) as session, pytest.raises(CollectionError) as caught:
        session.key("model")
    assert (caught.value.code, caught.value.got) == ("attester-failed", "OSError")


# -- the thread


def test_the_background_renews_and_ends_with_the_session(scene: Scene) -> None:
    renewed = threading.Event()
    session = scene.session(background=True, on_renewed=lambda _: renewed.set())
    with session:
        key = session.key("model")
        before = key.lease_id
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session._wake.set()  # noqa: SLF001  in place of a minute's sleep
        assert renewed.wait(30)
        assert key.lease_id != before
        thread = session._thread  # noqa: SLF001
        assert thread is not None
    thread.join(30)
    assert not thread.is_alive()


def test_a_session_that_nobody_has_any_more_ends_its_thread(scene: Scene) -> None:
    session = scene.session(background=True)
    session.key("model")
    thread, wake = session._thread, session._wake  # noqa: SLF001
    assert thread is not None
    del session
    import gc

    gc.collect()
    wake.set()
    thread.join(30)
    assert not thread.is_alive()


def test_a_callback_that_fails_costs_no_other_key(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        msg = "the program's own"
        raise RuntimeError(msg)

    with scene.session(on_lost=fail, on_renewed=fail) as session, caplog.at_level(logging.DEBUG):
        model, other = session.keys("model", "other")
        disable(scene)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        assert (model.valid, other.valid) == (False, True)
        assert "a callback of the session failed" in caplog.text


def test_a_closed_session_gives_nothing_and_has_overwritten_its_keys(scene: Scene) -> None:
    session = scene.session()
    key = session.key("model")
    view = key.material
    session.close()
    session.close()
    assert bytes(view) not in {MATERIAL, bytes(32)}
    assert not key.valid
    with pytest.raises(LeaseLostError) as caught:
        key.export()
    assert caught.value.code == "session-closed"
    for use in (lambda: session.key("model"), session.renew, session.__enter__):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_closing_ends_a_wait(scene: Scene) -> None:
    session = scene.session(timing=replace(scene.clock.timing, pause=None, random=lambda: 0.99))
    scene.line.always = away
    said: list[Exception] = []

    def ask() -> None:
        try:
            session.key("model", timeout=3600)
        except ValueError as exc:
            said.append(exc)

    thread = threading.Thread(target=ask)
    thread.start()
    session._state.closing.wait(0.05)  # noqa: SLF001
    session.close()
    thread.join(30)
    assert [str(one) for one in said] == ["the session is closed"]


# -- forks


def in_child(run: Callable[[], object]) -> object:
    """Return what a forked child makes of something, as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(run()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_child_process_has_no_key_of_its_parents(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        parents = session._state.holdings.recipient.public  # noqa: SLF001

        def look() -> object:
            code = None if key.lost is None else key.lost.code
            fresh = session._state.holdings.recipient.public != parents  # noqa: SLF001
            return [key.valid, code, bytes(key._held.buffer) == MATERIAL, fresh, len(session.held)]  # noqa: SLF001

        assert in_child(look) == [False, "session-forked", False, True, 0]
        assert key.material == MATERIAL


# -- secrets


def test_no_key_in_repr_copy_pickle_error_log_or_environment(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), scene.session() as session:
        key = session.key("model")
        for thing in (key, session, session.renew, key._held.lease.released):  # noqa: SLF001
            with pytest.raises(TypeError):
                pickle.dumps(thing)
        with pytest.raises(TypeError):
            copy.copy(key)
        shown = {"key": repr(key), "held": repr(key._held), "session": repr(session), "vars": repr(vars(session))}  # noqa: SLF001
        disable(scene)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        shown |= {"error": repr(key.lost), "log": caplog.text, "environment": repr(dict(os.environ))}
    assert found_in_texts(shown, (MATERIAL,)) == []
    assert shown["key"] == "SessionKey('model', version=1, valid, <32 bytes>)"
    assert shown["session"] == "Session('http://kms.test', holds [model])"


# -- asyncio


def test_on_asyncio_it_is_the_same(scene: Scene) -> None:
    async def program() -> None:
        scene.line.faults = [away, refusing(503)]
        async with scene.async_session() as session:
            found = await asyncio.gather(*(session.key("model") for _ in range(5)))
            assert len({id(key) for key in found}) == 1
            assert scene.line.releases == 3
            key = found[0]
            scene.harness.clock.forward(seconds=TWO_THIRDS)
            assert await session.renew() == pytest.approx(TWO_THIRDS)
            assert scene.told.renewed == [key]
            (again, other) = await session.keys("model", "other")
            assert again is key
            assert session.held == (key, other)
            assert "holds [model, other]" in repr(session)
            disable(scene)
            scene.harness.clock.forward(seconds=TWO_THIRDS)
            await session.renew()
            assert [one for one, _, _ in scene.told.lost] == [key]
            with pytest.raises(ReleaseRefusedError):
                await session.key("model")
        assert not other.valid
        await session.close()
        with pytest.raises(ValueError, match="closed"):
            await session.key("model")

    asyncio.run(program())


def test_on_asyncio_a_task_renews(scene: Scene) -> None:
    async def program() -> None:
        renewed = asyncio.Event()
        async with scene.async_session(background=True, on_renewed=lambda _: renewed.set()) as session:
            key = await session.key("model")
            before = key.lease_id
            scene.harness.clock.forward(seconds=TWO_THIRDS)
            session._wake.set()  # noqa: SLF001  in place of a minute's sleep
            await asyncio.wait_for(renewed.wait(), 30)
            assert key.lease_id != before

    asyncio.run(program())


def test_on_asyncio_who_gives_up_leaves_the_session_to_others(scene: Scene) -> None:
    collecting, go_on = threading.Event(), threading.Event()

    def attest(binding: Binding) -> Evidence:
        collecting.set()
        assert go_on.wait(30)
        return scene.workload.attest(binding)

    async def program() -> None:
        async with scene.async_session(attester=attest) as session:
            first = asyncio.create_task(session.key("model"))
            await asyncio.to_thread(collecting.wait, 30)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            go_on.set()
            assert (await session.key("model")).material == MATERIAL

    asyncio.run(program())


def test_on_asyncio_the_deadline_holds_for_the_turn_as_well(scene: Scene) -> None:
    async def program() -> None:
        async with scene.async_session() as session:
            await session._turn.acquire()  # noqa: SLF001
            with pytest.raises(ServiceUnreachableError) as caught:
                await session.key("model", timeout=0.01)
            assert "another request was under way" in caught.value.message
            session._turn.release()  # noqa: SLF001

    asyncio.run(program())


def test_the_deadline_holds_for_the_turn_as_well(scene: Scene) -> None:
    with scene.session() as session, session._state.turn:  # noqa: SLF001
        with pytest.raises(ServiceUnreachableError) as caught:
            session.key("model", timeout=0.01)
        assert "another request was under way" in caught.value.message


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


def test_on_asyncio_a_session_that_is_closed_while_it_renews_is_closed(scene: Scene) -> None:
    async def program() -> None:
        session = scene.async_session(background=True)
        await session.key("model")
        await session._turn.acquire()  # noqa: SLF001
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session._wake.set()  # noqa: SLF001  in place of a minute's sleep
        await asyncio.sleep(0.05)
        # The renewal has its turn, and has not noticed yet.
        session._turn.release()  # noqa: SLF001
        await asyncio.sleep(0)
        await session.close()
        assert session.held == ()

    asyncio.run(program())
