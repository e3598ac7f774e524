"""A software Intel: byte-exact TDX and SGX evidence under a root of its own, which proves nothing.

Everything is deterministic: the same platform, TD and REPORTDATA always give the same bytes. All
private keys are public by design (``keys.py``); the verifier accepts them under ``TrustAnchors.simulation()`` alone::

    platform = SimulatedPlatform.of()
    td = SimulatedTd(platform=platform, log=typical_boot(command_line="/vmlinuz ro"))
    td = td.extend(3, application_event("example.com", "load-model", "sha384:…"))
    evidence, log = td.quote(report_data), td.event_log()     # quote of version 4; version=5 has a TD 1.5 report
    collateral = platform.collateral("tdx", at=at)            # current at `at`; the platform is UpToDate
    bundle = collateral.to_json()                             # QuoteCollateralV3
    service = SimulatedPcs.of(platform, at=at)
    answer = service.answer("/tdx/certification/v4/tcb", f"fmspc={platform.sgx.fmspc.hex()}")
    template = td.quote_template(report_data)                 # for invalid quotes:
    forged = dataclasses.replace(template, bound_key=bytes(64)).issue()
"""

from __future__ import annotations

from attest_simulator.intel.certificates import SIMULATED_INTEL, IntelCertificateTemplate, SgxExtension
from attest_simulator.intel.collateral import IntelCollateral, Period, intel_collateral
from attest_simulator.intel.crls import IntelCrlTemplate, simulated_intel_crl
from attest_simulator.intel.eventlog import LogEntry, MeasuredEvent, application_event, typical_boot
from attest_simulator.intel.keys import IntelAuthority
from attest_simulator.intel.machine import SIMULATED_FMSPC, SimulatedPlatform
from attest_simulator.intel.pcs import PcsAnswer, SimulatedPcs
from attest_simulator.intel.quote_template import QuoteTemplate
from attest_simulator.intel.tcb import QeIdentity, SvnLevel, TcbInfo, TcbLevel, TdxModule, TdxModuleIdentity
from attest_simulator.intel.td import SimulatedEnclave, SimulatedTd

__all__ = [
    "SIMULATED_FMSPC",
    "SIMULATED_INTEL",
    "IntelAuthority",
    "IntelCertificateTemplate",
    "IntelCollateral",
    "IntelCrlTemplate",
    "LogEntry",
    "MeasuredEvent",
    "PcsAnswer",
    "Period",
    "QeIdentity",
    "QuoteTemplate",
    "SgxExtension",
    "SimulatedEnclave",
    "SimulatedPcs",
    "SimulatedPlatform",
    "SimulatedTd",
    "SvnLevel",
    "TcbInfo",
    "TcbLevel",
    "TdxModule",
    "TdxModuleIdentity",
    "application_event",
    "intel_collateral",
    "simulated_intel_crl",
    "typical_boot",
]
