"""`attest simulate`: what it makes is right in every byte, and nobody can overlook what it is."""

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.cli.conftest import LAB, WHEN, Attest, Files


@pytest.mark.parametrize("product", ["Milan", "Genoa", "Turin"])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("form", ["snp-extended", "envelope"])
def test_evidence_verifies_in_the_laboratory(attest: Attest, product: str, version: int, form: str) -> None:
    options = ("--product", product, "--report-version", version, "--form", form, "--nonce-text", "n", "--at", WHEN)
    made = attest("simulate", "evidence", *options, "-o", "e")
    assert (made.code, made.out) == (0, "")
    assert "SIMULATED" in made.err
    ran = attest("verify", "e", *LAB, "--nonce-text", "n", "--json")
    assert (ran.code, ran.document["items"][0]["claims"]["product"]) == (0, product)


def test_every_option_shows_in_the_claims(attest: Attest) -> None:
    attest(
        *("simulate", "evidence", "-o", "e", "--at", WHEN, "--measurement", "ab" * 48, "--host-data", "cd" * 32),
        *("--vmpl", 2, "--debug", "--vlek", "cloud", "--tcb", "bootloader=1,tee=2,snp=3,microcode=4"),
        *("--report-data", "ef" * 64),
    )
    claims = attest("verify", "e", *LAB, "--json").document["items"][0]["claims"]
    assert claims["measurement"] == "ab" * 48
    assert claims["host_data"] == "cd" * 32
    assert claims["report_data"] == "ef" * 64
    assert (claims["vmpl"], claims["policy"]["debug"], claims["csp_id"]) == (2, True, "cloud")
    assert claims["reported_tcb"] == {"bootloader": 1, "tee": 2, "snp": 3, "microcode": 4}
    page = attest("verify", "e", *LAB).out
    assert "DEBUG ALLOWED" in page
    assert "provider cloud" in page


def test_the_same_options_give_the_same_bytes_and_another_name_another_chip(attest: Attest, files: Files) -> None:
    for name, options in {"a": [], "b": [], "c": ["--chip", "chip 1"]}.items():
        attest("simulate", "evidence", "--at", WHEN, *options, "-o", name)
    a, b, c = ((files.folder / name).read_bytes() for name in "abc")
    assert a == b != c


def test_a_bundle_serves_a_bare_report_and_ends(attest: Attest) -> None:
    attest("simulate", "evidence", "--form", "snp-report", "-o", "r")
    attest("simulate", "endorsements", "--at", "2026-12-20T00:00:00Z", "--days", "30", "-o", "b")
    for when, code in (("2026-12-20T00:00:00Z", 0), ("2027-01-10T00:00:00Z", 0), ("2027-01-19T00:00:00Z", 5)):
        ran = attest("verify", "r", "--offline", "--allow-simulated", "--endorsements", "b", "--at", when, "-q")
        assert ran.code == code, when


@pytest.mark.parametrize("version", ["4", "5"])
def test_a_td_verifies_with_its_collateral_and_its_log(attest: Attest, version: str) -> None:
    out = ("-o", "q", "--collateral-out", "c", "--eventlog-out", "l")
    made = attest("simulate", "td", "--quote-version", version, "--nonce-text", "n", "--at", WHEN, *out)
    assert (made.code, made.out) == (0, "")
    assert "SIMULATED" in made.err
    ran = attest("verify", "q", "--eventlog", "l", "--endorsements", "c", *LAB, "--nonce-text", "n", "--json")
    assert (ran.code, ran.check("eventlog.replay")["outcome"]) == (0, "pass")
    claims = ran.document["items"][0]["claims"]
    assert (claims["version"], claims["tcb_status"]) == (int(version), "UpToDate")
    assert attest("verify", "q", *LAB, "--nonce-text", "n", "-q").code == 5


def test_every_option_of_a_td_shows_in_the_claims(attest: Attest) -> None:
    attest(
        *("simulate", "td", "-o", "e", "--form", "envelope", "--at", WHEN, "--mr-td", "ab" * 48, "--debug"),
        *("--report-data", "ef" * 64, "--command-line", "/vmlinuz quiet", "--no-secure-boot", "--out-of-date"),
    )
    attest("simulate", "collateral", "--at", WHEN, "-o", "c")
    claims = attest("verify", "e", "--endorsements", "c", *LAB, "--json").document["items"][0]["claims"]
    assert (claims["mr_td"], claims["report_data"]) == ("ab" * 48, "ef" * 64)
    assert claims["td_attributes"]["debug"] is True
    assert (claims["tcb_status"], claims["advisory_ids"]) == ("OutOfDate", ["INTEL-SA-01036", "INTEL-SA-01079"])
    assert claims["eventlog"]["secure_boot"]["enabled"] is False
    assert claims["eventlog"]["kernel_command_lines"][0]["text"] == "/vmlinuz quiet"


def test_collateral_revokes_one_machine_and_serves_the_others(attest: Attest) -> None:
    attest("simulate", "td", "-o", "a", "--at", WHEN)
    attest("simulate", "td", "-o", "b", "--at", WHEN, "--platform", "platform 1")
    attest("simulate", "collateral", "-o", "c", "--revoke", "--at", WHEN)
    attest("simulate", "collateral", "-o", "s", "--tee", "sgx", "--at", WHEN)
    for quote, collateral, code in (("a", "c", 4), ("b", "c", 0), ("a", "s", 5)):
        assert attest("verify", quote, "--endorsements", collateral, *LAB, "-q").code == code, (quote, collateral)


def test_collateral_lasts_45_days_from_the_first_of_its_month(attest: Attest) -> None:
    attest("simulate", "td", "-o", "q", "--collateral-out", "c", "--at", "2026-06-20T00:00:00Z")
    for when, code in (("2026-06-01T00:00:00Z", 0), ("2026-07-16T00:00:00Z", 0), ("2026-07-16T00:00:01Z", 5)):
        options = ("--offline", "--allow-simulated", "--endorsements", "c", "--at", when, "-q")
        assert attest("verify", "q", *options).code == code, when


def test_nothing_of_a_simulated_td_is_accepted_by_default(attest: Attest) -> None:
    attest("simulate", "td", "-o", "q", "--collateral-out", "c", "--at", WHEN)
    ran = attest("verify", "q", "--endorsements", "c", "--offline", "--at", WHEN)
    assert ran.code == 4
    assert "simulated-root-refused" in ran.out + ran.err


def test_wrong_options_of_a_td(attest: Attest) -> None:
    for options in (["--quote-version", "3"], ["--mr-td", "00"], ["--nonce", "00", "--report-data", "11" * 64]):
        assert attest("simulate", "td", *options, "-o", "e").code == 2, options
    attest("simulate", "td", "-o", "e")
    assert attest("simulate", "td", "-o", "e").code == 2
    assert attest("simulate", "td", "-o", "e", "--force").code == 0


def test_wrong_options(attest: Attest) -> None:
    for options in (
        ["--tcb", "bootloader=1"],
        ["--tcb", "bootloader=1,tee=2,snp=3,microcode=256"],
        ["--tcb", "nonsense"],
        ["--tcb", "fmc=1,bootloader=1,tee=2,snp=3,microcode=4"],
        ["--measurement", "00"],
        ["--report-version", "6"],
        ["--nonce", "00", "--report-data", "11" * 64],
        ["--product", "Rome"],
    ):
        ran = attest("simulate", "evidence", *options, "-o", "e")
        assert (ran.code, ran.out) == (2, ""), options
    attest("simulate", "evidence", "-o", "e")
    assert attest("simulate", "evidence", "-o", "e").code == 2
    assert attest("simulate", "evidence", "-o", "e", "--force").code == 0


def test_anchors_are_shown_and_no_anchor_file_takes_them(attest: Attest, files: Files) -> None:
    ran = attest("simulate", "anchors", "--json")
    assert ran.document["simulated"] is True
    pin = ran.document["anchors"][1]["spki_sha256"]
    assert pin in attest("simulate", "anchors").out
    text = (
        'schema = "attest.anchors/1"\n[[add]]\nname = "mine"\nrole = "amd-ark"\nproduct = "Genoa"\n'
        f'spki_sha256 = "{pin}"\n'
    )
    anchors = files.write("anchors.toml", text.encode())
    ran = attest("verify", files.extended, "--offline", "--at", WHEN, "--anchors", anchors)
    assert ran.code == 2
    assert "simulator" in ran.err


@pytest.mark.loopback
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_service_runs_until_it_is_stopped(attest: Attest, files: Files, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from attest.cli.main import main; raise SystemExit(main())"]
    process = subprocess.Popen(
        [*command, "simulate", "kds", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        with urllib.request.urlopen(f"{url}/vcek/v1/Milan/cert_chain", timeout=10) as answer:  # noqa: S310  loopback
            assert answer.read().startswith(b"-----BEGIN CERTIFICATE-----")
        ran = attest("simulate", "kds", "--port", url.rpartition(":")[2])
        assert (ran.code, "cannot listen" in ran.err) == (2, True)
        process.send_signal(number)
        _, err = process.communicate(timeout=10)
        assert process.returncode == 0
        assert b"SIMULATED" in err
    finally:
        process.kill()
        process.wait()


@pytest.mark.loopback
def test_a_verifier_fetches_what_it_needs_from_the_simulated_intel(attest: Attest) -> None:
    command = [sys.executable, "-c", "from attest.cli.main import main; raise SystemExit(main())"]
    process = subprocess.Popen(
        [*command, "simulate", "pcs", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        attest("simulate", "td", "--nonce-text", "n", "-o", "q")
        ran = attest("verify", "q", "--nonce-text", "n", "--allow-simulated", "--pcs", url, "--cache", "cache", "-q")
        assert ran.code == 0, ran.err
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
