"""``attest key get kbs:///…`` against the running service."""

import json
import os
import pty
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from attest.cli import foreign_keys
from attest.cli.main import cli
from attest.kbs.evidence_forms import TEES
from attest.kbs.guest_key import KEY_KINDS
from tests.collect.fake_machine import FakeMachine, plain_machine
from tests.kbs.conftest import KbsService
from tests.kbs.test_client import snp
from tests.kms.support import MATERIAL

pytestmark = pytest.mark.loopback
Run = Callable[..., Result]


@pytest.fixture
def run(kbs: KbsService, tmp_path: Path) -> Run:
    usual = snp(tmp_path / "root")

    def invoke(address: str, *arguments: object, on: FakeMachine = usual) -> Result:
        where = ("--kbs", kbs.url, "--tls-ca", kbs.ca, "--allow-disk")
        found = CliRunner().invoke(
            cli, [str(one) for one in ("key", "get", address, *where, *arguments)], obj=on.access
        )
        assert "Traceback" not in found.output
        assert MATERIAL.hex() not in found.output
        return found

    return invoke


def test_choices_are_those_of_the_client() -> None:
    assert ("auto", *TEES) == foreign_keys.TEES
    assert foreign_keys.KEY_KINDS == KEY_KINDS


def test_a_key_is_written_for_its_owner_alone(kbs: KbsService, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "model.key"
    ran = run(kbs.address_of("snp"), "--out", out, "--json")
    assert ran.exit_code == 0, ran.output
    assert out.read_bytes() == MATERIAL
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert json.loads(ran.stdout) == {
        "schema": "attest.foreign-key/1",
        "key": kbs.address_of("snp"),
        "protocol": "kbs 0.4.0",
        "service": kbs.url,
        "tee": "snp",
        "file": str(out),
    }


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_sample_evidence_is_sent_when_it_is_asked_for_and_warned_of(
    kbs: KbsService, run: Run, tmp_path: Path, kind: str
) -> None:
    reading, writing = os.pipe()
    ran = run(kbs.sample, "--out-fd", writing, "--tee", "sample", "--guest-key", kind)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == kbs.content
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert "proves nothing" in ran.stderr
    refused = run(kbs.sample, "--out", tmp_path / "x", on=plain_machine(tmp_path / "plain"))
    assert (refused.exit_code, "no TEE here" in refused.stderr) == (6, True)


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(kbs: KbsService, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "model.key"
    unreachable = ("--kbs", "https://127.0.0.1:1")
    ran = run(kbs.address_of("snp"), "--out", out, "--dry-run", "--json", *unreachable)
    assert ran.exit_code == 0, ran.output
    assert not out.exists()
    assert json.loads(ran.stdout) == {
        "schema": "attest.foreign-key-request/1",
        "key": kbs.address_of("snp"),
        "protocol": "kbs 0.4.0",
        "service": "https://127.0.0.1:1",
        "tee": "snp",
        "devices": [],
        "key_pair": "p256",
        "token": "its signature is not verified",
        "requests": [
            "POST /kbs/v0/auth",
            "POST /kbs/v0/attest",
            "GET /kbs/v0/resource/default/model-key/snp-0",
        ],
        "to": str(out),
    }


def test_a_key_does_not_go_to_a_terminal(kbs: KbsService, run: Run) -> None:
    controller, terminal = pty.openpty()
    try:
        ran = run(kbs.address_of("snp"), "--out-fd", terminal)
        assert (ran.exit_code, "not written to a terminal" in ran.stderr) == (2, True)
    finally:
        os.close(controller)
        os.close(terminal)


def test_refusals_have_exit_codes_and_the_services_words(kbs: KbsService, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "x"
    missing = run("kbs:///default/no/such", "--out", out)
    assert (missing.exit_code, "there is no resource" in missing.stderr) == (1, True)
    away = run(kbs.sample, "--out", out, "--kbs", "https://127.0.0.1:1", "--timeout", "0.5")
    assert away.exit_code == 5
    wrong = run(kbs.address_of("snp"), "--out", out, "--tee", "tdx")
    assert (wrong.exit_code, "--tee" in wrong.stderr) == (6, True)
    keys = tmp_path / "keys.pem"
    keys.write_bytes(Path(kbs.ca).read_bytes())
    assert run(kbs.sample, "--out", out, "--token-keys", keys).exit_code == 2
    assert not out.exists()


WRONG = {
    "an option of vaults": ("--maa", "https://maa.example"),
    "an access token": ("--bearer-file", "token"),
    "an option of the key-release service": ("--identity", "kms.example+00"),
    "another service": ("--kms", "https://kms.example"),
    "settings": ("--config", "attest.toml"),
    "a policy for the service's machine": ("--expect-policy", "policy.yaml"),
}


@pytest.mark.parametrize("name", WRONG)
def test_options_of_another_protocol_are_refused(run: Run, tmp_path: Path, name: str) -> None:
    ran = run("kbs:///a/b/c", "--out", tmp_path / "x", *WRONG[name])
    assert (ran.exit_code, f"{WRONG[name][0]} has no effect" in ran.stderr) == (2, True), ran.stderr


@pytest.mark.parametrize("option", [("--kbs", "https://kbs.example"), ("--dry-run",), ("--maa", "https://x.example")])
def test_a_key_of_the_key_release_service_has_none_of_these_options(tmp_path: Path, option: tuple[str, ...]) -> None:
    ran = CliRunner().invoke(cli, ["key", "get", "llama", "--out", str(tmp_path / "x"), "--allow-disk", *option])
    assert (ran.exit_code, f"{option[0]} has no effect" in ran.stderr) == (2, True), ran.stderr


def test_the_address_of_the_service_is_needed(tmp_path: Path) -> None:
    arguments = ["key", "get", "kbs:///a/b/c", "--out", str(tmp_path / "x"), "--allow-disk", "--tee", "sample"]
    ran = CliRunner().invoke(cli, arguments)
    assert (ran.exit_code, "needs --kbs" in ran.stderr) == (2, True)


@pytest.mark.parametrize("name", ["kbs://host/a/b/c", "kbs:///a/b", "KBS:///a/b/c"])
def test_an_address_that_is_none_of_a_resource_is_refused_with_the_form_of_one(
    run: Run, tmp_path: Path, name: str
) -> None:
    ran = run(name, "--out", tmp_path / "key")
    assert (ran.exit_code, "hint: expected kbs:///REPOSITORY/TYPE/TAG" in ran.stderr) == (2, True), ran.stderr


def test_an_option_without_effect_says_where_it_has_one(run: Run, tmp_path: Path) -> None:
    ran = run("kbs:///a/b/c", "--out", tmp_path / "key", "--maa", "https://maa.example")
    assert (ran.exit_code, "with --maa, KEY is an address https://VAULT/keys/NAME" in ran.stderr) == (2, True)


def test_a_service_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    ran = run("kbs:///a/b/c", "--out", tmp_path / "key", "--kbs", "http://127.0.0.1:1", "--timeout", "1")
    assert ran.exit_code == 5
    assert "the Key Broker Service at http://127.0.0.1:1 cannot be reached" in ran.stderr
    assert "kms serve" not in ran.stderr


def test_a_server_without_the_protocol_is_refused_with_a_hint_about_its_address(
    kbs: KbsService, run: Run, tmp_path: Path
) -> None:
    ran = run("kbs:///a/b/c", "--out", tmp_path / "key", "--kbs", f"{kbs.url}/elsewhere")
    assert (ran.exit_code, "no Key Broker Service is served below it" in ran.stderr) == (1, True), ran.stderr
