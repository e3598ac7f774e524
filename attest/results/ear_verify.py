"""Verification of an EAR: issuer, signature, time, consistency, and the expected values (eat-ear.md, section 9).

The stated status is never accepted as such: it is computed again from the vectors, and a token that states a better one
is refused. Further requirements of the Relying Party (submodules, policies, a key) are part of the same procedure; an
appraisal policy for the claims is applied afterwards. ``appraise_ear`` judges it without one.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from attest.appraisal import simulation_check
from attest.checks import Check, Tier, judged
from attest.encoding import rfc3339_text
from attest.errors import BindingError, EvidenceError, VerificationError
from attest.results.cwt import is_cwt
from attest.results.ear import NONCE_BYTES, Ear, worst
from attest.results.ear_signature import unverified_jwt_claims, verify_ear_signature
from attest.results.jose import TokenKey
from attest.results.token_refusal import TokenChecks, not_in_time
from attest.verification import Freshness

SKEW: Final = timedelta(seconds=60)
"""Tolerance for an issuer's clock that is ahead."""
DEFAULT_MAX_AGE: Final = timedelta(days=1)
_CLAUSE = "draft-ietf-rats-ear-03; RFC 8725"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEar:
    """Requirements of a Relying Party for a token; None or an empty value: no requirement.

    Attributes:
        nonce: the issued one, 8 to 64 bytes; the caller ensures its single use.
        audience: name of the Relying Party. A token with an audience is refused unless it contains this name.
        max_age: greatest accepted age of ``iat``, even if ``exp`` is later; None requires ``exp`` instead.
        submods: exactly the required submodules.
        policy_digests: SHA-256 of policies, each of which must have been applied.
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
        if self.nonce is not None and len(self.nonce) not in NONCE_BYTES:
            raise ValueError(f"a nonce of an EAR has {NONCE_BYTES.start} to {NONCE_BYTES.stop - 1} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEar:
    """An EAR that a trusted Verifier signed, in time and consistent. Built by ``verify_ear`` only.

    Attributes:
        issuer: the name under which the key that signed is trusted.
        algorithm: JWS name of what it signed with.
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
        """True if the evidence was simulated; None when the issuer does not state it, as no other Verifier does."""
        return None if self.ear.details is None else self.ear.details.simulated


def is_ear(data: bytes) -> bool:
    """Return True for a CWT, or a JWT whose claims name an EAR's members. Nothing is verified."""
    if is_cwt(data):
        return True
    try:
        claims = unverified_jwt_claims(data.decode("ascii").strip())
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
    """Check that a trusted Verifier issued this EAR, and that it is in time, consistent and as expected.

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
    checks = TokenChecks(clause=_CLAUSE)
    with checks.reported(_CHECK_OF, otherwise="token.format", expected="an EAR of a known profile"):
        return _Procedure(at=at, expected=expected or ExpectedEar(), checks=checks).verify(
            token, trusted, algorithms or {}
        )


_CHECK_OF = {
    "ear-profile-unknown": "ear.profile",
    "ear-malformed": "ear.profile",
    "ear-status-unfounded": "ear.status",
    "ear-submodules-mismatch": "ear.submodules",
    "ear-policy-mismatch": "ear.policies",
    "ear-key-mismatch": "ear.bound_key",
}


@dataclass(slots=True, kw_only=True)
class _Procedure:
    """The procedure: its steps, and the checks made so far."""

    at: datetime
    expected: ExpectedEar
    checks: TokenChecks

    def verify(
        self,
        token: bytes | str,
        trusted: Mapping[str, tuple[TokenKey, ...]],
        algorithms: Mapping[str, frozenset[str]],
    ) -> VerifiedEar:
        """Run the steps in the order of the clause; the first refusal ends it."""
        # (1) Size, algorithm, key and signature.
        signed = verify_ear_signature(token, trusted, algorithms)
        self.checks.passed("token.signature", f"a key of {signed.issuer}", f"{signed.algorithm} by {signed.kid}")
        # (2) Profile, mandatory members and types.
        ear = signed.read()
        self.checks.passed("ear.profile", "a known profile", ear.profile, clause="draft-ietf-rats-ear-03, eat_profile")
        # (3) Time.
        self._require_in_time(ear)
        self.checks.passed("token.time", "issued, and not expired", rfc3339_text(self.at))
        # (4) Audience and nonce.
        self.checks.require_audience(self.expected.audience, ear.audience, got=", ".join(ear.audience))
        freshness = self._require_nonce(ear)
        # (5) No status is better than what it rests on.
        _require_founded(ear)
        self.checks.passed(
            "ear.status",
            "no status better than its vectors",
            str(ear.founded),
            clause="draft-ietf-rats-ear-03, section 3.2; draft-ietf-rats-ar4si",
        )
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
            checks=tuple(self.checks.made),
        )

    def _require_in_time(self, ear: Ear) -> None:
        at, max_age = self.at, self.expected.max_age
        begins = max(moment for moment in (ear.issued_at, ear.not_before) if moment is not None)
        if _moment(begins) - at > SKEW:
            raise self._not_in_time("token-not-yet-valid", f"{rfc3339_text(_moment(begins))} or later", "not valid yet")
        if ear.expires is not None and at >= _moment(ear.expires):
            raise self._not_in_time("token-expired", f"before {rfc3339_text(_moment(ear.expires))}", "expired")
        if ear.expires is None and max_age is None:
            raise self._not_in_time("token-expired", "exp, or a maximum age", "without an end")
        if max_age is not None and at - _moment(ear.issued_at) > max_age:
            issued = rfc3339_text(_moment(ear.issued_at))
            raise self._not_in_time("token-too-old", f"within {max_age} after {issued}", "too old")

    def _not_in_time(self, code: str, expected: str, problem: str) -> VerificationError:
        return not_in_time(code, problem=problem, at=self.at, expected=expected, clause=_CLAUSE)

    def _require_nonce(self, ear: Ear) -> Freshness:
        return self.checks.require_nonce(
            self.expected.nonce,
            # A token that answers several questions at once could be shown to several parties.
            answers=lambda nonce: len(ear.nonce) == 1 and hmac.compare_digest(nonce, ear.nonce[0]),
            got=", ".join(stated.hex() for stated in ear.nonce) or "none",
            field="eat_nonce",
        )

    def _require_submods(self, ear: Ear) -> None:
        wanted = self.expected.submods
        if wanted is not None:
            expected, got = (", ".join(sorted(names)) for names in (wanted, ear.submods))
            if set(ear.submods) != wanted:
                problem = "the token is not about exactly the required devices"
                raise _mismatch("ear-submodules-mismatch", problem, "submods", expected, got)
            self.checks.passed("ear.submodules", expected, got)

    def _require_policies(self, ear: Ear) -> None:
        wanted = self.expected.policy_digests
        if wanted:
            applied = () if ear.details is None else tuple(policy.digest for policy in ear.details.policies)
            expected, got = (", ".join(one.hex() for one in digests) or "none" for digests in (wanted, applied))
            if not set(wanted) <= set(applied):
                problem = "the Verifier did not apply the required policy"
                raise _mismatch("ear-policy-mismatch", problem, "policies", expected, got)
            self.checks.passed("ear.policies", expected, got)

    def _require_bound_key(self, ear: Ear) -> None:
        wanted = self.expected.bound_key
        if wanted is None:
            return
        bound = None if ear.details is None or ear.details.binding is None else ear.details.binding.key
        if bound is None or not hmac.compare_digest(wanted, bound):
            raise BindingError(
                "the token does not name the key that the secret would be sealed to",
                code="ear-key-mismatch",
                field="binding.key",
                expected=wanted.hex(),
                got="none" if bound is None else bound.hex(),
                clause=f"{_CLAUSE}",
            )
        self.checks.passed("ear.bound_key", wanted.hex(), bound.hex())


def _mismatch(code: str, problem: str, field: str, expected: str, got: str) -> VerificationError:
    return VerificationError(problem, code=code, field=field, expected=expected, got=got, clause=_CLAUSE)


def appraise_ear(token: VerifiedEar, *, simulated: str | None = None) -> tuple[Check, ...]:
    """Return the EAR's statements as checks: the overall status, that of each submodule, and that it is of hardware.

    ``simulated`` is the reason to tolerate simulated evidence, or None to refuse it. ``freshness_check`` of
    ``attest.appraisal`` makes the check of freshness.
    """
    clause = f"{_CLAUSE}"
    stated: list[tuple[str, Tier, str | None]] = [("policy.token.status", token.status, None)]
    # An affirming status without a vector never verifies, so what is stated here is founded.
    stated += [("policy.token.submodule", one.status, label) for label, one in token.ear.submods.items()]
    checks = [
        judged(name, holds=tier is Tier.AFFIRMING, expected="affirming", got=str(tier), clause=clause, item=item)
        for name, tier, item in stated
    ]
    if token.simulated is not None:  # other Verifiers do not state it; trust in their keys includes this
        anchor = simulation_check(simulated=token.simulated, tolerated=simulated if token.simulated else None)
        checks.append(replace(anchor, id="policy.token.not_simulated"))
    return tuple(checks)


def _require_founded(ear: Ear) -> None:
    """Require that no status is better than what it rests on; ``none`` and ``warning`` are both not affirming."""
    claims = [(f"submods.{label}.ear_status", one.status, one.founded) for label, one in ear.submods.items()]
    if ear.status is not None:
        claims.append(("ear_status", ear.status, ear.founded))
    for path, stated, founded in claims:
        if _GOODNESS[stated] > _GOODNESS[founded]:
            raise VerificationError(
                f"{path} claims a better status than its vectors support",
                code="ear-status-unfounded",
                field=path,
                expected=f"{founded}, or worse",
                got=str(stated),
                clause="draft-ietf-rats-ear-03, section 3.2",
            )


_GOODNESS = {Tier.CONTRAINDICATED: 0, Tier.NONE: 1, Tier.WARNING: 1, Tier.AFFIRMING: 2}


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
