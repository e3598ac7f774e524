"""A machine with a driver library made for the test: C, compiled here, found where the environment says."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from attest_simulator.nvidia.driver_library import LIBRARY, build_library
from tests.compilers import require_compiler

Built = Callable[..., Path]
CHAIN = b"-----BEGIN CERTIFICATE-----\nTUFERQ==\n-----END CERTIFICATE-----\n"


def made_report(index: int = 0) -> bytes:
    """A report by its outline only: collecting looks at its nonce and at nothing else."""
    return b"\x11\xe0\x01\xff" + bytes(32) + b"\0" + bytes([index]) * 4000


@dataclass(frozen=True)
class Machine:
    """What the library says is in its folder."""

    folder: Path

    def says(self, **behaviour: object) -> None:
        text = "".join(f"{name}={value}\n" for name, value in behaviour.items())
        (self.folder / "behaviour").write_text(text)

    def has(self, index: int, *, report: bytes, chain: bytes) -> None:
        (self.folder / f"report-{index}").write_bytes(report)
        (self.folder / f"chain-{index}").write_bytes(chain)


@pytest.fixture(params=["software", pytest.param("swtpm", marks=pytest.mark.loopback)])
def kind(request: pytest.FixtureRequest) -> str:
    """Which TPM an Azure VM has: one written for the tests, or a real one."""
    return str(request.param)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Compile the library, without the named functions; once per set of them."""
    require_compiler()
    folder = tmp_path_factory.mktemp("nvml")
    known: dict[tuple[str, ...], Path] = {}

    def build(*without: str) -> Path:
        if without not in known:
            path = folder / f"{len(known)}.so"
            build_library(path, without=without)
            known[without] = path
        return known[without]

    return build


@pytest.fixture
def machine(library: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One GPU that attests; `says` changes what the driver tells."""
    return with_library(library(), tmp_path, monkeypatch)


def with_library(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = tmp_path / "driver"
    folder.mkdir()
    shutil.copy(library, folder / LIBRARY)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    found = Machine(folder)
    for index in range(3):
        found.has(index, report=made_report(index), chain=CHAIN)
    return found
