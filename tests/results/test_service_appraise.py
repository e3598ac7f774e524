"""The baseline for tokens of Azure, Intel and Google: each thing that it demands, present, missing and denied."""

from __future__ import annotations

from typing import Any

import pytest

from attest.checks import Check, Outcome
from attest.results.service_appraise import appraise_service_token
from attest.results.service_token import verify_service_token
from tests.results.services import (
    AT,
    GOOGLE,
    ITA,
    MAA,
    SAMPLES,
    SERVICE,
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
    without,
)

TRUSTED = {iss: SERVICE.keys() for iss in (MAA, ITA, GOOGLE, "Intel Trust Authority")}


def checks_of(claims: dict[str, Any]) -> tuple[Check, ...]:
    audience = "https://kms.example" if "aud" in claims else None
    return appraise_service_token(verify_service_token(SERVICE.sign(claims), trusted=TRUSTED, at=AT, audience=audience))


def failed(claims: dict[str, Any]) -> list[str]:
    return [check.id for check in checks_of(claims) if check.outcome is Outcome.FAIL]


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "maa sgx"])
def test_an_honest_token_passes(name: str) -> None:
    checks = checks_of(SAMPLES[name])
    assert {check.outcome for check in checks} == {Outcome.PASS}
    assert all(check.item for check in checks)


def test_azure_says_nothing_of_an_enclaves_tcb_so_that_it_is_not_affirmed() -> None:
    assert failed(maa_sgx()) == ["policy.token.tcb_status"]
    assert failed(maa_sgx(**{"x-ms-sgx-is-debuggable": True})) == ["policy.token.debug", "policy.token.tcb_status"]


DEBUGGED = {"tdx_td_attributes": "0100001000000000", "tdx_td_attributes_debug": True, "tdx_is_debuggable": True}
BITS = ("tdx_td_attributes", "tdx_td_attributes_debug", "tdx_is_debuggable")


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (maa_snp(**{"x-ms-sevsnpvm-is-debuggable": True}), ["policy.token.debug"]),
        (without(maa_snp(), "x-ms-sevsnpvm-is-debuggable"), ["policy.token.debug"]),
        (maa_tdx(**DEBUGGED), ["policy.token.debug"]),
        (maa_tdx(tdx_td_attributes="0200001000000000"), ["policy.token.debug"]),
        (without(maa_tdx(), *BITS), ["policy.token.debug"]),
        (maa_tdx(dbgstat="enabled"), ["policy.token.debug_status"]),
        (maa_tdx(dbgstat="off"), ["policy.token.debug_status"]),
        (maa_tdx(**DEBUGGED, dbgstat="enabled"), ["policy.token.debug", "policy.token.debug_status"]),
        (ita_tdx(ita_section(**DEBUGGED)), ["policy.token.debug"]),
        (ita_flat(dbgstat="enabled"), ["policy.token.debug_status"]),
        ({**ita_head(), "sgx": sgx(sgx_is_debuggable=True)}, ["policy.token.debug"]),
        ({**ita_head(), "sgx": without(sgx(), "sgx_is_debuggable")}, ["policy.token.debug"]),
        (google(dbgstat="enabled"), ["policy.token.debug_status"]),
        (google(dbgstat=None), ["policy.token.debug_status"]),
        (maa_guest(snp(**{"x-ms-sevsnpvm-is-debuggable": True})), ["policy.token.debug"]),
    ],
)
def test_debugging_fails_and_so_does_silence_about_it(claims: dict[str, Any], expected: list[str]) -> None:
    assert failed(claims) == expected


@pytest.mark.parametrize("status", ["azure-signed-cvm", None, "Azure-Compliant-CVM", "azure-compliant"])
def test_azure_has_to_call_the_machine_compliant(status: str | None) -> None:
    wrong = {"x-ms-compliance-status": status}
    for claims in (maa_snp(**wrong), maa_tdx(**wrong), maa_guest(snp(**wrong))):
        assert failed(claims) == ["policy.token.compliance"]


def test_a_container_is_compliant_too_and_the_word_counts_where_the_tee_is() -> None:
    assert failed(maa_snp(**{"x-ms-compliance-status": "azure-compliant-uvm"})) == []
    outside = {"x-ms-compliance-status": "azure-compliant-cvm"}
    inner = without(snp(), "x-ms-compliance-status")
    assert failed(maa_guest(inner, **outside)) == ["policy.token.compliance"]


@pytest.mark.parametrize("status", ["OutOfDate", "Revoked", "ConfigurationNeeded", "OK", "uptodate", "UpToDate ", None])
def test_intels_tcb_is_current_or_needs_hardening_alone(status: str | None) -> None:
    for claims in (
        maa_tdx(attester_tcb_status=status),
        ita_tdx(ita_section(attester_tcb_status=status)),
        ita_flat(attester_tcb_status=status),
        {**ita_head(), "sgx": sgx(attester_tcb_status=status)},
        google(tdx={"gcp_attester_tcb_status": status}),
        google(tdx={"gcp_attester_tcb_status": "UpToDate", "attester_tcb_status": status or "none"}),
    ):
        assert failed(claims) == ["policy.token.tcb_status"]
    assert failed(google(tdx=None)) == ["policy.token.tcb_status"]
    assert failed(maa_tdx(attester_tcb_status="SWHardeningNeeded")) == []


def test_a_policy_of_intels_customer_that_does_not_match_fails() -> None:
    assert failed(ita_tdx(policy_ids_unmatched=[{"id": "x"}])) == ["policy.token.policies"]
    composite = ita_tdx(policy_ids_unmatched=[{"id": "x"}], nvgpu=gpu())
    assert failed(composite) == ["policy.token.policies"] * 2


@pytest.mark.parametrize("result", ["comparison-fail", "fail", "Success", None])
def test_a_gpu_whose_measurements_differ_fails_the_set(result: str | None) -> None:
    assert failed(ita_tdx(nvgpu=gpu(measres=result))) == ["policy.token.measres"]


def test_an_overall_result_that_is_no_success_fails() -> None:
    for value in (False, "true"):
        claims = ita_tdx(nvgpu=gpu(**{"x-nvidia-overall-att-result": value}))
        assert failed(claims) == ["policy.token.overall_result"]
    assert failed(ita_tdx(nvgpu=gpu(**{"x-nvidia-overall-att-result": True}))) == []


CHAIN = {"x-nvidia-cert-status": "valid", "x-nvidia-cert-ocsp-status": "good"}


@pytest.mark.parametrize(
    "device",
    [
        {"secboot": False},
        {"dbgstat": "enabled"},
        {"x-nvidia-gpu-attestation-report-nonce-match": False},
        {"x-nvidia-attestation-detailed-result": {"x-nvidia-gpu-attestation-report-signature-verified": False}},
        {"x-nvidia-gpu-attestation-report-cert-chain": {**CHAIN, "x-nvidia-cert-status": "expired"}},
        {"x-nvidia-gpu-attestation-report-cert-chain": {**CHAIN, "x-nvidia-cert-ocsp-status": "revoked"}},
    ],
)
def test_a_step_that_failed_fails_a_gpu_whose_measurements_match(device: dict[str, Any]) -> None:
    assert failed(ita_tdx(nvgpu=gpu(**device))) == ["policy.token.verdicts"]


def test_a_gpu_of_which_every_step_went_well_passes() -> None:
    chain = {"x-nvidia-gpu-attestation-report-cert-chain": CHAIN}
    assert failed(ita_tdx(nvgpu=gpu(dbgstat="disabled", **chain))) == []


def test_googles_image_is_stable_and_securely_booted() -> None:
    space = {"support_attributes": ["LATEST", "USABLE"]}
    assert failed(google(submods=submods(confidential_space=space))) == ["policy.token.compliance"]
    assert failed(google(submods=None)) == ["policy.token.compliance"]
    for value in (False, None):
        assert failed(google(secboot=value)) == ["policy.token.secure_boot"]


def test_googles_gpus_are_in_confidential_mode() -> None:
    for mode in ("DEVTOOLS", "OFF"):
        claims = google(submods=submods(nvidia_gpu={"cc_mode": mode, "gpus": [google_gpu()]}))
        assert failed(claims) == ["policy.token.cc_mode"]


def test_hardware_that_signs_no_report_is_a_warning_and_none_at_all_fails() -> None:
    for model in ("GCP_AMD_SEV", "GCP_AMD_SEV_ES"):
        outcomes = {check.id: check.outcome for check in checks_of(google(hwmodel=model))}
        assert outcomes["policy.token.tee"] is Outcome.WARNING
        assert Outcome.FAIL not in outcomes.values()
    assert failed(google(hwmodel="GCP_SHIELDED_VM")) == ["policy.token.tee"]
    assert "policy.token.tee" in failed(without(maa_guest(), "x-ms-isolation-tee"))
    assert failed(google(hwmodel="GCP_AMD_SEV_SNP")) == []
