"""A device of our own making, in the shape of specs/nvidia-gpu.md 6.1, so that each rule can be broken alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

from attest.checks import Unchecked
from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.endorsements.x509 import Certificate, Extension, parse_certificate
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.structure import parse_report
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances
from attest_simulator import der
from tests.endorsements.made import BEGINS, ENDS, MIDDLE, certificate, spki
from tests.evidence.gpu import made

AT = MIDDLE
NOBODY_REVOKED = Unchecked(check="revocation", reason="a test without OCSP")
NO_RIM = Unchecked(check="rim", reason="a test without RIMs")
WITHOUT = (NOBODY_REVOKED, NO_RIM)

ROOT_KEY, L2_KEY, L3_KEY, DEVICE_KEY, LEAF_KEY, STRANGER_KEY = (
    ec.derive_private_key(3000 + number, ec.SECP384R1()) for number in range(6)
)
P256_KEY = ec.derive_private_key(3100, ec.SECP256R1())
SHA384 = "2.16.840.1.101.3.4.2.2"
COMPOSITE, TCB_INFO = "2.23.133.5.4.1", "2.23.133.5.4.1.1"
FWID = bytes(range(48))
"""As ``made.GPU_ENTRIES`` has it."""
DIGITAL_SIGNATURE = Extension(oid="2.5.29.15", critical=True, value=der.bit_string(b"\x80", unused_bits=7))
SERIAL = 0x41AABBCCDDEEFF0011


def name(common_name: str, serial: str | None = None, *more: str) -> bytes:
    """DER Name with a CN and perhaps serialNumber attributes."""
    numbers = [x509.NameAttribute(NameOID.SERIAL_NUMBER, n) for n in (serial, *more) if n is not None]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name), *numbers]).public_bytes()


ROOT, L2, L3 = name("Made Device Identity CA"), name("Made Identity"), name("Made Provisioner ICA")
DEVICE = name("GH100 A01 GSP BROM", f"{SERIAL:X}")
LEAF = name("GH100 A01 GSP FMC LF", "0A0B")


def fwid_value(digest: bytes = FWID, *, algorithm: str = SHA384) -> bytes:
    return der.sequence(der.object_identifier(algorithm), der.octet_string(digest))


def composite(
    digest: bytes = FWID,
    *,
    key: ec.EllipticCurvePrivateKey = DEVICE_KEY,
    version: int = 1,
    algorithm: str = SHA384,
    after: bytes = b"",
) -> Extension:
    """The extension of Hopper and LS10."""
    value = der.sequence(der.integer(version), spki(key), fwid_value(digest, algorithm=algorithm), after)
    return Extension(oid=COMPOSITE, critical=False, value=value)


def implicit(number: int, content: bytes, *, constructed: bool = False) -> bytes:
    return bytes([(0xA0 if constructed else 0x80) | number, len(content)]) + content


def tcb_info(*fwids: bytes) -> Extension:
    """The extension of Blackwell: DiceTcbInfo with the members that a GB100 writes."""
    listed = b"".join(fwids)
    value = der.sequence(
        implicit(0, b"NVIDIA"),
        implicit(1, b"GB100 A01 GSP"),
        implicit(2, b"01"),
        implicit(3, b"\x01"),
        implicit(4, b"\x00"),
        implicit(5, b"\x00"),
        bytes([0xA6, 0x81, len(listed)]) + listed if len(listed) > 127 else implicit(6, listed, constructed=True),
        implicit(7, bytes.fromhex("0080000001")),
        implicit(8, b"\xc0"),
        implicit(9, b"\x00"),
    )
    return Extension(oid=TCB_INFO, critical=False, value=value)


def held(begins: datetime | None = BEGINS, ends: datetime | None = ENDS) -> TrustAnchors:
    """The root by its key."""
    return _anchors(subject=ROOT, spki=spki(ROOT_KEY), not_before=begins, not_after=ends)


def pinned() -> TrustAnchors:
    """The root by its digest alone, as the simulator's is."""
    return _anchors(simulated=True)


def _anchors(**more: object) -> TrustAnchors:
    root = parse_certificate(certificate(subject=ROOT, issuer=ROOT, key=ROOT_KEY, signer=ROOT_KEY))
    given = {"name": "made", "role": "nvidia-device-root", "product": "NVIDIA", "spki_sha256": root.spki_sha256, **more}
    return TrustAnchors(anchors=(Anchor(**given),))  # type: ignore[arg-type]  # changes of any argument


@dataclass(frozen=True, kw_only=True)
class MadeDevice:
    """Certificates and report of one device; each mapping changes arguments of one certificate."""

    leaf: Mapping[str, object] = field(default_factory=dict)
    device: Mapping[str, object] = field(default_factory=dict)
    l3: Mapping[str, object] = field(default_factory=dict)
    l2: Mapping[str, object] = field(default_factory=dict)
    root: Mapping[str, object] = field(default_factory=dict)
    entries: bytes = made.opaque()
    count: int = 64
    nonce: bytes = made.NONCE
    key: ec.EllipticCurvePrivateKey = LEAF_KEY

    def certificates(self) -> tuple[Certificate, ...]:
        """Leaf, device, L3, L2, root."""
        defaults = (
            {"subject": LEAF, "issuer": DEVICE, "key": LEAF_KEY, "signer": DEVICE_KEY, "serial": 0x0A0B,
             "extensions": (DIGITAL_SIGNATURE, composite())},
            {"subject": DEVICE, "issuer": L3, "key": DEVICE_KEY, "signer": L3_KEY, "serial": SERIAL},
            {"subject": L3, "issuer": L2, "key": L3_KEY, "signer": L2_KEY, "serial": 3},
            {"subject": L2, "issuer": ROOT, "key": L2_KEY, "signer": ROOT_KEY, "serial": 2},
            {"subject": ROOT, "issuer": ROOT, "key": ROOT_KEY, "signer": ROOT_KEY, "serial": 1},
        )  # fmt: skip
        changes = (self.leaf, self.device, self.l3, self.l2, self.root)
        arguments = ({**default, **change} for default, change in zip(defaults, changes, strict=True))
        return tuple(parse_certificate(certificate(**a)) for a in arguments)  # type: ignore[arg-type]  # as above

    def report(self) -> bytes:
        """A report that the leaf's key signed."""
        unsigned = made.report(self.entries, count=self.count, nonce=self.nonce)[:-96]
        return unsigned + sign(unsigned, self.key)

    def raw(self) -> ParsedGpuEvidence:
        """The report alone."""
        return ParsedGpuEvidence(report=parse_report(self.report()))

    def evidence(self, **more: object) -> ParsedGpuEvidence:
        """The report with its chain and its root."""
        given = {"chain": self.certificates(), **more}
        return ParsedGpuEvidence(report=parse_report(self.report()), **given)  # type: ignore[arg-type]  # as above

    def pool(self) -> Endorsements:
        """The chain among the endorsements."""
        return Endorsements(certificates=self.certificates())


def sign(message: bytes, key: ec.EllipticCurvePrivateKey = LEAF_KEY) -> bytes:
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA384(), deterministic_signing=True)))
    return r.to_bytes(48, "big") + s.to_bytes(48, "big")


SWITCH = MadeDevice(
    leaf={"issuer": name("LS_10 A01 FSP BROM", "500102030405060708")},
    device={"subject": name("LS_10 A01 FSP BROM", "500102030405060708"), "serial": 0x500102030405060708},
    entries=made.opaque(made.SWITCH_ENTRIES),
    count=31,
)
BLACKWELL = MadeDevice(
    leaf={
        "issuer": name("GB100 A01 GSP BROM", f"{SERIAL:X}"),
        "extensions": (DIGITAL_SIGNATURE, tcb_info(fwid_value(), fwid_value(bytes(48)))),
    },
    device={"subject": name("GB100 A01 GSP BROM", f"{SERIAL:X}")},
)


def verify(
    parsed: ParsedGpuEvidence,
    pool: Endorsements = NO_ENDORSEMENTS,
    *,
    anchors: TrustAnchors | None = None,
    at: datetime = AT,
    unchecked: tuple[Unchecked, ...] = WITHOUT,
    tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES,
) -> VerifiedGpu:
    """Verify with what this module vouches for, without OCSP and RIMs unless told otherwise."""
    roots = held() if anchors is None else anchors
    return verify_gpu_evidence(
        parsed, endorsements=pool, anchors=roots, at=at, unchecked=unchecked, tolerances=tolerances
    )
