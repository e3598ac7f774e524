"""Checkpoints: signed states of a log (C2SP tlog-checkpoint).

::

    <origin>
    <number of leaves, decimal>
    <root hash, base64>
    <lines of extensions: never written, kept when read>
                                    an empty line
    — <origin> <signature of the log>
    — <witness> <cosignature>       any number of them
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.encoding import base64_bytes
from attest.errors import EvidenceError, VerificationError
from attest.release.notes import VerifierKey, sign_note
from attest.release.tlog.merkle import HASH_BYTES

MAX_SIZE = 2**63 - 1
_MAX_NOTE_CHARACTERS = 64 * 1024
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a log.

    Attributes:
        origin: the log's name, also the name of its key.
        size: number of leaves.
        root: hash of the tree, 32 bytes.
        note: the signed note as received, with every signature line.
    """

    origin: str
    size: int
    root: bytes
    note: str


def sign_checkpoint(*, origin: str, size: int, root: bytes, key: Ed25519PrivateKey) -> str:
    """Return the signed note of a log's state; signing is deterministic."""
    return sign_note(f"{origin}\n{size}\n{b64encode(root).decode()}\n", name=origin, key=key)


def read_checkpoint(note: str, *, log: VerifierKey) -> Checkpoint:
    """Parse a checkpoint and verify the log's signature; the name of the key is the required origin.

    Raises:
        SignatureError: ``note-signature-invalid``.
        EvidenceError: ``checkpoint-invalid``.
        VerificationError: ``checkpoint-origin-mismatch``.
    """
    log.verify(note)
    checkpoint = unverified_checkpoint(note)
    if checkpoint.origin != log.name:
        raise VerificationError(
            "the checkpoint is of another log",
            code="checkpoint-origin-mismatch",
            field="origin",
            expected=log.name,
            got=checkpoint.origin[:100],
            clause="C2SP tlog-checkpoint",
        )
    return checkpoint


def unverified_checkpoint(note: str) -> Checkpoint:
    """Parse a checkpoint without verification of its signatures.

    Raises:
        EvidenceError: ``checkpoint-invalid``.
    """
    text, separator, _ = note.rpartition("\n\n")
    lines = text.split("\n")
    if len(note) > _MAX_NOTE_CHARACTERS or not separator or len(lines) < 3 or not all(lines):
        raise _invalid("expected origin, size and root, each on a line, and signatures")
    origin, size, root = lines[:3]
    if not _SIZE.fullmatch(size) or int(size) > MAX_SIZE:
        raise _invalid("size: expected a decimal number of at most 63 bits")
    try:
        digest = base64_bytes(root, what="root")
    except EvidenceError as exc:
        raise _invalid("root: expected base64") from exc
    if len(digest) != HASH_BYTES:
        raise _invalid(f"root: expected {HASH_BYTES} bytes, got {len(digest)}")
    return Checkpoint(origin=origin, size=int(size), root=digest, note=note)


def _invalid(problem: str) -> EvidenceError:
    return EvidenceError(f"checkpoint: {problem}", code="checkpoint-invalid", clause="C2SP tlog-checkpoint")
