"""Verified evidence is shown under Trustee's names, each value in the spelling of its kind."""

import base64
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

import pytest

from attest.appraisal import appraise
from attest.evidence import StatedClaims, StatedItem, stated_devices
from attest.evidence.azure.structure import HclReportType
from attest.evidence.tpm.structure import SHA256, PcrSelection, bitmap_of
from attest.policy import Policy
from attest.rego import trustee_claims
from attest.rego.trustee import ear_document, evidence_document
from attest.verification import ExpectedFreshness
from tests.evidence.azure.made import NONCE as ASKED
from tests.evidence.azure.made import PCRS, AzureVm, judged, quote
from tests.evidence.sample.test_sample import NONCE, cpu, device, run, sample
from tests.policy.mixed import enclave_cpu, hopper, mixed, snp_cpu, td_cpu


def test_sample_evidence_has_its_names_and_its_report_data_in_base64() -> None:
    text = base64.b64encode(NONCE).decode()
    first, second = run(cpu(sample()), device(sample(svn="2"))).items
    assert evidence_document(first) == {
        "report_data": text,
        "sample": {
            "svn": "1",
            "launch_digest": "abcde",
            "platform_version": {"major": 1, "minor": 4},
            "debug": False,
        },
    }
    assert evidence_document(second) == {"report_data": text, "sampledevice": {"svn": "2"}}


def test_every_kind_has_the_class_and_the_name_of_the_wire() -> None:
    samples = run(cpu(sample()), device(sample()))
    gpus = mixed(snp_cpu(), hopper()).items
    vms = [judged(AzureVm(kind=kind)).items[0] for kind in (HclReportType.SNP, HclReportType.TDX)]
    found = [trustee_claims(item) for item in (*gpus, td_cpu(), enclave_cpu(), *samples.items, *vms)]
    assert [(one.device_class, one.tee) for one in found] == [
        ("cpu", "snp"),
        ("gpu", "nvidia"),
        ("cpu", "tdx"),
        ("cpu", "sgx"),
        ("cpu", "sample"),
        ("gpu", "sampledevice"),
        ("cpu", "az-snp-vtpm"),
        ("cpu", "az-tdx-vtpm"),
    ]
    assert trustee_claims(enclave_cpu()).document == {}


def test_a_vm_on_snp_has_texts_and_the_registers_of_its_tpm() -> None:
    (item,) = judged(AzureVm()).items
    document = cast("dict[str, Any]", evidence_document(item))
    assert (document["report_data"], document["init_data"]) == (ASKED.hex(), PCRS[8].hex())
    claims = document["az-snp-vtpm"]
    tpm = claims.pop("tpm")
    assert tpm == {f"pcr{index:02}": value.hex() for index, value in enumerate(PCRS)}
    assert all(isinstance(value, str) for value in claims.values())
    report = snp_cpu().verified.report  # type: ignore[attr-defined]  # of the same simulated guest
    assert claims["measurement"] == base64.b64encode(report.measurement).decode()
    assert (claims["policy_debug_allowed"], claims["policy_abi_major"]) == ("false", str(report.policy >> 8 & 0xFF))
    plain = cast("dict[str, Any]", evidence_document(snp_cpu()))["snp"]
    assert set(plain) - set(claims) == {"chip_id"}
    assert set(claims) <= set(plain)


def test_a_vm_on_tdx_has_the_names_of_a_td_and_the_registers_of_its_tpm() -> None:
    (item,) = judged(AzureVm(kind=HclReportType.TDX)).items
    document = cast("dict[str, Any]", evidence_document(item))
    assert (document["report_data"], document["init_data"]) == (ASKED.hex(), PCRS[8].hex())
    claims = document["az-tdx-vtpm"]
    assert claims.pop("tpm")["pcr23"] == PCRS[23].hex()
    assert set(claims) == set(cast("dict[str, Any]", evidence_document(td_cpu()))["tdx"])


def test_a_register_that_the_quote_does_not_cover_is_absent() -> None:
    pcrs = tuple(range(8))
    digest = sha256(b"".join(PCRS[:8])).digest()
    some = quote(selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of(pcrs)),), pcr_digest=digest)
    (item,) = judged(AzureVm(tpm=some, pcrs=PCRS[:8])).items
    document = cast("dict[str, Any]", evidence_document(item))
    assert "init_data" not in document
    assert list(document["az-snp-vtpm"]["tpm"]) == [f"pcr{index:02}" for index in pcrs]


def test_a_sample_device_is_a_gpu_of_the_token() -> None:
    verified = run(cpu(sample()), device(sample()), expected=ExpectedFreshness(nonce=NONCE))
    result = appraise(verified, policy=replace(Policy.baseline(), simulated="a trial"), at=verified.at)
    submods = cast("dict[str, Any]", ear_document([result])["submods"])
    assert list(submods) == ["cpu0", "gpu0"]
    assert submods["gpu0"]["ear.veraison.annotated-evidence"]["sampledevice"] == {"svn": "1"}


@pytest.mark.parametrize("kind", ["sample", "sample-device"])
def test_no_token_of_another_verifier_makes_a_sample_device_a_cpu(kind: str) -> None:
    items = [StatedItem(name="one", kind=kind, verified=StatedClaims(values={}))]
    assert stated_devices(items, bound=True).cpu_kind == (kind if kind == "sample" else None)
