"""Forms in JSON: the members by which each is told, and what lacks one of them."""

from typing import Any

import pytest

from attest.evidence.envelope import MAX_DEPTH
from attest.evidence.recognition_json import JSON_KINDS

Value = Any  # of a document that is to be read


def nested(depth: int) -> Value:
    document: Value = ["text/plain", "eA"]
    for _ in range(depth):
        document = {"a": document}
    return document


ENVELOPE = "evidence envelope (JSON)"
AZURE = "Azure confidential VM evidence (JSON)"
NVIDIA = "NVIDIA evidence (JSON)"
LOG = "dstack event log (JSON)"


@pytest.mark.parametrize(
    ("document", "label"),
    [
        (["text/plain"], ENVELOPE),
        (["text/plain;a=b", "x"], ENVELOPE),
        (["t" * 127 + "/" + "p" * 127], ENVELOPE),
        (["t" * 128 + "/p"], None),
        (["t/" + "p" * 128], None),
        (["plain"], None),
        ([1, "text/plain"], None),
        ([], None),
        ({"a": ["text/plain"], "b": {"c": ["text/plain"]}}, ENVELOPE),
        ({"a": ["text/plain"], "b": 1}, None),
        ({"a": {}}, None),
        ({}, None),
        ({"__cmwc_t": "x", "b": 1}, ENVELOPE),
        ({"__cmwc_t": 1, "b": 1}, None),
        (nested(MAX_DEPTH), ENVELOPE),
        (nested(MAX_DEPTH + 1), None),
        ({"provider": "", "outblob": ""}, "configfs-tsm report (JSON)"),
        ({"provider": ""}, None),
        ({"outblob": ""}, None),
        ({"attestation_report": "", "serial_number": ""}, "Trustee evidence of Hygon CSV (JSON)"),
        ({"attestation_reports": ""}, "Trustee evidence of a Hygon DCU (JSON)"),
        ({"ak_public": "", "tpm_quote": ""}, "Trustee evidence of a TPM alone (JSON)"),
        ({"cuid": "", "encr_measurement_key": ""}, "Trustee evidence of IBM Secure Execution (JSON)"),
        ({"cuid": ""}, None),
        ({"token": [1]}, "Trustee evidence of Arm CCA (JSON)"),
        ({"token": "x"}, None),
        (["token"], None),
        ({"devices": [1, {"device_id_cert": ""}]}, "Trustee evidence of an NVIDIA DPU (JSON)"),
        ({"devices": ["device_id_cert"]}, None),
        ({"devices": {"device_id_cert": ""}}, None),
        ({"devices": []}, None),
        ({"svn": "", "report_data": ""}, "Trustee sample evidence (JSON)"),
        ({"svn": ""}, None),
        ({"attestation_report": ""}, "SEV-SNP evidence (JSON)"),
        ({"tpm_quote": ""}, AZURE),
        ({"hcl_report": ""}, AZURE),
        ({"report": "", "quote": {}}, AZURE),
        ({"report": "", "quote": []}, None),
        ({"report": ""}, None),
        ({"platform": "az-snp", "evidence": {"tpm_quote": ""}}, AZURE),
        ({"platform": "az-tdx", "evidence": {"hcl_report": ""}}, AZURE),
        ({"platform": "snp", "evidence": {"tpm_quote": ""}}, "attestation-rs evidence (JSON)"),
        ({"platform": "az-snp", "evidence": []}, "attestation-rs evidence (JSON)"),
        ({"platform": "tdx", "evidence": {}}, "attestation-rs evidence with a quote (JSON)"),
        ({"platform": "tdx"}, None),
        ({"quote": "", "event_log": ""}, "dstack GetQuote answer (JSON)"),
        ({"event_log": ""}, None),
        ([{"imr": 0, "event_type": 1, "digest": ""}], LOG),
        ([{"imr": 0, "event_type": 1}], None),
        ([1, {"imr": 0, "event_type": 1, "digest": ""}], None),
        ({"imr": 0, "event_type": 1, "digest": ""}, None),
        ({"attestation": ""}, "dstack attestation (SCALE or msgpack)"),
        ({"attestation": 1}, None),
        ({"attestation": "", "more": 1}, None),
        ({"app_id": "", "tcb_info": ""}, "dstack Info answer (JSON)"),
        ({"app_id": ""}, None),
        ({"manifest_version": 2, "runner": ""}, "app-compose (JSON)"),
        ({"runner": ""}, None),
        ({"nvidia_payload": ""}, NVIDIA),
        ({"nvidia_payload": "", "more": 1}, None),
        ({"evidences": [], "more": 1}, NVIDIA),
        ({"evidence_list": []}, NVIDIA),
        ({"device_evidence_list": []}, NVIDIA),
        ({"arch": "", "evidence": ""}, NVIDIA),
        ({"arch": "", "certificate": ""}, NVIDIA),
        ({"evidence": "", "certificate": ""}, NVIDIA),
        ({"evidence": ""}, None),
        ([{"arch": "", "evidence": ""}], NVIDIA),
        ([{"arch": ""}], None),
        ({"payload": "", "signature": ""}, "token (JSON)"),
        ({"payload": "", "signatures": ""}, "token (JSON)"),
        ({"payload": ""}, None),
        ({"signature": ""}, None),
        ([["JWT", "x"], {}], "token (JSON)"),
        ([["JWS", "x"], {}], None),
        ([{}, ["JWT", "x"]], None),
        (["JWT", "x"], None),
        ({"quote": ""}, "Trustee evidence with a quote (JSON)"),
        ("text", None),
        (None, None),
        (7, None),
    ],
)
def test_a_document_is_told_by_its_members(document: Value, label: str | None) -> None:
    assert next((kind.label for kind in JSON_KINDS if kind.looks(document)), None) == label
