"""A software Azure: byte-exact confidential VMs on simulated CPUs, which prove nothing.

Everything is deterministic: the same host, VM and data always give the same bytes. All private keys are
public by design (``keys.py``); the verifier accepts them under ``TrustAnchors.simulation()`` alone::

    host = SimulatedSnpHost.of()                              # or SimulatedTdxHost.of()
    hcl = host.hcl_report(ak_public, ek_public, user_data=user_data)     # also with keys of another TPM
    quote = tdx_host.td_quote(hcl)                            # TDX: the TD quote for its TDREPORT
    answer = host.certification()                             # SNP: VCEK and its issuers, in THIM's form
    vm = SimulatedAzureVm.of(host)                            # with a software TPM
    pieces = vm.attest(nonce, user_data=user_data)            # paravisor's report, TPM's quote, TD quote or VCEK
    document = pieces.json("coco-v1")                         # and other forms
    evidence = vm.evidence(binding)                           # an envelope
    endorsements = vm.endorsements(at=at)
    with serving_imds(SimulatedImds(host=host)) as url: ...   # in place of 169.254.169.254
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
