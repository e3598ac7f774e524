"""Verification of passports: tokens of trusted Verifiers for this workload, this service and this challenge.

A token is an EAR, or one of a service whose claims are read here: Azure, Intel, Google.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256

from attest.errors import BindingError, EndorsementError, VerificationError
from attest.evidence import Binding
from attest.release import CONTEXT, ROLE, PassportRequest
from attest.results import (
    EarDetails,
    ExpectedEar,
    TokenKey,
    VerifiedEar,
    VerifiedServiceToken,
    commits_to,
    service_of,
    verify_ear,
    verify_service_token,
)
from attest.verification import Freshness
from kms.domain.passports import FreshBy, VerifiedPassport
from kms.release.verifiers import TrustedVerifier

_CLAUSE = "docs/releases.md, passports"


class PassportVerifier:
    """Verifier of passports of trusted issuers for this audience. The key's policy selects among the issuers."""

    def __init__(self, verifiers: tuple[TrustedVerifier, ...], *, audience: str) -> None:
        self._verifiers = verifiers
        self._audience = audience

    def trust(self, verifiers: tuple[TrustedVerifier, ...]) -> None:
        """Replace the trusted Verifiers."""
        self._verifiers = verifiers

    def verify(
        self, request: PassportRequest, *, nonce: bytes, tenants: Collection[str], at: datetime
    ) -> VerifiedPassport:
        """Verify a passport; the key's policy appraises it later.

        The nonce of the challenge has 32 bytes. The Verifier must be trusted for all of these tenants.

        Raises:
            EvidenceError: the passport or its EAR is malformed.
            VerificationError: the issuer is not trusted, a signature does not verify, or the EAR is out of time, for
                another service, about another key, or on evidence that answered no challenge of its Verifier.
        """
        passport = request.passport
        # (1) The bound key signed this request, for this service, this challenge and these keys.
        keys = passport.require_possession(
            audience=self._audience, nonce=nonce, key_ids=request.key_ids, renews=request.renews
        )
        token: VerifiedEar | VerifiedServiceToken
        if service_of(passport.ear) is None:
            token = self._ear(passport.ear, bound=passport.key, nonce=nonce, tenants=tenants, at=at)
        else:
            token = self._bound_service_token(passport.ear, bound=passport.key, tenants=tenants, at=at)
        binding = Binding(context=CONTEXT, role=ROLE, audience=self._audience, nonce=nonce, key=keys.recipient)
        return VerifiedPassport(evidence=passport, token=token, binding=binding, at=at, fresh_by=FreshBy.SIGNED_REQUEST)

    def service_token(
        self,
        content: bytes,
        *,
        tenants: Collection[str],
        audience: str | None,
        at: datetime,
        trusted: Mapping[str, tuple[TokenKey, ...]] | None = None,
    ) -> VerifiedServiceToken:
        """Verify a token of a service; the caller requires its relation to the request, and a policy appraises it.

        A token that names audiences must name this one; None refuses every token that names any. ``trusted`` has the
        keys of other issuers, which count in place of the trusted Verifiers.

        Raises:
            EvidenceError: the token is malformed.
            VerificationError: its issuer is not trusted for these tenants, its signature does not verify, or it is out
                of time or for another service.
        """
        with _refused_if_untrusted():
            issuers = self._trusted(tenants) if trusted is None else trusted
            return verify_service_token(content, trusted=issuers, at=at, audience=audience, audience_optional=True)

    def _trusted(self, tenants: Collection[str]) -> Mapping[str, tuple[TokenKey, ...]]:
        return {one.issuer: one.keys for one in self._verifiers if one.counts_for(tenants)}

    def _ear(self, ear: bytes, *, bound: bytes, nonce: bytes, tenants: Collection[str], at: datetime) -> VerifiedEar:
        # (2) A trusted Verifier issued the EAR, for this service and for that key.
        expected = ExpectedEar(audience=self._audience, bound_key=sha256(bound).digest())
        with _refused_if_untrusted():
            token = verify_ear(ear, trusted=self._trusted(tenants), at=at, expected=expected)
        # (3) The evidence behind it was made for the release of keys by this service, and was fresh to the Verifier.
        self._require_binding(token.ear.details)
        _require_fresh(token.ear.details)
        # (4) If the EAR has a nonce, it is that of this challenge.
        _require_nonce(token, nonce)
        return token

    def _bound_service_token(
        self, content: bytes, *, bound: bytes, tenants: Collection[str], at: datetime
    ) -> VerifiedServiceToken:
        # (2) A trusted Verifier issued the token, for any Relying Party or for this service.
        token = self.service_token(content, tenants=tenants, audience=self._audience, at=at)
        # (3) The machine that it is about committed to the bound keys, which signed the challenge.
        if not commits_to(token, bound):
            raise BindingError(
                "the machine that the token is about did not commit to these keys",
                code="token-key-mismatch",
                field="passport.key",
                expected=f"the SHA-256 of the bound keys, {sha256(bound).hexdigest()}",
                got="another value, or none",
                clause=_CLAUSE,
                hint="give PassportKey.bound to the Verifier as docs/releases.md says for its service",
            )
        return token

    def _require_binding(self, details: EarDetails | None) -> None:
        """Refuse evidence for another purpose, by another role or for another party."""
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


@contextmanager
def _refused_if_untrusted() -> Iterator[None]:
    """Make an untrusted issuer or key a refusal instead of a missing endorsement, after which a request is retried."""
    try:
        yield
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


def _require_fresh(details: EarDetails | None) -> None:
    got = "not stated" if details is None else details.freshness
    if got != str(Freshness.MATCHED):
        raise VerificationError(
            "the evidence behind the EAR did not answer a challenge of its Verifier",
            code="passport-evidence-not-fresh",
            field="freshness",
            expected=str(Freshness.MATCHED),
            got=got,
            clause=_CLAUSE,
        )


def _require_nonce(token: VerifiedEar, nonce: bytes) -> None:
    if token.ear.nonce and not (len(token.ear.nonce) == 1 and hmac.compare_digest(token.ear.nonce[0], nonce)):
        raise BindingError(
            "the EAR answers a different challenge",
            code="nonce-mismatch",
            check="freshness",
            field="eat_nonce",
            expected=nonce.hex(),
            got=", ".join(one.hex() for one in token.ear.nonce),
            clause="RFC 9334, section 10",
            hint="request an EAR with the nonce of this challenge, or one without a nonce",
        )
