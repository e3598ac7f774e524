"""Where the service's own evidence comes from: the TEE that it runs in, or the simulator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from attest import Binding, Evidence, EvidenceItem
from attest.collect import THIS_MACHINE, MachineAccess, collect_machine
from attest.errors import ConfigurationError
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE, MEDIA_SNP_EXTENDED
from attest.evidence.snp.tcb import SnpProduct
from attest.simulator import SimulatedChip, SimulatedGuest
from attest.simulator.intel import SimulatedPlatform, SimulatedTd
from kms.clock import Clock
from kms.config.settings import Settings

__all__ = ["EvidenceSource", "open_source"]

EvidenceSource = Callable[[Binding], Evidence]
"""Collects evidence that commits to a binding, and returns it with the binding inside."""
_TEES: Final = {"snp": ("sev-snp",), "tdx": ("tdx",), "azure": ("azure-snp", "azure-tdx")}
_CERTIFIED_BEFORE: Final = timedelta(days=7)


def open_source(settings: Settings, *, clock: Clock, access: MachineAccess = THIS_MACHINE) -> EvidenceSource | None:
    """Find out how the service can prove itself, as the settings say. Nothing is collected yet.

    Args:
        settings: ``self_evidence`` says how.
        clock: tells the time.
        access: how the machine is reached.

    Returns:
        The source; None where the settings turn it off, or where ``auto`` finds no TEE.

    Raises:
        ConfigurationError: ``self-evidence-unavailable``: the TEE that is demanded is not there.
    """
    wanted = settings.self_evidence
    if wanted == "off":
        return None
    if wanted == "simulated-snp":
        chip = SimulatedChip.of(
            SnpProduct.GENOA, name="kms", certified_from=clock().replace(microsecond=0) - _CERTIFIED_BEFORE
        )
        return partial(simulated_snp, SimulatedGuest(chip=chip))
    if wanted == "simulated-tdx":
        return partial(simulated_tdx, SimulatedTd(platform=SimulatedPlatform.of("kms")))
    detected = access.detect()
    there = detected.interface is not None
    if wanted == "auto" and not there:
        return None
    if not there or (wanted != "auto" and detected.tee not in _TEES[wanted]):
        raise ConfigurationError(
            f'self_evidence = "{wanted}": this machine cannot prove itself so',
            code="self-evidence-unavailable",
            field="self_evidence",
            expected=" or ".join(_TEES.get(wanted, ("a TEE",))),
            got=detected.tee or detected.reason or "no TEE",
            hint=detected.hint or "'attest doctor' says what is missing",
        )
    return partial(collect_machine, access=access, with_gpus=False)


def simulated_snp(guest: SimulatedGuest, binding: Binding) -> Evidence:
    """Return evidence of a simulated SNP guest, with its certificates."""
    report = guest.extended_report(binding.report_data())
    return Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=report), _item(binding)))


def simulated_tdx(td: SimulatedTd, binding: Binding) -> Evidence:
    """Return evidence of a simulated TD, with the event log of its boot."""
    return Evidence(
        items=(
            EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=td.quote(binding.report_data())),
            EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=td.event_log()),
            _item(binding),
        )
    )


def _item(binding: Binding) -> EvidenceItem:
    return EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes())
