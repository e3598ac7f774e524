"""What a report, a RIM or an OCSP answer of NVIDIA's says, believing nothing."""

from __future__ import annotations

from pathlib import Path

from attest_simulator.nvidia import SimulatedBoard
from tests.cli.conftest import Attest
from tests.samples import AT

BOARD = SimulatedBoard.of("inspected", gpus=1, switches=1)
NONCE = bytes(range(32))


def test_reports_are_told_field_by_field(attest: Attest, tmp_path: Path) -> None:
    file = tmp_path / "devices.json"
    file.write_bytes(BOARD.evidence_json(NONCE, settings=True))
    ran = attest("inspect", file, "--json")
    assert ran.code == 0
    gpu, switch = (item["report"] for item in ran.document["files"][0]["evidence"]["items"])
    assert gpu["nonce"] == switch["nonce"] == NONCE.hex()
    assert (gpu["nvml"]["cc_mode"], gpu["arch"], switch["arch"]) == (True, "HOPPER", "LS10")
    assert len(gpu["measurements"]) == 64
    assert len(switch["measurements"]) == 31
    assert gpu["certificates"][0] == "GH100 A01 GSP FMC LF"


def test_a_raw_report_has_no_chain(attest: Attest, tmp_path: Path) -> None:
    file = tmp_path / "report.bin"
    file.write_bytes(BOARD.gpus[0].report(NONCE))
    report = attest("inspect", file, "--json").document["files"][0]["evidence"]["items"][0]["report"]
    assert "certificates" not in report
    assert "arch" not in report


def test_what_nvidia_publishes_is_told_too(attest: Attest, tmp_path: Path) -> None:
    found = BOARD.endorsements(at=AT)
    rim, answer = tmp_path / "rim.xml", tmp_path / "answer.der"
    rim.write_bytes(found.rims[0].xml)
    answer.write_bytes(found.ocsp[0].der)
    first, second = attest("inspect", rim, answer, "--json").document["files"]
    assert first["rim"]["signature"] == "valid"
    assert first["rim"]["sha256"] == found.rims[0].sha256.hex()
    assert second["ocsp"]["status"] == "good"
    rim.write_bytes(found.rims[0].xml.replace(b"edition", b"editiom"))
    assert attest("inspect", rim).code == 3
