"""`attest nvsdk`: what it runs, what it tells, and its exit codes, with a stand-in for NVIDIA's packages."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Attest, attest  # noqa: F401  a fixture
from tests.nvsdk.conftest import Fake
from tests.nvsdk.test_environment import stand_in
from tests.nvsdk.test_opinion import GOOD

NONCE = "4cff7f5380ead8fad8ec2c531c110aca4302a88f603792801a8ca29ee151af2e"
AT = ("--at", "2024-06-01T00:00:00Z")


def answering(found: object) -> str:
    return f"tell(ok=json.loads({json.dumps(found)!r}))"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (GOOD, (0, "accepts")),
        ({**GOOD, "signature": {"outcome": "fail"}}, (4, "refuses")),
        ({**GOOD, "rims": {}}, (5, "undecided")),
    ],
)
def test_the_exit_code_tells_the_opinion(
    attest: Attest,  # noqa: F811
    fake_sdk: Fake,
    vectors_dir: Path,
    found: object,
    expected: tuple[int, str],
) -> None:
    code, verdict = expected
    folder = vectors_dir / "nvidia/gh100-545.00"
    where = ("--dir", fake_sdk(answering(found)).folder)
    asked = ("nvsdk", "verify", folder / "report.hex", "--endorsements", folder, "--nonce", NONCE, *AT, *where)
    ran = attest(*asked, "--json")
    assert (ran.code, ran.err, ran.document["verdict"]) == (code, "", verdict)
    ran = attest(*asked)
    assert ran.code == code
    assert ran.out.splitlines()[0].endswith(verdict)
    assert attest(*asked, "-q").out == ""


def test_times_are_told_as_json(attest: Attest, fake_sdk: Fake, vectors_dir: Path) -> None:  # noqa: F811
    folder = vectors_dir / "nvidia/gh100-545.00"
    body = "tell(ok={'rounds': request['rounds'], 'median_seconds': 0.02, 'rims': sorted(request['rims'])})"
    where = ("--dir", fake_sdk(body).folder)
    ran = attest("nvsdk", "verify", folder / "report.hex", "--endorsements", folder, *AT, *where, "--bench", "3")
    assert ran.code == 0
    assert (ran.document["rounds"], ran.document["rims"]) == (3, ["driver", "vbios"])


def test_evidence_of_something_else_is_exit_3(attest: Attest, fake_sdk: Fake, vectors_dir: Path) -> None:  # noqa: F811
    where = ("--dir", fake_sdk(answering(GOOD)).folder)
    quote = next((vectors_dir / "tdx").rglob("*quote*.bin"), None) or next((vectors_dir / "azure").rglob("quote.bin"))
    ran = attest("nvsdk", "verify", quote, *where)
    assert (ran.code, ran.out) == (3, "")


def test_without_an_installation_it_says_how_to_get_one(attest: Attest, tmp_path: Path) -> None:  # noqa: F811
    for command in (["status"], ["verify", "x"], ["collect", "--nonce", NONCE]):
        ran = attest("nvsdk", *command, env={"ATTEST_NVSDK": str(tmp_path / "absent")})
        assert (ran.code, ran.out) == (2, "")
        assert "attest nvsdk install --yes" in ran.err


def test_status_shows_versions(attest: Attest, fake_sdk: Fake) -> None:  # noqa: F811
    where = ("--dir", fake_sdk(answering({})).folder)
    assert attest("nvsdk", "status", *where, "--json").document["versions"]["nv-local-gpu-verifier"] == "2.7.3"
    assert "nv-local-gpu-verifier 2.7.3" in attest("nvsdk", "status", *where).out


def test_collected_evidence_goes_to_standard_output_or_a_file(
    attest: Attest,  # noqa: F811
    fake_sdk: Fake,
    tmp_path: Path,
) -> None:
    where = ("--dir", fake_sdk(answering({"devices": [{"arch": "HOPPER"}]})).folder)
    expected = [{"arch": "HOPPER", "nonce": NONCE}]
    ran = attest("nvsdk", "collect", "--nonce", NONCE, *where)
    assert (ran.code, json.loads(ran.out)) == (0, expected)
    assert attest("nvsdk", "collect", "--nonce", NONCE, *where, "-o", "x.json").out == ""
    assert json.loads((tmp_path / "x.json").read_text()) == expected
    assert attest("nvsdk", "collect", "--nonce", NONCE, *where, "-o", "x.json").code == 2


def test_no_evidence_is_exit_6(attest: Attest, fake_sdk: Fake) -> None:  # noqa: F811
    ran = attest("nvsdk", "collect", "--nonce", NONCE, "--dir", fake_sdk("sys.exit(1)").folder)
    assert (ran.code, ran.out) == (6, "")


def test_installing_is_a_dry_run_until_it_is_said_twice(attest: Attest, tmp_path: Path) -> None:  # noqa: F811
    where = ("--dir", tmp_path / "sdk", "--python", stand_in(tmp_path))
    ran = attest("nvsdk", "install", *where)
    assert ran.code == 0
    assert "nv-attestation-sdk==2.7.3" in ran.out
    assert "dry run" in ran.err
    assert not (tmp_path / "sdk").exists()
    assert attest("nvsdk", "install", *where, "--json").document["installed"] is False
    ran = attest("nvsdk", "install", *where, "--yes", "-v")  # what the stand-in installs answers nothing
    assert ran.code == 2
    assert "note: " in ran.err
    assert (tmp_path / "sdk").exists()
