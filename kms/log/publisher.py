"""Publication of the log: signed checkpoints with cosignatures of witnesses, and proofs that lead to them.

A checkpoint covers committed entries only. Requests that wait at the same time share one checkpoint and one round of
witnesses.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.release import Checkpoint, LogProof, VerifierKey, sign_checkpoint
from kms.domain.errors import IntegrityError, LogTileUnknownError
from kms.domain.log_tiles import Tile, read_tile
from kms.domain.log_tree import Node, consistency_proof, inclusion_proof, recent_nodes, root
from kms.domain.state_root import ROLLED_BACK
from kms.log.witness_client import WitnessPanel
from kms.store import ReadTransaction, Store

MAX_ROUNDS = 3
"""Most checkpoints of one publication: a witness may have seen a longer log, from another replica."""
_RECENT_LEAVES = 64
"""Entries of one transaction, for whose proofs the nodes are read together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Signing key of the service, for receipts and checkpoints, and its verifier key, the audience of every binding."""

    key: Ed25519PrivateKey
    public: VerifierKey

    def __repr__(self) -> str:
        """Show the public half."""
        return f"Identity({self.public.text})"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryProof:
    """Proof that the log holds an entry.

    ``consistency`` proves that the tree of an earlier size became that of the checkpoint; None if no size was given.
    """

    inclusion: LogProof
    consistency: tuple[bytes, ...] | None


class LogPublisher:
    """Publisher of checkpoints, proofs and tiles, with the panel of witnesses, if any."""

    def __init__(self, *, store: Store, signer: Identity, panel: WitnessPanel | None = None) -> None:
        self._store = store
        self._signer = signer
        self._panel = panel
        self._lock = threading.Lock()
        self._published: Checkpoint | None = None
        self._recent: Mapping[Node, bytes] = {}

    def checkpoint(self) -> Checkpoint:
        """Return the state of the log, signed, with the cosignatures that arrived.

        For an older copy of the database, this is the last published one, for the guards of other replicas.

        Raises:
            LogBrokenError: ``log-tree-broken``.
            UnavailableError: ``store-busy`` or ``store-failed``.
            IntegrityError: ``state-forged``.
        """
        try:
            with self._store.reading() as tx:
                size = tx.log.size()
        except IntegrityError as exc:
            if exc.code != ROLLED_BACK or self._published is None:
                raise
            return self._published
        return self._covering(size)

    def proof(self, seq: int, *, since: int | None = None) -> EntryProof:
        """Return the proof that the log holds a committed entry, and extends its tree of an earlier size.

        Raises:
            LogBrokenError: ``log-tree-broken``.
            UnavailableError: ``store-busy`` or ``store-failed``.
        """
        checkpoint = self._covering(seq)
        hashes = inclusion_proof(seq - 1, checkpoint.size, self._nodes)
        inclusion = LogProof(index=seq - 1, hashes=hashes, checkpoint=checkpoint.note)
        consistency = None if since is None else consistency_proof(since, checkpoint.size, self._nodes)
        return EntryProof(inclusion=inclusion, consistency=consistency)

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
        """Return a checkpoint of at least this size, which the first of several waiting callers makes."""
        with self._lock:
            if self._published is None or self._published.size < size:
                self._published = self._publish()
            return self._published

    def _publish(self) -> Checkpoint:
        checkpoint = self._signed()
        if self._panel is None:
            return checkpoint
        for _ in range(MAX_ROUNDS):
            found = self._panel.ask(checkpoint, prove=self.consistency)
            if not found.behind:
                break
            longer = self._signed()
            if longer.size == checkpoint.size:
                break
            checkpoint = longer
        else:
            return checkpoint
        return replace(checkpoint, note=checkpoint.note + "".join(found.lines))

    def _signed(self) -> Checkpoint:
        """Sign the state of the log, and read the nodes for the proofs of its newest leaves."""
        with self._store.reading() as tx:
            size = tx.log.size()
            recent = tx.log.nodes(recent_nodes(size, leaves=_RECENT_LEAVES))
            digest = root(size, lambda _: recent)
            tx.log.require_root(digest)
        origin = self._signer.public.name
        note = sign_checkpoint(origin=origin, size=size, root=digest, key=self._signer.key)
        self._recent = recent
        return Checkpoint(origin=origin, size=size, root=digest, note=note)

    def _nodes(self, wanted: Sequence[Node]) -> Mapping[Node, bytes]:
        """Return nodes of committed entries, from those read last if possible: nodes never change."""
        recent = self._recent
        if all(node in recent for node in wanted):
            return recent
        with self._store.reading() as tx:
            return tx.log.nodes(wanted)


def require_size(tx: ReadTransaction, size: int) -> None:
    """Require a log of at least this size.

    Raises:
        LogTileUnknownError: ``log-tile-unknown``.
    """
    if tx.log.size() < size:
        raise _not_there(f"tree of {size}")


def _not_there(what: str) -> LogTileUnknownError:
    return LogTileUnknownError(f"the log has no {what} leaves", code="log-tile-unknown")
