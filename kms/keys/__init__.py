"""Keys: names, storage in wrapped form, and access to the plaintext."""

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
