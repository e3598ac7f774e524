"""The two simulated machines of the demonstration: what each presents, and what a policy asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha384

from attest.cli.simulated import out_of_date, simulated_bundle
from attest.encoding import JsonValue
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_crl
from attest.evidence.binding import Binding
from attest.evidence.envelope import (
    MEDIA_BINDING,
    MEDIA_EVENT_LOG,
    MEDIA_INTEL_QUOTE,
    MEDIA_SNP_EXTENDED,
    Evidence,
    EvidenceItem,
)
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.simulator import SimulatedChip, SimulatedGuest, simulated_crl
from attest.simulator.intel import SimulatedPlatform, SimulatedTd, typical_boot

__all__ = ["Machine", "SnpMachine", "TdxMachine", "both_machines", "facts_of"]

MINIMUM_TCB = SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=84)
OLD_TCB = SnpTcbVersion(bootloader=9, tee=0, snp=20, microcode=60)
_OTHER_IMAGE = sha384(b"attest demo, another image").digest()
_SNP_MEASUREMENT = 0x90
_QUOTE_MRTD = 48 + 136
"""Header, then the field's offset in the body."""


class Machine(ABC):
    """A machine with a workload, and whoever vouches for it."""

    label: str
    """What the story calls it."""
    form: str
    """What its evidence consists of."""
    forgery_code: str
    """How a changed measurement is refused."""
    image_check: str
    """The check that refuses another image."""
    firmware_check: str
    """The check that refuses old firmware."""

    @property
    @abstractmethod
    def measurement(self) -> bytes:
        """What its workload was built from."""

    @abstractmethod
    def evidence(self, report_data: bytes) -> Evidence:
        """Return evidence that carries these 64 bytes."""

    @abstractmethod
    def endorsements(self, at: datetime) -> Endorsements:
        """Return what its vendor says, as far as it does not come with the evidence."""

    @abstractmethod
    def endorsement_files(self, at: datetime) -> Mapping[str, bytes]:
        """Return everything that its vendor says, as files for a service."""

    @abstractmethod
    def policy(self) -> tuple[str, dict[str, JsonValue], str]:
        """Return the name of its section of a policy, the section, and a line about it."""

    @abstractmethod
    def with_other_image(self) -> Machine:
        """Return the same machine running something else."""

    @abstractmethod
    def with_old_firmware(self, at: datetime) -> Machine:
        """Return a machine that runs the same on old firmware."""

    @abstractmethod
    def forged(self, evidence: Evidence) -> Evidence:
        """Return evidence in which one bit of the measurement is changed."""

    def bound(self, binding: Binding) -> Evidence:
        """Return evidence that commits to a binding, with the binding."""
        item = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes())
        evidence = self.evidence(binding.report_data())
        return replace(evidence, items=(*evidence.items, item))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnpMachine(Machine):
    """An AMD machine with SEV-SNP."""

    guest: SimulatedGuest

    label = "SEV-SNP"
    form = "a report with its certificates"
    forgery_code = "snp-signature-invalid"
    image_check = "policy.snp.measurement"
    firmware_check = "policy.snp.minimum_tcb"

    @property
    def measurement(self) -> bytes:
        """The launch digest."""
        return self.guest.measurement

    def evidence(self, report_data: bytes) -> Evidence:
        """Return an extended report."""
        value = self.guest.extended_report(report_data)
        return Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=value),))

    def endorsements(self, at: datetime) -> Endorsements:
        """Return the revocation list; the certificates come with the report."""
        return Endorsements(crls=(parse_crl(simulated_crl(self.guest.chip.product, at=at)),))

    def endorsement_files(self, at: datetime) -> Mapping[str, bytes]:
        """Return an endorsement bundle."""
        return {"amd.endorsements": simulated_bundle(self.guest.chip, at=at, days=1)}

    def policy(self) -> tuple[str, dict[str, JsonValue], str]:
        """Ask for the measurement, and for firmware of at least today's level."""
        product = str(self.guest.chip.product)
        section: dict[str, JsonValue] = {
            "products": [product],
            "measurement": ["snp-workload"],
            "minimum_tcb": {product: {**MINIMUM_TCB.components()}},
        }
        return "snp", section, f"only {product} with firmware of at least {MINIMUM_TCB}"

    def with_other_image(self) -> SnpMachine:
        """Return a guest with another launch digest."""
        return SnpMachine(guest=replace(self.guest, measurement=_OTHER_IMAGE))

    def with_old_firmware(self, at: datetime) -> SnpMachine:  # noqa: ARG002  the level is a constant
        """Return a guest on a chip with old firmware."""
        return SnpMachine(guest=replace(self.guest, chip=SimulatedChip.of(self.guest.chip.product, tcb=OLD_TCB)))

    def forged(self, evidence: Evidence) -> Evidence:
        """Change MEASUREMENT."""
        return _flipped(evidence, _SNP_MEASUREMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxMachine(Machine):
    """An Intel machine with TDX."""

    td: SimulatedTd

    label = "TDX"
    form = "a quote with the event log of its boot"
    forgery_code = "quote-signature-invalid"
    image_check = "policy.tdx.mr_td"
    firmware_check = "policy.tdx.tcb_status"

    @property
    def measurement(self) -> bytes:
        """MRTD."""
        return self.td.mr_td

    def evidence(self, report_data: bytes) -> Evidence:
        """Return a quote and the event log."""
        quote = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=self.td.quote(report_data))
        return Evidence(items=(quote, _log(self.td)))

    def endorsements(self, at: datetime) -> Endorsements:
        """Return Intel's collateral; the PCK certificate comes with the quote."""
        return self.td.platform.collateral("tdx", at=at).endorsements()

    def endorsement_files(self, at: datetime) -> Mapping[str, bytes]:
        """Return the collateral as a JSON bundle."""
        return {"intel.json": self.td.platform.collateral("tdx", at=at).to_json()}

    def policy(self) -> tuple[str, dict[str, JsonValue], str]:
        """Ask for MRTD; that the TCB is UpToDate is asked unless a policy says otherwise."""
        return "tdx", {"mr_td": ["tdx-workload"]}, "only a platform whose TCB Intel calls UpToDate"

    def with_other_image(self) -> TdxMachine:
        """Return a TD with another MRTD."""
        return TdxMachine(td=replace(self.td, mr_td=_OTHER_IMAGE))

    def with_old_firmware(self, at: datetime) -> TdxMachine:
        """Return a TD on a platform that Intel calls OutOfDate."""
        return TdxMachine(td=replace(self.td, platform=out_of_date(self.td.platform, at=at)))

    def forged(self, evidence: Evidence) -> Evidence:
        """Change MRTD."""
        return _flipped(evidence, _QUOTE_MRTD)

    def with_log_of_another_boot(self, evidence: Evidence) -> Evidence:
        """Return evidence whose event log tells of another command line than was measured."""
        other = replace(self.td, log=typical_boot(command_line="/vmlinuz init=/bin/sh"))
        return replace(evidence, items=(evidence.items[0], _log(other), *evidence.items[2:]))


def both_machines() -> tuple[SnpMachine, TdxMachine]:
    """Return the machines of the story."""
    chip = SimulatedChip.of(SnpProduct.GENOA, tcb=MINIMUM_TCB)
    return (
        SnpMachine(guest=SimulatedGuest(chip=chip, measurement=sha384(b"attest demo, workload").digest())),
        TdxMachine(td=SimulatedTd(platform=SimulatedPlatform.of(), mr_td=sha384(b"attest demo, TD").digest())),
    )


def _log(td: SimulatedTd) -> EvidenceItem:
    return EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=td.event_log())


def _flipped(evidence: Evidence, offset: int) -> Evidence:
    """Flip the lowest bit of one byte of the first item."""
    cpu, *others = evidence.items
    value = cpu.value[:offset] + bytes([cpu.value[offset] ^ 1]) + cpu.value[offset + 1 :]
    return replace(evidence, items=(replace(cpu, value=value), *others))


# -- what verified evidence says, for people


def facts_of(claims: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield a line about the machine, one about what runs on it, and what else is worth a line."""
    if "measurement" in claims:
        yield f"{claims.get('product')}, firmware {_levels(claims.get('reported_tcb'))}"
        yield f"measurement {claims['measurement']}"
        return
    yield f"FMSPC {claims.get('fmspc')}, TCB {claims.get('tcb_status', 'unchecked')}"
    name = "mr_td" if "mr_td" in claims else "mr_enclave"
    yield f"{name.upper().replace('_', '')} {claims.get(name)}"
    log = claims.get("eventlog")
    if isinstance(log, dict):
        yield f"the event log replays: {log.get('event_count')} events, {_secure_boot(log.get('secure_boot'))}"


def _levels(tcb: JsonValue) -> str:
    return " ".join(f"{part} {level}" for part, level in tcb.items()) if isinstance(tcb, dict) else ""


def _secure_boot(fact: JsonValue) -> str:
    enabled = fact.get("enabled") if isinstance(fact, dict) else None
    return "nothing about Secure Boot" if enabled is None else f"Secure Boot {'on' if enabled else 'off'}"
