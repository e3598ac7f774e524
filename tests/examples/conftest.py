"""A real service, a simulated machine, a sealed model, and an owner, for what `examples/` and the cookbook show."""

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import attest
from attest.cli.key_output import require_in_memory
from attest.errors import ConfigurationError
from tests.kms.conftest import harness, kind, migrated_once, pytest_runtest_makereport
from tests.kms.process import ServedProcess
from tests.kms.support import MATERIAL
from tests.sealed.made import OWNER, Place, public_pem
from tests.session.conftest import _no_settings_of_the_machine, served
from tests.session.serving import machine, url_of

__all__ = ["_no_settings_of_the_machine", "harness", "kind", "migrated_once", "pytest_runtest_makereport", "served"]

WEIGHTS = {"w": np.array([[1, 2], [3, 4]], dtype=np.float32), "b": np.array([10, 20], dtype=np.float32)}
FILES = {
    "config.json": b'{"hidden": 2}',
    "model.gguf": b"GGUF" + bytes(range(256)) * 9000,
    "model.safetensors": safetensors.numpy.save(WEIGHTS),
    "notes/en.txt": b"one two three",
}


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on tmpfs; skips where there is none."""
    shared = Path("/dev/shm")  # noqa: S108  that is what it is for
    try:
        require_in_memory(shared.stat().st_dev, str(shared))
    except (OSError, ConfigurationError):
        pytest.skip("no tmpfs at /dev/shm here")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def model(tmp_path: Path, served: ServedProcess, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `my-model.sealed` and `owner.pub`, in an image that says where its service is."""
    from attest.release.names import KeyReference
    from attest.sealed import SealingNames

    made = Place(tmp_path, FILES)
    made.seal(key=MATERIAL, names=SealingNames(key=KeyReference.parse("my-model@1")))
    made.sealed.rename(tmp_path / "my-model.sealed")
    shutil.move(made.model, tmp_path / "my-model")
    (tmp_path / "owner.pub").write_bytes(public_pem(OWNER))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTEST_KMS_URL", url_of(served))
    monkeypatch.setenv("ATTEST_KMS_KEY", served.identity)
    return tmp_path


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are on a machine that the simulator makes; nothing else is different."""
    monkeypatch.setattr(attest, "Session", partial(attest.Session, attester=machine("snp")))
    monkeypatch.setattr(attest, "AsyncSession", partial(attest.AsyncSession, attester=machine("snp")))
