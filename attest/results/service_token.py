"""Tokens of other Verifiers in the cloud, read as Attestation Results: of Azure, Intel and Google.

The Verifier verified the evidence and signed its findings. Reliance on such a token is reliance on that service and on
the keys that the operator named for it. This module proves that the token is genuine, whole, in time, for this Relying
Party and for this nonce; ``appraise_service_token`` judges its claims.

Spec: RFC 7519 and RFC 8725; specs/azure-skr.md, sections 7 and 12; specs/must-check.md, items 14 and 20.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cryptography.x509 import Certificate

from attest.checks import Check
from attest.encoding import JsonValue, base64url_bytes, base64url_text, rfc3339_text
from attest.results.ear import LATEST_SECONDS
from attest.results.jose import SignedToken, TokenKey, verify_token
from attest.results.token_facts import ClaimReader, TokenFacts, TokenFrame, claim_invalid
from attest.results.token_refusal import TokenChecks, issuer_untrusted, not_in_time
from attest.results.token_roots import certified_key
from attest.results.token_services import (
    TokenServiceProfile,
    claimed_service,
    is_service_itself,
    malformed,
    read_unverified,
)
from attest.verification import Freshness

SKEW = timedelta(seconds=60)
"""Tolerance for ``iat`` and ``nbf`` in the future; ``exp`` has none."""
MAX_AGE = timedelta(days=1)
"""The oldest ``iat``, for any ``exp``. Azure's tokens last eight hours, Google's one, Intel's five minutes."""
MAX_AUDIENCES = 16
_CLAUSE = "RFC 7519, section 4.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedServiceToken:
    """A token that is genuine, whole, in time, and for this audience and nonce. Built by ``verify_service_token`` only.

    Attributes:
        frame: its service, issuer, ``iat`` and ``exp``.
        facts: what it states about each TEE and device, in our vocabulary; at least one.
        audience: the Relying Parties that it is for; empty for any.
        key_id: the key that signed; of a key with a certificate, the SHA-256 of its SubjectPublicKeyInfo.
    """

    frame: TokenFrame
    claims: Mapping[str, JsonValue]
    facts: tuple[TokenFacts, ...]
    audience: tuple[str, ...]
    nonces: tuple[bytes, ...]
    key_id: str
    algorithm: str
    at: datetime
    freshness: Freshness
    checks: tuple[Check, ...]

    @property
    def simulated(self) -> bool | None:
        """True if the token states simulated evidence; None if an issuer of the operator's own states nothing.

        The services themselves accept vendors' roots alone, and have no claim about it.
        """
        stated = self.facts[0].simulated
        return False if stated is None and is_service_itself(self.frame.service, self.frame.issuer) else stated


def verify_service_token(
    data: bytes,
    *,
    trusted: Mapping[str, tuple[TokenKey, ...]],
    roots: Mapping[str, tuple[Certificate, ...]] | None = None,
    at: datetime,
    nonce: bytes | None = None,
    audience: str | None = None,
    audience_optional: bool = False,
) -> VerifiedServiceToken:
    """Check that a trusted Verifier issued this token, for this Relying Party and this nonce.

    Args:
        data: the JWT in compact form, ASCII; white space around it is ignored.
        trusted: for each issuer, as ``iss`` spells it, the keys that may sign for it.
        roots: for each issuer the roots whose certificates may sign for it, when the token carries its chain.
        at: moment of appraisal, aware; ``iat`` and ``nbf`` at most ``SKEW`` later, ``at < exp``.
        nonce: what the token must answer; None leaves freshness not evaluated. It may be there as it is, in
            lower-case hex, or in base64, with padding or that of URLs without.
        audience: the name of the Relying Party. A token for another audience is refused, and so is a token without
            audience if this name is given.
        audience_optional: True accepts a token without audience all the same: Azure's and Intel's have none.

    Raises:
        EvidenceError: ``token-malformed``, ``token-claim-invalid``, ``json-invalid`` or ``base64-invalid``.
        UnsupportedError: ``token-kind-unsupported``, a TEE that is not read here.
        SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
        ChainError: ``token-chain-invalid``, or a code of X.509 chains.
        BindingError: ``token-audience-mismatch``, ``nonce-mismatch``, ``token-nonce-mismatch``.
        VerificationError: ``token-expired``, ``token-not-yet-valid`` or ``token-too-old``.
        EndorsementError: ``token-issuer-untrusted`` or ``token-key-unknown``.
    """
    checks = TokenChecks(clause=_CLAUSE)
    with checks.reported(_CHECK_OF, otherwise="token.claims", expected="a token of a known Verifier"):
        procedure = _Procedure(at=at, nonce=nonce, audience=audience, optional=audience_optional, checks=checks)
        return procedure.verify(data, trusted, roots or {})


_CHECK_OF = {
    "token-malformed": "token.format",
    "json-invalid": "token.format",
    "base64-invalid": "token.format",
    "token-nonce-mismatch": "freshness",
}


@dataclass(slots=True, kw_only=True)
class _Procedure:
    """The procedure: its steps, and the checks made so far."""

    at: datetime
    nonce: bytes | None
    audience: str | None
    optional: bool
    checks: TokenChecks

    def verify(
        self, data: bytes, trusted: Mapping[str, tuple[TokenKey, ...]], roots: Mapping[str, tuple[Certificate, ...]]
    ) -> VerifiedServiceToken:
        """Run the steps; the first refusal ends them."""
        # (1) Shape, and the claimed issuer, which only selects among the keys that the caller trusts.
        text, unverified = read_unverified(data)
        name, service, issuer = claimed_service(unverified)
        # (2) A key that is trusted for exactly this issuer, an algorithm of this service, and the signature.
        keys, certified = self._keys(text, issuer, trusted, roots)
        signed = _signed(text, service, keys, certified=certified)
        self.checks.passed("token.signature", f"a key of {issuer}", f"{signed.algorithm} by {signed.kid}")
        # (3) Time.
        token = ClaimReader(members=signed.claims)
        issued, expires = self._require_in_time(token)
        self.checks.passed(
            "token.time", f"{rfc3339_text(issued)} <= at < {rfc3339_text(expires)}", rfc3339_text(self.at)
        )
        # (4) Every claim that is read has its type; its subject is of a known kind.
        frame = TokenFrame(service=name, issuer=issuer, issued=issued, expires=expires)
        simulated = token.boolean("simulated")
        facts = tuple(replace(one, simulated=simulated) for one in service.facts(token, frame))
        self.checks.passed("token.claims", service.title, ", ".join(f"{one.name}: {one.kind}" for one in facts))
        # (5) It is for this Relying Party, and (6) repeats its nonce.
        stated = self._require_audience(token)
        nonces = service.nonces(token)
        freshness = self.checks.require_nonce(
            self.nonce,
            answers=lambda expected: repeats(nonces, expected),
            got=", ".join(nonce.hex() for nonce in nonces)[:200] or "none",
            field="nonce",
        )
        return VerifiedServiceToken(
            frame=frame,
            claims=signed.claims,
            facts=facts,
            audience=stated,
            nonces=nonces,
            key_id=signed.kid,
            algorithm=signed.algorithm,
            at=self.at,
            freshness=freshness,
            checks=tuple(self.checks.made),
        )

    def _keys(
        self,
        text: str,
        issuer: str,
        trusted: Mapping[str, tuple[TokenKey, ...]],
        roots: Mapping[str, tuple[Certificate, ...]],
    ) -> tuple[tuple[TokenKey, ...], bool]:
        """Return the keys that may have signed, and True if the one key is certified by a chain in the header."""
        if not trusted.get(issuer) and not roots.get(issuer):
            raise issuer_untrusted(issuer, {**trusted, **roots}, clause=_CLAUSE)
        if roots.get(issuer):
            # A chain in the header counts only for an issuer whose root the caller named, and only up to that root.
            key = certified_key(text, roots[issuer], at=self.at)
            if key is not None:
                return (key,), True
        return trusted.get(issuer, ()), False

    def _require_in_time(self, token: ClaimReader) -> tuple[datetime, datetime]:
        """Require ``iat`` and ``nbf`` in the past and ``exp`` in the future; return ``iat`` and ``exp``."""
        times = {name: _moment(token, name) for name in ("iat", "nbf", "exp")}
        issued, expires, at = times["iat"], times["exp"], self.at
        begins = max(issued, times["nbf"])
        if begins - at > SKEW:
            expected = f"{rfc3339_text(begins)} or later"
            raise not_in_time(
                "token-not-yet-valid", problem="not valid yet", at=at, expected=expected, clause=_CLAUSE, field="iat"
            )
        if at >= expires:
            expected = f"before {rfc3339_text(expires)}"
            raise not_in_time("token-expired", problem="expired", at=at, expected=expected, clause=_CLAUSE, field="exp")
        if at - issued > MAX_AGE:
            expected = f"a day after {rfc3339_text(issued)}"
            raise not_in_time("token-too-old", problem="too old", at=at, expected=expected, clause=_CLAUSE, field="iat")
        return issued, expires

    def _require_audience(self, token: ClaimReader) -> tuple[str, ...]:
        value = token.members.get("aud")
        one = token.text("aud") if isinstance(value, str) else None
        stated = (one,) if one is not None else token.texts("aud") or ()
        # An empty list names no Relying Party; only a token without the claim is for any.
        if len(stated) > MAX_AUDIENCES or ("aud" in token and not stated):
            raise claim_invalid("aud", f"1 to {MAX_AUDIENCES} audiences", value)
        hint = "name the Relying Party: --audience NAME" if stated else "leave --audience out: it has none"
        got = ", ".join(stated)[:200]
        wanted = None if self.optional and not stated else self.audience
        self.checks.require_audience(wanted, stated, got=got, clause="RFC 7519, section 4.1.3", hint=hint)
        return stated


def repeats(stated: tuple[bytes, ...], nonce: bytes) -> bool:
    """Return True if one of the stated nonces is this one, as it is or spelled as text."""
    matches = [hmac.compare_digest(one, repeated) for one in _spellings(nonce) for repeated in stated]
    return any(matches)


def _spellings(nonce: bytes) -> tuple[bytes, ...]:
    """Return the bytes, and their possible spellings for a service that takes only text."""
    padded = base64url_text(nonce) + "=" * (-len(base64url_text(nonce)) % 4)
    standard = padded.translate(str.maketrans("-_", "+/"))
    texts = (nonce.hex(), base64url_text(nonce), padded, standard)
    return (nonce, *(text.encode() for text in texts))


# -- the token


def _signed(text: str, service: TokenServiceProfile, keys: tuple[TokenKey, ...], *, certified: bool) -> SignedToken:
    """Verify the signature.

    Raises:
        EvidenceError: ``token-malformed``; also another ``typ``, or a second spelling of the signature.
        EndorsementError: as ``verify_token``.
        SignatureError: as above.
    """
    signed = verify_token(
        text,
        keys=keys,
        algorithms=service.algorithms,
        what="the token",
        ignored_header=service.ignored | frozenset({"x5c"} if certified else ()),
        by_kid=not certified,
    )
    if (signed.typ or "JWT").upper() != "JWT":
        raise malformed("typ: another kind of token")
    base64url_bytes(text.rpartition(".")[2], what="the signature")  # one spelling, so that one token is one text
    return signed


def _moment(token: ClaimReader, name: str) -> datetime:
    seconds = token.required(name, token.integer(name, most=LATEST_SECONDS))
    return datetime.fromtimestamp(seconds, tz=UTC)
