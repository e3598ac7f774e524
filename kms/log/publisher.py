"""Publication of the log: signed checkpoints with cosignatures of witnesses, and proofs that lead to them.

A checkpoint covers committed entries only. Requests that wait at the same time share one checkpoint and one round of
witnesses.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.release import Checkpoint, LogProof, sign_checkpoint
from kms.domain.errors import LogTileUnknownError
from kms.domain.log_tiles import Tile, TileSource, read_tile
from kms.domain.log_tree import Node, consistency_proof, inclusion_proof, recent_nodes, root
from kms.log.witness_client import WitnessPanel
from kms.store import Store

MAX_ROUNDS = 3
"""How often a checkpoint is made anew because a witness has seen a longer log already, from another replica."""


_RECENT_LEAVES = 64
"""Entries of one transaction, whose proofs are prepared together."""


class Signer(Protocol):
    """The log's name and key, as ``kms.operations.services.Identity`` has them."""

    @property
    def key(self) -> Ed25519PrivateKey:
        """Signs."""

    @property
    def origin(self) -> str:
        """The log's name."""


def signed_state(source: TileSource, signer: Signer) -> Checkpoint:
    """Sign the state of the log that a transaction sees.

    Raises:
        LogBrokenError: ``log-tree-broken``.
    """
    size = source.size()
    return _signed_root(size, root(size, source.nodes), signer)


def _signed_root(size: int, digest: bytes, signer: Signer) -> Checkpoint:
    note = sign_checkpoint(origin=signer.origin, size=size, root=digest, key=signer.key)
    return Checkpoint(origin=signer.origin, size=size, root=digest, note=note)


class LogPublisher:
    """Publisher of checkpoints, proofs and tiles.

    Args:
        store: the database.
        signer: the service's identity.
        panel: the witnesses that are asked, if any.
    """

    def __init__(self, *, store: Store, signer: Signer, panel: WitnessPanel | None = None) -> None:
        self._store = store
        self._signer = signer
        self._panel = panel
        self._lock = threading.Lock()
        self._published: Checkpoint | None = None
        self._recent: Mapping[Node, bytes] = {}

    def checkpoint(self) -> Checkpoint:
        """Return the state of the log, signed, with the cosignatures that came.

        Raises:
            LogBrokenError: ``log-tree-broken``.
            UnavailableError: ``store-busy`` or ``store-failed``.
        """
        with self._store.reading() as tx:
            size = tx.log.size()
        return self._covering(size)

    def proof(self, seq: int) -> LogProof:
        """Return the proof that the log holds a committed entry.

        Raises:
            LogBrokenError: ``log-tree-broken``.
            UnavailableError: ``store-busy`` or ``store-failed``.
        """
        checkpoint = self._covering(seq)
        hashes = inclusion_proof(seq - 1, checkpoint.size, self._nodes)
        return LogProof(index=seq - 1, hashes=hashes, checkpoint=checkpoint.note)

    def inclusion(self, index: int, size: int) -> tuple[bytes, ...]:
        """Return the inclusion proof of a leaf in the tree of a size.

        Raises:
            LogTileUnknownError: ``log-tile-unknown``.
            LogBrokenError: ``log-tree-broken``.
        """
        with self._store.reading() as tx:
            if not 0 <= index < size <= tx.log.size():
                raise _not_there(f"leaf {index} in a tree of {size}")
            return inclusion_proof(index, size, tx.log.nodes)

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """Return the proof that the tree of one size extends that of another.

        Raises:
            LogTileUnknownError: ``log-tile-unknown``.
            LogBrokenError: ``log-tree-broken``.
        """
        with self._store.reading() as tx:
            if not 0 <= old <= new <= tx.log.size():
                raise _not_there(f"tree of {new} that extends one of {old}")
            return consistency_proof(old, new, tx.log.nodes)

    def tile(self, tile: Tile) -> bytes:
        """Return the content of a tile.

        Raises:
            LogTileUnknownError: ``log-tile-unknown``.
            LogBrokenError: ``log-tree-broken``, ``log-gap`` or ``log-entry-invalid``.
        """
        with self._store.reading() as tx:
            return read_tile(tx.log, tile)

    def _covering(self, size: int) -> Checkpoint:
        """Return a checkpoint of at least this size; the first caller makes it for all that wait."""
        with self._lock:
            if self._published is None or self._published.size < size:
                self._published = self._publish()
            return self._published

    def _publish(self) -> Checkpoint:
        checkpoint = self._signed()
        if self._panel is None:
            return checkpoint
        for _ in range(MAX_ROUNDS):
            came = self._panel.ask(checkpoint, prove=self.consistency)
            if not came.behind:
                break
            longer = self._signed()
            if longer.size == checkpoint.size:
                break
            checkpoint = longer
        else:
            return checkpoint
        return _with_lines(checkpoint, came.lines)

    def _signed(self) -> Checkpoint:
        """Sign the state of the log, and read on the way what the proofs of its newest leaves are made of."""
        with self._store.reading() as tx:
            size = tx.log.size()
            recent = tx.log.nodes(recent_nodes(size, leaves=_RECENT_LEAVES))
        checkpoint = _signed_root(size, root(size, lambda _: recent), self._signer)
        self._recent = recent
        return checkpoint

    def _nodes(self, wanted: Sequence[Node]) -> Mapping[Node, bytes]:
        """Return nodes of what is committed; they never change, so those that were read a moment ago still hold."""
        recent = self._recent
        if all(node in recent for node in wanted):
            return recent
        with self._store.reading() as tx:
            return tx.log.nodes(wanted)


def _with_lines(checkpoint: Checkpoint, lines: Sequence[str]) -> Checkpoint:
    note = checkpoint.note + "".join(lines)
    return Checkpoint(origin=checkpoint.origin, size=checkpoint.size, root=checkpoint.root, note=note)


def _not_there(what: str) -> LogTileUnknownError:
    return LogTileUnknownError(f"the log has no {what} leaves", code="log-tile-unknown")
