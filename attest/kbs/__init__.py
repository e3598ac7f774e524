"""The protocol of Key Broker Services (KBS): parts common to both sides, and a client for guests.

::

    with KbsClient("https://kbs.example") as kbs, kbs.resource("kbs:///default/key/1") as found:
        model = decrypt(weights, found.material)
"""

from __future__ import annotations

from attest.kbs.key_agreement import (
    CONTENT_ENCRYPTION,
    CONTENT_KEY_BYTES,
    IV_BYTES,
    OAEP,
    TAG_BYTES,
    key_encryption_key,
)
from attest.kbs.runtime_data import runtime_digest, runtime_document
from attest.kbs.tee_key import EC_ALGORITHM, RSA_ALGORITHM, TeeKey, coordinate, read_tee_key

__all__ = [
    "CONTENT_ENCRYPTION",
    "CONTENT_KEY_BYTES",
    "EC_ALGORITHM",
    "IV_BYTES",
    "OAEP",
    "RSA_ALGORITHM",
    "TAG_BYTES",
    "TeeKey",
    "coordinate",
    "key_encryption_key",
    "read_tee_key",
    "runtime_digest",
    "runtime_document",
]
