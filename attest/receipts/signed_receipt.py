"""A receipt as COSE_Sign (RFC 9052, section 4.1) with exactly two signers: Ed25519 and ML-DSA-65.

::

    receipt       = 98([body, {}, payload, [[ed, {}, signature], [ml, {}, signature]]])
    body          = protected header {16: "application/vnd.attest.receipt+cose"}           typ (RFC 9596)
    ed, ml        = protected headers {1: -19, 4: kid} and {1: -49, 4: kid}                alg, and SHA-256 of the key
    signed bytes  = ["Signature", body, ed or ml, external_aad (empty), payload]

Both signatures are required, in this order. Unprotected headers are empty. Every map is deterministic CBOR, so a
receipt has one spelling, and claims with two signatures determine it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

from attest.encoding import cbor_bytes
from attest.errors import SignatureError
from attest.receipts.claims import ReceiptClaims, parse_claims
from attest.receipts.map_reader import malformed
from attest.receipts.statement import ReceiptStatement
from attest.results.cbor import ClaimsValue, claims_bytes, claims_value

RECEIPT_TYPE: Final = "application/vnd.attest.receipt+cose"
MAX_RECEIPT_BYTES: Final = 64 * 1024
ED25519_ALGORITHM: Final = -19
"""RFC 9864."""
ML_DSA_65_ALGORITHM: Final = -49
"""IANA, COSE Algorithms."""
ED25519_SIGNATURE_BYTES: Final = 64
ML_DSA_65_SIGNATURE_BYTES: Final = 3309
TAG_SIGN: Final = b"\xd8\x62"
_ALG, _KID, _TYP = 1, 4, 16
_BODY: Final = claims_bytes({_TYP: RECEIPT_TYPE})
_CLAUSE: Final = "RFC 9052, section 4.4"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedReceipt:
    """A receipt, taken apart; its signatures are not verified.

    Attributes:
        payload: the claims as signed.
        ed25519: signature, 64 bytes.
        ml_dsa_65: signature, 3309 bytes.
        ed25519_kid: SHA-256 of the public key, as stated.
        ml_dsa_65_kid: the same.
    """

    claims: ReceiptClaims
    payload: bytes
    ed25519: bytes
    ml_dsa_65: bytes
    ed25519_kid: bytes
    ml_dsa_65_kid: bytes

    def to_bytes(self) -> bytes:
        """Return the receipt; a parsed one gives the same bytes."""
        signatures: tuple[ClaimsValue, ...] = (
            (_header(ED25519_ALGORITHM, self.ed25519_kid), {}, self.ed25519),
            (_header(ML_DSA_65_ALGORITHM, self.ml_dsa_65_kid), {}, self.ml_dsa_65),
        )
        return TAG_SIGN + claims_bytes((_BODY, {}, self.payload, signatures))

    def require_ed25519(self, statement: ReceiptStatement) -> None:
        """Require the signature of the statement's Ed25519 key.

        Raises:
            SignatureError: ``receipt-key-mismatch`` or ``receipt-signature-invalid``.
        """
        _require_kid("ed25519", self.ed25519_kid, statement.ed25519)
        signed = to_be_signed(ED25519_ALGORITHM, statement.ed25519, self.payload)
        _require("Ed25519", lambda: Ed25519PublicKey.from_public_bytes(statement.ed25519).verify(self.ed25519, signed))

    def require_ml_dsa_65(self, statement: ReceiptStatement) -> None:
        """Require the signature of the statement's ML-DSA-65 key; errors as ``require_ed25519``."""
        _require_kid("ml-dsa-65", self.ml_dsa_65_kid, statement.ml_dsa_65)
        signed = to_be_signed(ML_DSA_65_ALGORITHM, statement.ml_dsa_65, self.payload)
        _require(
            "ML-DSA-65", lambda: MLDSA65PublicKey.from_public_bytes(statement.ml_dsa_65).verify(self.ml_dsa_65, signed)
        )


def key_id(public: bytes) -> bytes:
    """Return the ``kid`` of a public key: SHA-256 of its raw bytes."""
    return sha256(public).digest()


def to_be_signed(algorithm: int, public: bytes, payload: bytes) -> bytes:
    """Return the bytes that one key signs."""
    return cbor_bytes(("Signature", _BODY, _header(algorithm, key_id(public)), b"", payload))


def parse_receipt(data: bytes) -> SignedReceipt:
    """Take a receipt apart, without verification.

    Raises:
        EvidenceError: ``receipt-malformed`` or ``cbor-invalid``.
    """
    if len(data) > MAX_RECEIPT_BYTES:
        raise malformed("receipt", f"at most {MAX_RECEIPT_BYTES} bytes", f"{len(data)} bytes")
    if not data.startswith(TAG_SIGN):
        raise malformed("receipt", "COSE_Sign, tag 98", "other bytes")
    value = claims_value(data.removeprefix(TAG_SIGN), what="receipt")
    match value:
        case [bytes(body), dict(unprotected), bytes(payload), [first, second]] if not unprotected:
            pass
        case _:
            raise malformed("receipt", "[protected, {}, payload, [signature, signature]]", "another structure")
    if body != _BODY:
        raise malformed("receipt.protected", f"typ {RECEIPT_TYPE} alone", "other headers")
    ed_kid, ed25519 = _signature(first, "ed25519", ED25519_ALGORITHM, ED25519_SIGNATURE_BYTES)
    ml_kid, ml_dsa_65 = _signature(second, "ml-dsa-65", ML_DSA_65_ALGORITHM, ML_DSA_65_SIGNATURE_BYTES)
    return SignedReceipt(
        claims=parse_claims(payload),
        payload=payload,
        ed25519=ed25519,
        ml_dsa_65=ml_dsa_65,
        ed25519_kid=ed_kid,
        ml_dsa_65_kid=ml_kid,
    )


def _header(algorithm: int, kid: bytes) -> bytes:
    return claims_bytes({_ALG: algorithm, _KID: kid})


def _signature(value: object, name: str, algorithm: int, size: int) -> tuple[bytes, bytes]:
    """Return key id and signature of one signer, whose headers have one spelling."""
    path = f"receipt.{name}"
    match value:
        case [bytes(protected), dict(unprotected), bytes(signature)] if not unprotected and len(signature) == size:
            pass
        case _:
            raise malformed(path, f"[protected, {{}}, {size} bytes]", "another structure")
    match claims_value(protected, what=path):
        case {1: int(stated), 4: bytes(kid)} if _header(stated, kid) == protected and len(kid) == 32:
            pass
        case _:
            raise malformed(f"{path}.protected", "alg and kid alone", "other headers")
    if stated != algorithm:
        raise malformed(f"{path}.protected.alg", str(algorithm), str(stated))
    return kid, signature


def _require_kid(name: str, stated: bytes, public: bytes) -> None:
    if stated != key_id(public):
        raise SignatureError(
            "the receipt names another key than the machine's statement has",
            code="receipt-key-mismatch",
            field=f"receipt.{name}.kid",
            expected=key_id(public).hex(),
            got=stated.hex(),
            clause=_CLAUSE,
            hint="the receipt is of another machine, or of other receipt keys: ask the service for its statement",
        )


def _require(name: str, verify: Callable[[], None]) -> None:
    try:
        verify()
    except (InvalidSignature, ValueError) as exc:
        raise SignatureError(
            f"the receipt's {name} signature does not verify",
            code="receipt-signature-invalid",
            field="receipt",
            expected=f"a signature by the {name} key of the machine's statement",
            got="one that does not verify",
            clause=_CLAUSE,
            hint="the receipt was changed, or another machine signed it",
        ) from exc
