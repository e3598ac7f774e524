"""The party that determined each claim, since a policy that trusts the hardware must not trust host or guest for it."""

import pytest

from attest.evidence.azure.claims import AZURE_SNP_CLAIMS, AZURE_TDX_CLAIMS
from attest.evidence.claims import Claim, Origin
from attest.evidence.gpu.claims import GPU_CLAIMS, SWITCH_CLAIMS
from attest.evidence.gpu.device_set import DEVICE_SET_CLAIMS
from attest.evidence.intel.claims import SGX_CLAIMS, TDX_CLAIMS
from attest.evidence.sample.claims import SAMPLE_CLAIMS
from attest.evidence.snp.claims import SNP_CLAIMS

_PCK = """
    fmspc pce_id pce_svn cpu_svn ppid
    platform.ca platform.instance_id platform.dynamic_platform platform.cached_keys platform.smt_enabled
    tcb_status platform_status tdx_module_status tcb_status_current qe_status tcb_date advisory_ids
    tcb_evaluation_data_number qe_identity_evaluation_data_number
"""
_DEVICE = "architecture product device_identity hwmodel ueid fwid"
_RIM = ["id", "version", "sha256", "signer", "revocation", "issued", "expires", "not_after"]
_VBIOS_RIM, _DRIVER_RIM = (" ".join(f"{kind}_rim.{name}" for name in _RIM) for kind in ("vbios", "driver"))
SNP = {
    Origin.OWNER: "guest_svn family_id image_id id_key_digest author_key_digest author_key_en",
    Origin.HOST: """
        policy.abi_major policy.abi_minor policy.smt policy.migrate_ma policy.debug policy.single_socket
        policy.cxl_allow policy.mem_aes_256_xts policy.rapl_dis policy.ciphertext_hiding_dram
        policy.page_swap_disable host_data chip_id_masked reported_tcb signing_key
    """,
    Origin.GUEST: "report_data",
    Origin.CERTIFICATE: "product csp_id chip_identity not_understood",
}
TDX = {
    Origin.HOST: """
        mr_config_id mr_owner mr_owner_config xfam xfam_known
        td_attributes.debug td_attributes.sept_ve_disable td_attributes.migratable td_attributes.pks
        td_attributes.kl td_attributes.perfmon td_attributes.under_debug td_attributes.unnamed td_attributes.value
    """,
    Origin.GUEST: "rtmr3 report_data",
    Origin.CERTIFICATE: _PCK,
}
SGX = {
    Origin.OWNER: "mr_signer isv_prod_id isv_svn isv_ext_prod_id isv_family_id",
    Origin.HOST: """
        config_id config_svn misc_select
        attributes.init attributes.debug attributes.mode64bit attributes.provision_key attributes.einittoken_key
        attributes.cet attributes.kss attributes.aex_notify attributes.xfrm
    """,
    Origin.GUEST: "report_data",
    Origin.CERTIFICATE: _PCK,
}
AZURE = {Origin.HOST: "hcl.version", Origin.GUEST: "pcrs.16 pcrs.23 user_data tpm.extra_data"}
GPU = {
    Origin.GUEST: """
        nonce nvml.environment nvml.cc_mode nvml.dev_tools_mode nvml.multi_gpu_mode nvml.ready nvml.driver_version
    """,
    Origin.CERTIFICATE: f"{_DEVICE} {_VBIOS_RIM} {_DRIVER_RIM}",
}
SWITCH = {Origin.GUEST: "nonce", Origin.CERTIFICATE: f"{_DEVICE} {_VBIOS_RIM}"}


def named(origins: dict[Origin, str], prefix: str = "") -> dict[str, Origin]:
    return {prefix + name: origin for origin, names in origins.items() for name in names.split()}


@pytest.mark.parametrize(
    ("claims", "beside_hardware"),
    [
        (SNP_CLAIMS, named(SNP)),
        (TDX_CLAIMS, named(TDX)),
        (SGX_CLAIMS, named(SGX)),
        (AZURE_SNP_CLAIMS, named(AZURE) | named(SNP, "snp.")),
        (AZURE_TDX_CLAIMS, named(AZURE) | named(TDX, "tdx.")),
        (GPU_CLAIMS, named(GPU)),
        (SWITCH_CLAIMS, named(SWITCH)),
        (DEVICE_SET_CLAIMS, {}),
        (SAMPLE_CLAIMS, {claim.name: Origin.GUEST for claim in SAMPLE_CLAIMS}),
    ],
    ids=["snp", "tdx", "sgx", "azure-snp", "azure-tdx", "gpu", "switch", "devices", "sample"],
)
def test_what_the_hardware_did_not_determine_is_said_to_be_of_another(
    claims: tuple[Claim, ...], beside_hardware: dict[str, Origin]
) -> None:
    assert {claim.name: claim.origin for claim in claims if claim.origin is not Origin.HARDWARE} == beside_hardware
