"""A simulated machine for a key-release service, for ``self_evidence = "simulated-snp"`` and ``"simulated-tdx"``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from attest.evidence.binding import Binding
from attest.evidence.envelope import (
    MEDIA_BINDING,
    MEDIA_EVENT_LOG,
    MEDIA_INTEL_QUOTE,
    MEDIA_SNP_EXTENDED,
    Evidence,
    EvidenceItem,
)
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator.guest import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedPlatform, SimulatedTd


def snp_service(*, certified_from: datetime) -> Callable[[Binding], Evidence]:
    """Return the evidence source of a service in a SEV-SNP guest, with the start of the chip's certificate."""
    chip = SimulatedChip.of(SnpProduct.GENOA, name="kms", certified_from=certified_from)
    return partial(simulated_snp, SimulatedGuest(chip=chip))


def tdx_service(*, certified_from: datetime) -> Callable[[Binding], Evidence]:
    """Return the evidence source of a service in a trust domain; its platform needs no start date."""
    del certified_from
    return partial(simulated_tdx, SimulatedTd(platform=SimulatedPlatform.of("kms")))


def simulated_snp(guest: SimulatedGuest, binding: Binding) -> Evidence:
    """Return evidence of a simulated SNP guest, with its certificates."""
    report = guest.extended_report(binding.report_data())
    return Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=report), _item(binding)))


def simulated_tdx(td: SimulatedTd, binding: Binding) -> Evidence:
    """Return evidence of a simulated TD, with its boot's event log."""
    return Evidence(
        items=(
            EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=td.quote(binding.report_data())),
            EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=td.event_log()),
            _item(binding),
        )
    )


def _item(binding: Binding) -> EvidenceItem:
    return EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes())
