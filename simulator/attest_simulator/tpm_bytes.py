"""Integers and buffers as a TPM has them: big-endian, a buffer behind its size.

Spec: TPM 2.0 Library, part 2, "Base types" and "TPM2B types".
"""

from __future__ import annotations


def u16(*values: int) -> bytes:
    """Return integers of two bytes each."""
    return b"".join(value.to_bytes(2, "big") for value in values)


def u32(*values: int) -> bytes:
    """Return integers of four bytes each."""
    return b"".join(value.to_bytes(4, "big") for value in values)


def sized(data: bytes) -> bytes:
    """Return a buffer behind its size (TPM2B)."""
    return u16(len(data)) + data
