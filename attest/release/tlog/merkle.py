"""The log's Merkle tree: hashes and verification of proofs (RFC 6962, section 2.1, as in RFC 9162).

::

    leaf        SHA-256( 0x00 ‖ entry )
    node        SHA-256( 0x01 ‖ left ‖ right )
    empty tree  SHA-256 of nothing

A tree of n > 1 leaves has the largest power of two below n on its left. Hashes have 32 bytes.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256

from attest.errors import VerificationError

HASH_BYTES = 32
MAX_PROOF_HASHES = 63
"""Longest proof for a tree whose size fits 63 bits."""
EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of a leaf, 32 bytes."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two adjacent subtrees, 32 bytes."""
    return sha256(b"\x01" + left + right).digest()


def verify_inclusion(proof: Sequence[bytes], *, index: int, size: int, leaf: bytes, root: bytes) -> None:
    """Check that a tree has a leaf at an index.

    Args:
        proof: sibling hashes, from the leaf upwards.
        index: of the leaf, from 0.
        size: number of leaves of the tree.
        leaf: hash of the leaf, 32 bytes.
        root: hash of the tree, 32 bytes.

    Raises:
        VerificationError: ``log-inclusion-invalid``.

    Spec: RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        raise _not_included(f"index {index} is outside a tree of {size} leaves")
    node, last, found = index, size - 1, leaf
    for sibling in _hashes(proof, "log-inclusion-invalid"):
        if last == 0:
            raise _not_included("the proof is too long")
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    if last or not hmac.compare_digest(found, root):
        raise _not_included("the proof does not lead to the root")


def verify_consistency(
    proof: Sequence[bytes], *, old_size: int, old_root: bytes, new_size: int, new_root: bytes
) -> None:
    """Check that a tree extends an older one by further leaves.

    Args:
        proof: hashes as RFC 9162 orders them; empty when the sizes are equal, or the older tree is empty.
        old_size: number of leaves of the older tree.
        old_root: its hash, 32 bytes.
        new_size: number of leaves of the newer tree.
        new_root: its hash, 32 bytes.

    Raises:
        VerificationError: ``log-consistency-invalid``.

    Spec: RFC 9162, section 2.1.4.2.
    """
    if not 0 <= old_size <= new_size:
        raise _inconsistent(f"a tree of {new_size} leaves does not extend one of {old_size}")
    hashes = _hashes(proof, "log-consistency-invalid")
    if old_size in {0, new_size}:
        expected = EMPTY_ROOT if old_size == 0 else new_root
        if hashes or not hmac.compare_digest(old_root, expected):
            raise _inconsistent("trees of the same size differ, or the proof is not empty")
        return
    if not hashes:
        raise _inconsistent("the proof is empty")
    if old_size & (old_size - 1) == 0:
        hashes = [old_root, *hashes]
    old_found, new_found = _joined(hashes, old_size - 1, new_size - 1)
    if not (hmac.compare_digest(old_found, old_root) and hmac.compare_digest(new_found, new_root)):
        raise _inconsistent("the proof does not lead to both roots")


def _joined(hashes: Sequence[bytes], node: int, last: int) -> tuple[bytes, bytes]:
    """Return the roots of the older and of the newer tree, computed from the proof."""
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            raise _inconsistent("the proof is too long")
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise _inconsistent("the proof is too short")
    return old, new


def _hashes(proof: Sequence[bytes], code: str) -> list[bytes]:
    if len(proof) > MAX_PROOF_HASHES or any(len(one) != HASH_BYTES for one in proof):
        raise VerificationError(
            f"a proof has at most {MAX_PROOF_HASHES} hashes of {HASH_BYTES} bytes", code=code, field="proof"
        )
    return list(proof)


def _not_included(problem: str) -> VerificationError:
    return VerificationError(
        f"the log does not contain the entry: {problem}",
        code="log-inclusion-invalid",
        clause="RFC 9162, section 2.1.3.2",
    )


def _inconsistent(problem: str) -> VerificationError:
    return VerificationError(
        f"the log does not extend what it was: {problem}",
        code="log-consistency-invalid",
        clause="RFC 9162, section 2.1.4.2",
    )
