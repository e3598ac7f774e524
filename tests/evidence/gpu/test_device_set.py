"""The devices that another Verifier states."""

from attest.evidence.claims import ClaimValue, StatedClaims, StatedItem
from attest.evidence.gpu.device_set import stated_devices


def item(kind: str, **claims: ClaimValue) -> StatedItem:
    return StatedItem(name=kind, kind=kind, verified=StatedClaims(values=claims))


def test_gpus_and_switches_are_told_apart_and_a_value_of_another_type_is_not_stated() -> None:
    found = stated_devices(
        [
            item("nvidia-gpu", architecture="hopper", driver_version="570.1"),
            item("nvidia-gpu", architecture=9, driver_version=True),
            item("nvidia-switch"),
            item("tdx"),
        ],
        bound=True,
    )
    assert [(one.architecture, one.driver_version) for one in found.gpus] == [("hopper", "570.1"), (None, None)]
    assert [(one.architecture, one.driver_version) for one in found.switches] == [(None, None)]
    assert (found.cpu_kind, found.bound) == ("tdx", True)


def test_without_a_cpu_there_is_no_kind_of_one() -> None:
    found = stated_devices([item("nvidia-switch")], bound=False)
    assert (found.gpus, found.cpu_kind, found.bound) == ((), None, False)
