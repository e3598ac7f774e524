"""A simulated chip, and a guest on it that requests attestation reports.

Invalid reports are explicit: a field can be overridden before signing, and ``SimulatedChip.sign`` signs any 1,184
bytes. The verifier's tests use such reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256, sha384, shake_256
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, parse_crl
from attest.evidence.snp.certificate_table import TableEntry, encode_certificate_table
from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.structure import REPORT_BYTES, SIGNED_BYTES, VERSIONS, layout_of_version
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator.certificates import (
    CERTIFIED_FROM,
    CertificateTemplate,
    ca_role,
    default_product_name,
    simulated_chain,
    vcek_template,
    vlek_template,
)
from attest_simulator.keys import simulated_ca_key, vcek_key, vlek_key
from attest_simulator.revocation_lists import simulated_crl

REPORT_DATA_BYTES: Final = 64

_SIGNATURE_PART_BYTES = 72
_SIGNATURE_END = SIGNED_BYTES + 2 * _SIGNATURE_PART_BYTES
_SIGNED_LATER: Mapping[str, bytes] = {
    "signature_r": bytes(_SIGNATURE_PART_BYTES),
    "signature_s": bytes(_SIGNATURE_PART_BYTES),
}
_ECDSA = ec.ECDSA(hashes.SHA384(), deterministic_signing=True)
"""RFC 6979: the same report gives the same signature."""
_SIGNING_KEYS = {LeafKind.VCEK: 0, LeafKind.VLEK: 1}
_MASK_CHIP_KEY = 1 << 1
_NOBODY_SIGNS = 7

_CPUID: Mapping[SnpProduct, tuple[int, int, int]] = {
    SnpProduct.MILAN: (0x19, 0x01, 0x01),
    SnpProduct.GENOA: (0x19, 0x11, 0x01),
    SnpProduct.TURIN: (0x1A, 0x02, 0x01),
}
_TCB: Mapping[SnpProduct, SnpTcbVersion] = {
    SnpProduct.MILAN: SnpTcbVersion(bootloader=4, tee=0, snp=24, microcode=219),
    SnpProduct.GENOA: SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=84),
    SnpProduct.TURIN: SnpTcbVersion(fmc=1, bootloader=1, tee=1, snp=4, microcode=72),
}
_MITIGATIONS: Mapping[SnpProduct, int] = {SnpProduct.MILAN: 0x0B, SnpProduct.GENOA: 0x0B, SnpProduct.TURIN: 0x3F}
_PLATFORM_INFO = 0x25
"""SMT_EN, ECC_EN and ALIAS_CHECK_COMPLETE, as on most machines."""
_FIRMWARE = (1, 55, 49)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedChip:
    """A simulated processor with its firmware at one moment. Make one with ``SimulatedChip.of``.

    Attributes:
        product: the product line, which determines the layout of TCBs.
        family: combined CPUID family, in reports of version 3 and later.
        model: combined CPUID model; 0xA0 with ``GENOA`` is a Bergamo or Siena.
        stepping: CPUID stepping.
        hwid: its id in the VCEK, 64 bytes, on Turin 8.
        product_name: productName of its certificate.
        report_version: 2, 3, 4 or 5, determined by the firmware.
        current_tcb: of the running firmware.
        reported_tcb: set by the host; it selects the signing key.
        committed_tcb: lower bound of a rollback.
        current_firmware: major, minor and build of the running firmware.
        committed_firmware: major, minor and build of the committed firmware.
        platform_info: PLATFORM_INFO, 64 bits.
        mitigations: bits of the firmware's mitigations, in reports of version 5.
        csp_id: cloud provider whose loaded VLEK signs; None: the chip signs with its VCEK.
        mask_chip_id: the host hides CHIP_ID.
        mask_chip_key: the host forbids signatures, so reports are unsigned.
        certified_from: first valid second of the VCEK (seven years) or VLEK (one year), aware.

    Raises:
        ValueError: another version, or an invalid HWID or TCB for the product line.
    """

    product: SnpProduct
    family: int
    model: int
    stepping: int
    hwid: bytes
    product_name: str
    report_version: int
    current_tcb: SnpTcbVersion
    reported_tcb: SnpTcbVersion
    committed_tcb: SnpTcbVersion
    current_firmware: tuple[int, int, int]
    committed_firmware: tuple[int, int, int]
    platform_info: int
    mitigations: int
    csp_id: str | None
    mask_chip_id: bool
    mask_chip_key: bool
    certified_from: datetime

    def __post_init__(self) -> None:
        """Refuse an impossible chip; impossible reports are made with ``override``."""
        if self.report_version not in VERSIONS:
            raise ValueError(f"report version {self.report_version}: expected one of {VERSIONS}")
        if len(self.hwid) != self.product.hwid_bytes:
            raise ValueError(f"HWID of {self.product}: expected {self.product.hwid_bytes} bytes, got {len(self.hwid)}")
        for tcb in (self.current_tcb, self.reported_tcb, self.committed_tcb):
            if (tcb.fmc is not None) != self.product.has_fmc:
                raise ValueError(
                    f"TCB of {self.product}: expected {'an' if self.product.has_fmc else 'no'} FMC component, got {tcb}"
                )

    @staticmethod
    def of(
        product: SnpProduct,
        *,
        name: str = "chip 0",
        report_version: int = 5,
        tcb: SnpTcbVersion | None = None,
        csp_id: str | None = None,
        certified_from: datetime = CERTIFIED_FROM,
    ) -> SimulatedChip:
        """Return an ordinary chip; ``dataclasses.replace`` modifies it.

        Args:
            product: the product line.
            name: public text that determines the HWID.
            report_version: 2, 3, 4 or 5.
            tcb: current, reported and committed TCB; None is a recent one.
            csp_id: the provider whose VLEK signs, which also masks CHIP_ID; None: the VCEK signs.
            certified_from: first valid second of its certificate.
        """
        family, model, stepping = _CPUID[product]
        tcb = tcb or _TCB[product]
        kind = LeafKind.VCEK if csp_id is None else LeafKind.VLEK
        return SimulatedChip(
            product=product,
            family=family,
            model=model,
            stepping=stepping,
            hwid=shake_256(f"attest simulator v1, HWID: {product} {name}".encode()).digest(product.hwid_bytes),
            product_name=default_product_name(product, kind=kind),
            report_version=report_version,
            current_tcb=tcb,
            reported_tcb=tcb,
            committed_tcb=tcb,
            current_firmware=_FIRMWARE,
            committed_firmware=_FIRMWARE,
            platform_info=_PLATFORM_INFO,
            mitigations=_MITIGATIONS[product],
            csp_id=csp_id,
            mask_chip_id=csp_id is not None,
            mask_chip_key=False,
            certified_from=certified_from,
        )

    @property
    def kind(self) -> LeafKind:
        """Kind of the signing key: the chip's own, or the loaded one of a provider."""
        return LeafKind.VCEK if self.csp_id is None else LeafKind.VLEK

    @property
    def chip_id(self) -> bytes:
        """CHIP_ID of reports: 64 bytes, HWID and zeros, or all zero if masked."""
        return bytes(64) if self.mask_chip_id else self.hwid.ljust(64, b"\0")

    @property
    def key_info(self) -> int:
        """KEY_INFO of reports."""
        return _SIGNING_KEYS[self.kind] << 2 | _MASK_CHIP_KEY * self.mask_chip_key

    def signing_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key that signs reports at the reported TCB; not secret."""
        if self.csp_id is None:
            return vcek_key(product=self.product, hwid=self.hwid, tcb=self.reported_tcb)
        return vlek_key(product=self.product, csp_id=self.csp_id, tcb=self.reported_tcb)

    def leaf_template(self) -> CertificateTemplate:
        """Return the unsigned certificate of the signing key."""
        if self.csp_id is None:
            return vcek_template(
                product=self.product,
                hwid=self.hwid,
                tcb=self.reported_tcb,
                product_name=self.product_name,
                not_before=self.certified_from,
            )
        return vlek_template(
            product=self.product,
            csp_id=self.csp_id,
            tcb=self.reported_tcb,
            product_name=self.product_name,
            not_before=self.certified_from,
        )

    def leaf_certificate(self) -> bytes:
        """Return the DER of the VCEK or VLEK certificate."""
        return self.leaf_template().issue(simulated_ca_key(self.product, ca_role(self.kind)))

    def certificates(self) -> tuple[bytes, bytes, bytes]:
        """Return the DER of leaf, intermediate and root."""
        return self.leaf_certificate(), *simulated_chain(self.product, kind=self.kind)

    def certificate_table(self, *, crl: bytes | None = None) -> bytes:
        """Return the host's certificate table for a guest: leaf, intermediate, root, and the list if given."""
        leaf, intermediate, root = self.certificates()
        entries = (
            TableEntry(kind=self.kind.upper(), data=leaf),
            TableEntry(kind="ASK", data=intermediate),
            TableEntry(kind="ARK", data=root),
        )
        return encode_certificate_table(entries if crl is None else (*entries, TableEntry(kind="CRL", data=crl)))

    def endorsements(self, *, at: datetime, revoked: tuple[int, ...] = ()) -> Endorsements:
        """Return all endorsements of this chip's reports at a moment.

        Args:
            at: aware; the revocation list covers its calendar year.
            revoked: serial numbers in the list.
        """
        return Endorsements(
            certificates=tuple(map(parse_certificate, self.certificates())),
            crls=(parse_crl(simulated_crl(self.product, at=at, revoked=revoked)),),
        )

    def sign(self, report: bytes) -> bytes:
        """Sign any 1,184 bytes like the firmware: ECDSA P-384 with SHA-384 over bytes 0x000 to 0x29F.

        R and S are 72 bytes each, little-endian; the following bytes are unchanged.

        Raises:
            ValueError: another length.

        Spec: AMD 56860, SIGNATURE; specs/sev-snp.md, section 7.
        """
        if len(report) != REPORT_BYTES:
            raise ValueError(f"expected {REPORT_BYTES} bytes, got {len(report)}")
        signed = report[:SIGNED_BYTES]
        numbers = decode_dss_signature(self.signing_key().sign(signed, _ECDSA))
        signature = b"".join(number.to_bytes(_SIGNATURE_PART_BYTES, "little") for number in numbers)
        return signed + signature + report[_SIGNATURE_END:]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGuest:
    """A confidential virtual machine on a simulated chip.

    Attributes:
        chip: its processor.
        measurement: launch digest, 48 bytes.
        policy: guest policy, 64 bits; bit 17 is always one, bit 16 allows SMT.
        vmpl: privilege level of the requester, 0 to 3.
        guest_svn: from the ID block.
        family_id: 16 bytes, from the ID block.
        image_id: 16 bytes, from the ID block.
        host_data: 32 bytes, chosen by the host at launch.
        id_key_digest: 48 bytes, zero without an ID block.
        author_key_digest: 48 bytes; a nonzero one sets AUTHOR_KEY_EN.
        report_id: 32 bytes, random for each guest.
        report_id_ma: 32 bytes of the migration agent, all ones without it.
        launch_tcb: CURRENT_TCB at launch; None: unchanged since.
        launch_mitigations: mitigations at launch; None: unchanged since.
    """

    chip: SimulatedChip
    measurement: bytes = sha384(b"attest simulator v1, measurement").digest()
    policy: int = 0x30000
    vmpl: int = 0
    guest_svn: int = 0
    family_id: bytes = bytes(16)
    image_id: bytes = bytes(16)
    host_data: bytes = bytes(32)
    id_key_digest: bytes = bytes(48)
    author_key_digest: bytes = bytes(48)
    report_id: bytes = sha256(b"attest simulator v1, report id").digest()
    report_id_ma: bytes = b"\xff" * 32
    launch_tcb: SnpTcbVersion | None = None
    launch_mitigations: int | None = None

    def report(self, report_data: bytes, *, override: Mapping[str, int | bytes] | None = None) -> bytes:
        """Return an attestation report.

        Args:
            report_data: 64 bytes to commit to.
            override: values to replace before signing, by the names of
                ``layout_of_version(chip.report_version)`` (``{"policy": 0xB0000}``). A suitable KEY_INFO leaves
                the report unsigned; ``signature_r`` and ``signature_s`` replace the signature itself.

        Returns:
            1,184 bytes.

        Raises:
            ValueError: ``report_data`` is not 64 bytes, or an invalid name or value.

        Spec: AMD 56860, ATTESTATION_REPORT; specs/sev-snp.md, section 2.
        """
        if len(report_data) != REPORT_DATA_BYTES:
            raise ValueError(f"REPORT_DATA has {REPORT_DATA_BYTES} bytes, got {len(report_data)}")
        layout = layout_of_version(self.chip.report_version)
        changes = dict(override or {})
        values = self._values(report_data)
        unsigned = layout.encode({name: values[name] for name in layout.names} | changes)
        if _is_unsigned(unsigned):
            return unsigned
        signed = self.chip.sign(unsigned)
        if _SIGNED_LATER.keys().isdisjoint(changes):
            return signed
        return layout.encode(dict(zip(layout.names, layout.decode(signed), strict=True)) | changes)

    def extended_report(
        self, report_data: bytes, *, override: Mapping[str, int | bytes] | None = None, crl: bytes | None = None
    ) -> bytes:
        """Return an attestation report followed by the certificate table of the chip.

        Raises:
            ValueError: as ``report``.
        """
        return self.report(report_data, override=override) + self.chip.certificate_table(crl=crl)

    def _values(self, report_data: bytes) -> dict[str, int | bytes]:
        """Return every field of any version, by the names of the layout."""
        chip = self.chip
        current, committed = chip.current_firmware, chip.committed_firmware
        return {
            "version": chip.report_version,
            "guest_svn": self.guest_svn,
            "policy": self.policy,
            "family_id": self.family_id,
            "image_id": self.image_id,
            "vmpl": self.vmpl,
            "signature_algo": 1,
            "current_tcb": chip.current_tcb.to_bytes(),
            "platform_info": chip.platform_info,
            "key_info": chip.key_info | any(self.author_key_digest),
            "report_data": report_data,
            "measurement": self.measurement,
            "host_data": self.host_data,
            "id_key_digest": self.id_key_digest,
            "author_key_digest": self.author_key_digest,
            "report_id": self.report_id,
            "report_id_ma": self.report_id_ma,
            "reported_tcb": chip.reported_tcb.to_bytes(),
            "cpuid_fam_id": chip.family,
            "cpuid_mod_id": chip.model,
            "cpuid_step": chip.stepping,
            "chip_id": chip.chip_id,
            "committed_tcb": chip.committed_tcb.to_bytes(),
            "current_major": current[0],
            "current_minor": current[1],
            "current_build": current[2],
            "committed_major": committed[0],
            "committed_minor": committed[1],
            "committed_build": committed[2],
            "launch_tcb": (self.launch_tcb or chip.current_tcb).to_bytes(),
            "launch_mit_vector": chip.mitigations if self.launch_mitigations is None else self.launch_mitigations,
            "current_mit_vector": chip.mitigations,
            **_SIGNED_LATER,
        }


def _is_unsigned(report: bytes) -> bool:
    """Return whether KEY_INFO (offset 0x048) forbids the signature."""
    key_info = int.from_bytes(report[0x048:0x04C], "little")
    return bool(key_info & _MASK_CHIP_KEY) or key_info >> 2 & 7 == _NOBODY_SIGNS
