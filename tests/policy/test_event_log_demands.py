"""The lists of an event log's section: which of them are stated, and which demand something."""

from dataclasses import replace

import pytest

from attest.policy.decoder import Demand, RelaxedDemand
from attest.policy.eventlog import FIRMWARE_LISTS, LOADER_LISTS, EventLogDemands

NOTHING = EventLogDemands(signature_stores={})
RELAXED: Demand[tuple[str, ...]] = Demand(RelaxedDemand(reason="x"))
EMPTY: Demand[tuple[str, ...]] = Demand(())
ONE: Demand[tuple[str, ...]] = Demand(("a",))


def log_of(**lists: Demand[tuple[str, ...]] | None) -> EventLogDemands:
    return replace(NOTHING, **lists)  # type: ignore[arg-type]  # names of lists


def test_firmware_is_demanded_by_every_list_of_it() -> None:
    both = dict.fromkeys(FIRMWARE_LISTS, EMPTY)
    assert log_of(**both).demands_firmware
    assert not NOTHING.demands_firmware
    for name in FIRMWARE_LISTS:
        for other in (None, RELAXED):
            assert not log_of(**{**both, name: other}).demands_firmware


@pytest.mark.parametrize("name", LOADER_LISTS)
def test_a_boot_loader_is_listed_by_any_list_of_it_and_demanded_by_one_with_an_event(name: str) -> None:
    found = [
        (log.lists_loader_events, log.demands_loader)
        for log in (log_of(**{name: one}) for one in (RELAXED, EMPTY, ONE))
    ]
    assert found == [(True, False), (True, False), (True, True)]
    assert (NOTHING.lists_loader_events, NOTHING.demands_loader) == (False, False)
