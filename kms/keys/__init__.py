"""Keys: what they are called, how they lie wrapped in the database, and who may see them in the clear."""

from __future__ import annotations

from kms.keys.kek import KeyEncryptionKey, create_kek_file, read_kek_file
from kms.keys.records import KeyPurpose, KeyRecord, WrapContext, require_key_id
from kms.keys.secret import SecretBytes

__all__ = [
    "KeyEncryptionKey",
    "KeyPurpose",
    "KeyRecord",
    "SecretBytes",
    "WrapContext",
    "create_kek_file",
    "read_kek_file",
    "require_key_id",
]
