"""Monitoring of a log: each checkpoint must extend the previous one, so that a service cannot show two logs.

A checkpoint proves that an entry is in *some* log. Only memory, here or of witnesses, shows that it is the log that
all clients see.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from attest.errors import AttestError, ConfigurationError, LogForkedError, OutputError, VerificationError
from attest.files import write_file
from attest.release.notes import VerifierKey
from attest.release.tlog import (
    NO_WITNESSES,
    Checkpoint,
    LogProof,
    WitnessPolicy,
    read_checkpoint,
    verify_consistency,
    verify_logged,
)

FetchProof = Callable[[int, int], tuple[bytes, ...]]
"""Obtains the service's consistency proof between two sizes.

If the service has none, it returns no hashes, or raises ``VerificationError`` with ``log-consistency-invalid``.
"""
_MAX_MEMORY_BYTES = 64 * 1024


class CheckpointMemory(Protocol):
    """Store of the largest verified checkpoint of one log."""

    def recall(self) -> str | None:
        """Return the signed note, or None before the first."""
        ...

    def remember(self, note: str) -> None:
        """Replace the stored note."""
        ...


class ProcessMemory:
    """Store for the life of this process."""

    def __init__(self) -> None:
        self._note: str | None = None

    def recall(self) -> str | None:
        """Return the signed note, or None before the first."""
        return self._note

    def remember(self, note: str) -> None:
        """Replace the stored note."""
        self._note = note


class FileMemory:
    """Store in a file, which is replaced as a whole; its directory must exist."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def recall(self) -> str | None:
        """Return the signed note, or None without a file.

        Raises:
            ConfigurationError: ``log-memory-unusable``.
        """
        try:
            with self._path.open("rb") as file:
                return file.read(_MAX_MEMORY_BYTES).decode("utf-8")
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise self._unusable(exc.strerror or str(exc)) from exc
        except UnicodeDecodeError as exc:
            raise self._unusable("it is not text") from exc

    def remember(self, note: str) -> None:
        """Replace the stored note, durably.

        Raises:
            ConfigurationError: ``log-memory-unusable``.
        """
        try:
            write_file(self._path, note, replace=True)
        except OutputError as exc:
            raise self._unusable(exc.reason) from exc

    def _unusable(self, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"the remembered checkpoint {self._path} cannot be used: {problem}",
            code="log-memory-unusable",
            field=str(self._path),
            got=problem,
        )


class LogWatch:
    """Monitor of a service's log, which compares each checkpoint with the previous one.

    Args:
        log: the service's verifier key, from configuration.
        memory: store of the last checkpoint; None uses this process alone.
        witnesses: required cosignatures of each checkpoint.
    """

    def __init__(
        self, log: VerifierKey, *, memory: CheckpointMemory | None = None, witnesses: WitnessPolicy = NO_WITNESSES
    ) -> None:
        self._log = log
        self._memory = ProcessMemory() if memory is None else memory
        self._witnesses = witnesses

    def check(self, entry: bytes, proof: str, *, fetch: FetchProof) -> Checkpoint:
        """Check that an entry is in the log, and that the log extends the remembered one.

        ``proof`` is the text of its proof, checkpoint included; ``fetch`` obtains a consistency proof if one is
        necessary.

        Raises:
            EvidenceError: ``log-proof-invalid`` or ``checkpoint-invalid``.
            SignatureError: ``note-signature-invalid``.
            VerificationError: as ``verify_logged``.
            LogForkedError: ``log-forked``.
            ConfigurationError: ``log-memory-unusable``.
        """
        checkpoint = self.logged(entry, proof)
        self.follow(checkpoint, fetch=fetch)
        return checkpoint

    def logged(self, entry: bytes, proof: str) -> Checkpoint:
        """Check that an entry is in the log, without the comparison.

        Raises:
            AttestError: as ``check``, but for the last two.
        """
        return verify_logged(entry, LogProof.parse(proof), log=self._log, witnesses=self._witnesses)

    def follow(self, checkpoint: Checkpoint, *, fetch: FetchProof) -> None:
        """Compare a verified checkpoint with the remembered one, and remember the larger.

        Raises:
            LogForkedError: ``log-forked``.
            ConfigurationError: ``log-memory-unusable``.
        """
        comparison = self.compare(checkpoint)
        try:
            proof = () if comparison.extent is None else fetch(*comparison.extent)
        except VerificationError as exc:
            if exc.code != "log-consistency-invalid":
                raise
            proof = ()
        self.settle(comparison, proof)

    def remembered_size(self) -> int | None:
        """Return the size of the remembered log; None before the first checkpoint, and for an empty log.

        Raises:
            ConfigurationError: ``log-memory-unusable``.
        """
        remembered = self._remembered()
        return None if remembered is None else remembered.size or None

    def compare(self, checkpoint: Checkpoint) -> Comparison:
        """Pair a verified checkpoint with the remembered one, for callers that obtain the proof themselves.

        Raises:
            ConfigurationError: ``log-memory-unusable``.
        """
        return Comparison(remembered=self._remembered(), received=checkpoint)

    def settle(self, comparison: Comparison, proof: tuple[bytes, ...]) -> None:
        """Check a comparison by the proof for its extent, and remember the larger checkpoint.

        Raises:
            LogForkedError: ``log-forked``; also for an empty proof where one is necessary.
            ConfigurationError: ``log-memory-unusable``.
        """
        comparison.require_one_log(proof)
        remembered, received = comparison.remembered, comparison.received
        if remembered is None or received.size > remembered.size:
            self._memory.remember(received.note)

    def _remembered(self) -> Checkpoint | None:
        note = self._memory.recall()
        try:
            return None if note is None else read_checkpoint(note, log=self._log)
        except AttestError as exc:
            raise ConfigurationError(
                "the remembered checkpoint is not one of this log",
                code="log-memory-unusable",
                got=exc.message,
                hint="it is of another service, or was altered; without it, the log cannot be compared with its past",
            ) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two checkpoints that must be of one log.

    Attributes:
        remembered: an earlier one; None before the first.
        received: the current one, verified.
    """

    remembered: Checkpoint | None
    received: Checkpoint

    @property
    def extent(self) -> tuple[int, int] | None:
        """Sizes that a consistency proof has to connect; None if no proof is necessary."""
        if self.remembered is None:
            return None
        old, new = sorted((self.remembered.size, self.received.size))
        return None if old in {0, new} else (old, new)

    def require_one_log(self, proof: tuple[bytes, ...]) -> None:
        """Require that the larger extends the smaller.

        Raises:
            LogForkedError: ``log-forked``.
        """
        if self.remembered is None:
            return
        old, new = sorted((self.remembered, self.received), key=lambda one: one.size)
        fork = LogForkedError(remembered=self.remembered.note, received=self.received.note)
        if old.size == new.size and not hmac.compare_digest(old.root, new.root):
            raise fork
        try:
            verify_consistency(proof, old_size=old.size, old_root=old.root, new_size=new.size, new_root=new.root)
        except VerificationError as exc:
            raise fork from exc
