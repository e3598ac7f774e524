"""A SIMULATED SEV-SNP guest under a command: files in a folder of its own, and in memory what a kernel would answer."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.collect.access import MachineAccess
from attest.collect.tsm import CONFIGFS, TsmReports
from attest_simulator import SimulatedGuest

__all__ = ["simulated_machine"]

_PROCESSOR: Final = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor sev_snp\n"
_SHOWN: Final = frozenset({"inblob", "outblob", "auxblob", "provider", "generation", "privlevel", "privlevel_floor"})


@dataclass(slots=True)
class _Request:
    """One request for a report.

    Attributes:
        inblob: what the report is to commit to.
        generation: how often something was written.
    """

    inblob: bytes = b""
    generation: int = 0


class _Reports(TsmReports):
    """configfs-tsm of a guest whose kernel is this object."""

    def __init__(self, root: Path, guest: SimulatedGuest) -> None:
        """Nothing was asked yet."""
        super().__init__(root)
        self._guest = guest
        self._requests: dict[str, _Request] = {}

    def make(self, name: str) -> None:
        """Make a request."""
        self._requests[name] = _Request()

    def remove(self, name: str) -> None:
        """Remove it."""
        del self._requests[name]

    def attributes(self, name: str) -> frozenset[str]:
        """Return what a SEV-SNP guest shows."""
        del name
        return _SHOWN

    def read(self, name: str, attribute: str) -> bytes:
        """Answer as the kernel does."""
        request = self._requests[name]
        answers: dict[str, Callable[[], bytes]] = {
            "provider": lambda: b"sev_guest\n",
            "generation": lambda: b"%d\n" % request.generation,
            "privlevel_floor": lambda: b"%d\n" % self._guest.vmpl,
            "outblob": lambda: self._guest.report(request.inblob),
            "auxblob": self._guest.chip.certificate_table,
        }
        if attribute not in answers:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return answers[attribute]()

    def write(self, name: str, attribute: str, data: bytes) -> None:
        """Take what the report is to commit to; the one privilege level needs no keeping."""
        request = self._requests[name]
        request.generation += 1
        if attribute == "inblob":
            request.inblob = data


@contextmanager
def simulated_machine(guest: SimulatedGuest) -> Iterator[MachineAccess]:
    """Give access to a machine that is this guest, as long as the block lasts. It has no GPUs.

    Args:
        guest: which answers; its keys are public, and its evidence is refused unless simulated evidence is allowed.
    """
    with tempfile.TemporaryDirectory(prefix="attest-simulated-") as folder:
        root = Path(folder)
        (root / CONFIGFS / "tsm/report").mkdir(parents=True)
        (root / "proc").mkdir()
        (root / "proc/cpuinfo").write_text(_PROCESSOR, encoding="ascii")
        reports = _Reports(root, guest)
        yield MachineAccess(root=root, reports=lambda _: reports)
