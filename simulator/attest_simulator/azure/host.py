"""Hosts of Azure's confidential VMs: a simulated CPU, its paravisor, and the data of the host's services.

The attestation key is an argument: the software key of ``tpm.py``, or a key of another TPM.

Spec: specs/azure-cvm.md, sections 2, 6 and 7.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric import rsa

from attest.endorsements.pool import Endorsements
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator.azure.hcl import HclTemplate, VmConfiguration, committed, runtime_claims
from attest_simulator.azure.keys import derived_bytes, derived_uuid
from attest_simulator.guest import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from attest_simulator.intel.certificates import pem_text
from attest_simulator.intel.quote_template import Values
from attest_simulator.intel.td_report import TD_REPORT_BYTES, quote_of_td_report, td_report

_GUEST_POLICY = 0x3001F
"""ABI 0.31 with SMT, as on all known VMs."""
_GUEST_SVN = 10
_FAMILY_ID = bytes.fromhex("02212000").ljust(16, b"\0")
_IMAGE_ID = bytes.fromhex("02").ljust(16, b"\0")
_XFAM = 0x618E7
"""Value in the one known VM."""
_CACHE_SECONDS: Final = 86400
_SNP, _TDX = 2, 4
_SNP_REPORT_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureHost(ABC):
    """Common interface of both kinds of host."""

    @property
    @abstractmethod
    def platform(self) -> Literal["az-snp", "az-tdx"]:
        """Its name in JSON forms."""

    @property
    @abstractmethod
    def hcl_version(self) -> int:
        """Version of the paravisor's report."""

    @abstractmethod
    def hardware_report(self, report_data: bytes, *, override: Values | None = None) -> bytes:
        """Return the CPU's SNP report or TDREPORT for the paravisor.

        Args:
            report_data: 64 bytes.
            override: fields to replace before the CPU signs.

        Raises:
            ValueError: another length, or an invalid name or value.
        """

    @abstractmethod
    def endorsements(self, *, at: datetime) -> Endorsements:
        """Return AMD's or Intel's endorsements of the CPU at a moment."""

    def vm_unique_id(self, name: str) -> str:
        """Return the UUID of a VM by its name, in this host's notation."""
        found = derived_uuid(name)
        return found.upper() if self.hcl_version == 1 else found

    def hcl_template(
        self,
        ak_public: rsa.RSAPublicKey,
        ek_public: rsa.RSAPublicKey | None,
        *,
        user_data: bytes = bytes(64),
        configuration: VmConfiguration | None = None,
        override: Values | None = None,
    ) -> HclTemplate:
        """Return the paravisor's report before encoding; arguments and errors as ``hcl_report``."""
        claims = runtime_claims(
            ak_public=ak_public,
            ek_public=ek_public,
            user_data=user_data,
            configuration=configuration or VmConfiguration(vm_unique_id=self.vm_unique_id("VM 0")),
            version=self.hcl_version,
        )
        return HclTemplate(
            version=self.hcl_version,
            report_type=_SNP if self.platform == "az-snp" else _TDX,
            hardware_report=self.hardware_report(committed(claims), override=override),
            runtime_data=claims,
        )

    def hcl_report(
        self,
        ak_public: rsa.RSAPublicKey,
        ek_public: rsa.RSAPublicKey | None,
        *,
        user_data: bytes = bytes(64),
        configuration: VmConfiguration | None = None,
        override: Values | None = None,
    ) -> bytes:
        """Return the paravisor's report, the content of NV index 0x01400001.

        Args:
            ak_public: signing key of the virtual TPM's quotes; the CPU's report authenticates it.
            ek_public: its decryption key; None leaves it out, as old paravisors do.
            user_data: 64 bytes of NV index 0x01400002.
            configuration: settings of the VM; None is an ordinary one.
            override: fields of the CPU's report to replace before signing.

        Returns:
            2,600 bytes.

        Raises:
            ValueError: ``user_data`` of another length, keys of more than 2,048 bits, or as ``hardware_report``.
        """
        template = self.hcl_template(
            ak_public, ek_public, user_data=user_data, configuration=configuration, override=override
        )
        return template.to_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSnpHost(AzureHost):
    """A host with SEV-SNP. Make one with ``SimulatedSnpHost.of``.

    Attributes:
        guest: the paravisor, a guest at VMPL 0.
    """

    guest: SimulatedGuest

    @staticmethod
    def of(chip: SimulatedChip | None = None) -> SimulatedSnpHost:
        """Return an ordinary host; ``dataclasses.replace`` on its guest modifies it.

        Args:
            chip: its processor; None is a Genoa with reports of version 3.
        """
        guest = SimulatedGuest(
            chip=chip or SimulatedChip.of(SnpProduct.GENOA, report_version=_SNP_REPORT_VERSION),
            measurement=derived_bytes(48, "paravisor, SNP"),
            policy=_GUEST_POLICY,
            guest_svn=_GUEST_SVN,
            family_id=_FAMILY_ID,
            image_id=_IMAGE_ID,
            id_key_digest=derived_bytes(48, "key of the ID block"),
        )
        return SimulatedSnpHost(guest=guest)

    @property
    def platform(self) -> Literal["az-snp"]:
        """``az-snp``."""
        return "az-snp"

    @property
    def hcl_version(self) -> int:
        """1, as on all known VMs."""
        return 1

    def hardware_report(self, report_data: bytes, *, override: Values | None = None) -> bytes:
        """Return the SNP report, 1,184 bytes."""
        return self.guest.report(report_data, override=override)

    def endorsements(self, *, at: datetime) -> Endorsements:
        """Return certificates, and the year's revocation list."""
        return self.guest.chip.endorsements(at=at)

    def vcek(self) -> bytes:
        """Return the DER of the VCEK from the host's service, for the current TCB.

        A host updated since the VM's start states another one (``reported_tcb``); then it does not match.
        """
        chip = self.guest.chip
        return replace(chip, reported_tcb=chip.current_tcb).leaf_certificate()

    def certification(self) -> bytes:
        """Return the metadata service's answer about the chip (THIM), JSON."""
        _, *issuers = self.guest.chip.certificates()
        document = {
            "vcekCert": pem_text([self.vcek()]),
            "tcbm": self.guest.chip.current_tcb.to_bytes()[::-1].hex().upper(),
            "certificateChain": pem_text(issuers),
            "cacheControl": str(_CACHE_SECONDS),
        }
        return json.dumps(document).encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTdxHost(AzureHost):
    """A host with TDX. Make one with ``SimulatedTdxHost.of``.

    Attributes:
        td: the TD with the paravisor as its L1; its RTMRs are empty.
    """

    td: SimulatedTd

    @staticmethod
    def of(platform: SimulatedPlatform | None = None) -> SimulatedTdxHost:
        """Return an ordinary host; ``dataclasses.replace`` on its TD modifies it.

        Args:
            platform: its processor; None is an ordinary one, up to date.
        """
        machine = platform or SimulatedPlatform.of()
        return SimulatedTdxHost(
            td=SimulatedTd(platform=machine, log=(), mr_td=derived_bytes(48, "paravisor, TDX"), xfam=_XFAM)
        )

    @property
    def platform(self) -> Literal["az-tdx"]:
        """``az-tdx``."""
        return "az-tdx"

    @property
    def hcl_version(self) -> int:
        """2, as on the one known VM."""
        return 2

    def hardware_report(self, report_data: bytes, *, override: Values | None = None) -> bytes:
        """Return the TDREPORT, 1,024 bytes."""
        return td_report(self.td, report_data, override=override)

    def endorsements(self, *, at: datetime) -> Endorsements:
        """Return the month's collateral of Intel."""
        return self.td.platform.collateral("tdx", at=at).endorsements()

    def td_quote(self, hcl_report: bytes) -> bytes:
        """Return the TD quote for the TDREPORT in a paravisor's report.

        Raises:
            ValueError: as ``quote``.
        """
        return self.quote(hcl_report[0x20:][:TD_REPORT_BYTES])

    def quote(self, report: bytes) -> bytes:
        """Return the TD quote for a TDREPORT, from the host's service.

        Raises:
            ValueError: not a TDREPORT, or one of another host.
        """
        return quote_of_td_report(self.td.platform, report)
