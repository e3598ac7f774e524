"""The JSON of receipts: the same values, in which bytes are text and labels are names.

Digests and identities are hex; signatures and whole parts are base64url. Which text stands for bytes follows from the
name of the member alone, so the way back needs no guess: parsing gives the CBOR again, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from attest.encoding import JsonValue, base64url_bytes, base64url_text, hex_bytes
from attest.receipts.claims import CTI, EAT_PROFILE, IAT, ISS, NONCE, ReceiptClaims, claims_of
from attest.receipts.map_reader import MapReader, malformed
from attest.receipts.signed_receipt import ED25519_SIGNATURE_BYTES, ML_DSA_65_SIGNATURE_BYTES, SignedReceipt

_LABELS: Final[Mapping[str, int]] = {"iss": ISS, "iat": IAT, "cti": CTI, "nonce": NONCE, "eat_profile": EAT_PROFILE}
_NAMES: Final[Mapping[int | str, str]] = {label: name for name, label in _LABELS.items()}
_IN_HEX: Final = frozenset({"cti", "nonce", "statement", "model", "sha256", "kid"})
_RECEIPT: Final = frozenset[int | str]({"claims", "signatures"})
_SIGNATURES: Final = frozenset[int | str]({"ed25519", "ml-dsa-65"})
_SIGNATURE: Final = frozenset[int | str]({"kid", "signature"})


def claims_to_json(claims: ReceiptClaims) -> dict[str, JsonValue]:
    """Return claims with their names."""
    return {_NAMES.get(label, str(label)): _to_json(value) for label, value in claims.to_claims().items()}


def receipt_to_json(receipt: SignedReceipt) -> dict[str, JsonValue]:
    """Return a receipt with readable claims."""
    return {
        "claims": claims_to_json(receipt.claims),
        "signatures": {
            "ed25519": {"kid": receipt.ed25519_kid.hex(), "signature": base64url_text(receipt.ed25519)},
            "ml-dsa-65": {"kid": receipt.ml_dsa_65_kid.hex(), "signature": base64url_text(receipt.ml_dsa_65)},
        },
    }


def receipt_from_json(value: object) -> SignedReceipt:
    """Read a receipt; its claims are encoded again, so a changed one has a signature that fails.

    Raises:
        EvidenceError: ``receipt-malformed``, ``base64-invalid`` or ``hex-invalid``.
    """
    members = MapReader(value, "receipt", _RECEIPT)
    stated = members.value("claims")
    if not isinstance(stated, Mapping) or not _LABELS.keys() - {"nonce"} <= stated.keys():
        raise malformed("claims", f"an object with {', '.join(_LABELS)}", "something else")
    claims = claims_of({_LABELS.get(name, name): _from_json(name, one) for name, one in stated.items()})
    signatures = MapReader(members.value("signatures"), "receipt.signatures", _SIGNATURES)
    ed_kid, ed25519 = _signature(signatures, "ed25519", ED25519_SIGNATURE_BYTES)
    ml_kid, ml_dsa_65 = _signature(signatures, "ml-dsa-65", ML_DSA_65_SIGNATURE_BYTES)
    return SignedReceipt(
        claims=claims,
        payload=claims.to_bytes(),
        ed25519=ed25519,
        ml_dsa_65=ml_dsa_65,
        ed25519_kid=ed_kid,
        ml_dsa_65_kid=ml_kid,
    )


def part_to_json(part: object) -> JsonValue:
    """Return a part as base64url, or its reference in hex."""
    return base64url_text(part) if isinstance(part, bytes) else _to_json(part)


def part_from_json(value: object, path: str) -> object:
    """Read a part; errors as ``receipt_from_json``."""
    if isinstance(value, str):
        return base64url_bytes(value, what=path)
    return _from_json("", value)


def _signature(signatures: MapReader, name: str, size: int) -> tuple[bytes, bytes]:
    one = MapReader(signatures.value(name), signatures.at(name), _SIGNATURE)
    kid = hex_bytes(one.text("kid", 64), what=one.at("kid"), length=32)
    if kid.hex() != one.value("kid"):
        raise malformed(one.at("kid"), "lower-case hex", "other letters")
    signature = base64url_bytes(one.text("signature", 2 * size), what=one.at("signature"))
    if len(signature) != size:
        raise malformed(one.at("signature"), f"{size} bytes", f"{len(signature)} bytes")
    return kid, signature


def _to_json(value: object) -> JsonValue:
    match value:
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): _to_json(member) for name, member in value.items()}
        case _:
            return cast("JsonValue", value)  # text, truth values and integers are the same


def _from_json(name: str, value: object) -> object:
    """Return the value that CBOR holds: bytes for the hex of a member of this name."""
    if isinstance(value, Mapping):
        return {key: one if name == "sampling" else _from_json(key, one) for key, one in value.items()}
    if name in _IN_HEX and isinstance(value, str):
        data = hex_bytes(value, what=name)
        if data.hex() != value:
            raise malformed(name, "lower-case hex", "other letters")
        return data
    return value
