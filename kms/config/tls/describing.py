"""What a certificate says, for people and programs. Nothing is verified."""

from __future__ import annotations

from hashlib import sha256
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.encoding import JsonValue, rfc3339_text

__all__ = ["describe"]

T = TypeVar("T", bound=x509.ExtensionType)


def describe(certificate: x509.Certificate) -> dict[str, JsonValue]:
    """Return the facts of a certificate that an operator compares."""
    public = certificate.public_key()
    spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    kind = type(public).__name__.removeprefix("_").removesuffix("PublicKey")
    if isinstance(public, ec.EllipticCurvePublicKey):
        kind = public.curve.name
    elif isinstance(public, rsa.RSAPublicKey):
        kind = f"RSA {public.key_size}"
    facts: dict[str, JsonValue] = {
        "subject": certificate.subject.rfc4514_string(),
        "issuer": certificate.issuer.rfc4514_string(),
        "names": list(_names(certificate)),
        "not_before": rfc3339_text(certificate.not_valid_before_utc),
        "not_after": rfc3339_text(certificate.not_valid_after_utc),
        "key": kind,
        "spki_sha256": sha256(spki).hexdigest(),
        "sha256": sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
    }
    constraints = _extension(certificate, x509.NameConstraints)
    if constraints is not None:
        facts["vouches_for"] = [str(one.value) for one in constraints.permitted_subtrees or ()]
    return facts


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    found = _extension(certificate, x509.SubjectAlternativeName)
    return () if found is None else tuple(str(name.value) for name in found)


def _extension(certificate: x509.Certificate, kind: type[T]) -> T | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, ValueError):
        return None
