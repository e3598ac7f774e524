"""NVIDIA's fields in the certificates of a device: the leaf's firmware id and the device's identity.

L5 is the attestation key, which the device makes for the firmware that it booted. L4 names the device itself: the
serial number in its subject is a type byte and the id (PDI) with which GPUs and switches name each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.asn1 import KeyUsageHolder, NameHolder, tlv
from attest.endorsements.signatures import load_public_key
from attest.endorsements.x509 import Certificate
from attest.errors import ChainError, UnsupportedError

DeviceKind = Literal["nvidia-gpu", "nvidia-switch"]
Architecture = Literal["hopper", "blackwell", "ls10"]

_COMPOSITE_DEVICE_ID = "2.23.133.5.4.1"
_TCB_INFO = "2.23.133.5.4.1.1"
_SHA384 = "2.16.840.1.101.3.4.2.2"
_FWID_BYTES = 48
_BASIC_CONSTRAINTS = "2.5.29.19"
_KEY_USAGE = "2.5.29.15"
_DIGITAL_SIGNATURE = 0x80
_KEY_CERT_SIGN = 0x04
_SERIAL_NUMBER = "2.5.4.5"
_SERIAL_TEXT = re.compile(rb"[0-9A-Fa-f]{18}")
_REMEMBERED = 1024
_CLAUSE = "TCG DICE attestation architecture"


@asn1.sequence
class _Fwid:
    """FWID (TCG DICE attestation architecture, section 6.1.1)."""

    algorithm: x509.ObjectIdentifier
    digest: bytes


@asn1.sequence
class _CompositeDeviceId:
    """CompositeDeviceID: version, the deviceID key, which is L4's, and the firmware id of what runs above it."""

    version: int
    device_id: asn1.TLV
    fwid: _Fwid


@asn1.sequence
class _TcbInfo:
    """DiceTcbInfo (TCG DICE attestation architecture, section 6.1.1), with every member optional as there."""

    vendor: Annotated[str | None, asn1.Implicit(0)]
    model: Annotated[str | None, asn1.Implicit(1)]
    version: Annotated[str | None, asn1.Implicit(2)]
    svn: Annotated[int | None, asn1.Implicit(3)]
    layer: Annotated[int | None, asn1.Implicit(4)]
    index: Annotated[int | None, asn1.Implicit(5)]
    fwids: Annotated[list[_Fwid] | None, asn1.Implicit(6)]
    flags: Annotated[asn1.BitString | None, asn1.Implicit(7)]
    vendor_info: Annotated[bytes | None, asn1.Implicit(8)]
    type: Annotated[bytes | None, asn1.Implicit(9)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuLeaf:
    """L5: the certificate of the key that signs reports; not trusted until its chain is verified.

    Attributes:
        fwid: SHA-384 of the first mutable firmware, 48 bytes.
        device_key: DER SubjectPublicKeyInfo of the deviceID inside the extension, which must be the key of L4; None
            where the extension carries none (Blackwell).
    """

    certificate: Certificate
    fwid: bytes
    device_key: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """Identity of the device, independent of its firmware: the subject serialNumber of L4.

    Attributes:
        type_byte: 0x41 for a GPU, 0x50 for an NVSwitch.
        pdi: 8 bytes, in the order written.
    """

    type_byte: int
    pdi: bytes

    @property
    def text(self) -> str:
        """Type byte and PDI, 18 lower-case hex digits."""
        return f"{self.type_byte:02x}{self.pdi.hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceModel:
    """Kind of device of an L4 certificate.

    Attributes:
        architecture: by type byte and CN together.
        product: first word of the CN, without the underscore, as RIMs name it (``GH100``, ``LS10``).
    """

    kind: DeviceKind
    architecture: Architecture
    product: str


# -- the leaf


def is_leaf(certificate: Certificate) -> bool:
    """Return whether a certificate bears a firmware id and so claims to be the L5 of a device."""
    return any(e.oid in _READERS for e in certificate.extensions)


@lru_cache(maxsize=_REMEMBERED)
def without_firmware_id(certificate: Certificate) -> Certificate:
    """Return a leaf less its firmware id, for rules that refuse critical extensions which they do not know.

    ``read_leaf`` knows it. NVIDIA's Hopper leaves do not mark it critical; TCG lets others do so.
    """
    if not any(extension.critical for extension in certificate.extensions if extension.oid in _READERS):
        return certificate
    return replace(certificate, extensions=tuple(e for e in certificate.extensions if e.oid not in _READERS))


@lru_cache(maxsize=_REMEMBERED)
def read_leaf(certificate: Certificate) -> GpuLeaf:
    """Decode the firmware id of an L5, and require that it is a leaf: it signs data and issues nothing.

    Raises:
        ChainError: ``gpu-leaf-malformed``: none or both of the two extensions, DER that is not theirs, another digest
            than SHA-384; a certificate that may issue others or may not sign.
        ChainError: ``public-key-invalid``: no P-384 key.

    Spec: specs/nvidia-gpu.md, sections 6.1 and 7.
    """
    found = [extension for extension in certificate.extensions if extension.oid in _READERS]
    if len(found) != 1:
        one_of = f"one of the extensions {' and '.join(_READERS)}"
        raise _malformed(certificate, "firmware id", one_of, "both" if found else "none")
    fwid, device_key = _READERS[found[0].oid](certificate, found[0].value)
    _require_signs_data(certificate)
    require_p384(certificate)
    return GpuLeaf(certificate=certificate, fwid=_digest(certificate, fwid), device_key=device_key)


def _composite(certificate: Certificate, der: bytes) -> tuple[_Fwid, bytes | None]:
    try:
        decoded = asn1.decode_der(_CompositeDeviceId, der)
    except (ValueError, OverflowError) as exc:
        raise _malformed(certificate, "firmware id", "DER of a CompositeDeviceID", "other bytes") from exc
    if decoded.version != 1:
        raise _malformed(certificate, "version of the firmware id", "1", "another number")
    element = decoded.device_id
    return decoded.fwid, tlv(element.tag_bytes[0], bytes(element.data))


def _tcb_info(certificate: Certificate, der: bytes) -> tuple[_Fwid, bytes | None]:
    """Take the first of the firmware ids: the second is that of a layer which is not there, all zero."""
    try:
        fwids = asn1.decode_der(_TcbInfo, der).fwids
    except (ValueError, OverflowError) as exc:
        raise _malformed(certificate, "firmware id", "DER of a DiceTcbInfo", "other bytes") from exc
    if not fwids:
        raise _malformed(certificate, "firmware id", "a list of firmware ids", "none")
    return fwids[0], None


_READERS: dict[str, Callable[[Certificate, bytes], tuple[_Fwid, bytes | None]]] = {
    _COMPOSITE_DEVICE_ID: _composite,
    _TCB_INFO: _tcb_info,
}


def _digest(certificate: Certificate, fwid: _Fwid) -> bytes:
    algorithm = fwid.algorithm.dotted_string
    if algorithm != _SHA384 or len(fwid.digest) != _FWID_BYTES:
        got = f"{len(fwid.digest)} bytes of algorithm {algorithm}"
        raise _malformed(certificate, "firmware id", f"{_FWID_BYTES} bytes of SHA-384", got)
    return fwid.digest


def _require_signs_data(certificate: Certificate) -> None:
    """Require digitalSignature without keyCertSign, and no basicConstraints: an L5 has none at all."""
    if certificate.extension(_BASIC_CONSTRAINTS) is not None:
        raise _malformed(certificate, "basicConstraints", "no such extension", "one")
    usage = certificate.extension(_KEY_USAGE)
    try:
        bits = b"" if usage is None else asn1.decode_der(KeyUsageHolder, tlv(0x30, usage.value)).bits.as_bytes()
    except ValueError as exc:
        raise _malformed(certificate, "keyUsage", "a BIT STRING", "other DER") from exc
    first = bits[0] if bits else 0
    if not first & _DIGITAL_SIGNATURE or first & _KEY_CERT_SIGN:
        raise _malformed(certificate, "keyUsage", "digitalSignature without keyCertSign", bits.hex() or "none")


@lru_cache(maxsize=_REMEMBERED)
def require_p384(certificate: Certificate) -> None:
    """Require that a certificate's key is one of P-384: NVIDIA has no other.

    Raises:
        ChainError: ``public-key-invalid``.
    """
    key = load_public_key(certificate.spki)
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
        raise ChainError(
            f"the public key of {certificate.name} is not one of P-384",
            code="public-key-invalid",
            expected="ECDSA P-384",
            got=type(key).__name__,
            clause="NVIDIA nvtrust, device certificates",
        )


# -- the device


@lru_cache(maxsize=_REMEMBERED)
def read_identity(certificate: Certificate) -> DeviceIdentity:
    """Read type byte and PDI from an L4: its subject serialNumber, which is its certificate serial too.

    Raises:
        ChainError: ``gpu-identity-malformed``: no such attribute, two of them, not 9 bytes in hex, or another number
            than the certificate's serial.

    Spec: specs/nvidia-gpu.md, section 7, "PDI".
    """
    holder = asn1.decode_der(NameHolder, tlv(0x30, certificate.subject))  # read before, for the CN
    values = [
        bytes(a.value.data) for rdn in holder.name for a in rdn.as_list() if a.oid.dotted_string == _SERIAL_NUMBER
    ]
    if len(values) != 1 or not _SERIAL_TEXT.fullmatch(values[0]) or int(values[0], 16) != certificate.serial:
        raise ChainError(
            f"{certificate.name} does not name a device",
            code="gpu-identity-malformed",
            field="subject serialNumber",
            expected=f"9 bytes in hex that are the certificate's serial number, {certificate.serial:#x}",
            got=", ".join(repr(value)[2:-1] for value in values) or "none",
            clause="TCG DICE Attestation Architecture, TcbInfo",
        )
    number = bytes.fromhex(values[0].decode("ascii"))
    return DeviceIdentity(type_byte=number[0], pdi=number[1:])


_MODELS: tuple[tuple[int, str, DeviceKind, Architecture], ...] = (
    (0x41, "GH1", "nvidia-gpu", "hopper"),
    (0x41, "GB1", "nvidia-gpu", "blackwell"),
    (0x41, "GB2", "nvidia-gpu", "blackwell"),
    (0x50, "LS_10", "nvidia-switch", "ls10"),
)
"""Type byte and start of the CN of L4; both have to agree (specs/nvidia-gpu.md, sections 4.1 and 16)."""


def read_model(certificate: Certificate, identity: DeviceIdentity) -> DeviceModel:
    """Return the kind of device of an L4, by the type byte of its identity together with its CN.

    Raises:
        UnsupportedError: ``gpu-device-unsupported``: neither a known GPU nor a known switch.
    """
    name = certificate.common_name or ""
    for type_byte, prefix, kind, architecture in _MODELS:
        if identity.type_byte == type_byte and name.startswith(prefix):
            return DeviceModel(kind=kind, architecture=architecture, product=name.split()[0].replace("_", ""))
    raise UnsupportedError(
        f"{certificate.name} with type byte {identity.type_byte:#x} is not a known device",
        code="gpu-device-unsupported",
        expected="0x41 with GH1…, GB1… or GB2…, or 0x50 with LS_10",
        got=f"{identity.type_byte:#x} with {name or 'a name without one CN'}",
        clause="NVIDIA nvtrust, opaque data and device certificates",
    )


def _malformed(certificate: Certificate, what: str, expected: str, got: str) -> ChainError:
    return ChainError(
        f"{what} of {certificate.name}: expected {expected}, got {got}",
        code="gpu-leaf-malformed",
        field=what,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )
