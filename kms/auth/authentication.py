"""Identification of the sender of a request: the subject of a bearer token, or the owner of the client certificate.

The operator configures both. Headers that a proxy, and therefore any sender, could set are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from cryptography import x509

from attest.clock import Clock
from kms.auth.certificates import certificate_identity
from kms.auth.issuers import BearerIssuer
from kms.auth.keysets import KeySets, Noted, read_key_set
from kms.auth.tokens import VerifiedBearer, issuer_of, verify_bearer
from kms.domain.actors import Actor, local_actor
from kms.domain.errors import ChallengeUsedError, UnauthenticatedError
from kms.store import Store

_SCHEME: Final = "bearer"


class LocalAuthenticator:
    """Authenticator that identifies the user of this process, for an application without a socket."""

    def identify(self, *, authorization: Sequence[str], certificate: bytes | None) -> Actor:
        """Return the user of the machine; a request cannot set another one."""
        del authorization, certificate
        return local_actor()


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Authenticator of callers by tokens and client certificates.

    ``certificate_names`` is the kind of name that identifies a client certificate; None accepts no certificate.
    """

    store: Store
    key_sets: KeySets
    certificate_names: str | None
    clock: Clock

    def identify(self, *, authorization: Sequence[str], certificate: bytes | None) -> Actor:
        """Return the identity of the sender of a request.

        Args:
            authorization: values of its ``Authorization`` headers. With one, the token states the identity, and the
                certificate only serves a token that is bound to it.
            certificate: client certificate of the connection in DER, as the TLS listener verified it.

        Raises:
            UnauthenticatedError: no known identity, with the reason as code.
            UnavailableError: ``token-keys-stale``, or the database is in use.
        """
        if len(authorization) > 1:
            raise _unreadable()
        if authorization:
            return self._of_token(_token(authorization[0]), certificate)
        identity = None
        if certificate is not None and self.certificate_names is not None:
            identity = self._of_certificate(certificate, self.certificate_names)
        if identity is None:
            raise UnauthenticatedError(
                "the request has no credentials of a known identity",
                code="authentication-required",
                expected=self._wanted(),
                hint="send 'Authorization: Bearer TOKEN'" if self.key_sets.issuers else None,
            )
        return identity

    def _wanted(self) -> str:
        wanted = ["a bearer token"] if self.key_sets.issuers else []
        if self.certificate_names is not None:
            wanted.append(f"a client certificate with a {self.certificate_names} name")
        return " or ".join(wanted)

    def _of_token(self, text: str, certificate: bytes | None) -> Actor:
        at = self.clock()
        issuer = issuer_of(text, self.key_sets.issuers)
        keys = self.key_sets.keys(issuer, at=at)
        verified = verify_bearer(text, issuer=issuer, keys=keys, certificate=certificate, at=at)
        if verified.single_use is not None:
            self._use_up(verified, verified.single_use)
        return verified.identity

    def _use_up(self, verified: VerifiedBearer, digest: bytes) -> None:
        at = self.clock()
        try:
            with self.store.writing() as tx:
                newest = tx.log.require_time(at).time
                # This writes no log entry. If the clock is temporarily ahead, no record of that exists, and used
                # tokens would be forgotten too early (MC-35).
                tx.nonces.use(digest, expires_at=verified.expires_at, at=at if newest is None else min(at, newest))
        except ChallengeUsedError as exc:
            raise UnauthenticatedError(
                "the bearer token is refused: it was used before",
                code="token-used",
                field="jti",
                hint="use a new token for each request",
            ) from exc

    @staticmethod
    def _of_certificate(certificate: bytes, kind: str) -> Actor | None:
        try:
            return certificate_identity(x509.load_der_x509_certificate(certificate), kind=kind)
        except ValueError:
            return None  # TLS accepted it, but this library cannot read it


@contextmanager
def open_authenticator(
    issuers: tuple[BearerIssuer, ...],
    *,
    setting: str,
    store: Store,
    certificate_names: str | None,
    clock: Clock,
    report: Callable[[str], None],
    noted: Noted,
) -> Iterator[Authenticator]:
    """Open an ``Authenticator`` whose key sets are read now and then refreshed until it is closed.

    ``noted`` is called with the setting of the issuers, and the issuers, before a changed key file takes effect.
    """
    saved = partial(noted, setting, issuers)
    with KeySets(issuers, fetch=read_key_set, clock=clock, report=report, noted=saved) as key_sets:
        yield Authenticator(store=store, key_sets=key_sets, certificate_names=certificate_names, clock=clock)


def _token(header: str) -> str:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != _SCHEME or not token or not token.isascii() or " " in token:
        raise _unreadable()
    return token


def _unreadable() -> UnauthenticatedError:
    return UnauthenticatedError(
        "the header Authorization cannot be read",
        code="authentication-malformed",
        field="Authorization",
        expected="Bearer, a space and a token, once",
    )
