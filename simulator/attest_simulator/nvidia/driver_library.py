"""The driver library of simulated GPUs (NVML), for programs that load it themselves.

The library is built from C when it is needed. What it says of the GPUs lies in files beside it. It asks this process
for reports, over a socket there, with the nonce of the program.

Spec: specs/nvidia-gpu.md, section 15.
"""

from __future__ import annotations

import os
import shutil
import socketserver
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final, Literal

from attest.evidence.gpu.evidence import ENVIRONMENTS, MULTI_GPU_MODES
from attest_simulator.nvidia.board import SimulatedBoard
from attest_simulator.nvidia.certificates import pem_bytes
from attest_simulator.nvidia.responder import NONCE_BYTES

LIBRARY: Final = "libnvidia-ml.so.1"
LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
_SOURCE: Final = Path(__file__).with_suffix(".c")
_ARCHITECTURES: Final = {"HOPPER": 9, "BLACKWELL": 10}
_CPU_CAPABILITIES: Final = {"snp": 3, "tdx": 2}
"""NVML's numbers of what the CPU isolates with."""
_CHAIN_BYTES: Final = 0x1400
_TIMEOUT_SECONDS: Final = 10.0
_BUILD_SECONDS: Final = 60.0


def build_library(library: Path, *, without: tuple[str, ...] = ()) -> None:
    """Build the library with the C compiler of this machine.

    Args:
        library: the file to write.
        without: functions of NVML that it lacks, as those of older drivers do.

    Raises:
        OSError: there is no compiler, or it failed.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise OSError("no C compiler (cc) to build a simulated one; on Debian, install gcc and libc6-dev")
    hidden = [f"-D{name}=absent_{name}" for name in without]
    command = [compiler, "-shared", "-fPIC", "-O1", *hidden, "-o", str(library), str(_SOURCE), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_BUILD_SECONDS)  # noqa: S603  no shell
    except subprocess.SubprocessError as exc:
        said = getattr(exc, "stderr", None) or b""
        raise OSError(f"cc cannot build a simulated one: {said.decode(errors='replace')[:300] or exc}") from exc


@contextmanager
def driver_library(board: SimulatedBoard, cpu: Literal["snp", "tdx"]) -> Generator[dict[str, str]]:
    """Serve these GPUs through a driver library until the block ends.

    Args:
        board: with the GPUs.
        cpu: what isolates the machine.

    Yields:
        the variables with which a program finds the library.

    Raises:
        OSError: as ``build_library``, or there is no place for its files.
    """
    with tempfile.TemporaryDirectory(prefix="attest-simulated-nvml-") as name:
        folder = Path(name)
        build_library(folder / LIBRARY)
        _describe(board, cpu, folder)
        with _opened(folder) as place, _Reports(f"/proc/self/fd/{place}/reports", _handler(board)) as server:
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            try:
                before = os.environ.get(LIBRARY_PATH)
                yield {LIBRARY_PATH: os.pathsep.join([name, *([before] if before else [])])}
            finally:
                server.shutdown()
                thread.join()


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    """Open a folder, whose path may be longer than a socket's address has room for."""
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield place
    finally:
        os.close(place)


class _Reports(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def _handler(board: SimulatedBoard) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        """One request: the number of a GPU, and a nonce; another one gets no answer."""

        timeout = _TIMEOUT_SECONDS

        def handle(self) -> None:
            """Answer with the report of this GPU."""
            try:
                request = self.rfile.read(1 + NONCE_BYTES)
                if len(request) == 1 + NONCE_BYTES and request[0] < len(board.gpus):
                    self.wfile.write(board.gpus[request[0]].report(request[1:]))
            except OSError:  # the program is gone
                return

    return Handler


def _describe(board: SimulatedBoard, cpu: Literal["snp", "tdx"], folder: Path) -> None:
    """Write what the library says: modes, and the name, versions and chain of each GPU."""
    first = board.gpus[0]
    settings = first.settings
    if settings is None:
        raise TypeError("a GPU states its modes")
    said: dict[str, str | int] = {
        "quiet": 1,
        "driver": first.driver,
        "count": len(board.gpus),
        "architecture": _ARCHITECTURES[first.arch],
        "environment": ENVIRONMENTS.index(settings.environment),
        "feature": int(settings.cc_mode),
        "tools": int(settings.dev_tools_mode),
        "multi": MULTI_GPU_MODES.index(settings.multi_gpu_mode),
        "cpu": _CPU_CAPABILITIES[cpu],
    }
    for index, gpu in enumerate(board.gpus):
        said |= {
            f"uuid-{index}": gpu.uuid or "",
            f"vbios-{index}": gpu.vbios,
            f"name-{index}": f"SIMULATED {gpu.arch} GPU",
        }
        (folder / f"chain-{index}").write_bytes(_chain(gpu.certificates))
    if settings.ready:
        (folder / "ready").touch()
    (folder / "behaviour").write_text("".join(f"{name}={value}\n" for name, value in said.items()))


def _chain(certificates: tuple[bytes, ...]) -> bytes:
    """Return the chain, without the root where it leaves NVML no room: simulated names are longer than real ones."""
    whole = pem_bytes(certificates)
    return whole if len(whole) <= _CHAIN_BYTES else pem_bytes(certificates[:-1])
