"""Commands about sealed models in an image that says where its service is: nothing more has to be said."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from attest.cli.main import cli
from attest.clock import system_clock
from attest.files import write_file
from tests.examples.conftest import FILES
from tests.kms.process import ServedProcess
from tests.kms.support import MATERIAL
from tests.sealed.made import OWNER, private_pem, read_files
from tests.session.serving import machine, url_of

pytestmark = pytest.mark.loopback


def attest(*arguments: object) -> Result:
    ran = CliRunner().invoke(cli, ["simulate", "machine", "--", *map(str, arguments)])
    assert "Traceback" not in ran.output
    return ran


def test_a_model_is_unsealed_sealed_and_read_by_the_settings_of_the_image(model: Path, memory: Path) -> None:
    ran = attest("unseal", "my-model.sealed", memory / "plain", "--trust", "owner.pub")
    assert ran.exit_code == 0, ran.output
    assert read_files(memory / "plain") == FILES
    ran = attest("sealed", "cat", "my-model.sealed", "config.json", "--trust", "owner.pub")
    assert ran.stdout_bytes == FILES["config.json"]
    write_file(model / "owner.pem", private_pem(OWNER))
    ran = attest("seal", "my-model", "again.sealed", "--key", "my-model", "--signing-key", "owner.pem", "--json")
    assert (ran.exit_code, '"my-model@1"' in ran.stdout) == (0, True), ran.output


def test_what_the_settings_demand_of_the_service_is_demanded(
    model: Path, memory: Path, served: ServedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATTEST_KMS_URL")
    monkeypatch.delenv("ATTEST_KMS_KEY")
    (model / "policy.json").write_bytes(machine("tdx").policy())
    (model / "vendors").mkdir()
    for name, content in machine("snp").endorsement_files(at=system_clock()).items():
        (model / "vendors" / name).write_bytes(content)
    (model / "attest.toml").write_text(
        f'[kms]\nurl = "{url_of(served)}"\nkey = "{served.identity}"\npolicy = "policy.json"\n'
        'allow_simulated = true\noffline = true\nunchecked_tls = "a test"\nendorsements = ["vendors"]\n'
    )
    ran = attest("unseal", "my-model.sealed", memory / "plain", "--trust", "owner.pub")
    assert (ran.exit_code, "does not meet the policy" in ran.stderr) == (1, True), ran.output
    assert list(memory.iterdir()) == []


def test_a_key_that_is_here_needs_no_settings_and_reads_none(
    model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTEST_KMS_URL", "nowhere")
    (model / "attest.toml").write_text("this is none")
    write_file(model / "model.key", MATERIAL)
    unseal = ("unseal", "my-model.sealed", memory / "plain", "--trust", "owner.pub")
    assert attest(*unseal, "--key-file", "model.key").exit_code == 0
    ran = attest(*unseal)
    assert (ran.exit_code, "ATTEST_KMS_URL" in ran.stderr or "attest.toml" in ran.stderr) == (2, True), ran.output


def test_options_come_before_settings(model: Path, memory: Path) -> None:
    unseal = ("unseal", "my-model.sealed", memory / "plain", "--trust", "owner.pub")
    assert attest(*unseal, "--kms", "http://127.0.0.1:9").exit_code == 5
    assert attest(*unseal, "--identity", "kms.example").exit_code == 2
    assert list(memory.iterdir()) == []
