"""A simulated SEV-SNP guest for a command: files in a temporary folder, and the kernel's answers in memory."""

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

_PROCESSOR: Final = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor sev_snp\n"
_SHOWN: Final = frozenset({"inblob", "outblob", "auxblob", "provider", "generation", "privlevel", "privlevel_floor"})


@dataclass(slots=True)
class _Request:
    """One request for a report.

    Attributes:
        inblob: data to commit to.
        generation: number of writes.
    """

    inblob: bytes = b""
    generation: int = 0


class _Reports(TsmReports):
    """configfs-tsm of a guest, with this object as its kernel."""

    def __init__(self, root: Path, guest: SimulatedGuest) -> None:
        """Start without requests."""
        super().__init__(root)
        self._guest = guest
        self._requests: dict[str, _Request] = {}

    def make(self, name: str) -> None:
        """Create a request."""
        self._requests[name] = _Request()

    def remove(self, name: str) -> None:
        """Remove a request."""
        del self._requests[name]

    def attributes(self, name: str) -> frozenset[str]:
        """Return the attributes in a SEV-SNP guest."""
        del name
        return _SHOWN

    def read(self, name: str, attribute: str) -> bytes:
        """Read an attribute, as from the kernel."""
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
        """Write the data to commit to; the privilege level is fixed."""
        request = self._requests[name]
        request.generation += 1
        if attribute == "inblob":
            request.inblob = data


@contextmanager
def simulated_machine(guest: SimulatedGuest) -> Iterator[MachineAccess]:
    """Return access to a machine that is this guest, without GPUs, within the block.

    Args:
        guest: the guest; its keys are public, and its evidence is refused unless simulated evidence is allowed.
    """
    with tempfile.TemporaryDirectory(prefix="attest-simulated-") as folder:
        root = Path(folder)
        (root / CONFIGFS / "tsm/report").mkdir(parents=True)
        (root / "proc").mkdir()
        (root / "proc/cpuinfo").write_text(_PROCESSOR, encoding="ascii")
        reports = _Reports(root, guest)
        yield MachineAccess(root=root, reports=lambda _: reports)
