"""Quotes and PCK chains made byte by byte, so that each rule can be broken alone. Independent of the simulator."""

from base64 import encodebytes
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.endorsements.anchors import Anchor, TrustAnchors, intel_name
from attest.endorsements.x509 import Extension
from attest_simulator import der

AT = datetime(2026, 6, 1, tzinfo=UTC)
BEGINS, ENDS = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)

ROOT_KEY, CA_KEY, PCK_KEY, ATTESTATION_KEY, OTHER_KEY = (
    ec.derive_private_key(2001 + i, ec.SECP256R1()) for i in range(5)
)
ROOT_NAME, CA_NAME, PROCESSOR_NAME, PCK_NAME = (
    intel_name(f"Intel SGX {role}", organisation="Made")
    for role in ("Root CA", "PCK Platform CA", "PCK Processor CA", "PCK Certificate")
)
SHA256 = der.sequence(der.object_identifier("1.2.840.10045.4.3.2"))
SHA384 = der.sequence(der.object_identifier("1.2.840.10045.4.3.3"))
AUTHORITY = (
    Extension(oid="2.5.29.19", critical=True, value=der.sequence(der.TRUE)),
    Extension(oid="2.5.29.15", critical=True, value=der.bit_string(b"\x06", unused_bits=1)),
)
SGX = "1.2.840.113741.1.13.1"
COMPONENTS = (3, 3, 2, 2, 255, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1)
Members = dict[str, bytes | None]


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def point(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]


def sign_raw(data: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True)))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def certificate(
    *,
    subject: bytes = CA_NAME,
    issuer: bytes = ROOT_NAME,
    key: bytes | ec.EllipticCurvePrivateKey = CA_KEY,
    signer: ec.EllipticCurvePrivateKey = ROOT_KEY,
    extensions: tuple[Extension, ...] = AUTHORITY,
    begins: datetime = BEGINS,
    ends: datetime = ENDS,
    algorithm: bytes = SHA256,
) -> bytes:
    tbs = der.sequence(
        der.context(0, der.integer(2)),
        der.integer(7),
        algorithm,
        issuer,
        der.sequence(der.time(begins), der.time(ends)),
        subject,
        key if isinstance(key, bytes) else spki(key),
        der.context(3, der.sequence(*map(_extension, extensions))),
    )
    digest = hashes.SHA384() if algorithm == SHA384 else hashes.SHA256()
    signature = signer.sign(tbs, ec.ECDSA(digest, deterministic_signing=True))
    return der.sequence(tbs, algorithm, der.bit_string(signature))


def _extension(found: Extension) -> bytes:
    critical = (der.TRUE,) if found.critical else ()
    return der.sequence(der.object_identifier(found.oid), *critical, der.octet_string(found.value))


def members(pairs: Members) -> bytes:
    """A SEQUENCE of pairs; None leaves a member out."""
    kept = ((name, value) for name, value in pairs.items() if value is not None)
    return der.sequence(*(der.sequence(der.object_identifier(SGX + name), value) for name, value in kept))


def tcb_members(**changed: bytes | None) -> Members:
    """The 18 members of the TCB; ``m17`` changes .2.17."""
    pairs: Members = {f".2.{i + 1}": der.integer(svn) for i, svn in enumerate(COMPONENTS)}
    pairs |= {".2.17": der.integer(13), ".2.18": der.octet_string(bytes(COMPONENTS))}
    return pairs | {f".2.{name[1:]}": value for name, value in changed.items()}


def sgx_members(**changed: bytes | None) -> Members:
    """The members of the extension; ``m4`` changes .4, FMSPC."""
    pairs: Members = {
        ".1": der.octet_string(bytes(range(16))),
        ".2": members(tcb_members()),
        ".3": der.octet_string(b"\x00\x01"),
        ".4": der.octet_string(bytes.fromhex("50806f000000")),
        ".5": b"\x0a\x01\x01",
        ".6": der.octet_string(bytes(range(16, 32))),
        ".7": members({".7.1": der.TRUE, ".7.2": b"\x01\x01\x00", ".7.3": der.TRUE}),
    }
    return pairs | {f".{name[1:]}": value for name, value in changed.items()}


def pck(
    value: bytes | None = None,
    *,
    subject: bytes = PCK_NAME,
    issuer: bytes = CA_NAME,
    key: bytes | ec.EllipticCurvePrivateKey = PCK_KEY,
    signer: ec.EllipticCurvePrivateKey = CA_KEY,
    begins: datetime = BEGINS,
    ends: datetime = ENDS,
    algorithm: bytes = SHA256,
) -> bytes:
    held = Extension(oid=SGX, critical=False, value=members(sgx_members()) if value is None else value)
    return certificate(
        subject=subject,
        issuer=issuer,
        key=key,
        signer=signer,
        extensions=(held,),
        begins=begins,
        ends=ends,
        algorithm=algorithm,
    )


CA = certificate()
ROOT = certificate(subject=ROOT_NAME, key=ROOT_KEY)
PCK = pck()


def pem(*certificates: bytes) -> bytes:
    begin, end = b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n"
    return b"".join(begin + encodebytes(data) + end for data in certificates)


CHAIN = pem(PCK, CA, ROOT) + b"\0"

HELD = Anchor(
    name="Made Root",
    role="intel-sgx-root",
    product="SGX",
    spki_sha256=sha256(spki(ROOT_KEY)).digest(),
    subject=ROOT_NAME,
    spki=spki(ROOT_KEY),
    not_before=BEGINS,
    not_after=ENDS,
)
PINNED = Anchor(name="Made Root", role="intel-sgx-root", product="SGX", spki_sha256=HELD.spki_sha256)
ANCHORS = TrustAnchors(anchors=(HELD,))


def u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


@dataclass(frozen=True, kw_only=True)
class MadeQuote:
    """What a quote is made of; whatever is given replaces what would be computed."""

    version: int = 4
    key_type: int = 2
    tee_type: int = 0x81
    vendor: bytes = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
    body_type: int = 3
    body_size: int | None = None
    body: bytes | None = None
    attestation_key: bytes = point(ATTESTATION_KEY)
    signature: bytes | None = None
    qe_report: bytes | None = None
    qe_signature: bytes | None = None
    auth_data: bytes = bytes(range(32))
    auth_size: int | None = None
    outer_type: int = 6
    outer_size: int | None = None
    certification_type: int = 5
    certification_data: bytes = field(default=CHAIN, repr=False)
    certification_size: int | None = None
    slack: bytes = b""
    length: int | None = None
    padding: bytes = b""

    def signed(self) -> bytes:
        size = {0: 384, 0x81: 584}.get(self.tee_type, 584)
        size = {1: 384, 2: 584, 3: 648, 4: 885}.get(self.body_type, size) if self.version == 5 else size
        body = bytes(i % 251 for i in range(size)) if self.body is None else self.body
        head = u16(self.version) + u16(self.key_type) + u32(self.tee_type) + b"\1\0\2\0" + self.vendor + bytes(20)
        described = u16(self.body_type) + u32(size if self.body_size is None else self.body_size)
        return head + (described if self.version == 5 else b"") + body

    def made_qe_report(self) -> bytes:
        if self.qe_report is not None:
            return self.qe_report
        return bytes(320) + sha256(self.attestation_key + self.auth_data).digest() + bytes(32)

    def to_bytes(self) -> bytes:
        signed, report, data = self.signed(), self.made_qe_report(), self.certification_data
        size = len(data) if self.certification_size is None else self.certification_size
        auth_size = len(self.auth_data) if self.auth_size is None else self.auth_size
        inner = report + (sign_raw(report, PCK_KEY) if self.qe_signature is None else self.qe_signature)
        inner += u16(auth_size) + self.auth_data + u16(self.certification_type) + u32(size) + data
        if self.version != 3:
            outer_size = len(inner) if self.outer_size is None else self.outer_size
            inner = u16(self.outer_type) + u32(outer_size) + inner
        signature = sign_raw(signed, ATTESTATION_KEY) if self.signature is None else self.signature
        tail = signature + self.attestation_key + inner + self.slack
        return signed + u32(len(tail) if self.length is None else self.length) + tail + self.padding


SGX_V3 = MadeQuote(version=3, tee_type=0)
FORMS = {
    "SGX version 3": SGX_V3,
    "SGX version 4": MadeQuote(tee_type=0),
    "SGX version 5": MadeQuote(version=5, tee_type=0, body_type=1),
    "TDX version 4": MadeQuote(),
    "TDX 1.0 version 5": MadeQuote(version=5, body_type=2),
    "TDX 1.5 version 5": MadeQuote(version=5),
    "TDX 1.5 extended": MadeQuote(version=5, body_type=4),
}
