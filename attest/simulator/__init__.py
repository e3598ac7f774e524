"""A software TEE vendor: evidence that is right in every byte, under roots of its own that prove nothing.

Everything is deterministic: the same chip, guest and REPORT_DATA give the same bytes, today and next year. All private
keys are public by design (``keys.py``); the verifier accepts them under ``TrustAnchors.simulation()`` alone::

    chip = SimulatedChip.of(SnpProduct.GENOA)
    guest = SimulatedGuest(chip=chip, measurement=launch_digest)
    evidence = guest.extended_report(report_data)            # report and certificate table
    endorsements = chip.endorsements(at=at)                  # certificates, and a list that is current at `at`
"""

from __future__ import annotations

from attest.simulator.certificates import (
    SIMULATED_ORGANISATION,
    CertificateTemplate,
    CrlTemplate,
    ca_template,
    crl_template,
    simulated_chain,
    simulated_crl,
)
from attest.simulator.guest import SimulatedChip, SimulatedGuest
from attest.simulator.kds import KdsAnswer, SimulatedKds
from attest.simulator.keys import CaRole, simulated_ca_key

__all__ = [
    "SIMULATED_ORGANISATION",
    "CaRole",
    "CertificateTemplate",
    "CrlTemplate",
    "KdsAnswer",
    "SimulatedChip",
    "SimulatedGuest",
    "SimulatedKds",
    "ca_template",
    "crl_template",
    "simulated_ca_key",
    "simulated_chain",
    "simulated_crl",
]
