"""Text forms of identities: ``jwt:ISSUER|SUBJECT``, ``mtls:sha256:…``, ``mtls:uri:…``, ``mtls:subject:…``.

An identity is compared as a whole and exactly. There are no patterns, and no case is folded.
"""

from __future__ import annotations

import re
from typing import Final

from attest.errors import ConfigurationError
from kms.domain.actors import Actor, Means

MAX_NAME_CHARACTERS: Final = 512
CERTIFICATE_NAMES: Final = ("sha256", "uri", "subject")
"""What a client certificate can be known by: digest of its key (SubjectPublicKeyInfo), its one URI, its subject."""
_PIN = re.compile(r"[0-9a-f]{64}")


def identity_text(identity: Actor) -> str:
    """Return how an identity is written."""
    return f"{identity.means}:{identity.name}"


def jwt_identity(issuer: str, subject: str) -> Actor:
    """Return the identity of the subject of an issuer; no issuer has a ``|``, so the text has one reading."""
    return Actor(name=f"{issuer}|{subject}", means=Means.JWT)


def parse_identity(text: str) -> Actor:
    """Read an identity that can be granted a role.

    Users of this machine (``local``) are not among them: what they may do is what the files' permissions say.

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
        f"{text[:140]!r} is no identity",
        code="identity-invalid",
        field="identity",
        expected="jwt:ISSUER|SUBJECT, mtls:sha256:64 hex digits, mtls:uri:URI or mtls:subject:NAME",
        got=repr(text[:140]),
        hint="'kms admin whois CERTIFICATE' prints the names of a client certificate",
    )
