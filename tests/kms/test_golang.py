"""The log as Go's checksum database reads it: golang.org/x/mod/sumdb, an implementation that is not ours."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.release.tlog import WitnessKey, cosign, leaf_hash
from kms.domain.log_tree import Node, consistency_proof, grown, inclusion_proof, root
from kms.log.static_export import export_log
from tests.go_programs import go_program
from tests.kms.support import Harness, Workload

SOURCE = Path(__file__).parent / "golang"


@pytest.fixture(scope="session")
def tlogcheck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_program(SOURCE, tmp_path_factory.mktemp("golang"))


def check(program: Path, *arguments: object, refused: bool = False) -> str:
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert bool(done.returncode) is refused, done.stderr
    return done.stdout


def test_roots_and_every_proof_are_those_of_go(tlogcheck: Path) -> None:
    count = 70
    expected = json.loads(check(tlogcheck, "vectors", count))
    stored: dict[Node, bytes] = {}

    def read(wanted: Sequence[Node]) -> dict[Node, bytes]:
        return {node: stored[node] for node in wanted}

    for number in range(count):
        stored |= dict(grown(number, leaf_hash(f"entry {number}".encode()), read))
    assert [root(size, read).hex() for size in range(1, count + 1)] == expected["roots"]
    for size in range(1, count + 1):
        for other in range(size):
            inclusion = [one.hex() for one in inclusion_proof(other, size, read)]
            assert inclusion == expected["inclusion"][f"{other} in {size}"]
            consistency = [one.hex() for one in consistency_proof(other + 1, size, read)]
            assert consistency == expected["consistency"][f"{other + 1} to {size}"]


@pytest.fixture
def grown_log(harness: Harness) -> Harness:
    """A service whose log has more than one full tile."""
    harness.add_key("model")
    with harness.services.store.writing() as tx:
        for number in range(600):
            tx.log.add(kind="test", at=harness.clock(), body={"number": number})
    return harness


def export(harness: Harness, directory: Path) -> None:
    services = harness.services
    with services.store.reading() as tx:
        export_log(tx.log, directory, checkpoint=services.log.checkpoint(), log=services.identity.public)


def test_go_reads_the_exported_log_and_finds_every_entry(tlogcheck: Path, grown_log: Harness, tmp_path: Path) -> None:
    directory, key = tmp_path / "log", grown_log.audience
    export(grown_log, directory)
    assert check(tlogcheck, "log", directory, key) == "602 entries\n"
    earlier = tmp_path / "earlier"
    shutil.copy(directory / "checkpoint", earlier)
    for _ in range(3):
        grown_log.releases.release(Workload().request(grown_log.releases.challenge(), "model"))
    export(grown_log, directory)
    assert check(tlogcheck, "log", directory, key) == "605 entries\n"
    check(tlogcheck, "extends", earlier, directory / "checkpoint", key, directory)
    check(tlogcheck, "extends", directory / "checkpoint", earlier, key, directory, refused=True)
    bundle = directory / "tile" / "entries" / "001"
    bundle.write_bytes(bundle.read_bytes().replace(b'"number":300', b'"number":301'))
    check(tlogcheck, "log", directory, key, refused=True)


def test_go_verifies_the_proof_of_a_release(tlogcheck: Path, grown_log: Harness, tmp_path: Path) -> None:
    release = grown_log.releases.release(Workload().request(grown_log.releases.challenge(), "model"))
    proof, entry = tmp_path / "release.tlog-proof", tmp_path / "entry"
    proof.write_text(release.proof)
    entry.write_bytes(release.entry)
    check(tlogcheck, "proof", proof, entry, grown_log.audience)
    entry.write_bytes(release.entry + b" ")
    check(tlogcheck, "proof", proof, entry, grown_log.audience, refused=True)


def test_go_reads_a_cosigned_checkpoint(tlogcheck: Path, grown_log: Harness, tmp_path: Path) -> None:
    export(grown_log, tmp_path)
    path = tmp_path / "checkpoint"
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    witness = WitnessKey(name="witness.example/a", public=key.public_key().public_bytes_raw())
    check(tlogcheck, "log", tmp_path, grown_log.audience, witness.text, refused=True)
    path.write_text(path.read_text() + cosign(path.read_text(), name=witness.name, key=key, at=1_700_000_000))
    check(tlogcheck, "log", tmp_path, grown_log.audience, witness.text)
