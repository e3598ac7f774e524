"""Checks that tokens of every kind share, and the errors of refused tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from attest.checks import Check, Outcome
from attest.encoding import rfc3339_text
from attest.errors import (
    AttestError,
    BindingError,
    EndorsementError,
    EvidenceError,
    SignatureError,
    VerificationError,
)
from attest.evidence.freshness import Freshness

_FRESHNESS = "RFC 9334, section 10"
CHECK_OF: Mapping[str, str] = MappingProxyType(
    {
        "token-issuer-untrusted": "token.signature",
        "token-key-unknown": "token.signature",
        "token-signature-invalid": "token.signature",
        "token-algorithm-refused": "token.signature",
        "token-expired": "token.time",
        "token-not-yet-valid": "token.time",
        "token-too-old": "token.time",
        "token-audience-mismatch": "token.audience",
        "nonce-mismatch": "freshness",
    }
)
"""The failed check for the code of a refusal, the same for tokens of every kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChecks:
    """Checks of one token, as its procedure makes them.

    Attributes:
        clause: of checks without one of their own.
        made: in the order of the procedure.
    """

    clause: str
    made: list[Check] = field(default_factory=list[Check])

    def passed(self, check_id: str, expected: str, got: str, *, clause: str | None = None) -> None:
        """Add a check that passed."""
        self._add(check_id, Outcome.PASS, expected, got, clause or self.clause)

    def require_nonce(
        self, nonce: bytes | None, *, answers: Callable[[bytes], bool], got: str, field: str
    ) -> Freshness:
        """Require that a token answers the expected nonce, and add the check.

        Without a nonce freshness is not evaluated. ``answers`` compares in constant time; ``got`` shows the nonces of
        the token in hex.

        Raises:
            BindingError: ``nonce-mismatch``.
        """
        if nonce is None:
            self._add("freshness", Outcome.NOT_EVALUATED, "a nonce to compare with", "none was given", _FRESHNESS)
            return Freshness.NOT_EVALUATED
        if not answers(nonce):
            raise BindingError(
                "the nonce in the token is not the expected one",
                code="nonce-mismatch",
                check="freshness",
                field=field,
                expected=nonce.hex(),
                got=got,
                clause=_FRESHNESS,
                hint="this token answers another challenge: an old one, or that of another Relying Party",
            )
        self.passed("freshness", nonce.hex(), got, clause=_FRESHNESS)
        return Freshness.MATCHED

    def require_audience(
        self,
        wanted: str | None,
        stated: tuple[str, ...],
        *,
        got: str,
        clause: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Require that a token is for this Relying Party, and add the check; without audience it is for any.

        ``got`` shows what is stated; ``clause`` is that of the check.

        Raises:
            BindingError: ``token-audience-mismatch``.
        """
        if wanted in stated:
            self.passed("token.audience", str(wanted), got, clause=clause)
        elif stated or wanted is not None:
            raise BindingError(
                "the token is for another Relying Party",
                code="token-audience-mismatch",
                field="aud",
                expected=wanted or "a token without an audience, or for this Relying Party",
                got=got or "none",
                clause="RFC 7519, section 4.1.3",
                hint=hint,
            )

    @contextmanager
    def reported(self, check_of: Mapping[str, str], *, otherwise: str, expected: str) -> Iterator[None]:
        """Add all checks to a refusal in the block: those made, and the failed one.

        ``check_of`` adds to ``CHECK_OF`` the failed checks for further codes; ``otherwise`` is that of any other code.
        """
        try:
            yield
        except AttestError as exc:
            exc.check = exc.check or {**CHECK_OF, **check_of}.get(exc.code, otherwise)
            wanted, got = exc.expected or expected, exc.got or exc.message
            self._add(exc.check, Outcome.FAIL, wanted, got, exc.clause or self.clause)
            exc.checks = tuple(self.made)
            raise

    def _add(self, check_id: str, outcome: Outcome, expected: str, got: str, clause: str) -> None:
        self.made.append(Check(id=check_id, outcome=outcome, expected=expected, got=got, clause=clause))


def issuer_untrusted(issuer: str, trusted: Iterable[str], *, clause: str, problem: str = "") -> EndorsementError:
    """Return the refusal of an issuer without trusted keys; ``problem`` continues the message."""
    return EndorsementError(
        f"no keys are trusted for the issuer {issuer[:120]!r}{problem}",
        code="token-issuer-untrusted",
        field="iss",
        expected=" or ".join(trusted) or "an issuer named with --trust",
        got=issuer[:120],
        clause=clause,
        hint="if you trust it, name the keys that may sign for it: --trust ISSUER=jwks.json",
    )


def token_malformed(problem: str, *, clause: str, what: str = "the token", field: str = "token") -> EvidenceError:
    """Return the refusal of a token that cannot be read."""
    return EvidenceError(f"{what}: {problem}", code="token-malformed", field=field, clause=clause)


def algorithm_refused(what: str, *, algorithms: Iterable[str], got: str, clause: str) -> SignatureError:
    """Return the refusal of an algorithm that the caller does not accept of the issuer."""
    return SignatureError(
        f"{what} is signed with an algorithm that is not accepted for its issuer",
        code="token-algorithm-refused",
        field="alg",
        expected=" or ".join(sorted(algorithms)),
        got=got[:40],
        clause=clause,
    )


def key_unknown(what: str, *, got: str, clause: str) -> EndorsementError:
    """Return the refusal of a ``kid`` that no trusted key has."""
    return EndorsementError(
        f"no trusted key may have signed {what}",
        code="token-key-unknown",
        field="kid",
        expected="a key of the issuer's key set, given with --trust",
        got=got[:120],
        clause=clause,
        hint="give the key set of the day on which the token was made: --trust ISSUER=FILE",
    )


def signature_invalid(what: str, *, expected: str, clause: str) -> SignatureError:
    """Return the refusal of a signature that does not verify."""
    return SignatureError(
        f"the signature of {what} does not verify",
        code="token-signature-invalid",
        expected=expected,
        got="a signature that does not verify",
        clause=clause,
    )


def not_in_time(
    code: str, *, problem: str, at: datetime, expected: str, clause: str, field: str | None = None
) -> VerificationError:
    """Return the refusal of a token that is not valid at a moment."""
    return VerificationError(
        f"the token is {problem} at {rfc3339_text(at)}",
        code=code,
        field=field,
        expected=expected,
        got=rfc3339_text(at),
        clause=clause,
        hint="request a new one, or verify it at its time with --at",
    )
