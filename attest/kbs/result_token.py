"""The token of an attestation: in time, and where the caller trusts keys, signed by one and about this guest's key.

Spec: specs/kbs-protocol.md, sections 5.4 and 11.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypeGuard

from attest.encoding import JsonValue
from attest.errors import BindingError, EvidenceError, VerificationError
from attest.results import TokenKey, verify_token
from attest.results.jose import unverified_claims

_WHAT: Final = "the service's token"
_ALGORITHMS: Final = frozenset({"ES256", "ES384", "PS256", "PS384", "RS256", "RS384"})
_SKEW: Final = timedelta(seconds=60)
_RUNTIME: Final = ("submods", "cpu0", "ear.veraison.annotated-evidence", "runtime_data_claims")


def require_token(
    token: str, *, trusted: tuple[TokenKey, ...], jwk: Mapping[str, str], nonce: str, at: datetime
) -> None:
    """Require a token in time; with trusted keys also signed by one of them, for this guest's key and nonce.

    Raises:
        EvidenceError: ``token-malformed``, ``json-invalid`` or ``base64-invalid``.
        VerificationError: ``token-expired`` or ``token-not-yet-valid``.
        EndorsementError: ``token-key-unknown``.
        SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
        BindingError: ``kbs-token-mismatch``: it is about another guest.
        ConfigurationError: ``token-library-missing``.
    """
    if trusted:
        ignored = frozenset({"jwk"})
        signed = verify_token(token, keys=trusted, algorithms=_ALGORITHMS, what=_WHAT, ignored_header=ignored)
        claims = signed.claims
        _require_about(claims, jwk, nonce)
    else:
        claims = unverified_claims(token, what=_WHAT, refusal=_malformed)
    expires, begins = claims.get("exp"), claims.get("nbf", 0)
    if not _is_number(expires) or not _is_number(begins):
        raise _malformed("exp, and nbf where it is there, are numbers")
    seconds = at.timestamp()
    if seconds >= expires:
        raise _not_in_time("token-expired", "has expired", "exp")
    if begins > seconds + _SKEW.total_seconds():
        raise _not_in_time("token-not-yet-valid", "is not valid yet", "nbf")


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require_about(claims: Mapping[str, JsonValue], jwk: Mapping[str, str], nonce: str) -> None:
    found: JsonValue = dict(claims)
    for name in _RUNTIME:
        found = found.get(name) if isinstance(found, dict) else None
    members = found if isinstance(found, dict) else {}
    for name, expected in (("tee-pubkey", dict(jwk)), ("nonce", nonce)):
        if members.get(name) != expected:
            raise BindingError(
                f"{_WHAT} is not about this guest: {name}",
                code="kbs-token-mismatch",
                field=name,
                expected=str(expected)[:200],
                got=str(members.get(name))[:200],
            )


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(f"{_WHAT}: {problem}", code="token-malformed")


def _not_in_time(code: str, problem: str, field: str) -> VerificationError:
    return VerificationError(f"{_WHAT} {problem}", code=code, field=field, hint="compare the clocks of both machines")
