"""Sources of the service's own evidence: its TEE, or the distribution attest-simulator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from attest import Binding, Evidence
from attest.clock import Clock
from attest.collect import THIS_MACHINE, MachineAccess, collect_machine
from attest.errors import ConfigurationError
from attest.extensions import load_extension
from kms.config.settings import Settings

EvidenceSource = Callable[[Binding], Evidence]
"""Collects evidence that commits to a binding, and returns it with the binding inside."""
_TEES: Final = {"snp": ("sev-snp",), "tdx": ("tdx",), "azure": ("azure-snp", "azure-tdx")}
_SIMULATED: Final = frozenset({"simulated-snp", "simulated-tdx"})
_CERTIFIED_BEFORE: Final = timedelta(days=7)


def open_source(settings: Settings, *, clock: Clock, access: MachineAccess = THIS_MACHINE) -> EvidenceSource | None:
    """Return the source of evidence in the settings; None for ``off``, and if ``auto`` finds no TEE.

    Raises:
        ConfigurationError: ``self-evidence-unavailable``: the required TEE is missing.
            ``distribution-missing``: the simulator is required and not installed.
    """
    wanted = settings.self_evidence
    if wanted == "off":
        return None
    if wanted in _SIMULATED:
        simulated = load_extension(wanted, group="kms.evidence_sources", of="attest-simulator")
        source: EvidenceSource = simulated(certified_from=clock().replace(microsecond=0) - _CERTIFIED_BEFORE)
        return source
    detected = access.detect()
    there = detected.interface is not None
    if wanted == "auto" and not there:
        return None
    if not there or (wanted != "auto" and detected.tee not in _TEES[wanted]):
        raise ConfigurationError(
            f'self_evidence = "{wanted}": this machine does not provide such evidence',
            code="self-evidence-unavailable",
            field="self_evidence",
            expected=" or ".join(_TEES.get(wanted, ("a TEE",))),
            got=detected.tee or detected.reason or "no TEE",
            hint=detected.hint or "'attest doctor' shows what is missing",
        )
    return partial(collect_machine, access=access, with_gpus=False)
