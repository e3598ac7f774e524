"""A workload keeps its lease against the real service: it renews in time, and learns when it may not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import httpx
import pytest
from starlette.testclient import TestClient

from attest.errors import LeaseLostError, ReleaseRefusedError
from attest.release.client import KeyReleaseClient
from attest.release.leases import LeaseClocks, LeaseKeeper
from attest.release.released_key import ReleasedKey
from kms.domain.leases import LeaseFilter
from kms.keys.admin import set_enabled
from kms.leases.admin import stop_renewals
from tests.kms.support import ACTOR, MATERIAL, MODEL, FakeClock, Harness, Workload, live_leases
from tests.kms.test_api import client_of

DAY = timedelta(days=1)


class EnoughError(Exception):
    """The application wants no more."""


@dataclass
class Waiting:
    """Waits by moving the clock; something may happen at the end of a wait."""

    clock: FakeClock
    waits: list[float] = field(default_factory=list)
    chance: float = 0.0
    then: Callable[[], None] = lambda: None

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.forward(seconds=seconds)
        self.then()

    @property
    def timing(self) -> LeaseClocks:
        return LeaseClocks(now=self.clock, wait=self.wait, random=lambda: self.chance)


@pytest.fixture
def web(harness: Harness) -> Iterator[TestClient]:
    harness.add_key("model")
    with client_of(harness) as made:
        yield made


def keeper_of(harness: Harness, http: object, waiting: Waiting, *key_ids: str) -> LeaseKeeper:
    client = KeyReleaseClient(http, service=harness.services.identity.public)  # type: ignore[arg-type]  # a client all the same
    return LeaseKeeper(client, key_ids or ("model",), attester=Workload().attest, timing=waiting.timing)


@pytest.fixture
def waiting(harness: Harness) -> Waiting:
    return Waiting(clock=harness.clock)


def live(harness: Harness) -> list[str]:
    with harness.services.store.reading() as tx:
        return [lease.lease_id for lease in live_leases(tx, MODEL, at=harness.clock())]


def test_a_lease_is_renewed_at_two_thirds_of_its_time(harness: Harness, web: TestClient, waiting: Waiting) -> None:
    keeper = keeper_of(harness, web, waiting)
    (first,) = keeper.obtain()
    (second,) = next(keeper.renewals())
    assert waiting.waits == [DAY.total_seconds() * 2 / 3]
    assert second.material == first.material == MATERIAL
    assert second.recipient is first.recipient
    assert second.expires_at == keeper.expires_at == harness.clock() + DAY
    assert live(harness) == [second.lease_id]
    assert harness.decisions()[-1]["keys"][0]["lease"]["renewed_from"] == first.lease_id  # type: ignore[index]


def test_chance_makes_renewals_earlier_and_never_later(harness: Harness, web: TestClient, waiting: Waiting) -> None:
    waiting.chance = 0.5
    keeper = keeper_of(harness, web, waiting)
    keeper.obtain()
    next(keeper.renewals())
    assert waiting.waits == [pytest.approx(DAY.total_seconds() * (2 / 3 - 0.05))]


def test_renewals_go_on_for_as_long_as_the_application_wants(
    harness: Harness, web: TestClient, waiting: Waiting
) -> None:
    keeper = keeper_of(harness, web, waiting)
    leases = [keeper.obtain()[0].lease_id]
    for number, (key,) in enumerate(keeper.renewals()):
        leases.append(key.lease_id)
        if number == 4:
            break
    assert len(set(leases)) == 6
    assert live(harness) == leases[-1:]

    def enough() -> None:
        raise EnoughError

    waiting.then = enough
    with pytest.raises(EnoughError):
        next(keeper.renewals())


def disable(harness: Harness) -> None:
    set_enabled(harness.services.store, MODEL, enabled=False, actor=ACTOR, at=harness.clock())


def stop(harness: Harness) -> None:
    stop_renewals(harness.services.store, LeaseFilter(), concerns=(), reason="x", actor=ACTOR, at=harness.clock())


@pytest.mark.parametrize(("refuse", "code"), [(disable, "key-disabled"), (stop, "lease-stopped")])
def test_mc_26_a_refusal_ends_it_at_once_and_tells_why(
    harness: Harness, web: TestClient, waiting: Waiting, refuse: Callable[[Harness], None], code: str
) -> None:
    keeper = keeper_of(harness, web, waiting)
    keeper.obtain()
    refuse(harness)
    with pytest.raises(ReleaseRefusedError) as caught:
        next(keeper.renewals())
    assert caught.value.code == code
    assert len(waiting.waits) == 1


class Away:
    """An HTTP client whose service is away for some requests, or whose answers get lost."""

    def __init__(self, http: TestClient) -> None:
        self.http = http
        self.away = 0
        self.lost = 0
        self.status: int | None = None

    def stream(self, method: str, path: str, **more: object) -> object:
        if self.away and path.partition("?")[0] == "/v1/releases":
            self.away -= 1
            if self.status is not None:
                answer = httpx.Response(self.status, json={"code": "store-busy", "detail": "x"})
                return httpx.Client(transport=httpx.MockTransport(lambda _: answer)).stream("POST", "http://kms.test/")
            msg = "connection refused"
            raise httpx.ConnectError(msg)
        found = self.http.stream(method, path, **more)  # type: ignore[arg-type]
        if self.lost and path.partition("?")[0] == "/v1/releases":
            self.lost -= 1
            with found as whole:
                whole.read()
            msg = "the answer got lost"
            raise httpx.ReadError(msg)
        return found


@pytest.mark.parametrize("status", [None, 503, 429])
def test_a_service_that_is_away_is_asked_again_with_growing_pauses(
    harness: Harness, web: TestClient, waiting: Waiting, status: int | None
) -> None:
    http = Away(web)
    keeper = keeper_of(harness, http, waiting)
    keeper.obtain()
    http.away, http.status = 9, status
    next(keeper.renewals())
    assert waiting.waits[1:] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_lease_that_ends_meanwhile_is_lost(harness: Harness, web: TestClient, waiting: Waiting) -> None:
    http = Away(web)
    keeper = keeper_of(harness, http, waiting)
    (key,) = keeper.obtain()
    http.away = 10**6
    with pytest.raises(LeaseLostError) as caught:
        next(keeper.renewals())
    assert (caught.value.code, caught.value.got) == ("lease-lost", "service-unreachable")
    assert key.expires_at - timedelta(seconds=61) < harness.clock() < key.expires_at


def test_an_answer_that_got_lost_costs_no_lease(harness: Harness, web: TestClient, waiting: Waiting) -> None:
    http = Away(web)
    keeper = keeper_of(harness, http, waiting)
    keeper.obtain()
    http.lost = 1
    (key,) = next(keeper.renewals())
    assert live(harness) == [key.lease_id]
    assert [one["outcome"] for one in harness.decisions()] == ["allow", "allow", "deny", "allow"]


def test_nothing_is_renewed_before_anything_was_obtained(harness: Harness, web: TestClient, waiting: Waiting) -> None:
    with pytest.raises(ValueError, match=r"call obtain\(\) first"):
        next(keeper_of(harness, web, waiting).renewals())


def test_leases_of_several_key_pairs_are_not_renewed_together(harness: Harness, web: TestClient) -> None:
    client = KeyReleaseClient(web, service=harness.services.identity.public)  # type: ignore[arg-type]  # as above
    one, two = (client.release(("model",), attester=Workload().attest)[0] for _ in range(2))
    held: tuple[ReleasedKey, ...] = (one, two)
    with pytest.raises(ValueError, match="several key pairs"):
        client.release(("model",), attester=Workload().attest, renewing=held)
