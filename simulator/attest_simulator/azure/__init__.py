"""A software Azure: confidential VMs on simulated CPUs, right in every byte, that prove nothing.

Everything is deterministic: the same host, VM and data give the same bytes, today and next year. All private keys are
public by design (``keys.py``); the verifier accepts what rests on them under ``TrustAnchors.simulation()`` alone::

    host = SimulatedSnpHost.of()                              # or SimulatedTdxHost.of()
    hcl = host.hcl_report(ak_public, ek_public, user_data=user_data)     # the keys may be those of a TPM elsewhere
    quote = tdx_host.td_quote(hcl)                            # of TDX: the TD quote for the TDREPORT in it
    answer = host.certification()                             # of SNP: VCEK and its issuers, as THIM answers
    vm = SimulatedAzureVm.of(host)                            # with a software TPM of its own
    pieces = vm.attest(nonce, user_data=user_data)            # paravisor's report, TPM's quote, TD quote or VCEK
    document = pieces.json("coco-v1")                         # and every other form
    evidence = vm.evidence(binding)                           # an envelope
    endorsements = vm.endorsements(at=at)
    with serving_imds(SimulatedImds(host=host)) as url: ...   # of ``serving.py``; what stands at 169.254.169.254
"""

from __future__ import annotations

from attest_simulator.azure.hcl import HclTemplate, VmConfiguration, runtime_claims
from attest_simulator.azure.host import AzureHost, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.azure.imds import ImdsAnswer, SimulatedImds
from attest_simulator.azure.keys import tpm_key
from attest_simulator.azure.tpm import AttestTemplate, SimulatedTpm, boot_registers
from attest_simulator.azure.vm import FORMS, AzureForm, AzurePieces, SimulatedAzureVm

__all__ = [
    "FORMS",
    "AttestTemplate",
    "AzureForm",
    "AzureHost",
    "AzurePieces",
    "HclTemplate",
    "ImdsAnswer",
    "SimulatedAzureVm",
    "SimulatedImds",
    "SimulatedSnpHost",
    "SimulatedTdxHost",
    "SimulatedTpm",
    "VmConfiguration",
    "boot_registers",
    "runtime_claims",
    "tpm_key",
]
