"""CWT: claims in CBOR, signed with COSE_Sign1 (RFC 9052, section 4.2; RFC 8392).

::

    COSE_Sign1    = 18([protected: bstr, unprotected: map, payload: bstr, signature: bstr]); tag 61 may enclose it
    Sig_structure = ["Signature1", protected, external_aad (empty), payload]

Only what EAR needs: one signer, payload attached, and the algorithms ES256, ES384 and Ed25519. The algorithm must be
in the protected header, and no header may contain a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from attest.encoding import base64url_bytes, base64url_text, cbor_bytes
from attest.errors import EvidenceError
from attest.results.cbor import CborClaims, claims_bytes, claims_value
from attest.results.jose import MAX_TOKEN_BYTES, TokenKey
from attest.results.raw_signatures import SigningKey, public_key_of, signature_holds
from attest.results.token_refusal import algorithm_refused, key_unknown, signature_invalid, token_malformed

CWT_TYPE: Final = "application/eat+cwt"
_CWT_TYPES = frozenset({"application/eat+cwt", "application/eat-cwt", "application/cwt"})
_TAG_SIGN1 = b"\xd2"
_TAG_CWT = b"\xd8\x3d"
_ALG, _CONTENT_TYPE, _KID, _TYPE = 1, 3, 4, 16
_PROTECTED_LABELS = frozenset({_ALG, _CONTENT_TYPE, _KID, _TYPE})
"""``crit`` (2) is not among them: nothing critical is understood here. Nor are x5chain (33) and its kin."""
_UNPROTECTED_LABELS = frozenset({_KID})
_ALGORITHMS = {-7: "ES256", -9: "ES256", -35: "ES384", -51: "ES384", -8: "EdDSA", -19: "Ed25519"}
COSE_NUMBERS = {"ES256": -7, "ES384": -35, "EdDSA": -8, "Ed25519": -19}
_CLAUSE = "RFC 9052, section 4.2"
_malformed = partial(token_malformed, clause=_CLAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCwt:
    """A CWT whose signature verifies, with the JWS name of the algorithm; its claims are statements of its issuer."""

    claims: CborClaims
    algorithm: str
    kid: str


def is_cwt(data: bytes) -> bool:
    """Return True for data that begins like a CWT: COSE_Sign1, perhaps inside tag 61."""
    return data.removeprefix(_TAG_CWT)[:2] == _TAG_SIGN1 + b"\x84"


def sign_cwt(claims: CborClaims, key: SigningKey) -> bytes:
    """Sign claims, in any order, as deterministic CBOR; the thumbprint of the key, 32 bytes, becomes the ``kid``."""
    kid = base64url_bytes(key.kid, what="kid")
    header = claims_bytes({_ALG: COSE_NUMBERS[key.algorithm], _KID: kid, _TYPE: CWT_TYPE})
    payload = claims_bytes(claims)
    signature = key.sign(_sig_structure(header, payload))
    return _TAG_SIGN1 + claims_bytes((header, {}, payload, signature))


def peek_cwt(data: bytes) -> CborClaims:
    """Return the claims, unverified: they only select the keys to verify with.

    Raises:
        EvidenceError: ``token-malformed`` or ``cbor-invalid``.
    """
    return _parts(data).claims


def verify_cwt(data: bytes, *, keys: Iterable[TokenKey], algorithms: frozenset[str]) -> SignedCwt:
    """Check that one of these keys signed a CWT: COSE_Sign1 with its tag. Arguments as of ``jose.verify_token``.

    Raises:
        EvidenceError: ``token-malformed`` or ``cbor-invalid``.
        EndorsementError: ``token-key-unknown``.
        SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
    """
    parts = _parts(data)
    algorithm = _ALGORITHMS.get(parts.algorithm)
    if algorithm is None or algorithm not in algorithms:
        got = f"COSE algorithm {parts.algorithm}"
        raise algorithm_refused("the token", algorithms=algorithms, got=got, clause=_CLAUSE)
    key = next((key for key in keys if parts.kid in (key.kid.encode(), _thumbprint(key.kid))), None)
    if key is None:
        raise key_unknown("the token", got=base64url_text(parts.kid), clause=_CLAUSE)
    if not _holds(parts, key, algorithm):
        raise signature_invalid("the token", expected=f"{algorithm} by the key {key.kid}", clause=_CLAUSE)
    return SignedCwt(claims=parts.claims, algorithm=algorithm, kid=key.kid)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A COSE_Sign1 taken apart, nothing verified."""

    protected: bytes
    payload: bytes
    signature: bytes
    algorithm: int
    kid: bytes
    claims: CborClaims


def _parts(data: bytes) -> _Parts:
    if len(data) > MAX_TOKEN_BYTES:
        raise _malformed(f"{len(data)} bytes, more than {MAX_TOKEN_BYTES}")
    message = data.removeprefix(_TAG_CWT)
    if message[:1] != _TAG_SIGN1:
        raise _malformed("expected COSE_Sign1 (tag 18), perhaps inside a CWT (tag 61)")
    match claims_value(message[1:], what="COSE_Sign1"):
        case [bytes(protected), dict(unprotected), bytes(payload), bytes(signature)]:
            algorithm, kid = _header(protected, unprotected)
        case _:
            raise _malformed("expected [protected, unprotected, payload, signature]")
    claims = claims_value(payload, what="the claims")
    if not isinstance(claims, Mapping):
        raise _malformed("the payload is not a map of claims")
    return _Parts(
        protected=protected, payload=payload, signature=signature, algorithm=algorithm, kid=kid, claims=claims
    )


def _header(protected: bytes, unprotected: CborClaims) -> tuple[int, bytes]:
    header = claims_value(protected, what="the protected header")
    if not isinstance(header, Mapping):
        raise _malformed("the protected header is not a map")
    _require_labels(header, _PROTECTED_LABELS, "protected")
    _require_labels(unprotected, _UNPROTECTED_LABELS, "unprotected")
    if _KID in header and _KID in unprotected:
        raise _malformed("kid is in both headers")
    algorithm, kid = header.get(_ALG), header.get(_KID, unprotected.get(_KID))
    if isinstance(algorithm, bool) or not isinstance(algorithm, int):
        raise _malformed("the protected header names no algorithm")
    if not isinstance(kid, bytes):
        raise _malformed("no kid names the key")
    kind = header.get(_TYPE, CWT_TYPE)
    if not isinstance(kind, str) or kind.split(";", 1)[0].strip().lower() not in _CWT_TYPES:
        raise _malformed("typ: another kind of token")
    return algorithm, kid


def _require_labels(header: CborClaims, allowed: frozenset[int], name: str) -> None:
    if unknown := [label for label in header if label not in allowed]:
        raise _malformed(f"the {name} header has {str(unknown[0])[:40]}, which is not understood or not trusted")


def _thumbprint(kid: str) -> bytes | None:
    """Return the bytes of a thumbprint: a CWT has these where a JWT has the text."""
    try:
        return base64url_bytes(kid, what="kid")
    except EvidenceError:
        return None


def _holds(parts: _Parts, key: TokenKey, algorithm: str) -> bool:
    try:
        public = public_key_of(key.jwk)
    except ValueError:
        return False  # a kind of key that signs no CWT here
    message = _sig_structure(parts.protected, parts.payload)
    return signature_holds(public, algorithm=algorithm, message=message, signature=parts.signature)


def _sig_structure(protected: bytes, payload: bytes) -> bytes:
    return cbor_bytes(("Signature1", protected, b"", payload))
