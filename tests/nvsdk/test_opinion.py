"""Their findings as an opinion, and beside ours."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from attest.checks import Check, Outcome
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import parse_certificate, pem_blocks
from attest.evidence.gpu.certificates import DeviceKind
from attest.evidence.gpu.evidence import ParsedGpuEvidence, device_json, parse_nvidia_device, parse_nvidia_report
from attest.nvsdk import (
    SecondOpinion,
    device_with_rims,
    pair_documents,
    second_opinion,
    side_by_side,
)
from attest.nvsdk.opinion import DeviceOpinion, Finding, read_answer
from attest.nvsdk.protocol import SdkAnswer
from tests.nvsdk.conftest import Fake

AT = datetime(2024, 6, 1, tzinfo=UTC)
PASS, FAIL = {"outcome": "pass"}, {"outcome": "fail"}
RIM = {"read": PASS, "schema": PASS, "version": PASS, "chain": PASS, "signature": PASS}
GOOD: dict[str, Any] = {
    "parsed": PASS,
    "certificates": PASS,
    "chain": {"outcome": "pass", "expired": False, "not_after": "9999-12-31T23:59:59"},
    "signature": PASS,
    "nonce": PASS,
    "rims": {"driver": RIM, "vbios": RIM},
    "measurements": {"outcome": "pass", "compared": 33, "mismatches": []},
}


def finding(device: DeviceOpinion, name: str) -> Finding:
    (found,) = (one for one in device.findings if one.name == name)
    return found


def opinion(found: Mapping[str, Any], kind: DeviceKind = "nvidia-gpu") -> DeviceOpinion:
    return read_answer("gpu0", kind, SdkAnswer(versions={"python": "3.11"}, found=found))


def test_an_opinion_accepts_when_every_step_says_yes_and_revocation_does_not_count() -> None:
    found = opinion(GOOD)
    assert found.conclusion == "accepts"
    assert finding(found, "revocation").outcome is Outcome.NOT_EVALUATED
    assert found.compared == 33


@pytest.mark.parametrize("step", ["parsed", "chain", "signature", "nonce", "measurements"])
def test_any_step_that_says_no_refuses_and_any_that_was_not_run_leaves_it_open(step: str) -> None:
    assert opinion({**GOOD, step: FAIL}).conclusion == "refuses"
    assert opinion({**GOOD, step: {"outcome": "raised", "raised": "E", "detail": "d"}}).conclusion == "refuses"
    assert opinion({**GOOD, step: {"outcome": "not run"}}).conclusion == "undecided"
    assert opinion({**GOOD, step: None}).conclusion == "undecided"
    assert opinion({**GOOD, step: {"outcome": "splendid"}}).conclusion == "undecided"
    assert opinion({name: value for name, value in GOOD.items() if name != step}).conclusion == "undecided"


def test_an_empty_answer_decides_nothing() -> None:
    assert opinion({}).conclusion == "undecided"


@pytest.mark.parametrize("step", ["schema", "version", "chain", "signature"])
@pytest.mark.parametrize("role", ["driver", "vbios"])
def test_any_step_of_a_rim_counts(role: str, step: str) -> None:
    found = opinion({**GOOD, "rims": {**GOOD["rims"], role: {**RIM, step: FAIL}}})
    assert found.conclusion == "refuses"
    assert finding(found, f"{role}_rim.{step}").outcome is Outcome.FAIL


def test_a_rim_that_is_missing_leaves_it_open_and_one_that_cannot_be_read_refuses() -> None:
    assert opinion({**GOOD, "rims": {"driver": RIM}}).conclusion == "undecided"
    broken = {"read": {"outcome": "raised", "raised": "XMLSyntaxError", "detail": "line 1"}}
    assert opinion({**GOOD, "rims": {"driver": RIM, "vbios": broken}}).conclusion == "refuses"


def test_a_chain_that_cannot_be_read_is_a_chain_that_failed() -> None:
    raised = {"outcome": "raised", "raised": "CertExtractionError", "detail": "d"}
    found = opinion({**GOOD, "certificates": raised, "chain": {"outcome": "not run"}})
    assert finding(found, "chain").detail == "CertExtractionError: d"
    assert found.conclusion == "refuses"


def test_a_switch_needs_its_bios_rim_alone() -> None:
    assert opinion({**GOOD, "rims": {"vbios": RIM}}, kind="nvidia-switch").conclusion == "accepts"


def test_mismatches_are_told_and_strange_ones_passed_over() -> None:
    told = {"outcome": "fail", "compared": 33, "mismatches": [[9, "Firmware"], [35, "Driver"], "x", [1], ["a", "b"]]}
    found = opinion({**GOOD, "measurements": told})
    assert found.mismatches == ((9, "Firmware"), (35, "Driver"))
    assert finding(found, "measurements").detail == "differ: 9 (Firmware), 35 (Driver); 33 compared"


def whole(*devices: DeviceOpinion) -> SecondOpinion:
    return SecondOpinion(versions={"python": "3.11"}, at=AT, devices=devices)


def test_the_worst_device_speaks_for_all_and_none_decides_nothing() -> None:
    good, bad, short = opinion(GOOD), opinion({**GOOD, "chain": FAIL}), opinion({**GOOD, "rims": {}})
    assert whole(good, good).conclusion == "accepts"
    assert whole(good, short).conclusion == "undecided"
    assert whole(good, short, bad).conclusion == "refuses"
    assert whole().conclusion == "undecided"


def test_it_is_told_to_programs_and_to_people() -> None:
    told = whole(opinion({**GOOD, "chain": {"outcome": "fail", "expired": True, "not_after": "2025"}}))
    document = json.loads(json.dumps(told.document()))
    assert (document["schema"], document["verdict"]) == ("attest.second-opinion/1", "refuses")
    assert document["devices"][0]["findings"][1] == {
        "name": "chain",
        "outcome": "fail",
        "detail": "expired; until 2025",
    }
    lines = list(told.lines())
    assert lines[0] == "NVIDIA's Python SDK (python 3.11): refuses"
    assert any(line.split() == ["fail", "chain", "expired;", "until", "2025"] for line in lines)


def check(check_id: str, outcome: Outcome, item: str | None = None) -> Check:
    return Check(id=check_id, outcome=outcome, expected="", got="", clause="", item=item)


def test_both_answers_stand_side_by_side() -> None:
    ours = [
        check("nvidia.chain", Outcome.PASS, "gpu0"),
        check("nvidia.fwid", Outcome.FAIL, "gpu0"),
        check("nvidia.signature", Outcome.PASS, "gpu0"),
        check("nvidia.measurements", Outcome.FAIL, "gpu1"),
        check("freshness", Outcome.NOT_EVALUATED),
    ]
    pairs = {pair.question: pair for pair in side_by_side(whole(opinion(GOOD)), ours)}
    assert (pairs["chain"].ours, pairs["chain"].agree) == (Outcome.FAIL, False)
    assert (pairs["signature"].ours, pairs["signature"].agree) == (Outcome.PASS, True)
    assert (pairs["measurements"].ours, pairs["measurements"].agree) == (None, None)
    assert (pairs["nonce"].ours, pairs["nonce"].agree) == (Outcome.NOT_EVALUATED, None)


def test_pairs_are_told_to_programs() -> None:
    ours = [check("nvidia.chain", Outcome.FAIL), check("nvidia.signature", Outcome.PASS)]
    pairs = side_by_side(whole(opinion(GOOD)), ours)
    documents = {str(one["question"]): one for one in json.loads(json.dumps(pair_documents(pairs)))}
    assert (documents["chain"]["ours"], documents["chain"]["same"]) == ("fail", False)
    assert documents["signature"]["same"] is True
    assert not {"ours", "same"} & set(documents["driver_rim.schema"])


# -- what they are given, out of recorded evidence


ECHO = """
known = {"parsed": {"outcome": "pass"}, "rims": {role: {} for role in request["rims"]}}
tell(ok={**known, "nonce": {"outcome": "fail", "raised": request["architecture"], "detail": request["chain"]}})
"""


def recorded(vectors_dir: Path) -> tuple[bytes, bytes, list[RimDocument]]:
    folder = vectors_dir / "nvidia/gh100-545.00"
    rims = [RimDocument(xml=(folder / f"{role}-rim.xml").read_bytes()) for role in ("vbios", "driver")]
    return bytes.fromhex((folder / "report.hex").read_text()), (folder / "chain.pem").read_bytes(), rims


def test_rims_go_into_the_slot_in_which_their_version_fits(vectors_dir: Path) -> None:
    report, chain, rims = recorded(vectors_dir)
    parsed = parse_nvidia_device(device_json(report, chain, "HOPPER"))
    device = device_with_rims(parsed, rims=rims)
    assert (device.kind, device.architecture) == ("nvidia-gpu", "hopper")
    assert device.rims == {"driver": rims[1].xml, "vbios": rims[0].xml}
    other = RimDocument(xml=(vectors_dir / "nvidia/gh100-550.90.07/driver-rim-other-version.xml").read_bytes())
    nonsense = RimDocument(xml=b"<SoftwareIdentity/>")
    assert device_with_rims(parsed, rims=[other, nonsense, rims[0]]).rims == {"vbios": rims[0].xml}


def test_every_combination_of_issues_is_tried_until_one_is_accepted(vectors_dir: Path, fake_sdk: Fake) -> None:
    report, chain, rims = recorded(vectors_dir)
    other = RimDocument(xml=(vectors_dir / "nvidia/gh100-535.86.09/vbios-rim.xml").read_bytes())  # the same version
    parsed = parse_nvidia_device(device_json(report, chain, "HOPPER"))
    good = json.dumps(GOOD)
    body = f"""
found = json.loads({good!r})
if request["rims"]["vbios"] != "{rims[0].xml.hex()}":
    found["measurements"] = {{"outcome": "fail", "compared": 33, "mismatches": [[9, "Firmware"]]}}
tell(ok=found)
"""
    environment = fake_sdk(body)
    every = [other, *rims]
    assert (
        second_opinion([("gpu0", parsed)], rims=every, at=AT, nonce=None, environment=environment).conclusion
        == "accepts"
    )
    without = second_opinion([("gpu0", parsed)], rims=[other, rims[1]], at=AT, nonce=None, environment=environment)
    assert without.devices[0].mismatches == ((9, "Firmware"),)


def test_the_chain_of_a_raw_report_is_looked_for_among_certificates(vectors_dir: Path) -> None:
    report, chain, _ = recorded(vectors_dir)
    parsed = parse_nvidia_report(report)
    certificates = [parse_certificate(der) for _, der in pem_blocks(chain)]
    device = device_with_rims(parsed, rims=(), certificates=[certificates[2], certificates[4], *certificates])
    assert pem_blocks(device.chain_pem.encode()) == pem_blocks(chain)
    without_root = device_with_rims(parsed, rims=(), certificates=certificates[:4])
    assert len(pem_blocks(without_root.chain_pem.encode())) == 5  # the last one is dropped by their functions
    assert device_with_rims(parsed, rims=(), certificates=certificates[:2]).chain_pem.count("BEGIN") == 2
    assert device_with_rims(parsed, rims=(), certificates=certificates[1:]).chain_pem == ""
    twice = [*certificates, replace(certificates[0], der=certificates[0].der + b"\0")]
    assert device_with_rims(parsed, rims=(), certificates=twice).chain_pem == ""


def test_switches_and_blackwells_are_told_by_their_certificate_or_else_by_the_hint(vectors_dir: Path) -> None:
    import base64

    path = vectors_dir / "nvidia/ppcie-hgx-8gpu-4switch/switch_evidence.json"
    one = json.loads(path.read_text())[0]
    evidence, certificate = base64.b64decode(one["evidence"]), base64.b64decode(one["certificate"])
    switch = parse_nvidia_device(device_json(evidence, certificate, "LS10"))
    assert device_with_rims(switch, rims=()).architecture == "ls10"
    bare: ParsedGpuEvidence = replace(switch, chain=None)
    assert device_with_rims(bare, rims=()).kind == "nvidia-switch"
    assert device_with_rims(replace(bare, arch="BLACKWELL"), rims=()).architecture == "blackwell"
    assert device_with_rims(replace(bare, arch=None), rims=()).architecture == "hopper"


def test_the_environment_is_found_where_it_is_installed(
    vectors_dir: Path, fake_sdk: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, _, _ = recorded(vectors_dir)
    monkeypatch.setenv("ATTEST_NVSDK", str(fake_sdk(ECHO).folder))
    found = second_opinion([("gpu0", parse_nvidia_report(report))], rims=(), at=AT, nonce=bytes(32))
    assert finding(found.devices[0], "nonce").detail.startswith("hopper")
