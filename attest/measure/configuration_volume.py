"""The configuration firmware volume (CFV) of an OVMF image: the variables that the firmware starts with.

A TD has no other store of variables at the start. Where the volume holds none, the firmware measures the variables of
Secure Boot as empty; where it holds some, RTMR0 depends on them and is not computed here.

Spec: UEFI Platform Initialization, volume 3, EFI_FIRMWARE_VOLUME_HEADER; edk2, Guid/VariableFormat.h.
"""

from __future__ import annotations

from uuid import UUID

_VOLUME_MAGIC_AT, _VOLUME_MAGIC = 40, b"_FVH"
_VOLUME_HEADER_SIZE_AT = 48
_VARIABLES = UUID("aaf32c78-947b-439a-a180-2e144ec37792")
"""Authenticated variables."""
_STORE_HEADER_BYTES, _STORE_SIZE_AT = 28, 16
_ERASED = b"\xff"


def holds_no_variables(volume: bytes) -> bool:
    """Return True if the volume has a store of variables and nothing was ever written to it."""
    if volume[_VOLUME_MAGIC_AT : _VOLUME_MAGIC_AT + 4] != _VOLUME_MAGIC:
        return False
    start = int.from_bytes(volume[_VOLUME_HEADER_SIZE_AT : _VOLUME_HEADER_SIZE_AT + 2], "little")
    store = volume[start:]
    size = int.from_bytes(store[_STORE_SIZE_AT : _STORE_SIZE_AT + 4], "little")
    if store[:16] != _VARIABLES.bytes_le or not _STORE_HEADER_BYTES < size <= len(store):
        return False
    return not store[_STORE_HEADER_BYTES:size].strip(_ERASED)
