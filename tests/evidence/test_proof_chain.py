"""The chain of proof: from the maker's root key to the evidence, each link signed by the one before it."""

import pytest

from attest.evidence.azure.structure import HclReportType
from attest.evidence.gpu.format import GPU, SWITCH
from attest.evidence.registry import FORMATS
from attest.evidence.snp.format import SNP
from attest.verification import VerifiedItem
from tests.evidence.azure.made import AzureVm, judged
from tests.evidence.test_formats import TINY_FORMATS, judge, tiny_report
from tests.policy.gpu_documents import HOPPER, verified
from tests.policy.gpu_documents import SWITCH as SIMULATED_SWITCH
from tests.policy.mixed import enclave_cpu, snp_cpu, td_cpu
from tests.samples import scene

AMD = ["SIMULATED ARK-Genoa", "SEV-Genoa", "SEV-VCEK", "report"]
INTEL = ["SIMULATED Intel SGX Root CA", "Intel SGX PCK Platform CA", "Intel SGX PCK Certificate", "quoting enclave"]
TPM = ["runtime claims", "TPM quote"]
VLEK = scene(csp_id="CN=cloud.invalid", mask_chip_id=True, product_name="Genoa")
CHAINS = {
    "snp": (snp_cpu(), AMD),
    "vlek": (
        VerifiedItem(name="cpu", format=SNP, verified=VLEK.verify()),
        [AMD[0], "SEV-VLEK-Genoa", "SEV-VLEK", "report"],
    ),
    "tdx": (td_cpu(), [*INTEL, "quote"]),
    "sgx": (enclave_cpu(), [*INTEL, "quote"]),
    "azure-snp": (judged(AzureVm()).items[0], [*AMD, *TPM]),
    "azure-tdx": (judged(AzureVm(kind=HclReportType.TDX)).items[0], [*INTEL, "quote", *TPM]),
    "gpu": (
        VerifiedItem(name="gpu0", format=GPU, verified=verified(HOPPER)),
        ["SIMULATED NVIDIA Device Identity CA", "NVIDIA GH100 Identity", "report"],
    ),
    "switch": (
        VerifiedItem(name="switch0", format=SWITCH, verified=verified(SIMULATED_SWITCH)),
        ["SIMULATED NVIDIA Device Identity CA", "NVIDIA GH100 Identity", "report"],
    ),
    "a format without one": (judge(tiny_report(), FORMATS.merged(TINY_FORMATS)).items[0], []),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_a_chain_begins_with_the_pinned_root_and_ends_with_the_evidence(kind: str) -> None:
    item, names = CHAINS[kind]
    found = [link.name for link in item.chain]
    if kind in ("gpu", "switch"):  # the certificates of a device name its chip
        assert (len(found), [*found[:2], found[-1]]) == (6, names)
    else:
        assert found == names


def test_the_root_is_the_anchor_that_verification_reached() -> None:
    item = snp_cpu()
    root = item.chain[0]
    assert root.name == item.verified.anchor.name  # type: ignore[attr-defined]  # of an SNP report
    assert item.verified.anchor.spki_sha256.hex() in root.detail  # type: ignore[attr-defined]  # as above
    assert root.detail.startswith("the simulator's root")


def test_a_key_of_a_provider_is_not_called_the_key_of_a_chip() -> None:
    assert CHAINS["vlek"][0].chain[2].detail.startswith("key of a cloud provider at TCB ")
    assert CHAINS["snp"][0].chain[2].detail.startswith("key of the chip ")
