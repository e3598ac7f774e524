"""Tokens that bring their signer's chain along (``x5c``), up to a root that the operator named for their issuer.

The chain in a header proves nothing by itself: an attacker can write one. It counts only where the operator gave a root
certificate instead of a key set (Google's PKI tokens), and only when it ends at the key of that root.

NOTE: revocation is not checked. Google publishes no list for these certificates; withdrawing one means naming another
root, or a key set instead.

Spec: RFC 5280, section 6.1; RFC 7515, section 4.1.6; Google Cloud, PKI tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtensionOID

from attest.encoding import JsonValue, base64_bytes, base64url_bytes, json_value, rfc3339_text
from attest.endorsements.x509 import MAX_CERTIFICATE_BYTES, pem_blocks
from attest.errors import ChainError, ConfigurationError, EvidenceError
from attest.results.jose import CERTIFICATE_ERRORS, RSA_BITS, TokenKey, rsa_jwk
from attest.results.token_refusal import token_malformed

MAX_ROOTS = 8
CHAIN_CERTIFICATES = range(2, 6)
"""Google sends three: leaf, intermediate, root."""
_HASHES = frozenset({"sha256", "sha384", "sha512"})
_UNDERSTOOD = frozenset(
    {ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE, ExtensionOID.EXTENDED_KEY_USAGE}
)  # of those that may be critical
_CLAUSE = "RFC 5280, section 6.1; RFC 7515, section 4.1.6"
_CHAIN = "the token's chain: "
_ROOT_HINT = "make a root with 'openssl req -x509 … -addext keyUsage=critical,keyCertSign,cRLSign'"
_T = TypeVar("_T", x509.BasicConstraints, x509.KeyUsage)


def is_certificate(data: bytes) -> bool:
    """Return True for a file of certificates, PEM or DER, rather than a key set."""
    return data.startswith(b"\x30") or b"-----BEGIN CERTIFICATE-----" in data


def read_token_roots(data: bytes) -> tuple[x509.Certificate, ...]:
    """Read the roots whose certificates may sign tokens: one in DER, or several in PEM.

    Raises:
        ConfigurationError: ``token-root-invalid``: none, too many, one that cannot be read or may not issue others.
    """
    try:
        ders = (
            [data] if data.startswith(b"\x30") else [der for label, der in pem_blocks(data) if label == "CERTIFICATE"]
        )
        if not 0 < len(ders) <= MAX_ROOTS:
            raise _bad_root(f"expected 1 to {MAX_ROOTS} certificates, got {len(ders)}")
        roots = tuple(_certificate(der) for der in ders)
        for root in roots:
            _require_ca(root, below=0)
    except EvidenceError as exc:
        raise _bad_root(exc.message) from exc
    except ChainError as exc:
        problem = f"{exc.message.removeprefix(_CHAIN)}: expected {exc.expected}"
        raise _bad_root(problem, hint=_ROOT_HINT) from exc
    return roots


def _bad_root(problem: str, *, hint: str | None = None) -> ConfigurationError:
    return ConfigurationError(
        f"root certificate: {problem}",
        code="token-root-invalid",
        expected="CA certificates in PEM or DER",
        clause=_CLAUSE,
        hint=hint,
    )


def certified_key(text: str, roots: Sequence[x509.Certificate], *, at: datetime) -> TokenKey | None:
    """Return the key that the chain in a token's header certifies, or None when the header has no chain.

    The token is a JWT in compact form, not verified yet; the caller trusts the roots for its issuer. ``at`` is aware;
    validity bounds are inclusive.

    Raises:
        EvidenceError: ``token-malformed``, ``json-invalid`` or ``base64-invalid``: no header, or no list of
            certificates in it.
        ChainError: ``token-chain-invalid``.
    """
    header = json_value(base64url_bytes(text.partition(".")[0], what="the token"), what="the token")
    chain = header.get("x5c") if isinstance(header, dict) else None
    if chain is None:
        return None
    if not isinstance(chain, list) or len(chain) not in CHAIN_CERTIFICATES:
        expected = f"{CHAIN_CERTIFICATES.start} to {CHAIN_CERTIFICATES.stop - 1} certificates"
        raise token_malformed(f"x5c: expected {expected}", field="x5c", clause=_CLAUSE)
    certificates = [_certificate(_der(entry)) for entry in chain]
    root = _root_of(certificates[-1], roots)
    # The root may be sent along. What counts is the one that the caller named.
    path = [*(certificates[:-1] if _spki(certificates[-1]) == _spki(root) else certificates), root]
    _require_path(path, at)
    leaf = path[0].public_key()
    if not isinstance(leaf, rsa.RSAPublicKey) or leaf.key_size not in RSA_BITS:
        raise _bad_chain("the leaf has no RSA key of an accepted size", f"{RSA_BITS.start} bits or more", "another key")
    return TokenKey(kid=sha256(_spki(path[0])).hexdigest(), jwk=rsa_jwk(leaf), certificates=())


def _der(entry: JsonValue) -> bytes:
    if not isinstance(entry, str):
        raise token_malformed("x5c: expected base64", field="x5c", clause=_CLAUSE)
    return base64_bytes(entry, what="x5c")


def _certificate(der: bytes) -> x509.Certificate:
    """Read a certificate, with its name, its key and its extensions, so that nothing of them fails later."""
    if len(der) > MAX_CERTIFICATE_BYTES:
        raise _bad_chain("a certificate is too long", f"at most {MAX_CERTIFICATE_BYTES} bytes", f"{len(der)} bytes")
    try:
        certificate = x509.load_der_x509_certificate(der)
        _spki(certificate)
        unknown = [e.oid for e in certificate.extensions if e.critical and e.oid not in _UNDERSTOOD]
        _ = (certificate.subject, certificate.issuer, certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    except CERTIFICATE_ERRORS as exc:
        raise _bad_chain("a certificate cannot be read", "X.509, DER", "other bytes") from exc
    if unknown:
        raise _bad_chain(
            "a certificate has a critical extension that is not understood", "none", unknown[0].dotted_string
        )
    return certificate


def _spki(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _root_of(last: x509.Certificate, roots: Sequence[x509.Certificate]) -> x509.Certificate:
    """Return the named root with which a chain ends: the last certificate's own key, or its issuer."""
    for root in roots:
        if _spki(root) == _spki(last) or _is_issued(last, root):
            return root
    raise _bad_chain(
        ("the chain does not end at a root that is named for the issuer"), "a root given with --trust", "another"
    )


def _require_path(path: Sequence[x509.Certificate], at: datetime) -> None:
    """Require a path, leaf first: each in time, issued by the next, which may issue, and the leaf may not."""
    for certificate in path:
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not begins <= at <= ends:
            allowed = f"{rfc3339_text(begins)} to {rfc3339_text(ends)}"
            raise _bad_chain("a certificate of the chain is not valid now", allowed, rfc3339_text(at))
    for below, (certificate, issuer) in enumerate(pairwise(path)):
        if not _is_issued(certificate, issuer):
            raise _bad_chain("a certificate was not issued by the next one", "a signature by it", "none that verifies")
        _require_ca(issuer, below=below)
    constraints = _extension(path[0], x509.BasicConstraints)
    usage = _extension(path[0], x509.KeyUsage)
    if (constraints is not None and constraints.ca) or (usage is not None and not usage.digital_signature):
        raise _bad_chain("the leaf is not for signatures", "a leaf with digitalSignature", "another use")


def _is_issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Return True if an issuer signed a certificate with an unbroken hash."""
    try:
        algorithm = certificate.signature_hash_algorithm
        if algorithm is None or algorithm.name not in _HASHES:
            return False
        certificate.verify_directly_issued_by(issuer)
    except (*CERTIFICATE_ERRORS, InvalidSignature):
        return False
    return True


def _require_ca(certificate: x509.Certificate, *, below: int) -> None:
    """Require a certificate that may issue others, with ``below`` further issuers under it."""
    constraints = _extension(certificate, x509.BasicConstraints)
    usage = _extension(certificate, x509.KeyUsage)
    is_ca = constraints is not None and constraints.ca and usage is not None and usage.key_cert_sign
    length = None if constraints is None else constraints.path_length
    if not is_ca or (length is not None and below > length):
        raise _bad_chain(
            "a certificate may not issue others here",
            ("CA:TRUE, keyCertSign, and a path length that permits it"),
            "neither",
        )


def _extension(certificate: x509.Certificate, kind: type[_T]) -> _T | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _bad_chain(problem: str, expected: str, got: str) -> ChainError:
    return ChainError(
        f"{_CHAIN}{problem}",
        code="token-chain-invalid",
        check="token.signature",
        field="x5c",
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )
