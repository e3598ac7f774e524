"""Is this EAR what a trusted Verifier says, here and now, about what I asked? The steps of eat-ear.md, section 9.

Somebody else's status is never taken on its word: it is computed again from the vectors, and a token that claims
better is refused. What the Relying Party demands of a genuine token besides (submodules, policies, a key) is part of
the same procedure; an appraisal policy over the claims comes after.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from attest.checks import Check, Outcome, Tier
from attest.encoding import base64url_bytes, json_value, rfc3339_text
from attest.errors import AttestError, BindingError, EndorsementError, EvidenceError, SignatureError, VerificationError
from attest.results.cwt import is_cwt, peek_cwt, verify_cwt
from attest.results.ear import NONCE_BYTES, Ear, worst
from attest.results.ear_codec import ear_from_cbor, ear_from_json
from attest.results.jose import MAX_TOKEN_BYTES, TokenKey, verify_token
from attest.results.jwt import JWT_TYPES
from attest.results.raw_signatures import SIGNING_ALGORITHMS
from attest.results.token_refusal import tell_failed
from attest.verification import Freshness

__all__ = ["DEFAULT_MAX_AGE", "EAR_ALGORITHMS", "SKEW", "ExpectedEar", "VerifiedEar", "is_ear", "verify_ear"]

EAR_ALGORITHMS: Final = frozenset(SIGNING_ALGORITHMS)
SKEW: Final = timedelta(seconds=60)
"""How far an issuer's clock may be ahead."""
DEFAULT_MAX_AGE: Final = timedelta(days=1)
_TRUSTEE = "tag:github.com,2024:confidential-containers/Trustee"
_CLAUSE = "eat-ear.md 9"
_FRESHNESS = "RFC 9334, section 10; must-check.md 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEar:
    """What a Relying Party demands of a token; None, or nothing named, leaves a demand out.

    Attributes:
        nonce: the one that was handed out, 8 to 64 bytes; single use is the caller's to keep.
        audience: who the Relying Party is. A token with an audience is refused to everybody who is not in it.
        max_age: the oldest ``iat`` that counts, even if ``exp`` is later; None demands ``exp`` instead.
        submods: exactly the submodules that must be there.
        policy_digests: SHA-256 of policies, each of which must have judged.
        bound_key: SHA-256 of the workload's public key, as a binding holds it.

    Raises:
        ValueError: a nonce of another length.
    """

    nonce: bytes | None = None
    audience: str | None = None
    max_age: timedelta | None = DEFAULT_MAX_AGE
    submods: frozenset[str] | None = None
    policy_digests: tuple[bytes, ...] = ()
    bound_key: bytes | None = None

    def __post_init__(self) -> None:
        """Refuse a nonce that no token can carry."""
        if self.nonce is not None and len(self.nonce) not in NONCE_BYTES:
            raise ValueError(f"a nonce of an EAR has {NONCE_BYTES.start} to {NONCE_BYTES.stop - 1} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEar:
    """An EAR that a trusted Verifier signed, in time and consistent. Built by ``verify_ear`` only.

    Attributes:
        ear: what it says.
        issuer: the name under which the key that signed is trusted.
        key_id: that key.
        algorithm: JWS name of what it signed with.
        form: JWT or CWT.
        at: the moment for which all this holds.
        freshness: whether the nonce is the expected one.
        checks: every check of the procedure.
    """

    ear: Ear
    issuer: str
    key_id: str
    algorithm: str
    form: Literal["jwt", "cwt"]
    at: datetime
    freshness: Freshness
    checks: tuple[Check, ...]

    @property
    def status(self) -> Tier:
        """The worst of all that is stated and of all that the vectors support; the one to decide on."""
        stated = () if self.ear.status is None else (self.ear.status,)
        return worst((self.ear.founded, *stated))

    @property
    def simulated(self) -> bool | None:
        """Whether the evidence was a simulator's; None when the issuer does not say, as no other Verifier does."""
        return None if self.ear.details is None else self.ear.details.simulated


def is_ear(data: bytes) -> bool:
    """Say whether this looks like an EAR: a CWT, or a JWT whose claims name an EAR's members. Nothing is verified."""
    if is_cwt(data):
        return True
    try:
        claims = _jwt_claims(data.decode("ascii").strip())
    except (UnicodeDecodeError, EvidenceError):
        return False
    return "eat_profile" in claims and "submods" in claims


def verify_ear(
    token: bytes | str,
    *,
    trusted: Mapping[str, tuple[TokenKey, ...]],
    at: datetime,
    expected: ExpectedEar | None = None,
    algorithms: Mapping[str, frozenset[str]] | None = None,
) -> VerifiedEar:
    """Check that a trusted Verifier issued this EAR, and that it is in time, consistent and what was asked for.

    Args:
        token: a JWT in compact form, or a CWT with its tag.
        trusted: for each issuer the keys that may sign for it. A token without ``iss`` belongs to the one issuer
            whose key signed it.
        at: moment of appraisal, aware; ``iat`` and ``nbf`` at most a minute later, ``at < exp``.
        expected: what the Relying Party demands.
        algorithms: for issuers that sign otherwise, the JWS names that are accepted of them; ``EAR_ALGORITHMS`` of
            all others.

    Raises:
        EvidenceError: ``token-malformed``, ``ear-malformed``, ``json-invalid``, ``base64-invalid``, ``cbor-invalid``.
        UnsupportedError: ``ear-profile-unknown``.
        SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
        EndorsementError: ``token-issuer-untrusted`` or ``token-key-unknown``.
        VerificationError: ``token-expired``, ``token-not-yet-valid``, ``token-too-old``, ``ear-status-unfounded``,
            ``ear-submodules-mismatch``, ``ear-policy-mismatch``.
        BindingError: ``token-audience-mismatch``, ``nonce-mismatch``, ``ear-key-mismatch``.
        ValueError: ``at`` has no time zone.
    """
    if at.tzinfo is None:
        raise ValueError("the moment of appraisal needs a time zone")
    run = _Procedure(at=at, expected=expected or ExpectedEar())
    try:
        return run.verify(token, trusted, algorithms or {})
    except AttestError as exc:
        told = "an EAR of a known profile"
        tell_failed(exc, run.checks, check_of=_CHECK_OF, otherwise="token.format", expected=told, clause=_CLAUSE)
        raise


_CHECK_OF = {
    "token-issuer-untrusted": "token.signature",
    "token-key-unknown": "token.signature",
    "token-signature-invalid": "token.signature",
    "token-algorithm-refused": "token.signature",
    "ear-profile-unknown": "ear.profile",
    "ear-malformed": "ear.profile",
    "token-expired": "token.time",
    "token-not-yet-valid": "token.time",
    "token-too-old": "token.time",
    "token-audience-mismatch": "token.audience",
    "nonce-mismatch": "freshness",
    "ear-status-unfounded": "ear.status",
    "ear-submodules-mismatch": "ear.submodules",
    "ear-policy-mismatch": "ear.policies",
    "ear-key-mismatch": "ear.bound_key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """A token whose signature holds, and its reader, which has not run yet."""

    issuer: str
    kid: str
    algorithm: str
    form: Literal["jwt", "cwt"]
    read: Callable[[], Ear]


@dataclass(slots=True, kw_only=True)
class _Procedure:
    """The steps, and the checks that were made so far."""

    at: datetime
    expected: ExpectedEar
    checks: list[Check] = field(default_factory=list)

    def verify(
        self,
        token: bytes | str,
        trusted: Mapping[str, tuple[TokenKey, ...]],
        algorithms: Mapping[str, frozenset[str]],
    ) -> VerifiedEar:
        """Run the steps in the order of the clause; the first refusal ends it."""
        # (1) Size, algorithm, key and signature.
        signed = _signed(token, trusted, algorithms)
        self._tell("token.signature", f"a key of {signed.issuer}", f"{signed.algorithm} by {signed.kid}")
        # (2) Profile, mandatory members and types.
        ear = signed.read()
        self._tell("ear.profile", "a known profile", ear.profile, clause="eat-ear.md 3, 8")
        # (3) Time.
        self._require_in_time(ear)
        self._tell("token.time", "issued, and not expired", rfc3339_text(self.at))
        # (4) Audience and nonce.
        self._require_audience(ear)
        freshness = self._require_nonce(ear)
        # (5) No status is better than what it rests on.
        _require_founded(ear)
        self._tell("ear.status", "no status better than its vectors", str(ear.founded), clause="eat-ear.md 3, 4")
        # (6) What the Relying Party demands by name.
        self._require_submods(ear)
        self._require_policies(ear)
        self._require_bound_key(ear)
        return VerifiedEar(
            ear=ear,
            issuer=signed.issuer,
            key_id=signed.kid,
            algorithm=signed.algorithm,
            form=signed.form,
            at=self.at,
            freshness=freshness,
            checks=tuple(self.checks),
        )

    def _tell(self, check_id: str, expected: str, got: str, *, clause: str = _CLAUSE) -> None:
        self.checks.append(Check(id=check_id, outcome=Outcome.PASS, expected=expected, got=got, clause=clause))

    def _require_in_time(self, ear: Ear) -> None:
        at, max_age = self.at, self.expected.max_age
        begins = max(moment for moment in (ear.issued_at, ear.not_before) if moment is not None)
        if _moment(begins) - at > SKEW:
            raise self._not_in_time("token-not-yet-valid", f"{rfc3339_text(_moment(begins))} or later", "not valid yet")
        if ear.expires is not None and at >= _moment(ear.expires):
            raise self._not_in_time("token-expired", f"before {rfc3339_text(_moment(ear.expires))}", "expired")
        if ear.expires is None and max_age is None:
            raise self._not_in_time("token-expired", "exp, or a greatest age", "without an end")
        if max_age is not None and at - _moment(ear.issued_at) > max_age:
            issued = rfc3339_text(_moment(ear.issued_at))
            raise self._not_in_time("token-too-old", f"within {max_age} after {issued}", "too old")

    def _not_in_time(self, code: str, expected: str, problem: str) -> VerificationError:
        return VerificationError(
            f"the token is {problem} at {rfc3339_text(self.at)}",
            code=code,
            expected=expected,
            got=rfc3339_text(self.at),
            clause=_CLAUSE,
            hint="ask for a new one, or judge it at its time with --at",
        )

    def _require_audience(self, ear: Ear) -> None:
        wanted = self.expected.audience
        if wanted in ear.audience:
            self._tell("token.audience", str(wanted), ", ".join(ear.audience))
            return
        if not ear.audience and wanted is None:
            return
        raise BindingError(
            "the token is for another Relying Party",
            code="token-audience-mismatch",
            field="aud",
            expected=wanted or "a token for anybody, or the audience of this Relying Party",
            got=", ".join(ear.audience) or "none",
            clause="RFC 7519, section 4.1.3; must-check.md 20",
        )

    def _require_nonce(self, ear: Ear) -> Freshness:
        nonce = self.expected.nonce
        if nonce is None:
            outcome, wanted = Outcome.NOT_EVALUATED, "a nonce to compare with"
            self.checks.append(
                Check(id="freshness", outcome=outcome, expected=wanted, got="none was given", clause=_FRESHNESS)
            )
            return Freshness.NOT_EVALUATED
        got = ", ".join(stated.hex() for stated in ear.nonce) or "none"
        # A token that answers several questions at once could be shown to several parties.
        if len(ear.nonce) != 1 or not hmac.compare_digest(nonce, ear.nonce[0]):
            raise BindingError(
                "the nonce in the token is not the expected one",
                code="nonce-mismatch",
                check="freshness",
                field="eat_nonce",
                expected=nonce.hex(),
                got=got,
                clause=_FRESHNESS,
                hint="this token answers another question: an old one, or somebody else's",
            )
        self._tell("freshness", nonce.hex(), got, clause=_FRESHNESS)
        return Freshness.MATCHED

    def _require_submods(self, ear: Ear) -> None:
        wanted = self.expected.submods
        if wanted is None:
            return
        expected, got = (", ".join(sorted(names)) for names in (wanted, ear.submods))
        if set(ear.submods) != wanted:
            raise VerificationError(
                "the token is not about exactly the devices that are demanded",
                code="ear-submodules-mismatch",
                field="submods",
                expected=expected,
                got=got,
                clause=_CLAUSE,
            )
        self._tell("ear.submodules", expected, got)

    def _require_policies(self, ear: Ear) -> None:
        wanted = self.expected.policy_digests
        if not wanted:
            return
        judged = () if ear.details is None else tuple(policy.digest for policy in ear.details.policies)
        expected, got = (", ".join(digest.hex() for digest in digests) or "none" for digests in (wanted, judged))
        if not set(wanted) <= set(judged):
            raise VerificationError(
                "the Verifier did not judge by the policy that is demanded",
                code="ear-policy-mismatch",
                field="policies",
                expected=expected,
                got=got,
                clause=_CLAUSE,
            )
        self._tell("ear.policies", expected, got)

    def _require_bound_key(self, ear: Ear) -> None:
        wanted = self.expected.bound_key
        if wanted is None:
            return
        bound = None if ear.details is None or ear.details.binding is None else ear.details.binding.key
        if bound is None or not hmac.compare_digest(wanted, bound):
            raise BindingError(
                "the token does not vouch for the key that the secret would be sealed to",
                code="ear-key-mismatch",
                field="binding.key",
                expected=wanted.hex(),
                got="none" if bound is None else bound.hex(),
                clause=f"{_CLAUSE}; must-check.md 18",
            )
        self._tell("ear.bound_key", wanted.hex(), bound.hex())


def _require_founded(ear: Ear) -> None:
    """Require that no status is better than what it rests on; ``none`` and ``warning`` are both not affirming."""
    claims = [(f"submods.{label}.ear_status", one.status, one.founded) for label, one in ear.submods.items()]
    if ear.status is not None:
        claims.append(("ear_status", ear.status, ear.founded))
    for path, stated, founded in claims:
        if _GOODNESS[stated] > _GOODNESS[founded]:
            raise VerificationError(
                f"{path} claims more than it rests on",
                code="ear-status-unfounded",
                field=path,
                expected=f"{founded}, or worse",
                got=str(stated),
                clause="draft-ietf-rats-ear-03, section 3.2; must-check.md 16",
            )


_GOODNESS = {Tier.CONTRAINDICATED: 0, Tier.NONE: 1, Tier.WARNING: 1, Tier.AFFIRMING: 2}


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)


# -- signatures


def _signed(
    token: bytes | str, trusted: Mapping[str, tuple[TokenKey, ...]], algorithms: Mapping[str, frozenset[str]]
) -> _Signed:
    if len(token) > MAX_TOKEN_BYTES:
        raise _malformed(f"{len(token)} bytes, more than {MAX_TOKEN_BYTES}")
    if isinstance(token, bytes) and not is_cwt(token):
        try:
            token = token.decode("ascii").strip()
        except UnicodeDecodeError as exc:
            raise _malformed("neither a JWT nor a CWT") from exc
    stated = peek_cwt(token).get(1) if isinstance(token, bytes) else _jwt_claims(token).get("iss")
    if stated is not None and not isinstance(stated, str):
        raise _malformed("iss: expected text")
    failures: list[EndorsementError | SignatureError] = []
    found: list[_Signed] = []
    for issuer in (name for name in trusted if trusted[name]) if stated is None else (stated,):
        keys, names = trusted.get(issuer, ()), algorithms.get(issuer, EAR_ALGORITHMS)
        if not keys:
            raise _untrusted(issuer, trusted)
        try:
            found.append(_verified(token, issuer, keys, names))
        except (EndorsementError, SignatureError) as exc:
            failures.append(exc)
    if len(found) == 1:
        return found[0]
    if failures and not found:
        raise min(failures, key=lambda failure: failure.exit_code)
    raise _untrusted("none", trusted)


def _verified(token: bytes | str, issuer: str, keys: tuple[TokenKey, ...], names: frozenset[str]) -> _Signed:
    """Verify under the keys of one issuer.

    Raises:
        SignatureError: as ``verify_token`` and ``verify_cwt``; also for a key that its set keeps for another use.
    """
    if isinstance(token, bytes):
        cwt = verify_cwt(token, keys=keys, algorithms=names)
        found = _Signed(
            issuer=issuer,
            kid=cwt.kid,
            algorithm=cwt.algorithm,
            form="cwt",
            read=lambda: ear_from_cbor(cwt.claims),
        )
    else:
        # Trustee sends its own key along; it is passed over, and only a key that the caller trusts is used.
        sends_key = _jwt_claims(token).get("eat_profile") == _TRUSTEE
        ignored = frozenset({"jwk", "x5c"}) if sends_key else frozenset()
        jwt = verify_token(token, keys=keys, algorithms=names, what="the token", ignored_header=ignored)
        if (None if jwt.typ is None else jwt.typ.lower()) not in JWT_TYPES:
            raise _malformed("typ: another kind of token")
        base64url_bytes(token.rpartition(".")[2], what="the signature")  # one spelling, so that one token is one text
        found = _Signed(
            issuer=issuer,
            kid=jwt.kid,
            algorithm=jwt.algorithm,
            form="jwt",
            read=lambda: ear_from_json(jwt.claims),
        )
    _require_use(next(key for key in keys if key.kid == found.kid), found.algorithm)
    return found


def _require_use(key: TokenKey, algorithm: str) -> None:
    """Require what the key set says of the key, if it says anything: for signatures, with this algorithm."""
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


def _jwt_claims(token: str) -> dict[str, object]:
    """Read the claims of a JWT without verifying anything, to find out whose keys are to be asked."""
    words = token.split(".")
    if len(words) != 3:
        raise _malformed("neither a JWT nor a CWT")
    claims = json_value(base64url_bytes(words[1], what="the token"), what="the token")
    if not isinstance(claims, dict):
        raise _malformed("the payload is no object")
    return dict(claims)


def _untrusted(issuer: str, trusted: Mapping[str, tuple[TokenKey, ...]]) -> EndorsementError:
    return EndorsementError(
        f"no keys are trusted for the issuer {issuer[:120]!r}, or one key for two issuers",
        code="token-issuer-untrusted",
        field="iss",
        expected=" or ".join(trusted) or "an issuer named with --trust",
        got=issuer[:120],
        clause=_CLAUSE,
        hint="say which keys may sign for it: --trust ISSUER=jwks.json",
    )


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(f"the token: {problem}", code="token-malformed", field="token", clause=_CLAUSE)
