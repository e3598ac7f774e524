"""Rollback guard in an NV index of a TPM, which no snapshot of the machine's disks contains.

::

    content   0x01 ‖ counter (8 bytes, big-endian) ‖ log size (8 bytes, big-endian) ‖ log root (32 bytes)

The index is an ordinary one with owner authorisation (TPM 2.0 Library, part 3, NV commands). A TPM's memory wears out
after some 100,000 writes, so that releases are recorded rarely; changes by administrators are recorded immediately.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from attest.collect import OpenTpm, Tpm, open_tpm
from attest.errors import CollectionError
from kms.domain.rollback import StatePosition, guard_missing, require_written
from kms.operations.guards.file import locked

CONTENT_BYTES: Final = 1 + 8 + 8 + 32
_VERSION: Final = b"\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class TpmGuard:
    """The guard in the NV index ``index`` of the TPM of a TCTI; a lock on ``folder`` serialises processes."""

    background_seconds: ClassVar[float] = 600.0
    """At most 52,560 writes a year."""
    index: int
    tcti: str
    folder: Path
    open: OpenTpm = open_tpm

    @property
    def name(self) -> str:
        """``tpm:`` and the index."""
        return f"tpm:{self.index:#010x}"

    def make(self) -> None:
        """Require an available TPM; the first write defines the index.

        Raises:
            ConfigurationError: ``rollback-guard-missing``.
        """
        with self._locked() as tpm:
            size = tpm.nv_size(self.index)
            if size not in {None, CONTENT_BYTES}:
                raise guard_missing(self.name, f"the index has other content, of {size} bytes")

    def read(self) -> StatePosition | None:
        """Return the position in the index; None if it is not defined, or was never written.

        Raises:
            ConfigurationError: ``rollback-guard-missing``.
        """
        with self._locked() as tpm:
            return self._read(tpm)

    def advance(self, position: StatePosition) -> None:
        """Write a later position.

        Raises:
            ConfigurationError: ``rollback-guard-missing``.
        """
        with self._locked() as tpm:
            if position.is_after(require_written(self.name, self._read(tpm))):
                tpm.write_nv(self.index, _encoded(position))

    def put(self, position: StatePosition) -> None:
        """Write a position.

        Raises:
            ConfigurationError: ``rollback-guard-missing``.
        """
        with self._locked() as tpm:
            tpm.write_nv(self.index, _encoded(position))

    def _read(self, tpm: Tpm) -> StatePosition | None:
        found = tpm.read_nv(self.index, limit=CONTENT_BYTES)
        if found is None or found.data is None:
            return None
        content = found.data
        if len(content) != CONTENT_BYTES or content[:1] != _VERSION:
            raise guard_missing(self.name, "the index has other content")
        counter, size = int.from_bytes(content[1:9], "big"), int.from_bytes(content[9:17], "big")
        return StatePosition(counter=counter, log_size=size, log_root=content[17:])

    @contextmanager
    def _locked(self) -> Iterator[Tpm]:
        """Open the TPM, excluding other processes of this service."""
        with locked(self.folder, guard=self.name):
            try:
                yield self.open(self.tcti)
            except CollectionError as exc:
                raise guard_missing(self.name, exc.message) from exc


def _encoded(position: StatePosition) -> bytes:
    counter, size = (number.to_bytes(8, "big") for number in (position.counter, position.log_size))
    return _VERSION + counter + size + position.log_root
