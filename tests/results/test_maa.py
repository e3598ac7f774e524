"""Claims of Microsoft Azure Attestation under our names."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from attest.errors import UnsupportedError
from tests.results.facts import only, refusal, require_registered
from tests.results.services import (
    HASH,
    NONCE,
    REGISTER,
    REPORT_DATA,
    maa_guest,
    maa_sgx,
    maa_snp,
    maa_tdx,
    snp,
    tdx,
    without,
)


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


@pytest.mark.parametrize(
    "claims",
    [
        maa_snp(**{"x-ms-compliance-status": "azure-compliant-uvm"}),
        maa_snp(**{"x-ms-compliance-status": None}),
        maa_sgx(**{"x-ms-runtime": {"vm-configuration": {"secure-boot": True}}}),
        without(maa_guest(), "x-ms-isolation-tee") | {"x-ms-runtime": {"vm-configuration": {"secure-boot": True}}},
    ],
    ids=["container", "unknown", "enclave", "no TEE"],
)
def test_must_check_40_settings_that_no_paravisor_stated_are_no_statements(claims: dict[str, Any]) -> None:
    assert not [name for name in only(claims).statements if name.startswith("vm_configuration")]


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
