"""A builder of launch endorsements with a root of its own, written from the published messages."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

AT = datetime(2026, 11, 1, tzinfo=UTC)
PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    """Return a field: a number as varint, bytes with their length before them."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


@cache
def rsa_key(role: str) -> rsa.RSAPrivateKey:
    del role  # One key for each.
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(
    name: str,
    key: Key,
    *,
    issuer: str,
    signing: rsa.RSAPrivateKey,
    ca: bool,
    start: datetime = AT - timedelta(days=1),
    end: datetime = AT + timedelta(days=1),
    critical: bool = False,
    pss: bool = True,
) -> x509.Certificate:
    subject, signer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, issuer))
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=signer, public_key=key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(end)
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if ca:
        usage = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"), False
        )
        usage |= dict.fromkeys(("key_agreement", "encipher_only", "decipher_only", "crl_sign"), False)
        builder = builder.add_extension(x509.KeyUsage(**usage, key_cert_sign=True), critical=True)
    if critical:
        unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.62397.99"), b"")
        builder = builder.add_extension(unknown, critical=True)
    return builder.sign(signing, hashes.SHA256(), rsa_padding=PSS if pss else None)


def root(*, start: datetime = AT - timedelta(days=1), end: datetime = AT + timedelta(days=1)) -> x509.Certificate:
    name, key = "GCE-cc-tcb-root", rsa_key("root")
    return certificate(name, key, issuer=name, signing=key, ca=True, start=start, end=end)


def signer(**options: bool | datetime) -> x509.Certificate:
    return certificate(
        "signer",
        rsa_key("signer"),
        issuer="GCE-cc-tcb-root",
        signing=rsa_key("root"),
        ca=False,
        **options,  # type: ignore[arg-type]  # each by its name
    )


@dataclass(frozen=True)
class Golden:
    """The parts of a golden measurement, as encoded; None is left out."""

    timestamp: bytes | None = field(1, int(AT.timestamp()))
    changelist: int | None = 4711
    commit: bytes | None = None
    cert: bytes | None = None
    digest: bytes | None = b"\x44" * 48
    ca_bundle: bytes | None = b"not read"
    snp: bytes | None = None
    tdx: bytes | None = None
    more: bytes = b""

    def encoded(self) -> bytes:
        cert = signer().public_bytes(Encoding.DER) if self.cert is None else self.cert
        parts = (self.timestamp, self.changelist, self.commit, cert, self.digest, self.ca_bundle, self.snp, self.tdx)
        return b"".join(field(at, part) for at, part in enumerate(parts, 1) if part is not None) + self.more


def tdx(*rows: tuple[int, bool, bytes], svn: int = 3) -> bytes:
    encoded = (field(1, ram) + field(2, int(early)) + field(3, mr_td) for ram, early, mr_td in rows)
    return field(1, svn) + b"".join(field(2, row) for row in encoded)


def snp(*rows: tuple[int, bytes], family: bytes = b"f" * 16, image: bytes = b"i" * 16) -> bytes:
    encoded = (field(1, count) + field(2, value) for count, value in rows)
    return (
        field(1, 5)
        + b"".join(field(2, row) for row in encoded)
        + field(3, family)
        + field(4, image)
        + field(5, 0x70000)
    )


TDX = tdx((0, False, b"\x01" * 48), (16, False, b"\x02" * 48), (16, True, b"\x03" * 48))
SNP = snp((2, b"\x05" * 48), (1, b"\x04" * 48))
GOLDEN = Golden(snp=SNP, tdx=TDX)


def endorsement(golden: Golden = GOLDEN, *, key: Key | None = None, signature: bytes | None = None) -> bytes:
    signed = golden.encoded()
    if signature is None:
        signing = key or rsa_key("signer")
        assert isinstance(signing, rsa.RSAPrivateKey)
        signature = signing.sign(signed, PSS, hashes.SHA256())
    return field(1, signed) + field(2, signature)


def changed(**parts: bytes | int | None) -> Golden:
    return replace(GOLDEN, **parts)  # type: ignore[arg-type]  # each by its name
