"""The key that signs tokens for guests of a Key Broker Service: P-256, made on first use, one for all replicas."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import JsonValue
from attest.release import VerifierKey
from attest.results import SigningKey
from kms.domain.actors import SCHEDULE
from kms.domain.kek import KeyEncryptionKey, RandomBytes
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.later_key import LaterKey
from kms.store import Store, WriteTransaction

TOKEN_KEY: Final = "kbs-token-key"  # noqa: S105  a name
TOKEN_KEY_CREATED: Final = "kbs-token-key-created"  # noqa: S105  a kind of entries
_SEED_BYTES: Final = 48
"""Half a key longer than the order of the curve, so that reducing it by the order shows no bias."""
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of P-256 (SEC 2, section 2.4.2)."""


def open_token_key(
    store: Store, kek: KeyEncryptionKey, *, service: VerifierKey, random: RandomBytes, at: datetime
) -> SigningKey:
    """Return the key; the first call makes it.

    Raises:
        IntegrityError: ``wrapped-key-invalid``.
        UnavailableError: the database is in use, or the key-encryption key's back-end does not answer.
    """

    def log(tx: WriteTransaction, made: SigningKey) -> None:
        body: dict[str, JsonValue] = {"kid": made.kid, "actor": SCHEDULE.members()}
        tx.log.add(kind=TOKEN_KEY_CREATED, at=at, body=body)

    return _KEY.make(store, kek, service=service, random=random, log=log, at=at)


def _signing_key(seed: SecretBytes) -> SigningKey:
    number = seed.lend(EXPORT, lambda view: int.from_bytes(view, "big"))
    return SigningKey.of(ec.derive_private_key(1 + number % (_ORDER - 1), ec.SECP256R1()))


_KEY: Final = LaterKey(name=TOKEN_KEY, algorithm="es256", size=_SEED_BYTES, read=_signing_key)
