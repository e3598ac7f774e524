"""The service under load, against what the bare signature verifications of such releases allow.

Two worker processes and the load generator share two processors. Evidence of SNP and a GPU, each under a challenge of
its own, is made before the clock runs. The bare rate is taken in two processes at once, before and after each load, so
that a slow minute hits both sides alike.

Such a release rests on 29 signatures. A service verifies most of them once and remembers that; they are the measure all
the same, since one that forgot more would look better against what is left. The harder comparison, with the two that no
service can remember, is printed beside it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.measure import Figure
from benchmarks.sending import Load, post, send_all
from benchmarks.service import BenchedService, benched_service, every_signature
from benchmarks.signing import bare_work, describe, verifications

__all__ = ["UNLIMITED", "end", "kms_throughput", "port_of", "two_processors"]

_ID = "kms-throughput"
_WORKERS = 2
_CONNECTIONS = (1, 8, 64)
_END_SECONDS = 60
UNLIMITED: Final = {"KMS_CLIENT_REQUESTS_PER_SECOND": "0", "KMS_CHIP_RELEASES_PER_MINUTE": "0"}
"""One address and one chip request everything here."""


def kms_throughput(*, rounds: int = 3, requests: int = 600, bare_seconds: float = 1.0) -> Figure:
    """Measure all numbers of connections in each round; the figure is the median ratio with the most of them."""
    with two_processors(), benched_service() as service, _served(service) as port:
        kinds = every_signature(service)
        left = verifications(lambda: service.answer(service.body()))
        sizes = {number: requests // 4 if number == 1 else requests for number in _CONNECTIONS}
        send_all(_prepared(service, 40), port=port, connections=4)
        loads: dict[int, list[Load]] = {number: [] for number in _CONNECTIONS}
        rates: dict[int, list[float]] = {number: [] for number in _CONNECTIONS}
        for _ in range(rounds):
            for number in _CONNECTIONS:
                ready = _prepared(service, sizes[number])
                before = _bare_rate(kinds, bare_seconds)
                load = send_all(ready, port=port, connections=number)
                after = _bare_rate(kinds, bare_seconds)
                loads[number].append(load)
                rates[number].append(statistics.mean((before, after)))
        rest = _bare_rate(left, bare_seconds)
    most = max(_CONNECTIONS)
    ratio = statistics.median(load.rate / bare for load, bare in zip(loads[most], rates[most], strict=True))
    usual = statistics.median(load.rate for load in loads[most])
    lines = [
        f"{describe(kinds)} a release; {_WORKERS} workers, {_processors()} processors, load generator included",
        *(_told(number, loads[number], rates[number]) for number in _CONNECTIONS),
        f"{describe(left)} of them no service can remember: bare {rest:.0f}/s, ratio {usual / rest:.2f}",
    ]
    return Figure(id=_ID, value=ratio, bar=0.6, better="higher", detail="\n# ".join(lines))


def _told(number: int, loads: list[Load], rates: list[float]) -> str:
    rate, bare = statistics.median(load.rate for load in loads), statistics.median(rates)
    half, most = (statistics.median(load.percentile(part) for load in loads) * 1000 for part in (0.5, 0.99))
    errors = sum(load.errors for load in loads)
    plural = "" if number == 1 else "s"
    return (
        f"{number} connection{plural}: {rate:.0f} releases/s, bare {bare:.0f}/s, ratio {rate / bare:.2f}, "
        f"p50 {half:.1f} ms, p99 {most:.1f} ms, {errors} errors of {sum(load.statuses.total() for load in loads)}"
    )


def _prepared(service: BenchedService, number: int) -> list[bytes]:
    return [post("/v1/releases", service.body()) for _ in range(number)]


# -- the service's processes


@contextmanager
def _served(service: BenchedService) -> Iterator[int]:
    """Run the workers; give the port that they serve."""
    command = [sys.executable, "-m", "kms", "serve", "--config", str(service.config)]
    with subprocess.Popen(
        [*command, "--port", "0", "--workers", str(_WORKERS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | UNLIMITED,
    ) as process:
        try:
            yield port_of(process)
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """End a service, and wait for it."""
    process.terminate()
    process.wait(_END_SECONDS)


def port_of(process: subprocess.Popen[str], listener: str = "listening: ") -> int:
    """Read lines until one says where it listens; they end when it cannot."""
    for line in process.stdout or ():
        if line.startswith(listener):
            return int(line.rpartition(":")[2])
    msg = "the service did not start"
    raise RuntimeError(msg)


# -- the bare rate


def _bare_rate(kinds: Counter[str], seconds: float) -> float:
    """Return how many times a second two processes at once get through these verifications."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(_WORKERS) as pool:
        pool.map(_ready, range(_WORKERS), chunksize=1)
        done = [pool.apply_async(_bare, (json.dumps(kinds), seconds)) for _ in range(_WORKERS)]
        return sum(one.get() for one in done)


def _ready(number: int) -> int:
    time.sleep(0.05)  # so that no process takes the other's turn
    return number


def _bare(kinds: str, seconds: float) -> float:
    work = bare_work(Counter(json.loads(kinds)))
    work()
    begin, times = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        work()
        times += 1
    return times / (time.perf_counter() - begin)


@contextmanager
def two_processors() -> Iterator[None]:
    """Stay on two processors, with every process that is started meanwhile."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_of_them)[:_WORKERS])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def _processors() -> int:
    return len(os.sched_getaffinity(0))
