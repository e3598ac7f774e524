"""Reading of transparency logs: tree hashes, checkpoints, cosignatures and proofs, without I/O."""

from __future__ import annotations

from attest.release.tlog.checkpoints import MAX_SIZE, Checkpoint, read_checkpoint, sign_checkpoint
from attest.release.tlog.merkle import (
    EMPTY_ROOT,
    MAX_PROOF_HASHES,
    leaf_hash,
    node_hash,
    verify_consistency,
    verify_inclusion,
)
from attest.release.tlog.proofs import LogProof, verify_logged
from attest.release.tlog.witnesses import NO_WITNESSES, WitnessKey, WitnessPolicy, cosign

__all__ = [
    "EMPTY_ROOT",
    "MAX_PROOF_HASHES",
    "MAX_SIZE",
    "NO_WITNESSES",
    "Checkpoint",
    "LogProof",
    "WitnessKey",
    "WitnessPolicy",
    "cosign",
    "leaf_hash",
    "node_hash",
    "read_checkpoint",
    "sign_checkpoint",
    "verify_consistency",
    "verify_inclusion",
    "verify_logged",
]
