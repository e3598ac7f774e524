"""ocicrypt, which containerd, CRI-O, Podman and Skopeo use, encrypts and decrypts layers with `attest keyprovider`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.agent.real_agent import KEY, REFUSED, RealAgent
from tests.compat.conftest import Step, program_of
from tests.kms.process import REPOSITORY
from tests.kms.support import MATERIAL

pytestmark = pytest.mark.loopback
CLIENT = "ocicrypt 1.3.2 (Go)"
LAYER = bytes(range(256)) * 5000
ATTEST = Path(sys.executable).with_name("attest")


@pytest.fixture
def ocicrypt() -> Path:
    return program_of("ATTEST_OCICRYPT")


def call(ocicrypt: Path, verb: str, key: str, data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run ocicrypt with a key provider that is started with these arguments."""
    settings = ocicrypt.with_name(f"keyprovider-{os.getpid()}.conf")
    command = {"path": str(ATTEST), "args": ["keyprovider", *words]}
    settings.write_text(json.dumps({"key-providers": {"attest": {"cmd": command}}}))
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPOSITORY),
        "OCICRYPT_KEYPROVIDER_CONFIG": str(settings),
    }
    try:
        return subprocess.run(
            [ocicrypt, verb, f"attest:{key}"], input=data, env=env, capture_output=True, timeout=120, check=False
        )
    finally:
        settings.unlink()


@pytest.fixture
def image(ocicrypt: Path, tmp_path: Path) -> bytes:
    """A layer that its owner encrypted, with the key in a file."""
    key = tmp_path / "images.key"
    key.write_bytes(MATERIAL)
    key.chmod(0o600)
    done = call(ocicrypt, "encrypt", f"{KEY}@1", LAYER, "--key", f"{KEY}@1={key}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_layer_that_its_owner_encrypted_is_decrypted_where_the_agent_holds_the_key(
    ocicrypt: Path, image: bytes, agent: RealAgent, step: Step
) -> None:
    step(CLIENT, "encrypt with a file, decrypt with the agent's key: equal bytes")
    assert LAYER[:64] not in image
    done = call(ocicrypt, "decrypt", "", image, "--socket", str(agent.life.socket))
    assert (done.returncode, done.stdout) == (0, LAYER), done.stderr


def test_the_agent_s_key_encrypts_and_decrypts(ocicrypt: Path, agent: RealAgent, step: Step) -> None:
    step(CLIENT, "encrypt and decrypt with the agent's key: equal bytes")
    socket = ("--socket", str(agent.life.socket))
    made = call(ocicrypt, "encrypt", f"{KEY}@1", LAYER, *socket)
    assert made.returncode == 0, made.stderr
    (annotation,) = (value for name, value in json.loads(made.stdout)["Annotations"].items() if ".provider." in name)
    assert annotation
    assert call(ocicrypt, "decrypt", "", made.stdout, *socket).stdout == LAYER


def test_without_a_lease_nothing_is_decrypted(ocicrypt: Path, agent: RealAgent, tmp_path: Path, step: Step) -> None:
    step(CLIENT, "decrypt without a lease: error")
    key = tmp_path / "other.key"
    key.write_bytes(MATERIAL)
    key.chmod(0o600)
    made = call(ocicrypt, "encrypt", f"{REFUSED}@1", LAYER, "--key", f"{REFUSED}@1={key}")
    done = call(ocicrypt, "decrypt", "", made.stdout, "--socket", str(agent.life.socket))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"exit status 1" in done.stderr, done.stderr


def test_without_an_agent_nothing_is_decrypted(ocicrypt: Path, image: bytes, tmp_path: Path, step: Step) -> None:
    step(CLIENT, "decrypt without an agent: error")
    done = call(ocicrypt, "decrypt", "", image, "--socket", str(tmp_path / "none"))
    assert (done.returncode, done.stdout, b"exit status 5" in done.stderr) == (1, b"", True), done.stderr


def test_a_changed_annotation_is_refused(ocicrypt: Path, image: bytes, agent: RealAgent, step: Step) -> None:
    step(CLIENT, "decrypt with a changed annotation: error")
    document = json.loads(image)
    name = "org.opencontainers.image.enc.keys.provider.attest"
    value = document["Annotations"][name]
    document["Annotations"][name] = value[:100] + ("A" if value[100] != "A" else "B") + value[101:]
    done = call(ocicrypt, "decrypt", "", json.dumps(document).encode(), "--socket", str(agent.life.socket))
    assert (done.returncode, done.stdout) == (1, b""), done.stderr
