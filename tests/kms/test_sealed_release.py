"""A model is sealed and unsealed under a key that a served process releases; rotated, it is rewrapped."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from attest.cli.main import cli
from attest.errors import SealedTamperError
from attest.files import write_file
from attest.sealed import open_directory
from tests.kms.support import MATERIAL
from tests.kms.test_mutual_tls import Served, served
from tests.kms.test_release_command import machine
from tests.sealed.made import FILES, OWNER, private_pem, public_pem, read_files, write_files

__all__ = ["served"]
pytestmark = pytest.mark.loopback


@pytest.mark.parametrize("served", ["snp"], indirect=True)
def test_a_model_is_sealed_under_a_released_key_and_opened_by_another_machine(served: Served, tmp_path: Path) -> None:
    write_files(tmp_path / "model", dict(FILES))
    write_file(tmp_path / "owner.pem", private_pem(OWNER))
    (tmp_path / "owner.pub").write_bytes(public_pem(OWNER))
    sealed, plain = tmp_path / "sealed", tmp_path / "plain"
    guest = machine(tmp_path / "root")

    def run(*arguments: object) -> Result:
        service = (
            *("--kms", f"https://127.0.0.1:{served.process.port}", "--identity", served.process.identity),
            *("--tls-ca", str(served.ca / "ca.pem")),
        )
        found = CliRunner().invoke(cli, [*map(str, arguments), *service], obj=guest.access)
        assert MATERIAL.hex() not in found.output
        return found

    made = run("seal", tmp_path / "model", sealed, "--key", "model", "--signing-key", tmp_path / "owner.pem", "--json")
    assert made.exit_code == 0, made.output
    document = json.loads(made.stdout)
    assert (document["key"], document["kms"]) == ("model@1", served.process.identity)
    assert len(document["policy_sha256"]) == 64
    back = run("unseal", sealed, plain, "--trust", tmp_path / "owner.pub", "--allow-disk")
    assert back.exit_code == 0, back.output
    assert read_files(plain) == FILES
    trusted = (OWNER.public_key(),)
    open_directory(sealed, key=MATERIAL, trusted=trusted).close()
    with pytest.raises(SealedTamperError):
        open_directory(sealed, key=bytes(32), trusted=trusted)
    # What does not verify is not worth a question.
    (sealed / "extra").write_bytes(b"x")
    refused = run("unseal", sealed, tmp_path / "again", "--trust", tmp_path / "owner.pub", "--allow-disk")
    assert (refused.exit_code, "extra" in refused.stderr) == (4, True)
    (sealed / "extra").unlink()
    # A version that the service does not have is refused by it, and leaves the model as it was.
    before = read_files(sealed)
    unknown = run(
        *("sealed", "rewrap", sealed, "--new-key", "model@2"),
        *("--signing-key", tmp_path / "owner.pem", "--trust", tmp_path / "owner.pub"),
    )
    assert unknown.exit_code == 1, unknown.output
    assert read_files(sealed) == before
    same = run(
        *("sealed", "rewrap", sealed, "--new-key", "model"),
        *("--signing-key", tmp_path / "owner.pem", "--trust", tmp_path / "owner.pub"),
    )
    assert same.exit_code == 0, same.output
    assert {name for name, data in read_files(sealed).items() if before[name] != data} == {"sealed.json", "model.sig"}
