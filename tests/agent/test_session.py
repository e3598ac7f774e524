"""The agent with a real session and a real service in memory: what the service decides reaches the containers."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from attest.agent import AgentClient, AgentRefusedError
from attest.agent.config import AgentConfig, ServedKey, ServedModel, SocketConfig
from attest.agent.server import Agent
from attest.agent.unix_socket import AgentSocket
from attest.release.names import KeyReference
from attest.sealed import SealingNames
from attest.session import Session
from kms.keys.admin import set_enabled
from tests.agent.running import ME, QUICK, Ticks
from tests.kms.conftest import harness, kind
from tests.kms.support import ACTOR, MATERIAL, MODEL, Harness, Workload
from tests.kms.test_api import client_of
from tests.sealed.made import OWNER
from tests.sealed.made import Place as SealedPlace
from tests.session.line import Clock, Line, Scene

__all__ = ["harness", "kind"]


@pytest.fixture
def scene(harness: Harness) -> Iterator[Scene]:
    harness.add_key("model")
    with client_of(harness) as web:
        yield Scene(harness=harness, line=Line(web=web), clock=Clock(clock=harness.clock), workload=Workload())


def test_a_key_that_its_owner_disables_is_given_to_nobody_after_the_next_renewal(scene: Scene, folder: Path) -> None:
    sealed = SealedPlace(folder / "model")
    sealed.seal(key=MATERIAL, names=SealingNames(key=KeyReference.parse("model@1")))
    served = ServedModel(
        name="m", place=str(sealed.sealed), trusted=(OWNER.public_key(),), verify_digests=True, peers=(ME,)
    )
    key = ServedKey(reference=KeyReference.parse("model"), peers=(ME,))
    ticks = Ticks()
    agent = Agent(AgentConfig(peers=(ME,), keys=(key,), models=(served,), limits=QUICK), ticks=ticks)
    with AgentSocket(folder / "a.sock", SocketConfig()) as place, scene.session(on_lost=agent.lost) as session:
        thread = threading.Thread(target=lambda: agent.serve(place.sock, session))
        thread.start()
        try:
            with AgentClient(folder / "a.sock", uid=ME.uid or 0) as client:
                _use(scene, session, client, ticks)
        finally:
            agent.stop()
            thread.join(60)
            agent.close()


def _use(scene: Scene, session: Session, client: AgentClient, ticks: Ticks) -> None:
    from tests.sealed.made import FILES

    file = client.model("m").open("config.json")
    assert client.key("model") == MATERIAL
    assert bytes(file.read(0, file.size)) == FILES["config.json"]
    released = scene.line.releases
    for _ in range(5):
        assert client.key("model") == MATERIAL
    assert scene.line.releases == released
    store = scene.harness.services.store
    set_enabled(store, MODEL, enabled=False, actor=ACTOR, at=scene.harness.clock())
    assert client.key("model") == MATERIAL  # the lease lives
    scene.harness.clock.forward(seconds=timedelta(days=0.7).total_seconds())
    session.renew()
    for ask in (lambda: client.key("model"), lambda: file.read(0, 1), lambda: client.model("m")):
        with pytest.raises(AgentRefusedError) as caught:
            ask()
        assert (caught.value.status, caught.value.code) == (410, "lease-renewal-refused")
    set_enabled(store, MODEL, enabled=True, actor=ACTOR, at=scene.harness.clock())
    ticks.ahead += 60
    assert client.key("model") == MATERIAL
    assert bytes(file.read(0, 1)) == FILES["config.json"][:1]
