"""A document of reference values as it is stored: its bytes, with the signatures over it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One signature over a document; untrusted, and verified at every use of the document.

    Attributes:
        key_id: SHA-256 of the key's SubjectPublicKeyInfo, 32 bytes.
        public_key: the key, PEM.
        signature: the signature file, as ``attest policy sign`` wrote it.
    """

    key_id: bytes
    public_key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """One version of a document.

    Attributes:
        digest: SHA-256 of its canonical JSON, 32 bytes.
        document: YAML or JSON, as its author wrote it.
        proofs: signatures over it; none for a document that policies name by its digest.
    """

    digest: bytes
    name: str
    version: int
    document: bytes
    proofs: tuple[Proof, ...]
