"""`attest release`: a machine gets its keys from a served process, which has to prove itself first."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from attest.cli.main import cli
from attest.clock import system_clock
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import simulated_crl
from tests.collect.fake_machine import FakeMachine, plain_machine, snp_machine
from tests.kms.proving import POLICIES
from tests.kms.support import CHIP, GUEST, MATERIAL, TD, policy_text
from tests.kms.test_mutual_tls import Served, served
from tests.kms.test_workers import wait_until
from tests.kms.tls import issued

__all__ = ["served"]
pytestmark = pytest.mark.loopback
Run = Callable[..., Result]


def machine(folder: Path) -> FakeMachine:
    today = system_clock().replace(microsecond=0)
    return snp_machine(folder, replace(GUEST, chip=replace(CHIP, certified_from=today - timedelta(days=7))))


@pytest.fixture
def run(served: Served, tmp_path: Path) -> Run:
    policy, vendor = tmp_path / "service.yaml", tmp_path / "vendor"
    policy.write_bytes(POLICIES[served.tee])
    vendor.mkdir()
    (vendor / "crl.der").write_bytes(simulated_crl(SnpProduct.GENOA, at=system_clock()))
    (vendor / "intel.json").write_bytes(TD.platform.collateral("tdx", at=system_clock()).to_json())
    guest = machine(tmp_path / "root")

    def invoke(*arguments: str, on: FakeMachine = guest, expecting: bool = True) -> Result:
        demands = ["--expect-policy", str(policy), "--endorsements", str(vendor), "--allow-simulated", "--offline"]
        given = [
            "release",
            *("--kms", f"https://127.0.0.1:{served.process.port}"),
            *("--identity", served.process.identity),
            *("--tls-ca", str(served.ca / "ca.pem")),
            *(demands if expecting else []),
            *arguments,  # of an option that is given twice, the last one counts
        ]
        found = CliRunner().invoke(cli, given, obj=on.access)
        assert MATERIAL.hex() not in found.output
        return found

    return invoke


def test_a_machine_gets_its_key_from_a_service_that_proved_its_own(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "model.key"
    ran = run("model", "-o", str(out), "--json")
    assert ran.exit_code == 0, ran.output
    assert out.read_bytes() == MATERIAL
    assert out.stat().st_mode & 0o777 == 0o600
    document = json.loads(ran.stdout)
    assert document["schema"] == "attest.released/1"
    assert (document["keys"][0]["key_id"], document["service"]["simulated"]) == ("model", True)
    assert "SIMULATED" in ran.stderr
    again = run("model", "-o", str(out))
    assert (again.exit_code, "already exists" in again.stderr) == (2, True)


def test_a_service_that_does_not_meet_the_policy_gets_no_question_and_nothing_is_written(
    run: Run, tmp_path: Path
) -> None:
    bad, out = tmp_path / "bad.yaml", tmp_path / "keys"
    bad.write_bytes(policy_text(measurement=bytes(48)))
    out.mkdir()
    ran = run("model", "--output-directory", str(out), "--expect-policy", str(bad))
    assert ran.exit_code == 1, ran.output
    assert "does not meet the policy" in ran.stderr
    assert list(out.iterdir()) == []
    # The service writes a line of its log after the answer.
    wait_until(tmp_path / "svc" / "kms.toml", "GET /v1/attestation", times=1)
    assert "POST" not in (tmp_path / "svc" / "serve.log").read_text()


def test_another_configuration_than_the_expected_one_is_refused(run: Run, tmp_path: Path) -> None:
    ran = run("model", "-o", str(tmp_path / "k"), "--expect-configuration", "00" * 32)
    assert (ran.exit_code, "another configuration" in ran.stderr) == (4, True)


def test_without_an_expectation_the_key_is_sealed_to_this_machine_all_the_same(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "keys"
    out.mkdir()
    ran = run("model", "--output-directory", str(out), "--log-memory", str(tmp_path / "memory"), expecting=False)
    assert ran.exit_code == 0, ran.output
    assert (out / "model.key").read_bytes() == MATERIAL
    assert (tmp_path / "memory").read_text().startswith("kms.test/tls\n")


def test_a_machine_without_a_tee_gets_nothing(run: Run, tmp_path: Path) -> None:
    ran = run("model", "-o", str(tmp_path / "k"), on=plain_machine(tmp_path / "plain"))
    assert ran.exit_code == 6
    assert not (tmp_path / "k").exists()


def test_standard_output_holds_the_key_alone(run: Run) -> None:
    ran = run("model", "-o", "-")
    assert ran.exit_code == 0
    assert ran.stdout_bytes == MATERIAL


def test_options_that_do_not_fit_are_usage(run: Run, served: Served, tmp_path: Path) -> None:
    cases = (
        (("model",), True),
        (("model", "-o", "a", "--output-directory", "b"), True),
        (("model", "other", "-o", str(tmp_path / "a")), True),
        (("MODEL", "-o", str(tmp_path / "a")), True),
        (("model", "-o", str(tmp_path / "a"), "--unchecked-tls", " "), True),
        (("model", "-o", str(tmp_path / "a"), "--unchecked-tls", "x"), False),
        (("model", "-o", str(tmp_path / "a"), "--tls-ca", str(issued(served.ca, "x").key)), True),
    )
    for arguments, expecting in cases:
        assert run(*arguments, expecting=expecting).exit_code == 2, arguments
    assert not (tmp_path / "a").exists()
