"""What a session asks again, and what it takes as the last word."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from attest import Binding, Evidence
from attest.errors import CollectionError, KeyUnknownError, ReleaseRefusedError
from attest.session import ServiceNotGenuineError, ServiceUnreachableError
from tests.kms.support import MATERIAL
from tests.session.line import Scene, away, refusing


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


def test_the_second_key_takes_no_request_to_compare_the_log(scene: Scene) -> None:
    with scene.session() as session:
        session.key("model")
        session.key("other")
    assert set(scene.line.asked) == {"/v1/challenges", "/v1/releases"}


def test_a_log_that_was_forked_is_not_genuine(scene: Scene) -> None:
    with scene.session() as session:
        session.key("model")

        def no_proof(request: httpx.Request) -> httpx.Response | None:
            if "consistency" not in request.url.path and "log_size" not in request.url.params:
                return None
            return httpx.Response(404, json={"code": "log-tile-unknown", "detail": "x"})

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


def test_the_deadline_holds_for_the_turn_as_well(scene: Scene) -> None:
    with scene.session() as session, session._lock:  # noqa: SLF001
        with pytest.raises(ServiceUnreachableError) as caught:
            session.key("model", timeout=0.01)
        assert "another request was under way" in caught.value.message
