"""``attest key get https://VAULT/keys/NAME`` against the vault of a specification."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.cli.main import cli
from tests.collect.fake_machine import FakeMachine, snp_machine
from tests.skr.conftest import PKI, TOKEN
from tests.skr.fake_vault import KEYS, POLICY, SIGNER, VERSION, FakeVault, Pki, material, pem

pytestmark = pytest.mark.loopback
Run = Callable[..., Result]


@pytest.fixture
def run(vault: FakeVault, tmp_path: Path) -> Run:
    usual = snp_machine(tmp_path / "root")
    (tmp_path / "roots.pem").write_bytes(pem(PKI.root))
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)

    def invoke(*arguments: object, bearer: object = tmp_path / "token", on: FakeMachine = usual) -> Result:
        where = ("--maa", vault.url, "--tls-ca", tmp_path / "ca.pem", "--vault-roots", tmp_path / "roots.pem")
        source = () if bearer is None else ("--bearer-file", bearer)
        line = ("key", "get", vault.address(), "--out", tmp_path / "key", "--allow-disk", *where, *source, *arguments)
        found = CliRunner().invoke(cli, [str(one) for one in line], obj=on.access)
        assert "Traceback" not in found.output
        assert TOKEN not in found.output
        return found

    return invoke


def test_a_key_is_written(vault: FakeVault, run: Run, tmp_path: Path) -> None:
    ran = run("--json")
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "key").read_bytes() == material(KEYS["rsa"])
    assert json.loads(ran.stdout) == {
        "schema": "attest.foreign-key/1",
        "key": vault.address(),
        "protocol": "skr 7.4",
        "service": vault.url,
        "tee": "snp",
        "file": str(tmp_path / "key"),
    }
    assert vault.bearers == [f"Bearer {TOKEN}"]


def test_a_command_prints_the_access_token(vault: FakeVault, run: Run) -> None:
    program = f"{sys.executable} -c \"print('{TOKEN[:5]}' + '{TOKEN[5:]}')\""
    assert run("--bearer-command", program, bearer=None).exit_code == 0
    assert vault.bearers == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize("command", ["/no/such/program", "false", "''", "'", f"{sys.executable} -c 'print(chr(233))'"])
def test_a_command_that_prints_no_token_is_refused(run: Run, command: str) -> None:
    ran = run("--bearer-command", command, bearer=None)
    assert ran.exit_code == 2, ran.output


def test_an_access_token_in_a_file_that_others_can_read_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").chmod(0o644)
    ran = run()
    assert (ran.exit_code, "open to other users" in ran.stderr) == (2, True)


def test_an_access_token_has_one_source(run: Run, tmp_path: Path) -> None:
    for ran in (run(bearer=None), run("--bearer-command", "true"), run(bearer=tmp_path / "absent")):
        assert ran.exit_code == 2
    assert not (tmp_path / "key").exists()


def test_the_expected_release_policy_is_compared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_bytes(POLICY)
    (tmp_path / "other.json").write_bytes(POLICY.replace(b'"y"', b'"z"'))
    ran = run("--release-policy", tmp_path / "other.json")
    assert (ran.exit_code, "release policy is not the expected one" in ran.stderr) == (4, True)
    assert run("--release-policy", tmp_path / "policy.json").exit_code == 0


def test_a_dry_run_sends_nothing(vault: FakeVault, run: Run, tmp_path: Path) -> None:
    ran = run("--dry-run", "--json")
    assert ran.exit_code == 0, ran.output
    shown = json.loads(ran.stdout)
    assert shown["schema"] == "attest.foreign-key-request/1"
    assert (shown["verifier"], shown["tee"], shown["release_policy"]) == (vault.url, "snp", "any")
    assert shown["requests"] == [f"POST {vault.url}/attest/SevSnpVm", "POST /keys/model/release"]
    assert (vault.asked, (tmp_path / "key").exists()) == ([], False)


@pytest.mark.parametrize(
    "option", [("--kbs", "https://kbs.example"), ("--tee", "snp"), ("--unchecked-tls", "a reason"), ("--anchors", "x")]
)
def test_options_of_another_protocol_are_refused(run: Run, option: tuple[str, str]) -> None:
    ran = run(*option)
    assert (ran.exit_code, f"{option[0]} has no effect" in ran.stderr) == (2, True), ran.stderr


def test_the_roots_of_the_vault_are_needed(vault: FakeVault, tmp_path: Path) -> None:
    arguments = [
        "key",
        "get",
        vault.address(VERSION),
        "--out",
        str(tmp_path / "key"),
        "--allow-disk",
        "--maa",
        vault.url,
    ]
    ran = CliRunner().invoke(cli, arguments, obj=snp_machine(tmp_path / "root").access)
    assert (ran.exit_code, "needs --vault-roots" in ran.stderr) == (2, True)


@pytest.mark.parametrize("name", ["http://vault.example/keys/model", "https://vault.example/secrets/model", "az://k"])
def test_an_address_that_is_none_of_a_key_is_refused_with_the_form_of_one(tmp_path: Path, name: str) -> None:
    line = ("key", "get", name, "--out", str(tmp_path / "key"), "--allow-disk", "--maa", "https://maa.example")
    ran = CliRunner().invoke(cli, line, obj=snp_machine(tmp_path / "root").access)
    assert (ran.exit_code, "hint: expected https://VAULT/keys/NAME" in ran.stderr) == (2, True), ran.stderr


def test_a_verifier_that_is_not_there_is_named(run: Run) -> None:
    ran = run("--maa", "https://localhost:1", "--timeout", "1")
    assert ran.exit_code == 5
    assert "the Verifier at https://localhost:1 cannot be reached" in ran.stderr
    assert "kms serve" not in ran.stderr


def test_a_root_that_may_not_issue_certificates_is_named_with_its_file_and_the_remedy(run: Run, tmp_path: Path) -> None:
    (tmp_path / "leaf.pem").write_bytes(pem(PKI.leaf(SIGNER.public_key(), "localhost")))
    ran = run("--vault-roots", tmp_path / "leaf.pem")
    assert ran.exit_code == 2
    for said in ("--vault-roots: ", "leaf.pem", "keyCertSign", "-addext keyUsage"):
        assert said in ran.stderr


def test_keys_of_another_verifier_are_refused_with_the_option_that_gave_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keys.pem").write_bytes(
        SIGNER.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    ran = run("--maa-keys", tmp_path / "keys.pem")
    assert (ran.exit_code, "hint: --maa-keys" in ran.stderr, "--trust" in ran.stderr) == (5, True, False), ran.stderr


def test_a_command_that_is_not_there_is_refused_with_the_reason_of_the_system(run: Run) -> None:
    ran = run("--bearer-command", "/no/such/program", bearer=None)
    assert "no access token from /no/such/program: No such file or directory" in ran.stderr


def test_an_answer_under_another_root_is_refused_with_the_option_of_roots(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_bytes(pem(Pki().root))
    ran = run("--vault-roots", tmp_path / "other.pem")
    assert (ran.exit_code, "hint: --vault-roots" in ran.stderr) == (4, True), ran.stderr
