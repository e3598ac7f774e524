"""The thread that renews, the end of a session, and children that are forked."""

import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from attest.session import LeaseLostError
from tests.kms.support import MATERIAL
from tests.session.acts import TWO_THIRDS, disable
from tests.session.line import Scene, away

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
    session._closing.wait(0.05)  # noqa: SLF001
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
        parents = session._holdings.recipient.public  # noqa: SLF001

        def look() -> object:
            code = None if key.lost is None else key.lost.code
            fresh = session._holdings.recipient.public != parents  # noqa: SLF001
            return [key.valid, code, bytes(key._held.buffer) == MATERIAL, fresh, len(session.held)]  # noqa: SLF001

        assert in_child(look) == [False, "session-forked", False, True, 0]
        assert key.material == MATERIAL
