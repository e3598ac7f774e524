"""Verification of a whole log: every entry, every stored hash of the tree, and the states noted elsewhere."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from attest.errors import ConfigurationError
from attest.release import EMPTY_ROOT, VerifierKey, read_checkpoint
from kms.domain.errors import LogBrokenError
from kms.domain.log_entries import require_entry
from kms.domain.log_tiles import TileSource
from kms.domain.log_tree import Frontier, Node

_NOTED = re.compile(r"(?:([0-9]{1,18}):)?([0-9a-f]{64})")
_CHUNK = 256


class LogSource(TileSource, Protocol):
    """One state of a log, with the tree as it is stored."""

    def node_count(self) -> int:
        """Return how many hashes are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Number of entries of a log, and the root hash of the tree over them, 32 bytes."""

    size: int
    root: bytes

    @property
    def text(self) -> str:
        """``SIZE:ROOT``, as ``parse_noted`` reads it."""
        return f"{self.size}:{self.root.hex()}"


def parse_noted(text: str) -> LogState | bytes:
    """Read a noted state ``SIZE:ROOT``, or the hash of one entry, such as a receipt's decision.

    Raises:
        ConfigurationError: ``log-head-invalid``.
    """
    match = _NOTED.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            f"{text[:100]!r} is not a state of a log or the hash of an entry",
            code="log-head-invalid",
            expected="64 lower-case hex digits, or a number, ':' and such digits",
        )
    digest = bytes.fromhex(match[2])
    return digest if match[1] is None else LogState(size=int(match[1]), root=digest)


def read_noted(content: bytes, *, log: VerifierKey) -> LogState:
    """Read a stored checkpoint, which the log must have signed.

    Raises:
        SignatureError: ``note-signature-invalid``.
        EvidenceError: ``checkpoint-invalid``.
        VerificationError: ``checkpoint-origin-mismatch``.
    """
    checkpoint = read_checkpoint(content.decode("utf-8", errors="replace"), log=log)
    return LogState(size=checkpoint.size, root=checkpoint.root)


def verify_log(source: LogSource, *, noted: Iterable[LogState | bytes] = ()) -> LogState:
    """Verify every entry and every hash of the tree, and that the log contains every noted state and entry.

    Returns:
        The state of the whole log, to be noted elsewhere.

    Raises:
        LogBrokenError: ``log-gap``, ``log-entry-invalid``, ``log-hash-mismatch`` (the stored tree does not
            match the entries), ``log-rolled-back`` (it is shorter than before, or lacks an entry) or ``log-forked``.
    """
    wanted = list(noted)
    states = [one for one in wanted if isinstance(one, LogState)]
    sizes = {one.size for one in states}
    missing = {one for one in wanted if isinstance(one, bytes)}
    frontier, stored, pending = Frontier(), 0, dict[Node, bytes]()
    _require_states(states, 0, EMPTY_ROOT)
    for entry in chain(source.entries(), [None]):
        if entry is None or len(pending) >= _CHUNK:  # one chunk at a time, and the rest at the end
            if source.nodes(list(pending)) != pending:
                raise _mismatch("the stored tree does not match the entries: an entry or the tree was altered")
            stored += len(pending)
            pending = {}
        if entry is not None:
            require_entry(entry, frontier.size + 1)
            leaf = entry.leaf_hash
            pending |= dict(frontier.add(leaf))
            missing.discard(leaf)
            if frontier.size in sizes:
                _require_states(states, frontier.size, frontier.root())
    if source.node_count() != stored:
        raise _mismatch("the stored tree has hashes without an entry")
    _require_all(wanted, missing, frontier.size)
    return LogState(size=frontier.size, root=frontier.root())


def _require_states(states: Iterable[LogState], size: int, root: bytes) -> None:
    other = next((one for one in states if one.size == size and not hmac.compare_digest(one.root, root)), None)
    if other is None:
        return
    raise LogBrokenError(
        f"the first {size} entries differ from the noted state",
        code="log-forked",
        expected=f"{size}:{other.root.hex()}",
        got=f"{size}:{root.hex()}",
        hint="the log was rewritten, or the noted state belongs to another service; keep both",
    )


def _require_all(wanted: Sequence[LogState | bytes], missing: set[bytes], size: int) -> None:
    longer = next((one for one in wanted if isinstance(one, LogState) and one.size > size), None)
    if longer is None and not missing:
        return
    expected = f"{longer.size} entries" if longer is not None else min(missing).hex()
    raise LogBrokenError(
        f"the log with {size} entries does not contain the noted state or entry",
        code="log-rolled-back",
        expected=expected,
        got=f"{size} entries",
        hint="the database was replaced by an older one, or belongs to another service",
    )


def _mismatch(problem: str) -> LogBrokenError:
    return LogBrokenError(
        problem,
        code="log-hash-mismatch",
        field="log_nodes",
        hint="preserve the database and find out who wrote to it; a backup has the original entries",
    )
