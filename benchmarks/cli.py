"""Start-up time of ``attest --help``."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measure import Figure

__all__ = ["help_time"]

_RUNS = 15


def help_time() -> Figure:
    """Measure the whole process, from start to exit, after one run that warms the disk cache."""
    command = [str(Path(sys.executable).with_name("attest")), "--help"]
    bare = [sys.executable, "-c", "pass"]
    times: dict[str, list[float]] = {"help": [], "bare": []}
    for _ in range(_RUNS + 1):
        for name, argv in (("help", command), ("bare", bare)):
            begin = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            times[name].append(time.perf_counter() - begin)
    shown, interpreter = (statistics.median(times[name][1:]) * 1000 for name in ("help", "bare"))
    detail = f"median of {_RUNS} processes; an empty Python takes {interpreter:.0f} ms of it"
    return Figure(id="cli-help-ms", value=shown, bar=150, better="lower", detail=detail)
