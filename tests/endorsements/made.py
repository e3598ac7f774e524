"""Certificates and revocation lists made byte by byte, so that each rule can be broken alone. Keys are P-384."""

from base64 import encodebytes
from datetime import UTC, datetime

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.endorsements.anchors import amd_name
from attest.endorsements.x509 import Extension
from attest_simulator import der

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = datetime(2027, 1, 1, tzinfo=UTC)
MIDDLE = datetime(2026, 7, 1, tzinfo=UTC)

ECDSA_SHA256 = der.sequence(der.object_identifier("1.2.840.10045.4.3.2"))
ECDSA_SHA384 = der.sequence(der.object_identifier("1.2.840.10045.4.3.3"))

CA_CONSTRAINTS = Extension(oid="2.5.29.19", critical=True, value=der.sequence(der.TRUE))
CA_USAGE = Extension(oid="2.5.29.15", critical=True, value=der.bit_string(b"\x06", unused_bits=1))
AUTHORITY = (CA_CONSTRAINTS, CA_USAGE)

ROOT_KEY = ec.derive_private_key(1001, ec.SECP384R1())
OTHER_KEY = ec.derive_private_key(1002, ec.SECP384R1())
ROOT_NAME = amd_name("Made Root")
OTHER_NAME = amd_name("Made Other")


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def extension(found: Extension) -> bytes:
    critical = (der.TRUE,) if found.critical else ()
    return der.sequence(der.object_identifier(found.oid), *critical, der.octet_string(found.value))


def signed(tbs: bytes, key: ec.EllipticCurvePrivateKey, *, outer: bytes, unused_bits: int = 0) -> bytes:
    signature = key.sign(tbs, ec.ECDSA(hashes.SHA384(), deterministic_signing=True))
    if unused_bits:
        signature = signature[:-1] + bytes([signature[-1] & 0xFF << unused_bits & 0xFF])
    return der.sequence(tbs, outer, der.bit_string(signature, unused_bits=unused_bits))


def certificate(
    *,
    subject: bytes = OTHER_NAME,
    issuer: bytes = ROOT_NAME,
    key: ec.EllipticCurvePrivateKey = OTHER_KEY,
    signer: ec.EllipticCurvePrivateKey = ROOT_KEY,
    serial: int = 7,
    extensions: tuple[Extension, ...] = AUTHORITY,
    version: int = 2,
    begins: datetime = BEGINS,
    ends: datetime = ENDS,
    inner: bytes = ECDSA_SHA384,
    outer: bytes = ECDSA_SHA384,
    unused_bits: int = 0,
) -> bytes:
    tbs = der.sequence(
        der.context(0, der.integer(version)),
        der.integer(serial),
        inner,
        issuer,
        der.sequence(der.time(begins), der.time(ends)),
        subject,
        spki(key),
        der.context(3, der.sequence(*map(extension, extensions))),
    )
    return signed(tbs, signer, outer=outer, unused_bits=unused_bits)


def crl(
    *,
    issuer: bytes = ROOT_NAME,
    signer: ec.EllipticCurvePrivateKey = ROOT_KEY,
    begins: datetime = BEGINS,
    ends: datetime = ENDS,
    revoked: tuple[int, ...] = (),
    version: int = 1,
    extensions: tuple[Extension, ...] = (),
    entry_extensions: tuple[Extension, ...] = (),
    more_entries: tuple[bytes, ...] = (),
    inner: bytes = ECDSA_SHA384,
    outer: bytes = ECDSA_SHA384,
) -> bytes:
    of_entry = (der.sequence(*map(extension, entry_extensions)),) if entry_extensions else ()
    entries = [der.sequence(der.integer(serial), der.time(begins), *of_entry) for serial in revoked]
    entries += more_entries
    tbs = der.sequence(
        der.integer(version),
        inner,
        issuer,
        der.time(begins),
        der.time(ends),
        *((der.sequence(*entries),) if entries else ()),
        der.context(0, der.sequence(*map(extension, extensions))),
    )
    return signed(tbs, signer, outer=outer)


def pem(label: str, data: bytes) -> bytes:
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (label.encode(), encodebytes(data), label.encode())


def label(value: object) -> str | None:
    """Name a parameter of a test: bytes by their length."""
    return f"{len(value)} bytes" if isinstance(value, bytes) else None
