"""The client's side of key release, with the parts common to both sides: wire types, sealing, signed notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names
from attest.release.identity import ANYBODY, ServiceAttestation, ServiceStatement, identity_binding, identity_note
from attest.release.key_import import ImportTerms, WrappedKey, import_key_text, open_wrapped, read_import_key, wrap_key
from attest.release.log_monitor import FetchProof, FileMemory, LogWatch
from attest.release.names import (
    DEFAULT_TENANT,
    KEY_ID_PATTERN,
    KEY_REFERENCE_PATTERN,
    TENANT_PATTERN,
    KeyName,
    KeyReference,
    require_tenant,
)
from attest.release.notes import VerifierKey, require_name, sign_note, verifier_key
from attest.release.padded_secret import (
    MAX_RESOURCE_BYTES,
    MAX_SECRET_BYTES,
    PADDED_BYTES,
    SECRET_PURPOSE,
    pad_resource,
    pad_secret,
    unpad_secret,
)
from attest.release.passports import Passport, PassportRequest
from attest.release.prompt_keys import PROMPT_ALGORITHMS, PUBLISHED, PromptKeyNote, PublishedPromptKey
from attest.release.receipts import receipt_text
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519, MATERIAL_BYTES, WorkloadKey, seal
from attest.release.tlog import (
    EMPTY_ROOT,
    MAX_PROOF_HASHES,
    MAX_SIZE,
    Checkpoint,
    LogProof,
    WitnessKey,
    cosign,
    leaf_hash,
    node_hash,
    read_checkpoint,
    sign_checkpoint,
)
from attest.release.wire import CONTEXT, MAX_KEYS, ROLE, Challenge, Release, ReleaseRequest, SealedKey, release_info

if TYPE_CHECKING:
    from attest.release.client import KeyReleaseClient
    from attest.release.exchange import Attester

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
    "MAX_RESOURCE_BYTES",
    "MAX_SECRET_BYTES",
    "MAX_SIZE",
    "PADDED_BYTES",
    "PROMPT_ALGORITHMS",
    "PUBLISHED",
    "ROLE",
    "SECRET_PURPOSE",
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
    "pad_resource",
    "pad_secret",
    "read_checkpoint",
    "read_import_key",
    "receipt_text",
    "release_info",
    "require_name",
    "require_tenant",
    "seal",
    "sign_checkpoint",
    "sign_note",
    "unpad_secret",
    "verifier_key",
    "wrap_key",
]

# These two bring verification and appraisal along.
__getattr__ = lazy_names(
    __name__,
    {"attest.release.client": ("KeyReleaseClient",), "attest.release.exchange": ("Attester",)},
)
