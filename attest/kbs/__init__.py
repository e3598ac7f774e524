"""The protocol of Key Broker Services (KBS): parts common to both sides, and a client for guests.

::

    with KbsClient("https://kbs.example") as kbs, kbs.resource("kbs:///default/key/1") as found:
        model = decrypt(weights, found.material)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.kbs.client import KbsClient
    from attest.kbs.guest import Guest, MachineGuest, SampleGuest
    from attest.kbs.guest_key import GuestKey
    from attest.release.opened_key import OpenedKey

__all__ = [
    "CONTENT_ENCRYPTION",
    "CONTENT_KEY_BYTES",
    "EC_ALGORITHM",
    "IV_BYTES",
    "OAEP",
    "RSA_ALGORITHM",
    "TAG_BYTES",
    "Guest",
    "GuestKey",
    "KbsClient",
    "MachineGuest",
    "OpenedKey",
    "SampleGuest",
    "TeeKey",
    "coordinate",
    "key_encryption_key",
    "read_tee_key",
    "runtime_digest",
    "runtime_document",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.kbs.client": ("KbsClient",),
        "attest.kbs.guest": ("Guest", "MachineGuest", "SampleGuest"),
        "attest.kbs.guest_key": ("GuestKey",),
        "attest.release.opened_key": ("OpenedKey",),
    },
)
