"""A confidential VM on a simulated host, with its evidence in all known forms.

Spec: specs/azure-cvm.md, sections 8 and 9.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, get_args

from attest.encoding import JsonValue
from attest.endorsements.pool import Endorsements
from attest.evidence.azure.forms import RawTpmQuote, azure_json, raw_tpm_quote_bytes
from attest.evidence.binding import EXTRA_DATA_BYTES, Binding
from attest.evidence.envelope import MEDIA_AZURE_CVM, MEDIA_BINDING, Evidence, EvidenceItem
from attest_simulator.azure.hcl import VmConfiguration
from attest_simulator.azure.host import SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.azure.tpm import ALL_PCRS, SimulatedTpm, boot_registers
from attest_simulator.intel.certificates import pem_text
from attest_simulator.intel.eventlog import LogEntry
from attest_simulator.intel.quote_template import Values
from attest_simulator.tpm_log import replayed_pcrs

AzureForm = Literal["coco-v0", "coco-v1", "coco-v2", "attestation-rs"]
FORMS: Final[tuple[AzureForm, ...]] = get_args(AzureForm)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePieces:
    """Evidence of a VM in pieces.

    Attributes:
        hcl: the paravisor's report.
        quote: the TPM's.
        td_quote: with TDX; None with SNP.
        certificates: DER of VCEK, ASK and ARK from the metadata service; empty with TDX.
    """

    hcl: bytes
    quote: RawTpmQuote
    td_quote: bytes | None = None
    certificates: tuple[bytes, ...] = ()

    @property
    def platform(self) -> str:
        """``az-snp`` or ``az-tdx``."""
        return "az-snp" if self.td_quote is None else "az-tdx"

    def json(self, form: AzureForm = "coco-v1") -> bytes:
        """Return the evidence in one of the peers' JSON forms.

        The simulator writes what the caller requests: for version 2, whose user data repeats extraData, the caller
        has to provide such data.
        """
        match form:
            case "coco-v0":
                return json.dumps(self._integer_arrays()).encode("ascii")
            case "coco-v1":
                return self._numbered(1)
            case "coco-v2":
                return self._numbered(2)
            case "attestation-rs":
                return b'{"platform": "%s", "evidence": %s}' % (self.platform.encode("ascii"), self._numbered(1))

    def files(self) -> Mapping[str, bytes]:
        """Return the raw pieces by az-cvm-vtpm's file names."""
        found = {"hcl-report.bin": self.hcl, "quote.bin": raw_tpm_quote_bytes(self.quote)}
        if self.td_quote is not None:
            return found | {"td-quote.bin": self.td_quote}
        return found | {"vcek.pem": pem_text(self.certificates[:1]).encode("ascii")}

    def _numbered(self, version: int) -> bytes:
        vcek = self.certificates[0] if self.certificates else None
        return azure_json(hcl=self.hcl, tpm=self.quote, td_quote=self.td_quote, vcek=vcek, version=version)

    def _integer_arrays(self) -> dict[str, JsonValue]:
        quote: dict[str, JsonValue] = {
            "signature": list(self.quote.signature),
            "message": list(self.quote.message),
            "pcrs": [list(value) for value in self.quote.pcrs],
        }
        if self.td_quote is None:
            return {"quote": quote, "report": list(self.hcl), "vcek": pem_text(self.certificates)}
        return {"tpm_quote": quote, "hcl_report": list(self.hcl), "td_quote": list(self.td_quote)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAzureVm:
    """A confidential VM at one moment. Make one with ``SimulatedAzureVm.of``.

    Attributes:
        host: its host.
        tpm: its virtual TPM.
        configuration: its settings in the paravisor's report.
        log: events of the boot that led to the registers; empty if the registers come from elsewhere.
    """

    host: SimulatedSnpHost | SimulatedTdxHost
    tpm: SimulatedTpm
    configuration: VmConfiguration
    log: tuple[LogEntry, ...] = ()

    @staticmethod
    def of(
        host: SimulatedSnpHost | SimulatedTdxHost | None = None,
        *,
        name: str = "VM 0",
        secure_boot: bool = True,
        console_enabled: bool = True,
        vm_unique_id: str | None = None,
    ) -> SimulatedAzureVm:
        """Return an ordinary VM; ``dataclasses.replace`` modifies it.

        Args:
            host: None is an SNP host.
            name: public text; determines the VM and its TPM.
            secure_boot: in the paravisor's report and in PCR 7.
            console_enabled: the host has a console.
            vm_unique_id: None derives a UUID from the name.
        """
        chosen = host or SimulatedSnpHost.of()
        return SimulatedAzureVm(
            host=chosen,
            tpm=SimulatedTpm(name=name, pcrs=boot_registers(secure_boot=secure_boot)),
            configuration=VmConfiguration(
                vm_unique_id=chosen.vm_unique_id(name) if vm_unique_id is None else vm_unique_id,
                secure_boot=secure_boot,
                console_enabled=console_enabled,
            ),
        )

    def booted(self, entries: Iterable[LogEntry]) -> SimulatedAzureVm:
        """Return this VM with a log's registers; ``tpm_log.typical_tpm_boot`` returns the events of one.

        Args:
            entries: events of the boot, in order.
        """
        log = tuple(entries)
        return replace(self, tpm=self.tpm.with_pcrs(dict(enumerate(replayed_pcrs(log)))), log=log)

    def endorsements(self, *, at: datetime) -> Endorsements:
        """Return AMD's or Intel's endorsements of the host's CPU at a moment."""
        return self.host.endorsements(at=at)

    def hcl_report(self, *, user_data: bytes = bytes(64), override: Values | None = None) -> bytes:
        """Return the paravisor's report; arguments and errors as ``AzureHost.hcl_report``."""
        return self.host.hcl_report(
            self.tpm.ak.public_key(),
            self.tpm.ek.public_key(),
            user_data=user_data,
            configuration=self.configuration,
            override=override,
        )

    def attest(
        self,
        extra_data: bytes,
        *,
        user_data: bytes = bytes(64),
        indices: tuple[int, ...] = ALL_PCRS,
        override: Values | None = None,
    ) -> AzurePieces:
        """Collect evidence.

        Args:
            extra_data: nonce of the TPM's quote, at most 50 bytes.
            user_data: 64 bytes written by the system; zeros by default.
            indices: registers to quote.
            override: fields of the CPU's report to replace before signing.

        Raises:
            ValueError: as ``AzureHost.hcl_report`` and ``SimulatedTpm.quote``.
        """
        hcl = self.hcl_report(user_data=user_data, override=override)
        quote = self.tpm.quote(extra_data, indices=indices)
        match self.host:
            case SimulatedTdxHost() as host:
                return AzurePieces(hcl=hcl, quote=quote, td_quote=host.td_quote(hcl))
            case SimulatedSnpHost() as host:
                _, *issuers = host.guest.chip.certificates()
                return AzurePieces(hcl=hcl, quote=quote, certificates=(host.vcek(), *issuers))

    def items(self, report_data: bytes) -> tuple[EvidenceItem, ...]:
        """Return the envelope's item for 64 bytes of REPORT_DATA.

        Args:
            report_data: 64 bytes: all of them become the user data, the first 48 extraData.
        """
        pieces = self.attest(report_data[:EXTRA_DATA_BYTES], user_data=report_data)
        return (EvidenceItem(name="cpu", media_type=MEDIA_AZURE_CVM, value=pieces.json()),)

    def evidence(self, binding: Binding) -> Evidence:
        """Return an envelope with this binding; for devices use ``nvidia.bound_evidence``."""
        bound = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes())
        return Evidence(items=(*self.items(binding.report_data()), bound))
