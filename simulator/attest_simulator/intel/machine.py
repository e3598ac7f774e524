"""A simulated platform: its PCK, its quoting enclaves, its certificates and its collateral.

Spec: specs/intel-tdx-sgx.md, sections 4, 6 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.evidence.intel.quote import Tee
from attest_simulator.intel.certificates import (
    CERTIFIED_FROM,
    IntelCertificateTemplate,
    PlatformConfiguration,
    SgxExtension,
    authority_certificate,
    pck_template,
    pem_text,
)
from attest_simulator.intel.collateral import (
    CURRENT_COMPONENTS,
    CURRENT_PCE_SVN,
    CURRENT_TEE_TCB_SVN,
    QE_ISV_PROD_ID,
    QE_ISV_SVN,
    QE_MR_SIGNER,
    IntelCollateral,
    current_period,
    default_qe_identity,
    default_tcb_info,
    intel_collateral,
)
from attest_simulator.intel.keys import IntelAuthority, derived_bytes, p256_key, spki_of
from attest_simulator.intel.quote_template import QuoteTemplate, Values, body_descriptor, quote_header
from attest_simulator.intel.tcb import QeIdentity, TcbInfo

SIMULATED_FMSPC: Final = b"SIM\0\0\0"
"""Default FMSPC of platforms; no real one starts with these letters."""

_QE_ATTRIBUTES = bytes.fromhex("1500000000000000e700000000000000")
"""INIT, MODE64BIT and PROVISION_KEY, as in the real QEs."""
_SCALABLE, _STANDARD = 1, 0
_ENCRYPTED_PPID_BYTES: Mapping[int, int] = {2: 256, 3: 384}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPlatform:
    """A simulated machine with its firmware at one moment. Make one with ``SimulatedPlatform.of``.

    Attributes:
        name: public text that determines identifiers and keys.
        ca: issuer of its PCK certificate: ``PLATFORM`` or ``PROCESSOR``.
        sgx: the PCK certificate's facts about it.
        tee_tcb_svn: 16 bytes: ISVSVN and version of the TDX module, SVN of the SEAM loader, zeros.
        mr_seam: measurement of the TDX module, 48 bytes.
        qe_isv_svn: ISVSVN of its quoting enclaves; None: the current one of each.
        certified_from: first valid second of the PCK certificate, aware; it lasts seven years.
    """

    name: str
    ca: IntelAuthority
    sgx: SgxExtension
    tee_tcb_svn: bytes = CURRENT_TEE_TCB_SVN
    mr_seam: bytes = derived_bytes(48, "MRSEAM")
    qe_isv_svn: int | None = None
    certified_from: datetime = CERTIFIED_FROM

    @staticmethod
    def of(
        name: str = "platform 0",
        *,
        ca: IntelAuthority = IntelAuthority.PLATFORM,
        fmspc: bytes = SIMULATED_FMSPC,
        pce_id: bytes = bytes(2),
        components: tuple[int, ...] = CURRENT_COMPONENTS,
        pce_svn: int = CURRENT_PCE_SVN,
    ) -> SimulatedPlatform:
        """Return an ordinary platform; ``dataclasses.replace`` modifies it.

        Args:
            name: determines the platform.
            ca: ``PLATFORM`` for servers, ``PROCESSOR`` for single-package machines without an instance id.
            fmspc: 6 bytes.
            pce_id: 2 bytes.
            components: 16 SVNs, 0 to 255 each; CPUSVN has the same bytes, as in all known certificates.
            pce_svn: 0 to 65535.
        """
        multi = ca is IntelAuthority.PLATFORM
        sgx = SgxExtension(
            ppid=derived_bytes(16, "PPID", name),
            components=components,
            pce_svn=pce_svn,
            cpu_svn=bytes(components),
            pce_id=pce_id,
            fmspc=fmspc,
            sgx_type=_SCALABLE if multi else _STANDARD,
            platform_instance_id=derived_bytes(16, "platform instance id", name) if multi else None,
            configuration=PlatformConfiguration() if multi else None,
        )
        return SimulatedPlatform(name=name, ca=ca, sgx=sgx)

    # -- keys and certificates

    def pck_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key that certifies quoting enclaves; as in hardware, each TCB has its own."""
        sgx = self.sgx
        return p256_key("PCK", sgx.ppid.hex(), sgx.cpu_svn.hex(), str(sgx.pce_svn), sgx.pce_id.hex())

    def qe_id(self, tee: Tee) -> bytes:
        """Return the identifier of the QE of SGX or TDX on this platform, 16 bytes."""
        return derived_bytes(16, "QE id", tee, self.name)

    def attestation_key(self, tee: Tee) -> ec.EllipticCurvePrivateKey:
        """Return the signing key of the QE of SGX or TDX."""
        return p256_key("attestation key", tee, self.name)

    def pck_template(self) -> IntelCertificateTemplate:
        """Return the unsigned PCK certificate."""
        return pck_template(spki=spki_of(self.pck_key()), sgx=self.sgx, ca=self.ca, not_before=self.certified_from)

    def pck_certificate(self) -> bytes:
        """Return the DER of the PCK certificate."""
        return self.pck_template().issue(self.ca)

    def certificates(self) -> tuple[bytes, bytes, bytes]:
        """Return the DER of PCK certificate, its CA and the root."""
        return self.pck_certificate(), authority_certificate(self.ca), authority_certificate(IntelAuthority.ROOT)

    def pck_chain(self) -> str:
        """Return the same as PEM."""
        return pem_text(self.certificates())

    def encrypted_ppid(self, kind: int = 3) -> bytes:
        """Return 256 or 384 bytes in place of the encrypted PPID of certification data types 2 and 3."""
        return derived_bytes(_ENCRYPTED_PPID_BYTES[kind], "encrypted PPID", str(kind), self.sgx.ppid.hex())

    def certification_data(self, kind: int = 5) -> bytes:
        """Return certification data of types 1 to 5.

        Type 5 ends with a NUL, as in all known quotes. Types 1 to 3 are the PPID, clear or encrypted, then
        CPUSVN, PCESVN (u16, little-endian) and PCEID.

        Raises:
            ValueError: another type.
        """
        sgx = self.sgx
        tcb = sgx.cpu_svn + sgx.pce_svn.to_bytes(2, "little") + sgx.pce_id
        match kind:
            case 1:
                return sgx.ppid + tcb
            case 2 | 3:
                return self.encrypted_ppid(kind) + tcb
            case 4:
                return pem_text([self.pck_certificate()]).encode("ascii")
            case 5:
                return self.pck_chain().encode("ascii") + b"\0"
            case _:
                raise ValueError(f"certification data type {kind}: expected 1 to 5")

    # -- quotes

    def qe_fields(self, tee: Tee) -> Values:
        """Return the fields of the QE's report, without REPORTDATA."""
        return {
            "cpu_svn": self.sgx.cpu_svn,
            "attributes": _QE_ATTRIBUTES,
            "mr_enclave": derived_bytes(32, "QE MRENCLAVE", tee),
            "mr_signer": QE_MR_SIGNER[tee],
            "isv_prod_id": QE_ISV_PROD_ID[tee],
            "isv_svn": QE_ISV_SVN[tee] if self.qe_isv_svn is None else self.qe_isv_svn,
        }

    def quote_template(
        self, body: bytes, *, tee: Tee, version: int, body_type: int, header: Values | None = None
    ) -> QuoteTemplate:
        """Return the unsigned quote of a report.

        Args:
            body: the report.
            tee: of the QE.
            version: 3, 4 or 5.
            body_type: descriptor of version 5; earlier versions have none.
            header: fields of the header to replace.

        Raises:
            ValueError: an invalid header field.
        """
        svns: Values = {"qe_svn": QE_ISV_SVN[tee], "pce_svn": self.sgx.pce_svn} if version == 3 else {}
        return QuoteTemplate(
            header=quote_header(
                version=version, tdx=tee == "tdx", qe_id=self.qe_id(tee), override=dict(svns) | dict(header or {})
            ),
            descriptor=body_descriptor(body_type, len(body)) if version == 5 else b"",
            body=body,
            attestation_key=self.attestation_key(tee),
            pck_key=self.pck_key(),
            qe_fields=self.qe_fields(tee),
            certification_data=self.certification_data(),
            outer_type=None if version == 3 else 6,
        )

    # -- endorsements

    def tcb_info(self, tee: Tee, *, at: datetime) -> TcbInfo:
        """Return the TCB info for its FMSPC and PCEID that is current at ``at``."""
        return default_tcb_info(tee, fmspc=self.sgx.fmspc, pce_id=self.sgx.pce_id, period=current_period(at))

    def collateral(
        self,
        tee: Tee,
        *,
        at: datetime,
        tcb_info: TcbInfo | None = None,
        qe_identity: QeIdentity | None = None,
        revoked: tuple[int, ...] = (),
        root_revoked: tuple[int, ...] = (),
    ) -> IntelCollateral:
        """Return all collateral of this platform's quotes at a moment.

        Args:
            tee: ``sgx`` or ``tdx``.
            at: aware; everything is current from the first of its month for 45 days.
            tcb_info: None is the default, under which an ordinary platform is up to date.
            qe_identity: None is the default.
            revoked: serial numbers of PCK certificates in the CA's list.
            root_revoked: serial numbers of CAs or of TCB Signing in the root's list.
        """
        period = current_period(at)
        return intel_collateral(
            tcb_info=tcb_info or self.tcb_info(tee, at=at),
            qe_identity=qe_identity or default_qe_identity(tee, period=period),
            crl_period=period,
            ca=self.ca,
            revoked=revoked,
            root_revoked=root_revoked,
        )
