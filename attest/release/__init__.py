"""The client's half of key release, with the parts common to both halves: wire types, sealing, signed notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names
from attest.release.names import DEFAULT_TENANT, KeyName, KeyReference
from attest.release.notes import VerifierKey, sign_note, verifier_key
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519, WorkloadKey, seal
from attest.release.wire import CONTEXT, Challenge, Release, ReleaseRequest, SealedKey, release_info

if TYPE_CHECKING:
    from attest.release.client import KeyReleaseClient, ReleaseRefusedError
    from attest.release.exchange import Attester
    from attest.release.identity import ANYBODY, ServiceAttestation, ServiceStatement, identity_binding, identity_note
    from attest.release.key_import import (
        ImportTerms,
        WrappedKey,
        import_key_text,
        open_wrapped,
        read_import_key,
        wrap_key,
    )
    from attest.release.log_monitor import FetchProof, FileMemory, LogWatch
    from attest.release.names import KEY_ID_PATTERN, KEY_REFERENCE_PATTERN, TENANT_PATTERN, require_tenant
    from attest.release.notes import require_name
    from attest.release.passports import Passport, PassportRequest
    from attest.release.prompt_keys import PROMPT_ALGORITHMS, PUBLISHED, PromptKeyNote, PublishedPromptKey
    from attest.release.receipts import receipt_text
    from attest.release.sealed_key import MATERIAL_BYTES
    from attest.release.tlog import (
        EMPTY_ROOT,
        MAX_PROOF_HASHES,
        Checkpoint,
        LogProof,
        WitnessKey,
        cosign,
        leaf_hash,
        node_hash,
        read_checkpoint,
        sign_checkpoint,
    )
    from attest.release.tlog.checkpoints import MAX_SIZE
    from attest.release.wire import MAX_KEYS, ROLE

__all__ = [
    "ANYBODY",
    "CONTEXT",
    "DEFAULT_TENANT",
    "EMPTY_ROOT",
    "KEM_HYBRID",
    "KEM_X25519",
    "KEY_ID_PATTERN",
    "KEY_REFERENCE_PATTERN",
    "MATERIAL_BYTES",
    "MAX_KEYS",
    "MAX_PROOF_HASHES",
    "MAX_SIZE",
    "PROMPT_ALGORITHMS",
    "PUBLISHED",
    "ROLE",
    "TENANT_PATTERN",
    "Attester",
    "Challenge",
    "Checkpoint",
    "FetchProof",
    "FileMemory",
    "ImportTerms",
    "KeyName",
    "KeyReference",
    "KeyReleaseClient",
    "LogProof",
    "LogWatch",
    "Passport",
    "PassportRequest",
    "PromptKeyNote",
    "PublishedPromptKey",
    "Release",
    "ReleaseRefusedError",
    "ReleaseRequest",
    "SealedKey",
    "ServiceAttestation",
    "ServiceStatement",
    "VerifierKey",
    "WitnessKey",
    "WorkloadKey",
    "WrappedKey",
    "cosign",
    "identity_binding",
    "identity_note",
    "import_key_text",
    "leaf_hash",
    "node_hash",
    "open_wrapped",
    "read_checkpoint",
    "read_import_key",
    "receipt_text",
    "release_info",
    "require_name",
    "require_tenant",
    "seal",
    "sign_checkpoint",
    "sign_note",
    "verifier_key",
    "wrap_key",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.release.client": (
            "KeyReleaseClient",
            "ReleaseRefusedError",
        ),
        "attest.release.exchange": ("Attester",),
        "attest.release.identity": (
            "ANYBODY",
            "ServiceAttestation",
            "ServiceStatement",
            "identity_binding",
            "identity_note",
        ),
        "attest.release.key_import": (
            "ImportTerms",
            "WrappedKey",
            "import_key_text",
            "open_wrapped",
            "read_import_key",
            "wrap_key",
        ),
        "attest.release.log_monitor": (
            "FetchProof",
            "FileMemory",
            "LogWatch",
        ),
        "attest.release.names": (
            "KEY_ID_PATTERN",
            "KEY_REFERENCE_PATTERN",
            "TENANT_PATTERN",
            "require_tenant",
        ),
        "attest.release.notes": ("require_name",),
        "attest.release.passports": (
            "Passport",
            "PassportRequest",
        ),
        "attest.release.prompt_keys": (
            "PROMPT_ALGORITHMS",
            "PUBLISHED",
            "PromptKeyNote",
            "PublishedPromptKey",
        ),
        "attest.release.receipts": ("receipt_text",),
        "attest.release.sealed_key": ("MATERIAL_BYTES",),
        "attest.release.tlog": (
            "Checkpoint",
            "EMPTY_ROOT",
            "LogProof",
            "MAX_PROOF_HASHES",
            "WitnessKey",
            "cosign",
            "leaf_hash",
            "node_hash",
            "read_checkpoint",
            "sign_checkpoint",
        ),
        "attest.release.tlog.checkpoints": ("MAX_SIZE",),
        "attest.release.wire": (
            "MAX_KEYS",
            "ROLE",
        ),
    },
)
