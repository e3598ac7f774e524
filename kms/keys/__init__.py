"""Keys: what they are called, how they lie wrapped in the database, and who may see them in the clear."""

from __future__ import annotations

from kms.keys.kek import KeyEncryptionKey
from kms.keys.records import DEFAULT_TENANT, KeyName, KeyPurpose, KeyRecord, KeyReference, WrapContext, Wrapped
from kms.keys.secret import SecretBytes

__all__ = [
    "DEFAULT_TENANT",
    "KeyEncryptionKey",
    "KeyName",
    "KeyPurpose",
    "KeyRecord",
    "KeyReference",
    "SecretBytes",
    "WrapContext",
    "Wrapped",
]
