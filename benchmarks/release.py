"""A release from end to end in one process, against the signature checks of such a release.

The machine is one with a CPU and a GPU. What it proves rests on 29 signatures: of two reports, of the chains over them,
and of the vendors' documents. All of them are the measure, even where results are cached: otherwise a service
with less caching would look better. A release runs from the request's bytes to the answer's: JSON, verification,
appraisal, decision, the transaction on the disk, sealing, receipt and proof.

The figure is of a machine that was seen before. The other lines put each kind of release next to those signatures alone
that it verified itself, which is the harder comparison.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.measure import Figure
from benchmarks.service import BenchedService, benched_service, every_signature, forgetting
from benchmarks.signing import bare_work, describe, verifications
from benchmarks.stages import where_time_goes

__all__ = ["release_vs_signatures"]

_ID = "release-vs-signatures"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One kind of release against its signatures.

    Attributes:
        name: for people.
        checks: the signatures that it verifies.
        bare: median time of these alone, seconds.
        release: median time of a release, seconds.
        ratio: median over the rounds of one by the other.
    """

    name: str
    checks: str
    bare: float
    release: float
    ratio: float

    @property
    def detail(self) -> str:
        """One line of the output."""
        times = f"{self.release * 1e6:.0f} us, signatures {self.bare * 1e6:.0f} us ({self.checks})"
        return f"{self.name}: {times}, {self.ratio:.2f}x"


def release_vs_signatures(*, rounds: int = 21, times: int = 8) -> Figure:
    """Measure the three kinds in turn; the figure is that of a machine that was seen before."""
    with benched_service(machines=rounds + 2, in_memory=True) as service:
        all_of_them = every_signature(service)
        whole = _measure(
            "a machine seen before, all signatures of what it shows",
            service,
            _bodies(service, rounds * times + 2),
            rounds,
            times,
            of=all_of_them,
        )
        usual = _measure("the same, those it verified", service, _bodies(service, rounds * times + 2), rounds, times)
        first = [service.body(machine) for machine in service.machines[1:]]
        cases = (
            usual,
            _measure("a machine's first release", service, [service.body(), *first], rounds, 1),
            _measure("nothing remembered", service, _bodies(service, rounds + 2), rounds, 1, before=forgetting()),
        )
        bodies = _bodies(service, rounds * times)
        parts = where_time_goes(lambda: [service.answer(body) for body in bodies])
    with benched_service() as service:
        on_disk = _measure("with the database on this disk", service, _bodies(service, rounds * 2 + 2), rounds, 2)
    lines = [*(case.detail for case in (whole, *cases, on_disk)), f"of a machine seen before: {parts}"]
    return Figure(id=_ID, value=whole.ratio, bar=1.5, better="lower", detail="\n# ".join(lines))


def _bodies(service: BenchedService, number: int) -> list[bytes]:
    return [service.body() for _ in range(number)]


def _measure(
    name: str,
    service: BenchedService,
    bodies: list[bytes],
    rounds: int,
    times: int,
    *,
    before: Callable[[], None] = lambda: None,
    of: Counter[str] | None = None,
) -> _Case:
    """Take both times in each round; before them one request warms up, and one counts its signatures.

    They are the measure, unless it is said of which signatures.
    """
    left = iter(bodies)
    service.answer(next(left))
    before()
    made = verifications(lambda: service.answer(next(left)))
    kinds = made if of is None else of
    bare = bare_work(kinds)
    bare()
    pairs = [(_seconds(bare, times), _released(service, left, times, before)) for _ in range(rounds)]
    return _Case(
        name=name,
        checks=describe(kinds),
        bare=statistics.median(one for one, _ in pairs),
        release=statistics.median(other for _, other in pairs),
        ratio=statistics.median(other / one for one, other in pairs),
    )


def _seconds(work: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) / times


def _released(service: BenchedService, left: Iterator[bytes], times: int, before: Callable[[], None]) -> float:
    before()
    return _seconds(lambda: service.answer(next(left)), times)
