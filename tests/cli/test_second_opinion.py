"""``attest verify --second-opinion``: somebody else's findings beside ours, and never in their place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import LAB, Attest, Files

NONCE = "4cff7f5380ead8fad8ec2c531c110aca4302a88f603792801a8ca29ee151af2e"
ARGUMENTS = ("--at", "2024-06-01T00:00:00Z", "--nonce", NONCE, "--offline", "--unchecked", "revocation=recorded")
ASKED = ("--second-opinion", "nvsdk")


def test_evidence_without_a_gpu_has_nothing_to_ask_about(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.extended, *LAB, *ASKED)
    assert ran.code == 2
    assert "no GPU" in ran.err


def test_without_the_sdk_the_hint_says_how_to_install_it(attest: Attest, vectors_dir: Path, tmp_path: Path) -> None:
    folder = vectors_dir / "nvidia/gh100-545.00"
    ran = attest(
        "verify",
        folder / "report.hex",
        "--endorsements",
        folder,
        *ARGUMENTS,
        *ASKED,
        env={"ATTEST_NVSDK": str(tmp_path / "none")},
    )
    assert ran.code == 2
    assert "attest nvsdk install" in ran.err


@pytest.mark.nvsdk
@pytest.mark.skipif(
    "ATTEST_NVSDK" not in os.environ and "ATTEST_REQUIRE_NVSDK" not in os.environ,
    reason="NVIDIA's Python SDK is not here; 'attest nvsdk install --yes --dir DIR', then ATTEST_NVSDK=DIR",
)
def test_both_verdicts_stand_side_by_side_and_ours_decides(attest: Attest, vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia/gh100-545.00"
    command = ("verify", folder / "report.hex", "--endorsements", folder, *ARGUMENTS, *ASKED)
    ran = attest(*command, "--json")
    assert ran.code == 0
    opinion = ran.document["second_opinion"]
    assert opinion["verdict"] == "accepts"
    assert {pair["same"] for pair in opinion["side_by_side"] if "same" in pair} == {True}
    page = attest(*command)
    assert "NVIDIA's Python SDK accepts" in page.out
    # Without the RIMs we refuse for what is missing; theirs is still told, and does not change the exit code.
    bare = attest("verify", folder / "report.hex", "--endorsements", folder / "chain.pem", *ARGUMENTS, *ASKED, "--json")
    assert bare.code == 5
    assert bare.document["outcome"] == "refused"
    assert bare.document["second_opinion"]["verdict"] == "undecided"
