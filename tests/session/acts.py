"""What happens to a key and its leases while a session holds them."""

from datetime import timedelta

from kms.domain.leases import LeaseFilter
from kms.keys.admin import set_enabled
from kms.leases.admin import stop_renewals
from tests.kms.support import ACTOR, MODEL, live_leases
from tests.session.line import Scene

__all__ = ["DAY", "TWO_THIRDS", "disable", "enable", "live", "stop"]

DAY = timedelta(days=1).total_seconds()
TWO_THIRDS = DAY * (2 / 3 - 0.05)
"""When a lease of a day is renewed, by a chance of one half."""


def live(scene: Scene) -> list[str]:
    with scene.harness.services.store.reading() as tx:
        return [lease.lease_id for lease in live_leases(tx, MODEL, at=scene.harness.clock())]


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
