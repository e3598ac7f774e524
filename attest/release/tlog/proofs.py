"""Portable proofs of inclusion in a log, verified with the log's key alone (C2SP tlog-proof).

::

    c2sp.org/tlog-proof@v1
    index <decimal>
    <base64 hash>                   the inclusion proof, from the leaf upwards; none for a tree of one leaf
                                    an empty line
    <checkpoint, as it was signed>
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass

from attest.encoding import base64_bytes
from attest.errors import EvidenceError
from attest.release.notes import VerifierKey
from attest.release.tlog.checkpoints import MAX_SIZE, Checkpoint, read_checkpoint
from attest.release.tlog.merkle import HASH_BYTES, MAX_PROOF_HASHES, leaf_hash, verify_inclusion
from attest.release.tlog.witnesses import NO_WITNESSES, WitnessPolicy

_HEAD = "c2sp.org/tlog-proof@v1"
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProof:
    """Inclusion of an entry at an index of a log, unverified before ``verify_logged``.

    Attributes:
        index: of the entry, from 0.
        hashes: the inclusion proof, from the leaf upwards.
        checkpoint: the signed note with the tree's root.
    """

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: str

    def to_text(self) -> str:
        """Return the proof as text."""
        lines = [_HEAD, f"index {self.index}", *(b64encode(one).decode() for one in self.hashes), "", self.checkpoint]
        return "\n".join(lines)

    @staticmethod
    def parse(text: str) -> LogProof:
        """Parse a proof.

        Raises:
            EvidenceError: ``log-proof-invalid``.
        """
        head, separator, checkpoint = text.partition("\n\n")
        lines = head.split("\n")
        if not separator or lines.pop(0) != _HEAD:
            raise _invalid(f"expected a text that begins with {_HEAD}")
        if lines and lines[0].startswith("extra "):
            lines.pop(0)  # not authenticated, so ignored
        match = _INDEX.fullmatch(lines.pop(0)) if lines else None
        if match is None or int(match[1]) > MAX_SIZE or len(lines) > MAX_PROOF_HASHES:
            raise _invalid(f"expected an index and at most {MAX_PROOF_HASHES} hashes")
        return LogProof(index=int(match[1]), hashes=tuple(map(_hash, lines)), checkpoint=checkpoint)


def verify_logged(
    entry: bytes, proof: LogProof, *, log: VerifierKey, witnesses: WitnessPolicy = NO_WITNESSES
) -> Checkpoint:
    """Check that a log has an entry, by its bytes, and return the checkpoint.

    Compare it with earlier ones: a proof alone does not show that all clients see the same log.

    Raises:
        SignatureError: ``note-signature-invalid``.
        EvidenceError: ``checkpoint-invalid``.
        VerificationError: ``checkpoint-origin-mismatch``, ``log-witnesses-missing`` or ``log-inclusion-invalid``.
    """
    checkpoint = read_checkpoint(proof.checkpoint, log=log)
    witnesses.require(checkpoint.note)
    leaf = leaf_hash(entry)
    verify_inclusion(proof.hashes, index=proof.index, size=checkpoint.size, leaf=leaf, root=checkpoint.root)
    return checkpoint


def _hash(line: str) -> bytes:
    try:
        digest = base64_bytes(line, what="hash")
    except EvidenceError as exc:
        raise _invalid("expected base64 hashes") from exc
    if len(digest) != HASH_BYTES:
        raise _invalid(f"expected hashes of {HASH_BYTES} bytes, got {len(digest)}")
    return digest


def _invalid(problem: str) -> EvidenceError:
    return EvidenceError(f"proof of the log: {problem}", code="log-proof-invalid", clause="C2SP tlog-proof")
