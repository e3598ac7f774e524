"""Verifying passports: the word of a trusted Verifier on this workload, for this service and this challenge."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from datetime import datetime
from hashlib import sha256

from attest.errors import BindingError, EndorsementError, VerificationError
from attest.evidence import Binding
from attest.release import CONTEXT, ROLE, PassportRequest
from attest.results import EarDetails, ExpectedEar, TokenKey, VerifiedEar, verify_ear
from attest.verification import Freshness
from kms.domain.passports import VerifiedPassport
from kms.release.verifiers import TrustedVerifier

__all__ = ["PassportVerifier"]

_CLAUSE = "docs/releases.md, passports; must-check.md 18, 20"


class PassportVerifier:
    """Verifies passports.

    Args:
        verifiers: whose EARs are genuine here. Whose count for a key is for the key's policy.
        audience: the service's verifier key text.
    """

    def __init__(self, verifiers: tuple[TrustedVerifier, ...], *, audience: str) -> None:
        """Keep who is trusted."""
        self._verifiers = verifiers
        self._audience = audience

    def trust(self, verifiers: tuple[TrustedVerifier, ...]) -> None:
        """Take others in the place of those that were trusted until now."""
        self._verifiers = verifiers

    def verify(
        self, request: PassportRequest, *, nonce: bytes, tenants: Collection[str], at: datetime
    ) -> VerifiedPassport:
        """Verify a passport; that it suffices for a key is for the key's policy.

        Args:
            request: the passport, and what is asked for under it.
            nonce: of the challenge, 32 bytes.
            tenants: whose keys are asked for; a Verifier has to be trusted for all of them.
            at: the moment of the decision.

        Raises:
            EvidenceError: the passport or its EAR is malformed.
            VerificationError: an issuer that is not trusted, a signature that does not hold, an EAR out of time, for
                another service or about another key; or evidence that answered no question of its Verifier's.
        """
        passport = request.passport
        # (1) Whoever has the bound key signed this request, for this service, this challenge and these keys.
        keys = passport.require_possession(
            audience=self._audience, nonce=nonce, key_ids=request.key_ids, renews=request.renews
        )
        # (2) A trusted Verifier issued the EAR, for this service, and vouches for that very key.
        token = self._genuine(passport.ear, bound=passport.key, tenants=tenants, at=at)
        # (3) The evidence behind it was made for the release of keys by this service, and was fresh to the Verifier.
        self._require_binding(token.ear.details)
        _require_fresh(token.ear.details)
        # (4) An EAR that answers a question answers this one.
        _require_nonce(token, nonce)
        binding = Binding(context=CONTEXT, role=ROLE, audience=self._audience, nonce=nonce, key=keys.recipient)
        return VerifiedPassport(evidence=passport, token=token, binding=binding, at=at)

    def _genuine(self, ear: bytes, *, bound: bytes, tenants: Collection[str], at: datetime) -> VerifiedEar:
        """Verify the EAR; whom nobody trusts here is a refusal, and no endorsement that may come later."""
        expected = ExpectedEar(audience=self._audience, bound_key=sha256(bound).digest())
        try:
            return verify_ear(ear, trusted=self._trusted(tenants), at=at, expected=expected)
        except EndorsementError as exc:
            error = VerificationError(
                exc.message,
                code=exc.code,
                field=exc.field,
                got=exc.got,
                clause=_CLAUSE,
                hint="the operator names trusted Verifiers and their keys with verifiers_file",
            )
            error.checks = exc.checks
            raise error from exc

    def _trusted(self, tenants: Collection[str]) -> Mapping[str, tuple[TokenKey, ...]]:
        return {one.issuer: one.keys for one in self._verifiers if one.counts_for(tenants)}

    def _require_binding(self, details: EarDetails | None) -> None:
        """Require that evidence for another purpose, by another role or for another party stays what it is."""
        binding = None if details is None else details.binding
        wanted = {"context": CONTEXT, "role": ROLE, "audience": self._audience}
        for name, expected in wanted.items():
            got = None if binding is None else getattr(binding, name)
            if got != expected:
                raise BindingError(
                    f"the evidence behind the EAR was bound to the {name} {got!r}, expected {expected!r}",
                    code=f"binding-{name}-mismatch",
                    field=f"binding.{name}",
                    expected=expected,
                    got=str(got),
                    clause=_CLAUSE,
                )


def _require_fresh(details: EarDetails | None) -> None:
    got = "not stated" if details is None else details.freshness
    if got != str(Freshness.MATCHED):
        raise VerificationError(
            "the evidence behind the EAR answered no question of its Verifier's",
            code="passport-evidence-not-fresh",
            field="freshness",
            expected=str(Freshness.MATCHED),
            got=got,
            clause=_CLAUSE,
        )


def _require_nonce(token: VerifiedEar, nonce: bytes) -> None:
    if token.ear.nonce and not (len(token.ear.nonce) == 1 and hmac.compare_digest(token.ear.nonce[0], nonce)):
        raise BindingError(
            "the EAR answers another challenge",
            code="nonce-mismatch",
            check="freshness",
            field="eat_nonce",
            expected=nonce.hex(),
            got=", ".join(one.hex() for one in token.ear.nonce),
            clause="RFC 9334, section 10; must-check.md 1",
            hint="ask the Verifier for an EAR under this challenge's nonce, or for one without a nonce",
        )
