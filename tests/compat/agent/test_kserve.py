"""KServe's model loader, unmodified, opens encrypted models with keys that the agent holds."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.encoding import base64url_text
from tests.compat.agent.real_agent import RealAgent
from tests.compat.conftest import Step, program_of
from tests.kms.support import MATERIAL

pytestmark = pytest.mark.loopback
CLIENT = "kserve-storage 0.21.0"
WEIGHTS = b"the weights of a model" * 1000


@pytest.fixture
def loader() -> Path:
    return program_of("ATTEST_KSERVE_DECRYPT")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with one file as its owner encrypts it: a compact JWE, `dir` with A256GCM (RFC 7516)."""
    folder = tmp_path / "m"
    folder.mkdir()
    header = base64url_text(json.dumps({"alg": "dir", "enc": "A256GCM"}).encode())
    iv = os.urandom(12)
    sealed = AESGCM(MATERIAL).encrypt(iv, WEIGHTS, header.encode())
    parts = (header, "", *map(base64url_text, (iv, sealed[:-16], sealed[-16:])))
    (folder / "weights.bin.jwe").write_text(".".join(parts))
    (folder / "config.json").write_text("{}")
    return folder


def decrypt(loader: Path, models: Path, resource: str, *, port: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [loader, "--source-dir", models, "--resource-id", f"kbs:///{resource}"],
        env={"CDH_ADDR": f"http://127.0.0.1:{port}", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_model_is_decrypted_with_a_key_that_the_service_released(
    loader: Path, models: Path, agent: RealAgent, step: Step
) -> None:
    step(CLIENT, "kbs:///default/model-key/llama decrypts a file")
    done = decrypt(loader, models, "default/model-key/llama", port=agent.port)
    assert done.returncode == 0, done.stderr
    assert sorted(one.name for one in models.iterdir()) == ["config.json", "weights.bin"]
    assert (models / "weights.bin").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("resource", "status", "what"),
    [
        ("default/model-key/other", "404", "another id ends with 1"),
        ("default/model-key/refused", "500", "a key that the service refuses ends with 1"),
    ],
)
def test_without_the_key_nothing_is_decrypted(
    request: pytest.FixtureRequest, resource: str, status: str, what: str
) -> None:
    request.getfixturevalue("step")(CLIENT, what)
    loader, models, agent = map(request.getfixturevalue, ("loader", "models", "agent"))
    done = decrypt(loader, models, resource, port=agent.port)
    assert (done.returncode, f"{status} " in done.stderr) == (1, True), done.stderr
    assert sorted(one.name for one in models.iterdir()) == ["config.json", "weights.bin.jwe"]
