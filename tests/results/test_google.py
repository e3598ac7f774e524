"""Claims of Google Cloud Attestation under our names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.results.facts import facts_of, only, refusal, require_registered
from tests.results.services import (
    HASH,
    google,
    google_gpu,
    submods,
    without,
)


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
