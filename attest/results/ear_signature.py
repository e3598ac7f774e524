"""Signatures of EARs: the issuer and key that a token names, and the verification under the keys that are trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from attest.encoding import JsonValue, base64url_bytes
from attest.errors import EndorsementError, SignatureError
from attest.results.cwt import is_cwt, peek_cwt, verify_cwt
from attest.results.ear import Ear
from attest.results.ear_codec import ear_from_cbor, ear_from_json
from attest.results.jose import MAX_TOKEN_BYTES, TokenKey, unverified_claims, verify_token
from attest.results.raw_signatures import SIGNING_ALGORITHMS
from attest.results.token_refusal import issuer_untrusted, token_malformed

EAR_ALGORITHMS: Final = frozenset(SIGNING_ALGORITHMS)
_JWT_TYPES: Final = frozenset({None, "eat+jwt", "application/eat+jwt", "eat-jwt", "application/eat-jwt", "jwt"})
"""Accepted values of ``typ``, in lower case; None for a header without it."""
_TRUSTEE = "tag:github.com,2024:confidential-containers/Trustee"
_CLAUSE = "draft-ietf-rats-ear-03; RFC 8725"
_malformed = partial(token_malformed, clause=_CLAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedEar:
    """A token with a valid signature, and the reader of its claims, which has not run yet."""

    issuer: str
    kid: str
    algorithm: str
    form: Literal["jwt", "cwt"]
    read: Callable[[], Ear]


def verify_ear_signature(
    token: bytes | str, trusted: Mapping[str, tuple[TokenKey, ...]], algorithms: Mapping[str, frozenset[str]]
) -> SignedEar:
    """Verify an EAR under the keys of the issuer that it names, or of the one issuer whose key signed it.

    Raises:
        EvidenceError: ``token-malformed``, ``json-invalid``, ``base64-invalid`` or ``cbor-invalid``.
        EndorsementError: ``token-issuer-untrusted`` or ``token-key-unknown``.
        SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
    """
    token = _by_form(token)
    stated = peek_cwt(token).get(1) if isinstance(token, bytes) else unverified_jwt_claims(token).get("iss")
    if stated is not None and not isinstance(stated, str):
        raise _malformed("iss: expected text")
    failures: list[EndorsementError | SignatureError] = []
    found: list[SignedEar] = []
    for issuer in (name for name in trusted if trusted[name]) if stated is None else (stated,):
        keys, names = trusted.get(issuer, ()), algorithms.get(issuer, EAR_ALGORITHMS)
        if not keys:
            raise issuer_untrusted(issuer, trusted, clause=_CLAUSE)
        try:
            found.append(_verified(token, issuer, keys, names))
        except (EndorsementError, SignatureError) as exc:
            failures.append(exc)
    if len(found) == 1:
        return found[0]
    if failures and not found:
        raise min(failures, key=lambda failure: failure.exit_code)
    raise issuer_untrusted("none", trusted, clause=_CLAUSE, problem=", or one key for two issuers")


def _by_form(token: bytes | str) -> bytes | str:
    """Return a CWT as bytes, and a JWT as text."""
    if len(token) > MAX_TOKEN_BYTES:
        raise _malformed(f"{len(token)} bytes, more than {MAX_TOKEN_BYTES}")
    if isinstance(token, str) or is_cwt(token):
        return token
    try:
        return token.decode("ascii").strip()
    except UnicodeDecodeError as exc:
        raise _malformed("neither a JWT nor a CWT") from exc


def _verified(token: bytes | str, issuer: str, keys: tuple[TokenKey, ...], names: frozenset[str]) -> SignedEar:
    """Verify under the keys of one issuer.

    Raises:
        SignatureError: as ``verify_token`` and ``verify_cwt``; also for a key that its set keeps for another use.
    """
    found = _cwt(token, issuer, keys, names) if isinstance(token, bytes) else _jwt(token, issuer, keys, names)
    _require_use(next(key for key in keys if key.kid == found.kid), found.algorithm)
    return found


def _cwt(token: bytes, issuer: str, keys: tuple[TokenKey, ...], names: frozenset[str]) -> SignedEar:
    signed = verify_cwt(token, keys=keys, algorithms=names)
    read = partial(ear_from_cbor, signed.claims)
    return SignedEar(issuer=issuer, kid=signed.kid, algorithm=signed.algorithm, form="cwt", read=read)


def _jwt(token: str, issuer: str, keys: tuple[TokenKey, ...], names: frozenset[str]) -> SignedEar:
    # Trustee puts its own key into the header; it is ignored, and only a key that the caller trusts is used.
    sends_key = unverified_jwt_claims(token).get("eat_profile") == _TRUSTEE
    ignored = frozenset({"jwk", "x5c"}) if sends_key else frozenset()
    signed = verify_token(token, keys=keys, algorithms=names, what="the token", ignored_header=ignored)
    if (None if signed.typ is None else signed.typ.lower()) not in _JWT_TYPES:
        raise _malformed("typ: another kind of token")
    base64url_bytes(token.rpartition(".")[2], what="the signature")  # one spelling, so that one token is one text
    read = partial(ear_from_json, signed.claims)
    return SignedEar(issuer=issuer, kid=signed.kid, algorithm=signed.algorithm, form="jwt", read=read)


def _require_use(key: TokenKey, algorithm: str) -> None:
    """Require that the key set does not reserve the key for another use or algorithm."""
    named, use = key.jwk.get("alg", algorithm), key.jwk.get("use", "sig")
    same = {"EdDSA": "Ed25519"}
    if use != "sig" or same.get(str(named), named) != same.get(algorithm, algorithm):
        raise SignatureError(
            "the key is not for this algorithm, or not for signatures",
            code="token-algorithm-refused",
            field="alg",
            expected=f"use {use}, {named}",
            got=algorithm,
            clause="RFC 7517, section 4",
        )


def unverified_jwt_claims(token: str) -> dict[str, JsonValue]:
    """Return the claims of a JWT; as ``unverified_claims``."""
    return unverified_claims(token, what="the token", refusal=_malformed)
