"""Keys: what they are called, how they lie wrapped in the database, and who may see them in the clear."""

from __future__ import annotations

from kms.keys.kek import KeyEncryptionKey, create_kek_file, read_kek_file
from kms.keys.records import DEFAULT_TENANT, KeyName, KeyPurpose, KeyRecord, KeyReference, WrapContext
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
    "create_kek_file",
    "read_kek_file",
]
