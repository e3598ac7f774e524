"""The key that encrypts the released key: from the token's ``x-ms-runtime.keys``, which the hardware report covers.

Spec: specs/azure-skr.md, section 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from attest.encoding import JsonValue, base64url_bytes
from attest.errors import AttestError, VerificationError
from attest.results import rsa_jwk
from kms.domain.canonical_json import canonical_json

RUNTIME: Final = "x-ms-runtime"
_BITS: Final = range(2048, 4097)
_EXPONENTS: Final = range(65537, 1 << 32)
_MAX_KEYS: Final = 16
_MAX_KID: Final = 512
_CLAUSE: Final = "docs/skr.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKek:
    """The RSA key of a workload.

    Attributes:
        kid: as in the token.
    """

    kid: str
    public: rsa.RSAPublicKey

    def to_bytes(self) -> bytes:
        """Return modulus and exponent in canonical JSON, which identify the key."""
        return canonical_json(dict(rsa_jwk(self.public)))


def find_kek(claims: Mapping[str, JsonValue]) -> TokenKek:
    """Return the one key of a token that is marked for encryption.

    The keys of a virtual TPM, inside ``x-ms-isolation-tee``, do not count.

    Raises:
        VerificationError: ``skr-kek-missing``, ``skr-kek-ambiguous`` or ``skr-kek-invalid``.
    """
    runtime = claims.get(RUNTIME)
    keys = runtime.get("keys") if isinstance(runtime, dict) else None
    found = {one.to_bytes(): one for one in _marked(keys if isinstance(keys, list) else [])}
    if not found:
        raise _refused("the token has no RSA key for encryption", "skr-kek-missing", "one key with use enc")
    if len(found) > 1:
        problem = f"the token has {len(found)} different keys for encryption"
        raise _refused(problem, "skr-kek-ambiguous", "one key with use enc, or key_ops encrypt")
    return next(iter(found.values()))


def _marked(keys: list[JsonValue]) -> Iterator[TokenKek]:
    for key in keys[: _MAX_KEYS + 1]:
        if not isinstance(key, dict) or not _is_marked(key):
            continue
        if key.get("kty") != "RSA":
            raise _refused("a key for encryption is no RSA key", "skr-kek-invalid", "kty RSA")
        yield _read(key)
    if len(keys) > _MAX_KEYS:
        raise _refused("the token has too many keys", "skr-kek-invalid", f"at most {_MAX_KEYS}")


def _is_marked(key: Mapping[str, JsonValue]) -> bool:
    operations = key.get("key_ops")
    named = operations if isinstance(operations, list) else [operations]
    return "enc" in (key.get("use"), key.get("key_use")) or "encrypt" in named


def _read(key: Mapping[str, JsonValue]) -> TokenKek:
    kid = key.get("kid")
    if not isinstance(kid, str) or not 0 < len(kid) <= _MAX_KID:
        raise _refused("the key for encryption has no kid", "skr-kek-invalid", "a kid")
    try:
        n, e = (int.from_bytes(base64url_bytes(_text(key.get(name)), what=name), "big") for name in ("n", "e"))
        if n.bit_length() not in _BITS or e not in _EXPONENTS or not n % 2:
            problem = f"the key for encryption has {n.bit_length()} bits"
            raise _refused(problem, "skr-kek-invalid", "2048 to 4096 bits, and an odd exponent of at least 65537")
        return TokenKek(kid=kid, public=rsa.RSAPublicNumbers(e, n).public_key())
    except VerificationError:
        raise
    except (AttestError, ValueError) as exc:
        raise _refused("the key for encryption cannot be read", "skr-kek-invalid", "n and e in base64url") from exc


def _text(value: JsonValue) -> str:
    return value.rstrip("=") if isinstance(value, str) else "?"


def _refused(problem: str, code: str, expected: str) -> VerificationError:
    return VerificationError(problem, code=code, field=f"{RUNTIME}.keys", expected=expected, clause=_CLAUSE)
