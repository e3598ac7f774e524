"""The time of a release with one key in the database, and with a million beside it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from attest.encoding import rfc3339_text
from benchmarks.measure import Figure
from benchmarks.service import KEY_ID, BenchedService, benched_service
from kms.store.keys import key_versions, keys
from kms.store.schema import metadata

__all__ = ["million_keys"]

_ROWS_AT_A_TIME = 10_000


def million_keys(*, number: int = 1_000_000, rounds: int = 61, times: int = 4) -> Figure:
    """Release in turn from both; the figure is the median over the rounds of the one time by the other."""
    with benched_service(in_memory=True) as small, benched_service(in_memory=True) as large:
        begin = time.perf_counter()
        stored = _fill(large, number - 1) + 1
        filled = time.perf_counter() - begin
        sides = (small, large)
        left = [iter([side.body() for _ in range((rounds + 1) * times)]) for side in sides]
        pairs = [[_seconds(side, left[place], times) for place, side in enumerate(sides)] for _ in range(rounds + 1)]
    one, all_of_them = (statistics.median(pair[place] for pair in pairs[1:]) for place in (0, 1))
    ratio = statistics.median(pair[1] / pair[0] for pair in pairs[1:])
    detail = (
        f"a release with 1 key {one * 1e6:.0f} us, with {stored:,} keys {all_of_them * 1e6:.0f} us "
        f"(written in {filled:.0f} s)"
    )
    return Figure(id="kms-million-keys", value=ratio, bar=1.2, better="lower", detail=detail)


def _seconds(service: BenchedService, left: Iterator[bytes], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        service.answer(next(left))
    return (time.perf_counter() - begin) / times


def _fill(service: BenchedService, number: int) -> int:
    """Write copies of the one key under other names, straight into the tables; return how many there are."""
    made = rfc3339_text(datetime(2026, 1, 1, tzinfo=UTC))
    with service.services.store.writing() as tx:
        models = {table: next(iter(tx.tables.rows(metadata.tables[table.name]))) for table in (keys, key_versions)}
        for begin in range(0, number, _ROWS_AT_A_TIME):
            names = [f"{KEY_ID}-{index:07}" for index in range(begin, min(begin + _ROWS_AT_A_TIME, number))]
            for table, model in models.items():
                tx.tables.add(table, [{**model, "key_id": name, "created_at": made} for name in names])
        for table in models:
            tx.tables.authenticate(table)
    return number
