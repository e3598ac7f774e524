"""Text forms of identities: ``jwt:ISSUER|SUBJECT``, ``mtls:sha256:…``, ``mtls:uri:…``, ``mtls:subject:…``.

Identities are compared exactly, without patterns or case folding.
"""

from __future__ import annotations

import re
from typing import Final

from attest.errors import ConfigurationError
from kms.domain.actors import Actor, Means

MAX_NAME_CHARACTERS: Final = 512
CERTIFICATE_NAMES: Final = ("sha256", "uri", "subject")
"""Kinds of names of a client certificate: digest of its SubjectPublicKeyInfo, its only URI, its subject."""
_PIN = re.compile(r"[0-9a-f]{64}")


def identity_text(identity: Actor) -> str:
    """Return the text form of an identity."""
    return f"{identity.means}:{identity.name}"


def jwt_identity(issuer: str, subject: str) -> Actor:
    """Return the identity of the subject of an issuer; issuers contain no ``|``, so the text is unambiguous."""
    return Actor(name=f"{issuer}|{subject}", means=Means.JWT)


def parse_identity(text: str) -> Actor:
    """Read an identity that can be granted a role.

    Users of this machine (``local``) are excluded: file permissions determine their access.

    Raises:
        ConfigurationError: ``identity-invalid``.
    """
    means, _, name = text.partition(":")
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable() or name != name.strip():
        raise _invalid(text)
    if means == Means.JWT and all(name.partition("|")):
        return Actor(name=name, means=Means.JWT)
    if means == Means.MTLS and _is_certificate_name(name):
        return Actor(name=name, means=Means.MTLS)
    raise _invalid(text)


def _is_certificate_name(name: str) -> bool:
    kind, _, value = name.partition(":")
    return kind in CERTIFICATE_NAMES and bool(value) and (kind != "sha256" or _PIN.fullmatch(value) is not None)


def _invalid(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text[:140]!r} is not an identity",
        code="identity-invalid",
        field="identity",
        expected="jwt:ISSUER|SUBJECT, mtls:sha256:64 hex digits, mtls:uri:URI or mtls:subject:NAME",
        got=repr(text[:140]),
        hint="'kms admin whois CERTIFICATE' prints the names of a client certificate",
    )
