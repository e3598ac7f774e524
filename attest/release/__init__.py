"""The client's half of key release, with the parts common to both halves: wire types, sealing, signed notes."""

from __future__ import annotations

from attest.release.names import DEFAULT_TENANT, KeyName, KeyReference
from attest.release.notes import VerifierKey, sign_note, verifier_key
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519, WorkloadKey, seal
from attest.release.wire import CONTEXT, Challenge, Release, ReleaseRequest, SealedKey, release_info

__all__ = [
    "CONTEXT",
    "DEFAULT_TENANT",
    "KEM_HYBRID",
    "KEM_X25519",
    "Challenge",
    "KeyName",
    "KeyReference",
    "Release",
    "ReleaseRequest",
    "SealedKey",
    "VerifierKey",
    "WorkloadKey",
    "release_info",
    "seal",
    "sign_note",
    "verifier_key",
]
