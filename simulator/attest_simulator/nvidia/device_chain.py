"""Certificates of one simulated device: L4, which identifies it, and L5, whose key signs its reports.

Spec: specs/nvidia-gpu.md, sections 6.1 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.nvidia.authorities import provisioner_authority
from attest_simulator.nvidia.certificates import (
    NO_EXPIRY,
    NvidiaCertificateTemplate,
    authority_key_id,
    basic_constraints,
    device_name,
    key_usage,
    ocsp_pointer,
    subject_key_id,
)
from attest_simulator.nvidia.keys import derived_bytes, key_id, p384_key, spki_of
from attest_simulator.nvidia.products import Product

DICE_FWID = "2.23.133.5.4.1"
DICE_TCB_INFO = "2.23.133.5.4.1.1"

PDI_BYTES = 8
FWID_BYTES = 48
_SIGNS_CERTIFICATES = der.bit_string(b"\x04", unused_bits=2)
_SIGNS_DATA = der.bit_string(b"\x80", unused_bits=7)
_L4_DIGITS, _L5_DIGITS = 2 * (1 + PDI_BYTES), 40
_L5_SERIAL_BITS = 159
"""The serial number of L5 is its subject key identifier without the highest bit, so that it is positive."""
_SHA384 = der.object_identifier("2.16.840.1.101.3.4.2.2")
_FLAGS = b"\x80\x00\x00\x01"


def firmware_id(product: Product, driver: str) -> bytes:
    """Return the FWID, SHA-384 of the first mutable firmware, which depends only on the driver's branch (section 7).

    Args:
        product: kind of device.
        driver: version of the driver, or of a switch's BIOS; its first number is the branch.
    """
    return derived_bytes(FWID_BYTES, "FWID", product.chip, driver.partition(".")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKeys:
    """Keys and certificates of a device with its booted firmware.

    Attributes:
        product: kind of device.
        label: public text that determines identifiers and keys.
        fwid: firmware id, 48 bytes.
    """

    product: Product
    label: str
    fwid: bytes

    @property
    def pdi(self) -> bytes:
        """Id of the device in reports of GPUs and switches, 8 bytes."""
        return derived_bytes(PDI_BYTES, "PDI", self.product.chip, self.label)

    @property
    def identity(self) -> bytes:
        """Type byte and PDI: L4's serial number, 9 bytes, big-endian."""
        return bytes([self.product.type_byte]) + self.pdi

    def device_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key of L4, fixed in the device."""
        return p384_key("L4", self.product.chip, self.label)

    def report_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key of L5, specific to the booted firmware."""
        return p384_key("L5", self.product.chip, self.label, self.fwid.hex())

    def device_template(self) -> NvidiaCertificateTemplate:
        """Return L4, unsigned. Blackwell's has the address of the OCSP responder."""
        key, serial = self.device_key(), int.from_bytes(self.identity, "big")
        issuer = provisioner_authority(self.product)
        pointer = (ocsp_pointer(),) if self.product.architecture == "blackwell" else ()
        return NvidiaCertificateTemplate(
            serial=serial,
            issuer=issuer.subject,
            subject=self._device_name(),
            not_before=self.product.made,
            not_after=NO_EXPIRY,
            spki=spki_of(key),
            extensions=(
                basic_constraints(),
                key_usage(_SIGNS_CERTIFICATES),
                *pointer,
                subject_key_id(key),
                authority_key_id(issuer.key),
            ),
        )

    def leaf_template(self) -> NvidiaCertificateTemplate:
        """Return L5, unsigned."""
        key = self.report_key()
        serial = int.from_bytes(key_id(key), "big") & ((1 << _L5_SERIAL_BITS) - 1)
        return NvidiaCertificateTemplate(
            serial=serial,
            issuer=self._device_name(),
            subject=device_name(f"{self.product.name} FMC LF", serial, digits=_L5_DIGITS),
            not_before=self.product.made,
            not_after=NO_EXPIRY,
            spki=spki_of(key),
            extensions=(
                key_usage(_SIGNS_DATA),
                subject_key_id(key),
                authority_key_id(self.device_key()),
                self._alternative_name(),
                self.fwid_extension(),
            ),
        )

    def certificates(self) -> tuple[bytes, ...]:
        """Return the DER of L5, L4, L3, L2 and the root."""
        issuer = provisioner_authority(self.product)
        return (
            self.leaf_template().issue(self.device_key()),
            self.device_template().issue(issuer.key),
            *issuer.chain(),
        )

    def fwid_extension(self) -> Extension:
        """Return the extension with the firmware id (section 7)."""
        if self.product.architecture == "blackwell":
            return Extension(oid=DICE_TCB_INFO, critical=False, value=self._tcb_info())
        value = der.sequence(
            der.integer(1), spki_of(self.device_key()), der.sequence(_SHA384, der.octet_string(self.fwid))
        )
        return Extension(oid=DICE_FWID, critical=False, value=value)

    def _tcb_info(self) -> bytes:
        """Return DiceTcbInfo: vendor, model, version, SVN, layer, index, FWIDs, flags, info, type."""
        fwids = (der.sequence(_SHA384, der.octet_string(digest)) for digest in (self.fwid, bytes(FWID_BYTES)))
        return der.sequence(
            der.tlv(0x80, b"NVIDIA"),
            der.tlv(0x81, self.product.name.encode("ascii")),
            der.tlv(0x82, b"01"),
            der.tlv(0x83, b"\x01"),
            der.tlv(0x84, b"\x00"),
            der.tlv(0x85, b"\x00"),
            der.tlv(0xA6, *fwids),
            der.tlv(0x87, b"\x00", _FLAGS),
            der.tlv(0x88, b"\xc0"),
            der.tlv(0x89, b"\x00"),
        )

    def _device_name(self) -> bytes:
        serial = int.from_bytes(self.identity, "big")
        return device_name(f"{self.product.name} BROM", serial, digits=_L4_DIGITS)

    def _alternative_name(self) -> Extension:
        """Return SubjectAltName of DMTF (otherName): maker, product and another id of the device."""
        product = self.product.name.partition(" ")[0]
        other = derived_bytes(PDI_BYTES, "device id", self.product.chip, self.label).hex().upper()
        text = der.tlv(0x0C, f"NVIDIA:{product}:{other}".encode("ascii"))
        identifier = der.object_identifier("1.3.6.1.4.1.412.274.1")
        value = der.sequence(der.context(0, identifier, der.context(0, text)))
        return Extension(oid="2.5.29.17", critical=False, value=value)
