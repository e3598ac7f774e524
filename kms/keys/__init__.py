"""Keys: what they are called, how they lie wrapped in the database, and who may see them in the clear."""

from __future__ import annotations

from kms.domain.kek import KeyEncryptionKey
from kms.domain.keys import DEFAULT_TENANT, KeyName, KeyPurpose, KeyRecord, KeyReference, WrapContext, Wrapped
from kms.domain.secret import SecretBytes

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
