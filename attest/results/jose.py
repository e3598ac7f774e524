"""Signed tokens (JWS, RFC 7515) of other parties, and the key sets (JWK, RFC 7517) that may sign them.

A token is verified with keys that the caller trusts for its issuer, under algorithms that the caller names. Nothing
in a header chooses either: ``alg`` must be one of the caller's, ``kid`` only finds the key, and a header that brings
a key or an address along is refused. The signature itself is checked by ``joserfc``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from attest.encoding import JsonValue, base64_bytes, base64url_bytes, base64url_text, json_value
from attest.errors import ConfigurationError, EvidenceError
from attest.results.raw_signatures import jwk_thumbprint, public_jwk, public_key_of, signature_holds
from attest.results.token_refusal import algorithm_refused, key_unknown, signature_invalid

MAX_TOKEN_BYTES = 1024 * 1024
"""A token that carries the raw evidence of eight GPUs has some 200 KiB."""
MAX_JWKS_BYTES = 256 * 1024
MAX_KEYS = 64
MAX_CERTIFICATES = 8
MAX_TEXT_CHARACTERS = 512
RSA_BITS = range(2048, 8193)
"""Lengths of a modulus: shorter ones are broken too easily, longer ones cost a second each."""

_KEY_TYPES = frozenset({"EC", "OKP", "RSA"})
_PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_HEADER_MEMBERS = frozenset({"alg", "typ", "kid", "cty"})
"""``crit`` is not among them: nothing critical is understood here. Nor are ``jwk``, ``jku``, ``x5u`` and ``x5c``."""
_CLAUSE = "RFC 7515, section 4.1"
CERTIFICATE_ERRORS = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""All errors of the library for unreadable certificates; it has no common class for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKey:
    """A public key of a key set.

    Attributes:
        kid: its name in tokens.
        jwk: the key; public members only.
        certificates: its ``x5c`` in DER, leaf first; empty when it has none.
    """

    kid: str
    jwk: Mapping[str, JsonValue] = field(repr=False)
    certificates: tuple[bytes, ...] = ()

    def is_certified_by(self, spki_sha256: bytes, *, at: datetime) -> bool:
        """Return True if a pinned certificate of the chain issued this key's certificate for this moment.

        ``spki_sha256`` is the SHA-256 of the SubjectPublicKeyInfo of the second certificate. ``at`` is aware; bounds
        are inclusive.
        """
        if len(self.certificates) < 2:
            return False
        try:
            leaf, issuer = (x509.load_der_x509_certificate(der) for der in self.certificates[:2])
            leaf.verify_directly_issued_by(issuer)
            key = leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            pin = issuer.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        except (*CERTIFICATE_ERRORS, InvalidSignature):
            return False
        in_time = all(c.not_valid_before_utc <= at <= c.not_valid_after_utc for c in (leaf, issuer))
        return in_time and sha256(pin).digest() == spki_sha256 and key == _spki_of(self.jwk)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedToken:
    """A token whose signature verifies. Its claims are statements of its issuer, and may have expired.

    Attributes:
        typ: of the header, if it has one.
    """

    claims: Mapping[str, JsonValue]
    algorithm: str
    kid: str
    typ: str | None = None


# -- key sets


def is_jwks(data: bytes) -> bool:
    """Return True if this looks like a key set: a JSON object that has ``keys``."""
    return data.lstrip()[:1] == b"{" and len(data) <= MAX_JWKS_BYTES and b'"keys"' in data


def read_jwks(data: bytes) -> tuple[TokenKey, ...]:
    """Read a key set.

    Raises:
        ConfigurationError: ``jwks-invalid``: not a key set, an empty one, one with two keys of one name, with a key
            that cannot be read, or with a private or symmetric key, which must not be published.
    """
    if len(data) > MAX_JWKS_BYTES:
        raise _bad_jwks(f"{len(data)} bytes, more than {MAX_JWKS_BYTES}")
    try:
        document = json_value(data, what="key set")
    except EvidenceError as exc:
        raise _bad_jwks(exc.message) from exc
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not 0 < len(keys) <= MAX_KEYS:
        raise _bad_jwks(f"expected an object with 1 to {MAX_KEYS} keys")
    read = tuple(_key(entry, f"keys[{index}]") for index, entry in enumerate(keys))
    if len({key.kid for key in read}) != len(read):
        raise _bad_jwks("two keys have one kid")
    return read


def read_public_keys(data: bytes) -> tuple[TokenKey, ...]:
    """Read public keys: a key set, or one key in PEM (SubjectPublicKeyInfo).

    Raises:
        ConfigurationError: as ``read_jwks``.
    """
    if not data.lstrip().startswith(b"-----BEGIN"):
        return read_jwks(data)
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _bad_jwks("the PEM holds no public key that can be read") from exc
    if isinstance(key, rsa.RSAPublicKey):
        jwk: Mapping[str, JsonValue] = rsa_jwk(key)
    elif isinstance(key, ec.EllipticCurvePublicKey | Ed25519PublicKey):
        jwk = public_jwk(key)
    else:
        raise _bad_jwks("the PEM holds another kind of key than RSA, EC or Ed25519")
    return read_jwks(json.dumps({"keys": [{**jwk, "kid": jwk_thumbprint(jwk)}]}).encode())


def _key(entry: JsonValue, path: str) -> TokenKey:
    if not isinstance(entry, dict):
        raise _bad_jwks(f"{path}: expected an object")
    kid, kind = entry.get("kid"), entry.get("kty")
    if not isinstance(kid, str) or not 0 < len(kid) <= MAX_TEXT_CHARACTERS:
        raise _bad_jwks(f"{path}.kid: expected 1 to {MAX_TEXT_CHARACTERS} characters")
    if private := _PRIVATE_MEMBERS & set(entry):
        raise _bad_jwks(f"{path}: has {min(private)!r}, which belongs to a private or symmetric key")
    if not isinstance(kind, str) or kind not in _KEY_TYPES:
        raise _bad_jwks(f"{path}.kty: expected one of {', '.join(sorted(_KEY_TYPES))}")
    chain = entry.get("x5c", [])
    if not isinstance(chain, list) or len(chain) > MAX_CERTIFICATES:
        raise _bad_jwks(f"{path}.x5c: expected at most {MAX_CERTIFICATES} certificates")
    try:
        certificates = tuple(base64_bytes(cast("str", der), what=f"{path}.x5c") for der in chain)
        jwk = _agreeing(entry, certificates)
        if jwk.get("kty") == "RSA":
            _require_rsa(jwk)
        _spki_of(jwk)
    except (AttributeError, EvidenceError, *CERTIFICATE_ERRORS) as exc:
        raise _bad_jwks(f"{path}: cannot be read: {exc}") from exc
    return TokenKey(kid=kid, jwk=jwk, certificates=certificates)


def _agreeing(entry: Mapping[str, JsonValue], certificates: tuple[bytes, ...]) -> Mapping[str, JsonValue]:
    """Return the key, which has to be that of its certificate (RFC 7517, section 4.7).

    Azure publishes certificates alone; the key is then that of the first.

    Raises:
        ValueError: they are two keys, or the certificate cannot be read.
    """
    if not certificates:
        return entry
    public = x509.load_der_x509_certificate(certificates[0]).public_key()
    if entry.get("kty") == "RSA" and not {"n", "e"} & set(entry) and isinstance(public, rsa.RSAPublicKey):
        return {**entry, **rsa_jwk(public)}
    if public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != _spki_of(entry):
        raise ValueError("the key is not the one in its certificate")
    return entry


def _require_rsa(jwk: Mapping[str, JsonValue]) -> None:
    """Require a modulus of an accepted length, before any library looks at it.

    Raises:
        ValueError: another length, or no modulus.
    """
    modulus = jwk.get("n")
    bits = int.from_bytes(base64url_bytes(modulus, what="n"), "big").bit_length() if isinstance(modulus, str) else 0
    if bits not in RSA_BITS:
        raise ValueError(f"a modulus of {bits} bits, expected {RSA_BITS.start} to {RSA_BITS.stop - 1}")


def rsa_jwk(public: rsa.RSAPublicKey) -> dict[str, str]:
    """Return the required public members of an RSA key (RFC 7518, section 6.3.1)."""
    numbers = public.public_numbers()
    n, e = (base64url_text(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e))
    return {"kty": "RSA", "n": n, "e": e}


def _spki_of(jwk: Mapping[str, JsonValue]) -> bytes:
    """Return the key as SubjectPublicKeyInfo.

    Raises:
        ValueError: it is not a readable key.
        ConfigurationError: ``token-library-missing``.
    """
    jose = _library()
    public = {name: value for name, value in jwk.items() if name in {"kty", "crv", "x", "y", "n", "e"}}
    try:
        der: bytes = jose.jwk.import_key(public).as_der(private=False)
    except (jose.errors.JoseError, KeyError) as exc:
        raise ValueError(str(exc)) from exc
    return der


class _Library(NamedTuple):
    errors: Any  # Any, thrice: its keys are its own TypedDict
    jwk: Any
    jws: Any


def _library() -> _Library:
    """Import the library that checks signatures; nothing else here needs it."""
    try:
        from joserfc import errors, jwk, jws  # noqa: PLC0415  of the extra 'tokens'
    except ImportError as exc:
        raise ConfigurationError(
            "the signature of a token cannot be checked: joserfc is not installed",
            code="token-library-missing",
            expected="the extra 'tokens'",
            hint="pip install 'attest-kms[tokens]'",
        ) from exc
    return _Library(errors=errors, jwk=jwk, jws=jws)


def _bad_jwks(problem: str) -> ConfigurationError:
    return ConfigurationError(f"key set: {problem}", code="jwks-invalid", clause="RFC 7517, section 5")


# -- tokens


def unverified_claims(token: str, *, what: str, refusal: Callable[[str], EvidenceError]) -> dict[str, JsonValue]:
    """Return the claims of a token, unverified: they only select the keys to verify it with.

    ``refusal`` makes the error of a token that has no claims.

    Raises:
        EvidenceError: ``json-invalid``, ``base64-invalid``, or as ``refusal``.
    """
    words = token.split(".")
    if len(words) != 3:
        raise refusal("expected three parts with dots between them")
    claims = json_value(base64url_bytes(words[1], what=what), what=what)
    if not isinstance(claims, dict):
        raise refusal("the payload is not an object")
    return claims


def verify_token(
    token: str,
    *,
    keys: Iterable[TokenKey],
    algorithms: frozenset[str],
    what: str,
    ignored_header: frozenset[str] = frozenset(),
    by_kid: bool = True,
) -> SignedToken:
    """Check that one of these keys signed a token.

    Args:
        token: compact serialisation.
        keys: those that the caller trusts for the token's issuer.
        algorithms: JWS names that the caller accepts of this issuer (``ES384``); asymmetric ones only.
        what: name of the token in messages.
        ignored_header: header members that this issuer is known to send and that are ignored. With ``jwk`` among
            them, a token without ``kid`` is looked up by that key's thumbprint; only a trusted key is ever used.
        by_kid: use the key that the header names. False takes the only one of ``keys``, which the caller found in
            another way.

    Raises:
        EvidenceError: ``token-malformed``.
        EndorsementError: ``token-key-unknown``: no trusted key has the token's ``kid``.
        SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
        ConfigurationError: ``token-library-missing``.
    """
    header, claims = _parts(token, what, ignored_header)
    algorithm, kid, typ = header.get("alg"), header.get("kid"), header.get("typ")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise algorithm_refused(what, algorithms=algorithms, got=str(algorithm), clause=_CLAUSE)
    key = _find(keys, header) if by_kid else next(iter(keys))
    if key is None:
        raise key_unknown(what, got=str(kid), clause=_CLAUSE)
    _require_signature(token, key, algorithm, what=what)
    return SignedToken(claims=claims, algorithm=algorithm, kid=key.kid, typ=typ if isinstance(typ, str) else None)


def _require_signature(token: str, key: TokenKey, algorithm: str, *, what: str) -> None:
    jose = _library()
    try:
        if algorithm in ("EdDSA", "Ed25519"):  # two names of one algorithm; joserfc warns of the older one
            _require_eddsa(token, key)
        else:
            registry = jose.jws.JWSRegistry(algorithms=[algorithm])
            # Its own limits are below what real tokens have: a chain in the header, an event log in the claims.
            registry.max_header_length = registry.max_payload_length = MAX_TOKEN_BYTES
            jose.jws.deserialize_compact(token, jose.jwk.import_key(dict(key.jwk)), registry=registry)
    except (jose.errors.JoseError, EvidenceError, ValueError, TypeError) as exc:
        expected = f"{algorithm} by the key {key.kid}"
        raise signature_invalid(what, expected=expected, clause="RFC 7515, section 5.2") from exc


def _find(keys: Iterable[TokenKey], header: Mapping[str, JsonValue]) -> TokenKey | None:
    """Return the trusted key that the header names: by ``kid``, or without one by the thumbprint of ``jwk``."""
    kid, jwk = header.get("kid"), header.get("jwk")
    if kid is not None or not isinstance(jwk, dict):
        return next((key for key in keys if key.kid == kid), None)
    try:
        thumbprint = jwk_thumbprint(jwk)
    except ValueError:
        return None
    return next((key for key in keys if jwk_thumbprint(key.jwk) == thumbprint), None)


def _require_eddsa(token: str, key: TokenKey) -> None:
    """Require an Ed25519 signature.

    Raises:
        ValueError: it does not verify, or the key is of another kind.
    """
    message, _, signature = token.rpartition(".")
    public, raw = public_key_of(key.jwk), base64url_bytes(signature, what="signature")
    if not signature_holds(public, algorithm="EdDSA", message=message.encode(), signature=raw):
        raise ValueError("the signature does not verify")


def _parts(token: str, what: str, ignored: frozenset[str]) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Read header and payload strictly: no duplicate members, nothing in the header that is not understood."""
    if len(token) > MAX_TOKEN_BYTES:
        raise _malformed(what, f"{len(token)} characters, more than {MAX_TOKEN_BYTES}")
    words = token.split(".")
    if len(words) != 3 or not all(words[:2]):
        raise _malformed(what, "expected three parts with dots between them")
    header, claims = (json_value(base64url_bytes(word, what=what), what=what) for word in words[:2])
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise _malformed(what, "header and payload are objects")
    if unknown := set(header) - _HEADER_MEMBERS - ignored:
        raise _malformed(what, f"the header has {min(unknown)[:40]!r}, which is not understood or not trusted")
    return header, claims


def _malformed(what: str, problem: str) -> EvidenceError:
    return EvidenceError(f"{what}: {problem}", code="token-malformed", clause=_CLAUSE)
