"""A software TEE vendor: byte-exact evidence under roots of its own, which prove nothing.

Everything is deterministic: the same chip, guest and REPORT_DATA always give the same bytes. All private
keys are public by design (``keys.py``); the verifier accepts them under ``TrustAnchors.simulation()`` alone::

    chip = SimulatedChip.of(SnpProduct.GENOA)
    guest = SimulatedGuest(chip=chip, measurement=launch_digest)
    evidence = guest.extended_report(report_data)            # report and certificate table
    endorsements = chip.endorsements(at=at)                  # certificates, and a list that is current at `at`

Importing this package loads nothing but this file; each name imports its module on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attest_simulator.certificates import SIMULATED_ORGANISATION, CertificateTemplate, ca_template, simulated_chain
    from attest_simulator.guest import SimulatedChip, SimulatedGuest
    from attest_simulator.kds import KdsAnswer, SimulatedKds
    from attest_simulator.keys import CaRole, simulated_ca_key
    from attest_simulator.revocation_lists import CrlTemplate, crl_template, simulated_crl

_HOMES = {
    "CaRole": "attest_simulator.keys",
    "CertificateTemplate": "attest_simulator.certificates",
    "CrlTemplate": "attest_simulator.revocation_lists",
    "KdsAnswer": "attest_simulator.kds",
    "SIMULATED_ORGANISATION": "attest_simulator.certificates",
    "SimulatedChip": "attest_simulator.guest",
    "SimulatedGuest": "attest_simulator.guest",
    "SimulatedKds": "attest_simulator.kds",
    "ca_template": "attest_simulator.certificates",
    "crl_template": "attest_simulator.revocation_lists",
    "simulated_ca_key": "attest_simulator.keys",
    "simulated_chain": "attest_simulator.certificates",
    "simulated_crl": "attest_simulator.revocation_lists",
}

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


def __getattr__(name: str) -> object:
    """Import a public name's module on first use."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'attest_simulator' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
