"""A software Azure: confidential VMs on simulated CPUs, right in every byte, that prove nothing.

Everything is deterministic: the same host, VM and data give the same bytes, today and next year. All private keys are
public by design (``keys.py``); the verifier accepts what rests on them under ``TrustAnchors.simulation()`` alone::

    host = SimulatedSnpHost.of()                              # or SimulatedTdxHost.of()
    hcl = host.hcl_report(ak_public, ek_public, user_data=user_data)     # the keys may be those of a TPM elsewhere
    quote = tdx_host.td_quote(hcl)                            # of TDX: the TD quote for the TDREPORT in it
    answer = host.certification()                             # of SNP: VCEK and its issuers, as THIM answers
    endorsements = host.endorsements(at=at)
"""

from __future__ import annotations

from attest.simulator.azure.hcl import HclTemplate, VmConfiguration, runtime_claims
from attest.simulator.azure.host import AzureHost, SimulatedSnpHost, SimulatedTdxHost
from attest.simulator.azure.keys import tpm_key

__all__ = [
    "AzureHost",
    "HclTemplate",
    "SimulatedSnpHost",
    "SimulatedTdxHost",
    "VmConfiguration",
    "runtime_claims",
    "tpm_key",
]
