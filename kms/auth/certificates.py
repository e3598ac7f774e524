"""Identities in client certificates. The TLS listener verifies the certificates; this module does not."""

from __future__ import annotations

from hashlib import sha256

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.errors import ConfigurationError
from kms.auth.names import CERTIFICATE_NAMES, MAX_NAME_CHARACTERS, identity_text
from kms.domain.actors import Actor, Means

_ERRORS = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def read_certificate(content: bytes) -> x509.Certificate:
    """Read a certificate in PEM.

    Raises:
        ConfigurationError: ``certificate-unreadable``.
    """
    try:
        return x509.load_pem_x509_certificate(content)
    except _ERRORS as exc:
        raise ConfigurationError(
            "this is not a certificate", code="certificate-unreadable", field="certificate", expected="X.509 in PEM"
        ) from exc


def certificate_identity(certificate: x509.Certificate, *, kind: str) -> Actor | None:
    """Return the only identity of a certificate; None if it has no such name, or several.

    The TLS listener verified it up to the operator's CA. ``kind`` is one of ``CERTIFICATE_NAMES``.
    """
    try:
        name = {"sha256": _pin, "uri": _uri, "subject": _subject}[kind](certificate)
    except _ERRORS:
        return None
    if not name or not name.isprintable() or len(name) + len(kind) >= MAX_NAME_CHARACTERS:
        return None
    return Actor(name=f"{kind}:{name}", means=Means.MTLS)


def identities_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return every possible identity of a certificate, as text."""
    found = (certificate_identity(certificate, kind=kind) for kind in CERTIFICATE_NAMES)
    return tuple(identity_text(identity) for identity in found if identity is not None)


def _pin(certificate: x509.Certificate) -> str:
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(key).hexdigest()


def _uri(certificate: x509.Certificate) -> str:
    """Return the only URI among the alternative names; several would be ambiguous."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return uris[0] if len(uris) == 1 else ""


def _subject(certificate: x509.Certificate) -> str:
    """Return the subject as RFC 4514 text, most significant part last."""
    return certificate.subject.rfc4514_string()
