"""GPU verification against NVIDIA's Python verifier: same report, chain and RIMs, one run; and eight GPUs against one.

Warm: chain and RIMs were seen before; the report, its signature, dates, roles and measurements are checked again on
each call. Cold: all caches are cleared before each call, and it begins with the bytes of all files. The
peer has no cache and is timed inside its own interpreter, without start, input, logs and network; neither side
checks revocation, for which there is no recorded answer.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.gpu.evidence import parse_nvidia_device, parse_nvidia_report
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest.nvsdk import device_with_rims, time_sdk
from attest.nvsdk.environment import find_environment, installation_folder
from attest_simulator.nvidia import SimulatedBoard
from benchmarks.intel import NoVectorsError, remembering_tables
from benchmarks.measure import Figure, interleaved_ratio, median_seconds

__all__ = ["cold", "eight", "warm"]

_ROUNDS = 7
_TIMES = 20


class _Sample:
    """A recorded report of an H100 with its chain and both RIMs."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("ATTEST_VECTORS", "../shared/vectors")) / "nvidia/gh100-545.00"
        try:
            self.report = bytes.fromhex((folder / "report.hex").read_text(encoding="ascii").strip())
            names = ("chain.pem", "driver-rim.xml", "vbios-rim.xml")
            self.files = [(name, (folder / name).read_bytes()) for name in names]
        except FileNotFoundError as exc:
            raise NoVectorsError from exc
        self.at, self.anchors = datetime(2024, 6, 1, tzinfo=UTC), TrustAnchors.vendors()
        self.unchecked = (Unchecked(check="revocation", reason="none was recorded"),)
        self.endorsements = self.pool()

    def pool(self) -> Endorsements:
        """Read chain and RIMs."""
        return read_endorsements(self.files, at=self.at).endorsements

    def verify(self, endorsements: Endorsements) -> VerifiedGpu:
        """Read the report and verify it in full."""
        parsed = parse_nvidia_report(self.report)
        return verify_gpu_evidence(
            parsed, endorsements=endorsements, anchors=self.anchors, at=self.at, unchecked=self.unchecked
        )

    def peer_seconds(self) -> float:
        """Run the peer on the same input a number of times, and return the median."""
        parsed = parse_nvidia_report(self.report)
        device = device_with_rims(parsed, rims=self.endorsements.rims, certificates=self.endorsements.certificates)
        environment = find_environment(installation_folder(os.environ))
        answer = time_sdk(device, at=self.at, nonce=parsed.report.nonce, rounds=_TIMES, environment=environment)
        seconds = answer.found["median_seconds"]
        if not isinstance(seconds, float):
            msg = f"the peer's answer states no time: {answer.found}"
            raise TypeError(msg)
        return seconds


def warm() -> Figure:
    """Measure verification with chain and RIMs seen before."""
    sample = _Sample()
    return _against_peer("gpu-vs-nvidia-warm", sample, lambda: sample.verify(sample.endorsements), bar=20)


def cold() -> Figure:
    """Measure verification without caches: report, chain and RIMs from their bytes."""
    sample = _Sample()
    sample.verify(sample.endorsements)  # loads the libraries
    tables = remembering_tables()

    def forgetful() -> None:
        for clear in tables:
            clear()
        sample.verify(sample.pool())

    return _against_peer("gpu-vs-nvidia-cold", sample, forgetful, bar=2.5)


def _against_peer(name: str, sample: _Sample, ours: Callable[[], object], *, bar: float) -> Figure:
    """Run both sides in turn and return the median of the rounds' ratios."""
    rounds = list(_rounds(sample, ours))
    ratio = statistics.median(peer / own for peer, own in rounds)
    peer, own = (statistics.median(side) for side in zip(*rounds, strict=True))
    detail = f"a recorded H100 report with two RIMs: NVIDIA's Python verifier {peer * 1e3:.1f} ms, ours {own * 1e3:.2f}"
    return Figure(id=name, value=ratio, bar=bar, better="higher", detail=f"{detail} ms")


def _rounds(sample: _Sample, ours: Callable[[], object]) -> Iterator[tuple[float, float]]:
    for _ in range(_ROUNDS):
        yield sample.peer_seconds(), median_seconds(ours, rounds=_TIMES, times=3)


def eight() -> Figure:
    """Measure eight GPUs against one, each with RIMs, chain and revocation answers seen before."""
    at, nonce, anchors = datetime(2026, 7, 1, tzinfo=UTC), bytes(32), TrustAnchors.simulation()
    board = SimulatedBoard.of("benchmark", gpus=8, switches=0)
    pool = board.endorsements(at=at)
    items = [gpu.device_item(nonce) for gpu in board.gpus]

    def verify(wanted: list[bytes]) -> None:
        for item in wanted:
            verify_gpu_evidence(parse_nvidia_device(item), endorsements=pool, anchors=anchors, at=at)

    ratio, all_of_them, one = interleaved_ratio(lambda: verify(items), lambda: verify(items[:1]), times=5)
    detail = f"simulated H100s: one {one * 1e3:.2f} ms, eight {all_of_them * 1e3:.2f} ms"
    return Figure(id="gpu-8-vs-1", value=ratio, bar=8.5, better="lower", detail=detail)
