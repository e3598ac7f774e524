"""What tokens state, under our names: every mapped claim, its type, and each way of writing it wrongly."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.errors import AttestError, BindingError, UnsupportedError
from attest.evidence.claims import Claim, ClaimTree, ClaimType, nested_document
from attest.evidence.gpu.claims import GPU_CLAIMS, SWITCH_CLAIMS
from attest.evidence.intel.claims import SGX_CLAIMS, TDX_CLAIMS
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.results.jose import read_jwks
from attest.results.nras import verify_nras_token
from attest.results.nvidia_token_claims import nvidia_kind
from attest.results.service_token import verify_service_token
from attest.results.token_facts import ClaimReader, TokenFacts, claim_tree
from tests.results import tokens as nras
from tests.results.services import (
    AT,
    GOOGLE,
    HASH,
    ITA,
    MAA,
    NONCE,
    REGISTER,
    REPORT_DATA,
    SAMPLES,
    SERVICE,
    b64url,
    google,
    google_gpu,
    gpu,
    ita_flat,
    ita_head,
    ita_section,
    ita_tdx,
    maa_guest,
    maa_sgx,
    maa_snp,
    maa_tdx,
    sgx,
    snp,
    submods,
    tdx,
    without,
)

TRUSTED = {iss: SERVICE.keys() for iss in (MAA, ITA, GOOGLE, "Intel Trust Authority")}
REGISTRIES: Mapping[str, tuple[Claim, ...]] = {
    "sev-snp": SNP_CLAIMS,
    "tdx": TDX_CLAIMS,
    "sgx": SGX_CLAIMS,
    "nvidia-gpu": GPU_CLAIMS,
    "nvidia-switch": SWITCH_CLAIMS,
}
PYTHON_TYPES: Mapping[ClaimType, type] = {
    ClaimType.BOOLEAN: bool,
    ClaimType.INTEGER: int,
    ClaimType.TEXT: str,
    ClaimType.BYTES: bytes,
    ClaimType.TCB: dict,
    ClaimType.LIST: tuple,
    ClaimType.OBJECT: dict,
}


def facts_of(claims: dict[str, Any]) -> tuple[TokenFacts, ...]:
    audience = "https://kms.example" if "aud" in claims else None
    return verify_service_token(SERVICE.sign(claims), trusted=TRUSTED, at=AT, audience=audience).facts


def only(claims: dict[str, Any]) -> TokenFacts:
    (found,) = facts_of(claims)
    return found


def refusal(claims: dict[str, Any]) -> AttestError:
    with pytest.raises(AttestError) as outcome:
        facts_of(claims)
    return outcome.value


def nras_facts(**device: object) -> tuple[TokenFacts, ...]:
    signer = nras.Signer()
    token = nras.token(signer, device=device)
    return verify_nras_token(token, trusted={nras.ISSUER: signer.keys()}, at=nras.AT).facts


def require_registered(facts: TokenFacts) -> None:
    registry = {claim.name: claim for claim in REGISTRIES.get(facts.kind, ())}
    for name, value in facts.claims.items():
        assert type(value) is PYTHON_TYPES[registry[name].type], name
    nested_document(facts.claims)
    nested_document(facts.statements)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_claim_is_one_of_the_registry_with_its_type(name: str) -> None:
    for facts in facts_of(SAMPLES[name]):
        require_registered(facts)


# -- Azure


def test_snp_of_azure() -> None:
    found = only(maa_snp())
    assert found.kind == "sev-snp"
    assert found.claims == {
        "product": "Genoa",
        "guest_svn": 7,
        "vmpl": 0,
        "measurement": bytes.fromhex(REGISTER),
        "report_data": bytes.fromhex(REPORT_DATA),
        "host_data": bytes(32),
        "id_key_digest": b"\x03" * 48,
        "author_key_digest": bytes(48),
        "report_id": bytes.fromhex(HASH),
        "family_id": b"\x01" + bytes(15),
        "image_id": b"\x02" + bytes(15),
        "chip_id": b"\x11" * 64,
        "policy.debug": False,
        "policy.migrate_ma": False,
        "policy.smt": True,
        "reported_tcb": {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 88},
    }
    assert found.statements == {
        "attestation_type": "sevsnpvm",
        "compliance_status": "azure-compliant-cvm",
        "policy_hash": bytes(32),
        "vm_configuration.secure_boot": True,
        "vm_configuration.tpm_enabled": True,
        "vm_configuration.vm_unique_id": "1588CFD1",
    }
    assert (found.report_data, found.held_data) == (bytes.fromhex(REPORT_DATA), b"\x55" * 64)
    assert found.nonces == (NONCE,)


def test_newer_bits_of_azure_have_our_names() -> None:
    names = {
        "singlesocket": "single_socket",
        "cxl-allowed": "cxl_allow",
        "mem-aes256-xts-required": "mem_aes_256_xts",
        "rapl-disabled": "rapl_dis",
        "ciphertext-hiding-dram-enabled": "ciphertext_hiding_dram",
        "page-swap-disabled": "page_swap_disable",
    }
    found = only(maa_snp(**{f"x-ms-sevsnpvm-{theirs}": True for theirs in names}))
    require_registered(found)
    assert all(found.claims[f"policy.{ours}"] is True for ours in names.values())


@pytest.mark.parametrize("part", ["bootloader", "tee", "snpfw", "microcode"])
def test_a_tcb_is_told_whole_or_not_at_all(part: str) -> None:
    assert "reported_tcb" not in only(without(maa_snp(), f"x-ms-sevsnpvm-{part}-svn")).claims
    assert refusal(maa_snp(**{f"x-ms-sevsnpvm-{part}-svn": 256})).code == "token-claim-invalid"


def test_tdx_of_azure() -> None:
    found = only(maa_tdx())
    assert found.kind == "tdx"
    assert found.claims["mr_td"] == bytes.fromhex(REGISTER)
    assert [found.claims[f"rtmr{i}"] for i in range(4)] == [bytes([i]) * 48 for i in range(4)]
    assert (found.claims["xfam"], found.claims["xfam_known"]) == (0x602E7, True)
    assert (found.claims["tdx_module.svn"], found.claims["tdx_module.major_version"]) == (13, 1)
    assert found.claims["tcb_status"] == "UpToDate"
    bits = {name: value for name, value in found.claims.items() if name.startswith("td_attributes.")}
    assert bits == {
        "td_attributes.debug": False,
        "td_attributes.sept_ve_disable": True,
        "td_attributes.migratable": False,
        "td_attributes.pks": False,
        "td_attributes.kl": False,
        "td_attributes.perfmon": False,
        "td_attributes.under_debug": False,
        "td_attributes.unnamed": 0,
        "td_attributes.value": 1 << 28,
    }
    assert (found.statements["debug_status"], found.held_data) == ("disabled", None)


def test_a_vm_with_the_tee_below_and_the_virtual_tpm_around_it() -> None:
    found = only(maa_guest())
    assert (found.kind, found.claims) == ("sev-snp", only(maa_snp()).claims)
    assert found.statements["attestation_type"] == "azurevm"
    assert found.statements["secure_boot"] is True
    assert found.statements["azurevm.attested_pcrs"] == (0, 1, 2, 7)
    assert found.statements["azurevm.kerneldebug_enabled"] is False
    assert found.statements["compliance_status"] == "azure-compliant-cvm"
    assert found.nonces == (NONCE,)
    inner = {**tdx(), "x-ms-attestation-type": "tdxvm", "x-ms-compliance-status": "azure-compliant-cvm"}
    assert only(maa_guest(inner)).kind == "tdx"


def test_what_the_guest_wrote_around_the_tee_is_no_claim_of_the_tee() -> None:
    forged: dict[str, Any] = snp(**{"x-ms-sevsnpvm-launchmeasurement": "66" * 48})
    runtime = {"client-payload": {"nonce": base64.b64encode(NONCE).decode()}, "user-data": "77" * 64}
    around: dict[str, Any] = {"x-ms-runtime": {**runtime, **forged}, "x-ms-sevsnpvm-is-debuggable": True}
    found = only(maa_guest(**around))
    assert found.claims == only(maa_snp()).claims
    assert found.held_data == b"\x55" * 64


def test_a_vm_without_a_tee_states_no_claim() -> None:
    found = only(without(maa_guest(), "x-ms-isolation-tee"))
    assert (found.kind, found.claims, found.held_data) == ("vm", {}, None)
    assert found.statements["secure_boot"] is True


def test_sgx_of_azure() -> None:
    found = only(maa_sgx())
    assert found.kind == "sgx"
    assert found.claims["mr_enclave"] == found.claims["mr_signer"] == bytes.fromhex(HASH)
    assert (found.claims["isv_prod_id"], found.claims["isv_svn"], found.claims["config_svn"]) == (1, 2, 3451)
    assert found.claims["attributes.debug"] is False
    assert (found.held_data, found.report_data, found.nonces) == (b"held by the enclave", None, ())


@pytest.mark.parametrize("kind", ["openenclave", "tpm", "azurevm", "SevSnpVm", "sgx"])
def test_other_kinds_of_azure_are_refused_by_name(kind: str) -> None:
    inner = refusal(maa_guest(snp(**{"x-ms-attestation-type": kind})))
    assert isinstance(inner, UnsupportedError)
    assert (inner.code, inner.field) == ("token-kind-unsupported", "x-ms-isolation-tee.x-ms-attestation-type")
    if kind not in ("azurevm", "sgx"):
        assert refusal(maa_snp(**{"x-ms-attestation-type": kind})).code == "token-kind-unsupported"


# -- Intel


def test_tdx_of_intel() -> None:
    found = only(ita_tdx())
    assert found.kind == "tdx"
    assert found.claims["tcb_date"] == "2025-05-14T00:00:00Z"
    assert found.claims["advisory_ids"] == ("INTEL-SA-01192",)
    assert (found.claims["fmspc"], found.claims["tcb_evaluation_data_number"]) == (bytes.fromhex("00806f050000"), 20)
    assert found.claims["pce_svn"] == 13
    assert (found.held_data, found.nonces) == (b"a key", (NONCE, b"a key"))
    assert found.statements["policies_matched"] == ({"id": "5a24e414", "version": "v2", "hash": "aDg0"},)
    assert found.statements["policies_unmatched"] == ()


def test_both_versions_of_intels_tokens_say_the_same() -> None:
    nested, flat = only(ita_tdx()), only(ita_flat())
    assert (nested.claims, nested.statements, nested.nonces) == (flat.claims, flat.statements, flat.nonces)


def test_a_composite_token_states_each_device() -> None:
    cpu, device = facts_of(ita_tdx(nvgpu=gpu(), tpm={"attester_type": "TPM"}))
    assert (cpu.name, cpu.kind, device.name, device.kind) == ("cpu", "tdx", "gpu0", "nvidia-gpu")
    require_registered(device)
    assert device.claims["driver_version"] == "550.90.07"
    assert device.claims["vbios_version"] == "96.00.9F.00.01"
    assert (device.claims["architecture"], device.claims["nonce"]) == ("hopper", b"\xab" * 32)
    assert device.claims["measurements.mismatches"] == ()
    nvidia = device.claims["nvidia"]
    assert isinstance(nvidia, Mapping)
    assert nvidia["measres"] == "comparison-successful"


def test_sgx_of_intel() -> None:
    found = only({**ita_head(), "sgx": sgx()})
    assert found.kind == "sgx"
    assert (found.claims["tcb_status"], found.claims["isv_svn"]) == ("SWHardeningNeeded", 1)
    assert found.claims["platform.instance_id"] == b"\xc5" * 16
    assert found.report_data == bytes.fromhex(REPORT_DATA)


def test_parts_that_answer_different_questions_do_not_belong_together() -> None:
    claims = ita_tdx(nvgpu=gpu(verifier_nonce={"val": base64.b64encode(b"another").decode()}))
    error = refusal(claims)
    assert isinstance(error, BindingError)
    assert error.code == "token-nonce-mismatch"
    same = ita_tdx(nvgpu=gpu(verifier_nonce={"val": base64.b64encode(NONCE).decode()}))
    assert facts_of(same)[1].nonces == (NONCE, b"a key")


def test_other_attesters_of_intel_are_refused_by_name() -> None:
    for claims in ({**ita_head(), "tpm": {}}, ita_flat(attester_type="TPM"), ita_flat(attester_type="tdx")):
        assert refusal(claims).code == "token-kind-unsupported"


@pytest.mark.parametrize(
    ("claims", "field"),
    [
        (ita_tdx(ita_section(attester_type="SGX")), "tdx.attester_type"),
        (ita_tdx(sgx=sgx()), "sgx"),
        (ita_tdx(ita_section(attester_held_data="%")), "tdx.attester_held_data"),
        (ita_tdx(ita_section(attester_held_data=5)), "tdx.attester_held_data"),
        (ita_tdx(ita_section(verifier_nonce={})), "tdx.verifier_nonce.val"),
        (ita_tdx(ita_section(verifier_nonce=[])), "tdx.verifier_nonce"),
        (ita_tdx(ita_section(attester_tcb_date="yesterday")), "tdx.attester_tcb_date"),
        (ita_tdx(ita_section(attester_advisory_ids="INTEL-SA")), "tdx.attester_advisory_ids"),
        (ita_tdx(ita_section(attester_advisory_ids=[None])), "tdx.attester_advisory_ids"),
        (ita_tdx(ita_section(attester_advisory_ids=["x"] * 257)), "tdx.attester_advisory_ids"),
        (ita_tdx(ita_section(tdx_collateral={"fmspc": "00"})), "tdx.tdx_collateral.fmspc"),
        (ita_tdx(policy_ids_matched=["x"]), "policy_ids_matched[0]"),
        (ita_tdx(policy_ids_matched=[None]), "policy_ids_matched[0]"),
        (ita_tdx(policy_ids_unmatched=[{}]), "policy_ids_unmatched[0].id"),
        (ita_tdx(policy_ids_unmatched={}), "policy_ids_unmatched"),
        (ita_tdx(policy_defined_claims={"a": 0.5}), "policy_defined_claims.a"),
        (ita_tdx(ita_section(attester_runtime_data={"a": [0.5]})), "tdx.attester_runtime_data.a[0]"),
        (ita_tdx(nvgpu=gpu(eat_nonce="AB")), "nvgpu.eat_nonce"),
    ],
)
def test_claims_of_intel_that_are_not_what_it_documents_are_refused(claims: dict[str, Any], field: str) -> None:
    error = refusal(claims)
    assert (error.code, error.field) == ("token-claim-invalid", field)


def test_what_a_policy_of_intels_customer_adds_is_a_statement() -> None:
    found = only(ita_tdx(ita_section(attester_runtime_data={"user-data": "00"}), policy_defined_claims={"a": {"b": 1}}))
    assert found.statements["policy_defined"] == {"a": {"b": 1}}
    assert found.statements["runtime_data"] == {"user-data": "00"}


# -- TD attributes, told twice


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tdx_td_attributes_debug": True}, "tdx_td_attributes_debug"),
        ({"tdx_td_attributes_septve_disable": False}, "tdx_td_attributes_septve_disable"),
        ({"tdx_td_attributes": "0100001000000000"}, "tdx_td_attributes_debug"),
        ({"tdx_td_attributes": "0000000010000000"}, "tdx_td_attributes_septve_disable"),
        ({"tdx_is_debuggable": True}, "tdx_is_debuggable"),
        ({"tdx_is_migratable": True}, "tdx_is_migratable"),
        ({"tdx_seamsvn": 270}, "tdx_seamsvn"),
        ({"tdx_seamsvn": -1}, "tdx_seamsvn"),
        ({"tdx_td_attributes": "00"}, "tdx_td_attributes"),
        ({"tdx_td_attributes": None, "tdx_is_debuggable": True}, "tdx_is_debuggable"),
    ],
)
def test_a_bit_that_is_told_in_two_ways_is_refused(changes: dict[str, Any], field: str) -> None:
    error = refusal(maa_tdx(**changes))
    assert (error.code, error.field) == ("token-claim-invalid", field)


def test_debugging_is_found_in_whichever_claim_tells_it() -> None:
    attributes = ("tdx_td_attributes", *(name for name in tdx() if name.startswith("tdx_td_attributes_")))
    bare = without(maa_tdx(), *attributes)
    assert "td_attributes.debug" not in only(bare).claims
    for value in (True, False):
        assert only({**bare, "tdx_is_debuggable": value}).claims["td_attributes.debug"] is value
        assert only({**bare, "tdx_td_attributes_debug": value}).claims["td_attributes.debug"] is value
    # Another bit of the group: under debug, though bit 0 is not set. The summary may be of the one or of the other.
    for summary in (True, False, None):
        found = only(maa_tdx(tdx_td_attributes="0200001000000000", tdx_is_debuggable=summary))
        assert (found.claims["td_attributes.debug"], found.claims["td_attributes.under_debug"]) == (False, True)
        assert found.claims["td_attributes.unnamed"] == 2


def test_module_versions_may_be_told_with_or_without_the_major_one() -> None:
    for stated in (13, 0x010D, None):
        assert only(maa_tdx(tdx_seamsvn=stated)).claims["tdx_module.svn"] == 13
    assert "tdx_module.svn" not in only(without(maa_tdx(), "tdx_tee_tcb_svn")).claims
    assert "xfam" not in only(without(maa_tdx(), "tdx_xfam")).claims
    assert only(maa_tdx(tdx_xfam="0000000000000000")).claims["xfam_known"] is False


# -- Google


def test_confidential_space() -> None:
    (found,) = facts_of(google())
    assert (found.kind, found.claims) == ("tdx", {})
    stated = found.statements
    assert stated["container.image_digest"] == f"sha256:{HASH}"
    assert stated["confidential_space.support_attributes"] == ("LATEST", "STABLE")
    assert (stated["software_name"], stated["debug_status"]) == ("CONFIDENTIAL_SPACE", "disabled-since-boot")
    assert (stated["gcp_tcb_status"], stated["gcp_tcb_date"]) == ("UpToDate", "2024-03-13T00:00:00Z")
    assert stated["gce"] == {"zone": "us-central1-c", "project_id": "p"}
    assert stated["container.env"] == {"PATH": "/bin"}
    assert found.report_data is None


def test_intels_words_in_googles_tokens_are_claims_and_googles_are_not() -> None:
    status = {"attester_tcb_status": "OutOfDate", "attester_tcb_date": "2024-03-13T00:00:00Z"}
    for section in (status, [status]):
        assert only(google(tdx=section)).claims == {"tcb_status": "OutOfDate", "tcb_date": "2024-03-13T00:00:00Z"}
    assert "gcp_tcb_status" not in only(without(google(), "tdx")).statements
    wrong: tuple[object, ...] = ([status, status], [], "x", [5])
    for each in wrong:
        assert refusal(google(tdx=each)).code == "token-claim-invalid"


@pytest.mark.parametrize(
    ("model", "kind"),
    [("GCP_AMD_SEV", "sev"), ("GCP_AMD_SEV_ES", "sev-es"), ("GCP_AMD_SEV_SNP", "sev-snp"), ("GCP_SHIELDED_VM", "vm")],
)
def test_hardware_of_google(model: str, kind: str) -> None:
    assert only(google(hwmodel=model)).kind == kind


def test_hardware_that_nobody_knows_is_refused() -> None:
    assert refusal(google(hwmodel="GCP_NEW")).code == "token-kind-unsupported"


@pytest.mark.parametrize(("mode", "confidential", "tools"), [("ON", True, False), ("DEVTOOLS", True, True)])
def test_gpus_of_google(mode: str, confidential: bool, tools: bool) -> None:
    gpus = [google_gpu(ueid="1"), google_gpu(hwmodel="GCP_NVIDIA_B200"), {}]
    found = facts_of(google(submods=submods(nvidia_gpu={"cc_mode": mode, "cc_feature": "MPT", "gpus": gpus})))
    assert [one.name for one in found] == ["cpu", "gpu0", "gpu1", "gpu2"]
    assert [one.claims.get("architecture") for one in found[1:]] == ["hopper", "blackwell", None]
    for one in found[1:]:
        require_registered(one)
        assert (one.claims["nvml.cc_mode"], one.claims["nvml.dev_tools_mode"]) == (confidential, tools)
        assert (one.statements["cc_mode"], one.statements["cc_feature"]) == (mode, "MPT")


def test_gpus_that_are_on_and_not_listed_are_one() -> None:
    assert len(facts_of(google(submods=submods(nvidia_gpu={"cc_mode": "ON"})))) == 2
    (alone,) = facts_of(google(submods=submods(nvidia_gpu={"cc_mode": "OFF"})))
    assert alone.statements["nvidia_gpu.cc_mode"] == "OFF"
    off = facts_of(google(submods=submods(nvidia_gpu={"cc_mode": "OFF", "gpus": [google_gpu()]})))
    assert off[1].claims["nvml.cc_mode"] is False


@pytest.mark.parametrize(
    ("claims", "field"),
    [
        (google(submods=submods(nvidia_gpu={})), "submods.nvidia_gpu.cc_mode"),
        (google(submods=submods(nvidia_gpu={"cc_mode": "on"})), "submods.nvidia_gpu.cc_mode"),
        (google(submods=submods(nvidia_gpu={"cc_mode": "ON", "gpus": [{}] * 17})), "submods.nvidia_gpu.gpus"),
        (google(submods=submods(nvidia_gpu={"cc_mode": "ON", "gpus": [5]})), "submods.nvidia_gpu.gpus[0]"),
        (google(submods=submods(container={"image_digest": HASH})), "submods.container.image_digest"),
        (google(submods=submods(container={"image_digest": "sha256:00"})), "submods.container.image_digest"),
        (google(submods=submods(container=5)), "submods.container"),
        (google(submods=[]), "submods"),
        (google(eat_nonce=["a" * 8] * 7), "eat_nonce"),
        (google(eat_nonce="a" * 7), "eat_nonce"),
        (google(eat_nonce="a" * 89), "eat_nonce"),
        (google(eat_nonce=5), "eat_nonce"),
        (google(swname=5), "swname"),
        (google(hwmodel=""), "hwmodel"),
        (google(secboot="true"), "secboot"),
    ],
)
def test_claims_of_google_that_are_not_what_it_documents_are_refused(claims: dict[str, Any], field: str) -> None:
    error = refusal(claims)
    assert (error.code, error.field) == ("token-claim-invalid", field)


def test_a_confidential_vm_without_space_states_less() -> None:
    assert "container.image_digest" not in only(google(submods=None, hwmodel="GCP_AMD_SEV")).statements


# -- NVIDIA


def chain(**more: object) -> dict[str, Any]:
    return {
        "x-nvidia-cert-status": "valid",
        "x-nvidia-cert-ocsp-status": "good",
        "x-nvidia-cert-expiration-date": "2026-06-01T02:08:29Z",
        "x-nvidia-cert-revocation-reason": None,
        **more,
    }


def test_devices_of_nras() -> None:
    revoked = {"x-nvidia-cert-ocsp-status": "revoked", "x-nvidia-cert-revocation-reason": "keyCompromise"}
    (found,) = nras_facts(
        ueid="478",
        oemid="5703",
        **{
            "x-nvidia-gpu-driver-version": "550.90.07",
            "x-nvidia-gpu-vbios-version": "96.00.9F.00.01",
            "x-nvidia-gpu-attestation-report-cert-chain-fwid-match": True,
            "x-nvidia-gpu-driver-rim-cert-chain": chain(),
            "x-nvidia-gpu-vbios-rim-cert-chain": chain(**revoked),
            "x-nvidia-attestation-warning": None,
        },
    )
    require_registered(found)
    assert (found.name, found.kind, found.frame.service) == ("GPU-0", "nvidia-gpu", "nras")
    own = found.claims["nvidia"]
    assert isinstance(own, Mapping)
    assert "iss" not in own
    assert "x-nvidia-attestation-warning" not in own
    assert {name: value for name, value in found.claims.items() if name != "nvidia"} == {
        "architecture": "hopper",
        "hwmodel": "GH100 A01 GSP BROM",
        "ueid": "478",
        "fwid_matched": True,
        "nonce": nras.NONCE,
        "driver_version": "550.90.07",
        "vbios_version": "96.00.9F.00.01",
        "measurements.mismatches": (),
        "vbios_rim.revocation": "keyCompromise",
        "vbios_rim.expires": "2026-06-01T02:08:29Z",
        "vbios_rim.not_after": "2026-06-01T02:08:29Z",
        "driver_rim.revocation": "good",
        "driver_rim.expires": "2026-06-01T02:08:29Z",
        "driver_rim.not_after": "2026-06-01T02:08:29Z",
    }
    assert found.statements == {"overall_result": True}
    assert (found.nonces, found.frame.issuer) == ((nras.NONCE,), nras.ISSUER)


def test_a_revocation_without_reason_is_one() -> None:
    revoked = chain(**{"x-nvidia-cert-ocsp-status": "revoked"})
    (found,) = nras_facts(**{"x-nvidia-gpu-driver-rim-cert-chain": revoked})
    assert found.claims["driver_rim.revocation"] == "unspecified"


def test_measurements_that_differ_are_told_one_by_one() -> None:
    record = {"index": 9, "goldenSize": 2, "goldenValue": "059b", "runtimeSize": 2, "runtimeValue": "7f3e"}
    (found,) = nras_facts(measres="fail", **{"x-nvidia-mismatch-measurement-records": [record, {"index": 3}]})
    require_registered(found)
    assert found.claims["measurements.mismatches"] == (
        {"index": 9, "expected": (b"\x05\x9b",), "got": b"\x7f\x3e"},
        {"index": 3},
    )
    (unknown,) = nras_facts(measres="fail")
    assert "measurements.mismatches" not in unknown.claims


def test_switches_have_their_own_names() -> None:
    (found,) = nras_facts(hwmodel="LS10 A01", **{"x-nvidia-switch-bios-version": "96.10.5B", "measres": "fail"})
    require_registered(found)
    assert found.kind == "nvidia-switch"
    assert (found.claims["architecture"], found.claims["vbios_version"]) == ("ls10", "96.10.5B")
    assert "driver_version" not in found.claims
    assert nvidia_kind({"x-nvidia-device-type": "nvswitch"}, "GPU-0") == "nvidia-switch"
    assert nvidia_kind({"x-nvidia-device-type": "gpu"}, "SWITCH-0") == "nvidia-gpu"
    assert nvidia_kind({}, "SWITCH-0") == "nvidia-switch"
    assert nvidia_kind({}, "GPU-0") == "nvidia-gpu"


@pytest.mark.parametrize(
    "device",
    [
        {"hwmodel": 5},
        {"x-nvidia-gpu-driver-version": ["550"]},
        {"x-nvidia-mismatch-measurement-records": [5]},
        {"x-nvidia-mismatch-measurement-records": [{}]},
        {"x-nvidia-mismatch-measurement-records": [{"index": 1, "goldenValue": "0"}]},
        {"x-nvidia-gpu-driver-rim-cert-chain": []},
        {"x-nvidia-gpu-driver-rim-cert-chain": chain(**{"x-nvidia-cert-expiration-date": "soon"})},
        {"something": 0.5},
    ],
)
def test_claims_of_nras_that_are_not_what_nvidia_documents_are_refused(device: dict[str, Any]) -> None:
    with pytest.raises(AttestError) as outcome:
        nras_facts(**device)
    assert outcome.value.code == "token-claim-invalid"
    assert outcome.value.checks[-1].id == "token.format"


def test_the_recorded_token_of_nras_has_our_names(vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia"
    case = next(c for c in json.loads((folder / "MANIFEST.json").read_text())["cases"] if c["id"] == "nras-token")
    from attest.encoding import rfc3339

    token, keys = ((folder / case["files"][name]).read_bytes() for name in ("token", "jwks"))
    at = rfc3339(case["at"], what="at")
    found = verify_nras_token(token, trusted={nras.ISSUER: read_jwks(keys)}, at=at).facts
    assert found
    for facts in found:
        require_registered(facts)
        assert (facts.claims["driver_version"], facts.claims["architecture"]) == ("550.90.07", "hopper")
        assert facts.claims["measurements.mismatches"] == ()
        assert facts.claims["driver_rim.revocation"] == "good"


# -- the reader


@pytest.mark.parametrize("name", SAMPLES)
def test_each_claim_that_is_null_is_absent_or_was_needed(name: str) -> None:
    claims = SAMPLES[name]
    for member in claims:
        gone = _outcome(without(claims, member))
        assert _outcome({**claims, member: None}) == gone
        if isinstance(gone, AttestError):
            assert gone.code


def _outcome(claims: dict[str, Any]) -> object:
    audience = "https://kms.example" if claims.get("aud") is not None else None
    try:
        found = verify_service_token(SERVICE.sign(claims), trusted=TRUSTED, at=AT, audience=audience)
    except AttestError as error:
        return (error.code, error.field)
    return found.facts


WRONG: tuple[JsonValue, ...] = (True, 5, 0.5, "", "x", [], {}, ["x"], {"x": 1}, "x" * 2000, -1)
UNTYPED = {"jti", "x-ms-ver", "ver", "eat_profile", "sub", "oemid", "intuse"}


@pytest.mark.parametrize("name", SAMPLES)
def test_no_claim_may_have_every_type(name: str) -> None:
    for member in without(SAMPLES[name], *UNTYPED):
        outcomes = [_outcome({**SAMPLES[name], member: value}) for value in WRONG]
        assert any(isinstance(one, tuple) and isinstance(one[0], str) for one in outcomes), member


def test_fractions_are_no_claim() -> None:
    tree: JsonValue = {"a": [1, None, {"b": "c", "d": None}], "e": True}
    expected: ClaimTree = {"a": (1, {"b": "c"}), "e": True}
    assert claim_tree(tree, "x") == expected
    assert claim_tree(None, "x") is None
    assert refusal(maa_guest(**{"x-ms-azurevm-a": {"b": 0.5}})).field == "x-ms-azurevm-a.b"


def test_a_reader_knows_where_it_stands() -> None:
    reader = ClaimReader(members={"a": {"b": 1}, "c": None})
    assert "a" in reader
    assert "c" not in reader
    inner = reader.object("a")
    assert inner is not None
    assert inner.where("b") == "a.b"
    assert b64url(b"") == ""
