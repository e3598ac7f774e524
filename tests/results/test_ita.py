"""Claims of Intel Trust Authority under our names."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from attest.errors import BindingError
from tests.results.facts import facts_of, only, refusal, require_registered
from tests.results.services import (
    NONCE,
    REPORT_DATA,
    gpu,
    ita_flat,
    ita_head,
    ita_section,
    ita_tdx,
    sgx,
)


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


def test_must_check_1_only_a_tee_holds_data_that_can_be_the_nonce() -> None:
    held = base64.b64encode(b"nonce of today").decode()
    for claims in (
        ita_tdx(nvgpu=gpu(attester_held_data=held)),
        ita_tdx(nvgpu={**gpu(attester_held_data=held), "attester_type": None}),
        ita_tdx(attester_held_data=held),
        {**ita_head(), **gpu(attester_held_data=held)},
    ):
        for facts in facts_of(claims):
            assert b"nonce of today" not in (*facts.nonces, facts.held_data)


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
