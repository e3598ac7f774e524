"""Evidence in the forms of other projects, on the command line."""

from pathlib import Path

import pytest

from attest.evidence.azure.structure import HclReportType
from attest_simulator.intel import application_event
from attest_simulator.requests import trustee_tdx
from tests.cli.conftest import Attest
from tests.evidence.attachment.wild import FORMS, INTEL, SNP, TD, ZEROS
from tests.samples import AT

LAB = ("--allow-simulated", "--offline", "--at", AT.isoformat(), "--unchecked", "revocation=a test")


@pytest.fixture
def endorsements(tmp_path: Path) -> Path:
    folder = tmp_path / "endorsements"
    folder.mkdir()
    for tee in ("tdx", "sgx"):
        (folder / f"{tee}.json").write_bytes(INTEL.platform.collateral(tee, at=AT).to_json())
    for number, der in enumerate(SNP.guest.chip.certificates()):
        (folder / f"{number}.der").write_bytes(der)
    return folder


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_verified_and_shown(attest: Attest, tmp_path: Path, endorsements: Path, name: str) -> None:
    wild = FORMS[name]
    file = tmp_path / "evidence"
    file.write_bytes(wild.data)
    ran = attest("verify", file, "--endorsements", endorsements, "--form", wild.form, *LAB, "--json")
    assert (ran.code, ran.document["items"][0]["kind"]) == (0, wild.kind), ran.err
    assert wild.attached is None or wild.attached in ran.document["items"][0]["claims"]
    shown = attest("inspect", file, "--json").document["files"][0]
    assert shown["label"].startswith(wild.label)
    assert shown["evidence"]["items"][0]["name"] == "cpu"
    appraised = attest(
        "appraise", file, "--endorsements", endorsements, *LAB, "--unchecked", "freshness=a test", "--json"
    )
    assert appraised.document["outcome"] == "not-affirmed"  # the baseline accepts no simulated root


@pytest.mark.parametrize("kind", HclReportType)
def test_a_paravisors_report_alone_is_shown(attest: Attest, tmp_path: Path, kind: HclReportType) -> None:
    from tests.evidence.azure.made import AzureVm

    file = tmp_path / "hcl-report.bin"
    file.write_bytes(AzureVm(kind=kind).hcl)
    shown = attest("inspect", file, "--json").document["files"][0]
    assert (shown["form"], shown["hcl_report"]["report_type"]) == ("hcl", kind.platform)
    assert shown["runtime_claims"]["attestation_key_bits"] == 2048
    assert ("report" in shown) is (kind is HclReportType.SNP)
    assert ("td_info" in shown["hcl_report"]) is (kind is HclReportType.TDX)


def test_evidence_with_a_log_of_its_own_takes_no_other(attest: Attest, tmp_path: Path) -> None:
    file, log = tmp_path / "evidence.json", tmp_path / "log"
    file.write_bytes(FORMS["Trustee, TDX"].data)
    log.write_bytes(TD.event_log())
    ran = attest("verify", file, "--eventlog", log, *LAB, "--json")
    assert (ran.code, "carries its own" in ran.err) == (2, True)


def test_a_log_that_does_not_replay_is_refused(attest: Attest, tmp_path: Path, endorsements: Path) -> None:
    event = application_event("example.com", "load-model", "sha384:00")
    file = tmp_path / "evidence.json"
    file.write_bytes(trustee_tdx(INTEL.td.extend(3, event).quote(ZEROS), INTEL.td.event_log()))
    ran = attest("verify", file, "--endorsements", endorsements, *LAB, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (4, "eventlog-register-mismatch")
