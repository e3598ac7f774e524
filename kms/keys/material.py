"""What the material of a key is, by its algorithm, and how it is made."""

from __future__ import annotations

from kms.errors import KeyConflictError
from kms.keys.kek import RandomBytes
from kms.keys.records import SYMMETRIC_256, SYMMETRIC_KEY_BYTES
from kms.keys.secret import SecretBytes

__all__ = ["new_material", "require_material"]

_BYTES = {SYMMETRIC_256: SYMMETRIC_KEY_BYTES}


def new_material(algorithm: str, *, random: RandomBytes) -> SecretBytes:
    """Make material that nobody has seen."""
    return SecretBytes(random(_BYTES[algorithm]))


def require_material(material: SecretBytes, *, algorithm: str) -> None:
    """Refuse material that is none of this algorithm.

    Raises:
        KeyConflictError: ``key-material-invalid``: another number of bytes.
    """
    if len(material) == _BYTES[algorithm]:
        return
    raise KeyConflictError(
        f"a key has exactly {_BYTES[algorithm]} bytes, got {len(material)}",
        code="key-material-invalid",
        expected=f"{_BYTES[algorithm]} bytes",
        got=f"{len(material)} bytes",
        hint="raw bytes, neither hex nor base64; 'head -c 32 /dev/urandom' makes such a file",
    )
