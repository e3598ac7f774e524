"""Following a log: each checkpoint has to extend the one seen before, so that a service cannot show two logs.

Whoever sees one checkpoint knows that an entry is in *a* log. Only what is remembered, here or by witnesses, makes it
the log that everybody sees.
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

__all__ = ["CheckpointMemory", "Comparison", "FetchProof", "FileMemory", "LogWatch", "ProcessMemory"]

FetchProof = Callable[[int, int], tuple[bytes, ...]]
"""Asks the service for the consistency proof between two sizes.

Raises ``VerificationError`` with ``log-consistency-invalid`` when the service says that it has no such proof.
"""
_MAX_MEMORY_BYTES = 64 * 1024


class CheckpointMemory(Protocol):
    """Keeps the largest checkpoint that was seen of one log."""

    def recall(self) -> str | None:
        """Return the signed note, or None when there is none yet."""
        ...

    def remember(self, note: str) -> None:
        """Keep a signed note in place of the one before."""
        ...


class ProcessMemory:
    """Remembers as long as this process lives."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._note: str | None = None

    def recall(self) -> str | None:
        """Return the signed note, or None when there is none yet."""
        return self._note

    def remember(self, note: str) -> None:
        """Keep a signed note in place of the one before."""
        self._note = note


class FileMemory:
    """Remembers in a file, which is replaced as a whole.

    Args:
        path: the file; its directory has to exist.
    """

    def __init__(self, path: Path) -> None:
        """Remember where."""
        self._path = path

    def recall(self) -> str | None:
        """Return the signed note, or None when there is no file yet.

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
            raise self._unusable("it is no text") from exc

    def remember(self, note: str) -> None:
        """Keep a signed note in place of the one before, on the disk.

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
    """Checks what a service says of its log, each time against what it said before.

    Args:
        log: the service's verifier key, from configuration.
        memory: where the last checkpoint is kept; None remembers in this process alone.
        witnesses: whose cosignatures each checkpoint needs.
    """

    def __init__(
        self, log: VerifierKey, *, memory: CheckpointMemory | None = None, witnesses: WitnessPolicy = NO_WITNESSES
    ) -> None:
        """Prepare to watch one log."""
        self._log = log
        self._memory = ProcessMemory() if memory is None else memory
        self._witnesses = witnesses

    def check(self, entry: bytes, proof: str, *, fetch: FetchProof) -> Checkpoint:
        """Check that an entry is in the log, and that the log is the one that was seen before.

        Args:
            entry: the entry itself.
            proof: the text of its proof, with the checkpoint that it leads to.
            fetch: asks for a consistency proof, where one is needed.

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
        """Check that an entry is in the log, and no more.

        Raises:
            AttestError: as ``check``, but for the last two.
        """
        return verify_logged(entry, LogProof.parse(proof), log=self._log, witnesses=self._witnesses)

    def follow(self, checkpoint: Checkpoint, *, fetch: FetchProof) -> None:
        """Check a verified checkpoint against the remembered one, and remember it when it is larger.

        Raises:
            LogForkedError: ``log-forked``.
            ConfigurationError: ``log-memory-unusable``.
        """
        comparison = self.compare(checkpoint)
        try:
            proof = None if comparison.extent is None else fetch(*comparison.extent)
        except VerificationError as exc:
            if exc.code != "log-consistency-invalid":
                raise
            raise comparison.forked() from exc
        self.settle(comparison, proof)

    def compare(self, checkpoint: Checkpoint) -> Comparison:
        """Lay a verified checkpoint beside the remembered one, for whoever asks for the proof himself.

        Raises:
            ConfigurationError: ``log-memory-unusable``.
        """
        note = self._memory.recall()
        return Comparison(remembered=None if note is None else self._remembered(note), received=checkpoint)

    def settle(self, comparison: Comparison, proof: tuple[bytes, ...] | None) -> None:
        """Check what was compared, and remember the checkpoint when it is larger.

        Args:
            comparison: from ``compare``.
            proof: for ``comparison.extent``, if it names one.

        Raises:
            LogForkedError: ``log-forked``.
            ConfigurationError: ``log-memory-unusable``.
        """
        comparison.require_one_log(proof)
        remembered, received = comparison.remembered, comparison.received
        if remembered is None or received.size > remembered.size:
            self._memory.remember(received.note)

    def _remembered(self, note: str) -> Checkpoint:
        try:
            return read_checkpoint(note, log=self._log)
        except AttestError as exc:
            raise ConfigurationError(
                "what is remembered of the log is no checkpoint of it",
                code="log-memory-unusable",
                got=exc.message,
                hint="it is of another service, or was altered; what was seen before cannot be compared without it",
            ) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two checkpoints of what has to be one log.

    Attributes:
        remembered: seen before; None: nothing was.
        received: seen now, verified.
    """

    remembered: Checkpoint | None
    received: Checkpoint

    @property
    def extent(self) -> tuple[int, int] | None:
        """Between which sizes a consistency proof is needed; None where none is."""
        if self.remembered is None:
            return None
        old, new = sorted((self.remembered.size, self.received.size))
        return None if old in {0, new} else (old, new)

    def forked(self) -> LogForkedError:
        """Return the error for two that are not of one log.

        Raises:
            ValueError: nothing was seen before.
        """
        if self.remembered is None:
            msg = "one checkpoint alone is of one log"
            raise ValueError(msg)
        return LogForkedError(remembered=self.remembered.note, received=self.received.note)

    def require_one_log(self, proof: tuple[bytes, ...] | None) -> None:
        """Make sure that the larger extends the smaller.

        Raises:
            LogForkedError: ``log-forked``.
        """
        if self.remembered is None:
            return
        old, new = sorted((self.remembered, self.received), key=lambda one: one.size)
        if old.size == new.size:
            if not hmac.compare_digest(old.root, new.root):
                raise self.forked()
            return
        try:
            verify_consistency(proof or (), old_size=old.size, old_root=old.root, new_size=new.size, new_root=new.root)
        except VerificationError as exc:
            if exc.code != "log-consistency-invalid":
                raise
            raise self.forked() from exc
