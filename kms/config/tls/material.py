"""A certificate with its key, read from files and checked before any client connects."""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from attest.encoding import rfc3339_text
from attest.errors import ConfigurationError
from attest.named_files import read_bounded
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.wrapping.secret_files import PrivateFile, unusable

MIN_RSA_BITS: Final = 2048
"""CA/Browser Forum Baseline Requirements, 6.1.5; NIST SP 800-131A."""
SOON_DAYS: Final = 21
"""Every start and reload warns of a certificate that expires within this many days."""
MAX_FILE_BYTES: Final = 256 * 1024
MAX_CERTIFICATES: Final = 10
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_WEAK_HASHES = ("md5", "sha1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """A chain and the matching key of its first certificate, valid at the time of reading.

    The server's own certificate comes first; ``spki_sha256`` is that of its SubjectPublicKeyInfo, 32 bytes.
    """

    chain: tuple[x509.Certificate, ...]
    pem: bytes
    key_pem: SecretBytes
    spki_sha256: bytes

    @property
    def not_after(self) -> datetime:
        """Last moment at which the whole chain is valid."""
        return min(one.not_valid_after_utc for one in self.chain)

    def warnings(self, *, at: datetime) -> Iterator[str]:
        """Yield warnings about material that is still valid."""
        if self.not_after - at < timedelta(days=SOON_DAYS):
            yield f"warning: the TLS certificate expires at {rfc3339_text(self.not_after)}; replace it"


def read_material(certificate_file: Path, key_file: Path, *, at: datetime) -> TlsMaterial:
    """Read both files and check that a client can accept them at a moment, bounds included.

    Both are PEM; the server's certificate comes first; the key is not encrypted, and only its owner can read it.

    Raises:
        ConfigurationError: ``tls-certificate-unreadable``, ``tls-certificate-invalid``, ``tls-certificate-weak``,
            ``tls-certificate-not-for-servers``, ``tls-certificate-expired``, ``tls-certificate-not-yet-valid``,
            ``tls-key-unusable``, ``tls-key-exposed``, ``tls-key-invalid`` or ``tls-key-mismatch``.
    """
    try:
        pem = read_bounded(certificate_file, MAX_FILE_BYTES)
    except OSError as exc:
        raise _unreadable(certificate_file, exc.strerror or str(exc)) from exc
    chain = parse_certificates(pem, file=certificate_file)
    for certificate in chain:
        _require_strong(certificate, certificate_file)
        _require_current(certificate, certificate_file, at)
    _require_for_servers(chain[0], certificate_file)
    key_pem = _read_key_pem(key_file)
    of_key, of_certificate = _spki(_public_of(key_pem, key_file)), _spki(chain[0].public_key())
    if not hmac.compare_digest(of_key, of_certificate):
        raise ConfigurationError(
            f"the key in {key_file} does not match the certificate in {certificate_file}",
            code="tls-key-mismatch",
            field="tls_key_file",
            expected=f"the key with SPKI SHA-256 {sha256(of_certificate).hexdigest()}",
            got=sha256(of_key).hexdigest(),
            hint="use two matching files, with the server's own certificate first in its file",
        )
    return TlsMaterial(chain=chain, pem=pem, key_pem=key_pem, spki_sha256=sha256(of_certificate).digest())


def parse_certificates(pem: bytes, *, file: Path) -> tuple[x509.Certificate, ...]:
    """Read PEM certificates.

    Raises:
        ConfigurationError: ``tls-certificate-invalid``: none, too many, or one that cannot be read.
    """
    try:
        found = tuple(x509.load_pem_x509_certificates(pem))
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _invalid(file, "it contains no readable PEM certificate") from exc
    if not 0 < len(found) <= MAX_CERTIFICATES:
        raise _invalid(file, f"it contains {len(found)} certificates, not 1 to {MAX_CERTIFICATES}")
    return found


def _read_key_pem(path: Path) -> SecretBytes:
    """Read a key file that only its owner, the user of this process, can read."""
    file = PrivateFile(
        path=path,
        noun="TLS key file",
        codes=("tls-key-unusable", "tls-key-unusable", "tls-key-exposed"),
        field="tls_key_file",
        hint="its owner must be the user that runs the service, its mode 0600",
        exposed="if another user may have read it, create a new key and certificate",
    )
    content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise unusable(file, f"more than {MAX_FILE_BYTES} bytes")
    return SecretBytes(content)


def _public_of(key_pem: SecretBytes, path: Path) -> PublicKeyTypes:
    """Return the public half. Errors contain neither the content nor the library's message about it."""
    public: PublicKeyTypes | None = None
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        public = key_pem.lend(EXPORT, partial(load_pem_private_key, password=None)).public_key()
    if public is None:
        raise ConfigurationError(
            f"{path} contains no usable private key",
            code="tls-key-invalid",
            field="tls_key_file",
            expected="one private key in PEM, not encrypted",
            hint="check it with 'openssl pkey -in FILE -noout'; decrypt it with 'openssl pkey'",
        )
    return public


def _weakness(certificate: x509.Certificate) -> str:
    key, digest = certificate.public_key(), certificate.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < MIN_RSA_BITS:
        return f"RSA of {key.key_size} bits"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name not in _CURVES:
        return f"the curve {key.curve.name}"
    if not isinstance(key, (rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey)):
        return type(key).__name__
    # The self-signature of a root is not relied on.
    if digest is not None and digest.name in _WEAK_HASHES and certificate.issuer != certificate.subject:
        return f"a signature over {digest.name.upper()}"
    return ""


def _require_strong(certificate: x509.Certificate, file: Path) -> None:
    if got := _weakness(certificate):
        raise ConfigurationError(
            f"a certificate in {file} is too weak: {got}",
            code="tls-certificate-weak",
            field="tls_certificate_file",
            expected=f"Ed25519, P-256, P-384, P-521, or RSA of at least {MIN_RSA_BITS} bits, signed over SHA-2",
            got=got,
        )


def _require_current(certificate: x509.Certificate, file: Path, at: datetime) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if at > end:
        raise ConfigurationError(
            f"a certificate in {file} has expired: {certificate.subject.rfc4514_string()}",
            code="tls-certificate-expired",
            field="tls_certificate_file",
            expected=f"at or after {rfc3339_text(at)}",
            got=rfc3339_text(end),
            hint="replace it with a new one from its issuer, then send SIGHUP",
        )
    if at < begin:
        raise ConfigurationError(
            f"a certificate in {file} is not yet valid: {certificate.subject.rfc4514_string()}",
            code="tls-certificate-not-yet-valid",
            field="tls_certificate_file",
            expected=f"at or before {rfc3339_text(at)}",
            got=rfc3339_text(begin),
            hint="check the machine's clock",
        )


def _require_for_servers(certificate: x509.Certificate, file: Path) -> None:
    """Refuse a certificate that every client would refuse: without names, of a CA, or only for clients."""
    problem = ""
    try:
        extensions = certificate.extensions
        names = [one.value for one in extensions if isinstance(one.value, x509.SubjectAlternativeName)]
        basic = [one.value for one in extensions if isinstance(one.value, x509.BasicConstraints)]
        usages = [one.value for one in extensions if isinstance(one.value, x509.ExtendedKeyUsage)]
    except ValueError as exc:
        raise _invalid(file, "an extension of the server's certificate is malformed") from exc
    if not names:
        problem = "it names no host (subjectAltName)"
    elif any(one.ca for one in basic):
        problem = "it is a CA certificate"
    elif usages and ExtendedKeyUsageOID.SERVER_AUTH not in usages[0]:
        problem = "it is not for servers (extendedKeyUsage)"
    if problem:
        raise ConfigurationError(
            f"the first certificate in {file} is not for a server: {problem}",
            code="tls-certificate-not-for-servers",
            field="tls_certificate_file",
            expected="the server's own certificate, first in the file",
            got=problem,
        )


def _spki(public: PublicKeyTypes) -> bytes:
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _unreadable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the TLS certificate file {path} cannot be read: {problem}",
        code="tls-certificate-unreadable",
        field="tls_certificate_file",
        got=problem,
    )


def _invalid(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the TLS certificate file {path} is invalid: {problem}",
        code="tls-certificate-invalid",
        field="tls_certificate_file",
        expected="certificates in PEM, the server's own first",
        got=problem,
    )
