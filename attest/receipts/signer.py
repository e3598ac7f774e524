"""The receipt keys of a machine: born in it, certified by its evidence, and never outside of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Final, NoReturn, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

from attest.receipts.claims import ReceiptClaims
from attest.receipts.exchange_checks import require_validity
from attest.receipts.signed_receipt import (
    ED25519_ALGORITHM,
    ML_DSA_65_ALGORITHM,
    SignedReceipt,
    key_id,
    to_be_signed,
)
from attest.receipts.statement import ModelRecord, ReceiptStatement

SEED_BYTES: Final = 32
LIFETIME: Final = timedelta(days=7)
MAX_LIFETIME: Final = timedelta(days=31)


class ReceiptSigner:
    """Two private keys and the statement about them. ``ReceiptSigner.born`` makes it.

    Other models need another signer: evidence commits to ``statement.digest``, in ``init_data`` of its binding.
    """

    def __init__(
        self,
        statement: ReceiptStatement,
        ed25519: Ed25519PrivateKey,
        ml_dsa_65: MLDSA65PrivateKey,
        process: Callable[[], int],
    ) -> None:
        self.statement = statement
        self.digest = statement.digest
        """For ``init_data`` of the binding, 32 bytes."""
        self._ed25519 = ed25519
        self._ml_dsa_65 = ml_dsa_65
        self._numbers = count()
        self._lock = threading.Lock()
        self._process = process
        self._birthplace = process()

    @classmethod
    def born(
        cls,
        models: tuple[ModelRecord, ...],
        *,
        random: Callable[[int], bytes],
        process: Callable[[], int],
        at: datetime,
        lifetime: timedelta = LIFETIME,
    ) -> Self:
        """Generate keys inside the machine, for these models.

        Args:
            models: that answer.
            random: a source of random bytes, such as ``os.urandom``.
            process: returns the identity of this process, such as ``os.getpid``: a fork must not use the keys.
            at: now.
            lifetime: of the keys.

        Raises:
            ValueError: no model, one twice, or a lifetime beyond ``MAX_LIFETIME``.
        """
        if not timedelta(0) < lifetime <= MAX_LIFETIME:
            raise ValueError(f"receipt keys live for at most {MAX_LIFETIME}")
        if not models or len({model.digest for model in models}) != len(models):
            raise ValueError("a statement names at least one model, and each once")
        ed25519 = Ed25519PrivateKey.from_private_bytes(random(SEED_BYTES))
        ml_dsa_65 = MLDSA65PrivateKey.from_seed_bytes(random(SEED_BYTES))
        born = at.replace(microsecond=0)
        statement = ReceiptStatement(
            ed25519=ed25519.public_key().public_bytes_raw(),
            ml_dsa_65=ml_dsa_65.public_key().public_bytes_raw(),
            not_before=born,
            not_after=born + lifetime,
            models=models,
        )
        return cls(statement, ed25519, ml_dsa_65, process)

    def number(self) -> int:
        """Return the sequence number of an exchange that begins: from 0, each once.

        Raises:
            RuntimeError: the process is a fork of the one that made the keys; as for ``sign``.
        """
        self._require_own_process()
        with self._lock:
            return next(self._numbers)

    def sign(self, claims: ReceiptClaims) -> bytes:
        """Return a receipt over these claims.

        Raises:
            ValueError: claims of another statement, or of a model that it does not have.
            VerificationError: ``receipt-time-invalid``: the keys are not valid at the time of the claims.
        """
        self._require_own_process()
        if claims.statement != self.digest or self.statement.model(claims.model) is None:
            raise ValueError("these claims name another statement, or a model that it does not have")
        require_validity(claims, self.statement)
        payload, stated = claims.to_bytes(), self.statement
        signed = SignedReceipt(
            claims=claims,
            payload=payload,
            ed25519=self._ed25519.sign(to_be_signed(ED25519_ALGORITHM, stated.ed25519, payload)),
            ml_dsa_65=self._ml_dsa_65.sign(to_be_signed(ML_DSA_65_ALGORITHM, stated.ml_dsa_65, payload)),
            ed25519_kid=key_id(stated.ed25519),
            ml_dsa_65_kid=key_id(stated.ml_dsa_65),
        )
        return signed.to_bytes()

    def _require_own_process(self) -> None:
        """Require the process of birth: a fork would count the same numbers again."""
        if self._process() != self._birthplace:
            raise RuntimeError("receipt keys do not survive a fork: make a ReceiptSigner in each process that answers")

    def __repr__(self) -> str:
        return f"ReceiptSigner({self.digest.hex()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ReceiptSigner does not leave its process")
