"""Key material by algorithm: format, generation and checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from attest.errors import ConfigurationError
from attest.release import MATERIAL_BYTES, PROMPT_ALGORITHMS, WorkloadKey
from kms.domain.errors import KeyConflictError
from kms.domain.kek import RandomBytes
from kms.domain.keys import SYMMETRIC_256, SYMMETRIC_KEY_BYTES, KeyPurpose
from kms.domain.secret import EXPORT, SecretBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAlgorithm:
    """Algorithm of a key.

    The material has ``size`` bytes; ``kem`` is the HPKE KEM whose private half it is, or None.
    """

    purpose: KeyPurpose
    size: int
    kem: int | None = None


ALGORITHMS: Final = {
    SYMMETRIC_256: KeyAlgorithm(purpose=KeyPurpose.MODEL_KEY, size=SYMMETRIC_KEY_BYTES),
    **{
        name: KeyAlgorithm(purpose=KeyPurpose.PROMPT_KEY, size=MATERIAL_BYTES[kem], kem=kem)
        for name, kem in PROMPT_ALGORITHMS.items()
    },
}
DEFAULT_ALGORITHMS: Final = {
    KeyPurpose.MODEL_KEY: SYMMETRIC_256,
    KeyPurpose.PROMPT_KEY: "hpke-mlkem768-x25519",
}


def require_algorithm(name: str, *, purpose: KeyPurpose) -> str:
    """Return an algorithm after checking that it exists for a purpose.

    Raises:
        ConfigurationError: ``key-algorithm-invalid``.
    """
    found = ALGORITHMS.get(name)
    if found is None or found.purpose is not purpose:
        raise ConfigurationError(
            f"there is no algorithm {name[:40]!r} for a {purpose}",
            code="key-algorithm-invalid",
            field="algorithm",
            expected=", ".join(one for one, algorithm in ALGORITHMS.items() if algorithm.purpose is purpose),
            got=repr(name[:40]),
        )
    return name


def new_material(algorithm: str, *, random: RandomBytes) -> SecretBytes:
    """Generate fresh material."""
    return SecretBytes(random(ALGORITHMS[algorithm].size))


def require_material(material: SecretBytes, *, algorithm: str) -> None:
    """Refuse material that does not fit the algorithm, or that no random generator makes.

    Raises:
        KeyConflictError: ``key-material-invalid``: wrong length; ``key-material-weak``: zeros, or a few repeated bytes.
    """
    size = ALGORITHMS[algorithm].size
    if len(material) != size:
        raise KeyConflictError(
            f"a key of {algorithm} must have {size} bytes, got {len(material)}",
            code="key-material-invalid",
            expected=f"{size} bytes",
            got=f"{len(material)} bytes",
            hint=f"use raw bytes, not hex or base64; 'head -c {size} /dev/urandom' writes such a file",
        )
    # Of 32 random bytes, 8 or fewer values are one case in 2**116.
    if material.lend(EXPORT, lambda view: len(set(view))) <= size // 4:
        raise KeyConflictError(
            "the key is not random: it repeats a few bytes",
            code="key-material-weak",
            expected=f"{size} bytes of a random generator",
            hint=f"'head -c {size} /dev/urandom' writes such a file; nothing was stored",
        )


def public_half(material: SecretBytes, *, algorithm: str) -> bytes | None:
    """Return the public half of a key that has one, as two bytes of KEM id and the raw public key."""
    kem = ALGORITHMS[algorithm].kem
    return None if kem is None else material.lend(EXPORT, partial(WorkloadKey.from_material, kem)).public
