"""The service while it is attacked: the time of honest releases against that of a quiet service.

One worker serves over TLS, with the limits that it has by default, beside its administration listener. An honest client
on 127.0.0.1 sends a release after the other; each attack lasts until the honest client is done. Service and honest
client are on two processors. On a machine with four, the attacker has the other two, and is measured there and on the
same two; with fewer it has the same two, so that its own computing counts against the service.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attest.clock import system_clock
from benchmarks.attackers import ATTACKS, POLICIES, Target, attacked
from benchmarks.load import end, port_of, two_processors
from benchmarks.measure import Figure
from benchmarks.sending import Load, post, send_all
from benchmarks.service import BenchedService, benched_service
from benchmarks.tls_files import client_context, write_tls_files
from kms.auth.grants import give_role
from kms.domain.actors import Actor, Means, local_actor
from kms.domain.permissions import Role

_BAR = 3.0
_RECOVERY_SECONDS = 1.0
_END_SECONDS = 15.0
"""``drain_seconds`` as it is by default, and the 5 s after which a worker is killed."""

__all__ = ["kms_under_attack"]


def kms_under_attack(*, requests: int = 200, rounds: int = 3) -> Figure:
    """Measure each attack between quiet series; the figure is the worst ratio of the 99th percentiles.

    With processors of the attacker's own it is the worst of these; the others are printed.
    """
    every = sorted(os.sched_getaffinity(0))
    places = {"the same processors": frozenset(every[:2])}
    if len(every) >= 4:
        places = {"processors of its own": frozenset(every[2:4])} | places
    lines = [f"{len(every)} processors, load average {os.getloadavg()[0]:.1f} at the start"]
    worst = dict.fromkeys(places, 0.0)
    with two_processors(), benched_service() as service:
        _add_administrator(service)
        with _served(service) as (target, process):
            _honest(service, target.port, 40)
            for where, processors in places.items():
                for name in ATTACKS:
                    ratio, line = _measured(
                        name, service, target, processors=processors, requests=requests, rounds=rounds
                    )
                    lines.append(f"{line}; attacker on {where}, memory {_memory(process.pid)} MiB")
                    worst[where] = max(worst[where], ratio)
            seconds = _seconds_to_end(process, target, next(iter(places.values())))
    lines.append(f"SIGTERM under {POLICIES!r}: ended after {seconds:.1f} s, bar {_END_SECONDS:g} s")
    value = next(iter(worst.values())) if seconds <= _END_SECONDS else math.inf
    return Figure(id="kms-under-attack", value=value, bar=_BAR, better="lower", detail="\n# ".join(lines))


def _measured(
    name: str, service: BenchedService, target: Target, *, processors: frozenset[int], requests: int, rounds: int
) -> tuple[float, str]:
    quiet, during, after = list[Load](), list[Load](), list[Load]()
    for _ in range(rounds):
        quiet.append(_honest(service, target.port, requests))
        with attacked(name, target, processors=processors):
            during.append(_honest(service, target.port, requests))
        time.sleep(_RECOVERY_SECONDS)
        after.append(_honest(service, target.port, requests // 4))
    before, half, worst, later = (
        statistics.median(load.percentile(part) for load in loads) * 1000
        for loads, part in ((quiet, 0.99), (during, 0.5), (during, 0.99), (after, 0.99))
    )
    errors = sum(load.errors for load in during)
    line = (
        f"{name}: p99 {worst:.1f} ms, p50 {half:.1f} ms, quiet p99 {before:.1f} ms, ratio {worst / before:.2f}, "
        f"{errors} errors of {rounds * requests}; {_RECOVERY_SECONDS:g} s later p99 {later:.1f} ms"
    )
    return worst / before, line


def _honest(service: BenchedService, port: int, number: int) -> Load:
    ready = [post("/v1/releases", service.body()) for _ in range(number)]
    return send_all(ready, port=port, connections=1, tls=client_context())


def _seconds_to_end(process: subprocess.Popen[str], target: Target, processors: frozenset[int]) -> float:
    """Return how long the service takes to end when it is told to while policies are posted."""
    with attacked(POLICIES, target, processors=processors):
        begin = time.perf_counter()
        end(process)
        return time.perf_counter() - begin


# -- the service


def _add_administrator(service: BenchedService) -> None:
    """Add an administrator, without which there is no administration listener; nobody has its certificate."""
    someone = Actor(name=f"sha256:{'0' * 64}", means=Means.MTLS)
    store = service.services.store
    give_role(store, identity=someone, tenant="*", role=Role.ADMINISTRATOR, actor=local_actor(), at=system_clock())


@contextmanager
def _served(service: BenchedService) -> Iterator[tuple[Target, subprocess.Popen[str]]]:
    """Run one worker with TLS and its administration listener."""
    files = write_tls_files(service.config.parent)
    command = [
        sys.executable,
        "-m",
        "kms",
        "serve",
        "--config",
        str(service.config),
        "--port",
        "0",
        "--admin-port",
        "0",
    ]
    tls = {
        "KMS_TLS_CERTIFICATE_FILE": str(files.certificate("server")),
        "KMS_TLS_KEY_FILE": str(files.key("server")),
        "KMS_ADMIN_CERTIFICATE_FILE": str(files.certificate("server")),
        "KMS_ADMIN_KEY_FILE": str(files.key("server")),
        "KMS_ADMIN_CLIENT_CA_FILE": str(files.certificate("authority")),
    }
    one_chip = {"KMS_CHIP_RELEASES_PER_MINUTE": "0"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | tls | one_chip
    ) as process:
        try:
            port = port_of(process)
            admin_port = port_of(process, "administration: ")
            yield Target(port=port, admin_port=admin_port, files=files), process
        finally:
            end(process)


def _memory(process: int) -> int:
    """Return the largest memory that a process has had, in MiB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024
