"""Key material by algorithm: format, generation and checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from attest.errors import ConfigurationError, EvidenceError
from attest.release import (
    MATERIAL_BYTES,
    PADDED_BYTES,
    PROMPT_ALGORITHMS,
    WorkloadKey,
    pad_secret,
    unpad_secret,
)
from kms.domain.errors import KeyConflictError
from kms.domain.kek import RandomBytes
from kms.domain.keys import OPAQUE, SYMMETRIC_256, SYMMETRIC_KEY_BYTES, KeyPurpose
from kms.domain.secret import EXPORT, SecretBytes
from kms.domain.vault_material import VAULT_ALGORITHMS, VaultAlgorithm, new_vault_material, require_vault_material


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAlgorithm:
    """Algorithm of a key.

    The material has one of the ``sizes`` in bytes; ``kem`` is the HPKE KEM whose private half it is, or None. The keys
    of a ``vault`` have checks of their own.
    """

    purpose: KeyPurpose
    sizes: tuple[int, ...]
    kem: int | None = None
    vault: VaultAlgorithm | None = None

    @property
    def is_secret(self) -> bool:
        """True for opaque secrets, which the service neither generates nor judges; they are stored padded."""
        return self.purpose is KeyPurpose.SECRET


ALGORITHMS: Final = {
    SYMMETRIC_256: KeyAlgorithm(purpose=KeyPurpose.MODEL_KEY, sizes=(SYMMETRIC_KEY_BYTES,)),
    **{
        name: KeyAlgorithm(purpose=KeyPurpose.PROMPT_KEY, sizes=(MATERIAL_BYTES[kem],), kem=kem)
        for name, kem in PROMPT_ALGORITHMS.items()
    },
    OPAQUE: KeyAlgorithm(purpose=KeyPurpose.SECRET, sizes=PADDED_BYTES),
    **{name: KeyAlgorithm(purpose=one.purpose, sizes=(), vault=one) for name, one in VAULT_ALGORITHMS.items()},
}
DEFAULT_ALGORITHMS: Final = {
    KeyPurpose.MODEL_KEY: SYMMETRIC_256,
    KeyPurpose.PROMPT_KEY: "hpke-mlkem768-x25519",
    KeyPurpose.SECRET: OPAQUE,
    KeyPurpose.SKR_OCT: "skr-oct-256",
    KeyPurpose.SKR_RSA: "skr-rsa-2048",
    KeyPurpose.SKR_EC: "skr-ec-p256",
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


def require_generated(algorithm: str) -> None:
    """Refuse an algorithm whose material only an owner can supply.

    Raises:
        KeyConflictError: ``secret-not-generated``.
    """
    found = ALGORITHMS[algorithm]
    if found.is_secret or (found.vault is not None and not found.vault.is_generated):
        raise KeyConflictError(
            "the service generates no secrets, and no symmetric keys of other lengths than 128, 192 or 256 bits",
            code="secret-not-generated",
            expected="a secret of its owner",
            hint="supply it with 'kms key import --secret' or 'kms key rotate', and --from or --wrapped",
        )


def new_material(algorithm: str, *, random: RandomBytes) -> SecretBytes:
    """Generate fresh material.

    Raises:
        KeyConflictError: ``secret-not-generated``.
    """
    require_generated(algorithm)
    found = ALGORITHMS[algorithm]
    if found.vault is not None:
        return new_vault_material(found.vault, random=random)
    (size,) = found.sizes
    return SecretBytes(random(size))


def owned_material(given: SecretBytes, *, algorithm: str) -> SecretBytes:
    """Return an owner's key or secret, as given, in the form in which it is wrapped: secrets are padded.

    Raises:
        ConfigurationError: ``secret-size-invalid``.
    """
    if not ALGORITHMS[algorithm].is_secret:
        return given
    with given:
        return SecretBytes(given.lend(EXPORT, pad_secret))


def require_material(material: SecretBytes, *, algorithm: str) -> None:
    """Refuse material that does not fit the algorithm, or a key that no random generator makes.

    Raises:
        KeyConflictError: ``key-material-invalid``: wrong length, or no padded secret; ``key-material-weak``: a key of
            zeros, or of a few repeated bytes.
    """
    found = ALGORITHMS[algorithm]
    if found.is_secret:
        _require_padded(material)
        return
    if found.vault is not None:
        require_vault_material(material, found.vault)
        return
    (size,) = found.sizes
    if len(material) != size:
        raise KeyConflictError(
            f"a key of {algorithm} must have {size} bytes, got {len(material)}",
            code="key-material-invalid",
            expected=f"{size} bytes",
            got=f"{len(material)} bytes",
            hint=f"use raw bytes, not hex or base64; 'head -c {size} /dev/urandom' writes such a file; for a password, "
            "a token or a PEM give --secret",
        )
    # Of 32 random bytes, 8 or fewer values are one case in 2**116.
    if material.lend(EXPORT, lambda view: len(set(view))) <= size // 4:
        raise KeyConflictError(
            "the key is not random: it repeats a few bytes",
            code="key-material-weak",
            expected=f"{size} bytes of a random generator",
            hint=f"'head -c {size} /dev/urandom' writes such a file; nothing was stored",
        )


def _require_padded(material: SecretBytes) -> None:
    try:
        material.lend(EXPORT, unpad_secret)
    except EvidenceError as exc:
        raise KeyConflictError(
            "the secret is not in its padded form",
            code="key-material-invalid",
            expected=exc.expected,
            hint="seal it with 'kms key wrap --secret'",
        ) from exc


def public_half(material: SecretBytes, *, algorithm: str) -> bytes | None:
    """Return the public half of a key that has one, as two bytes of KEM id and the raw public key."""
    kem = ALGORITHMS[algorithm].kem
    return None if kem is None else material.lend(EXPORT, partial(WorkloadKey.from_material, kem)).public
