"""From the kernel's files to a key: a machine collects, a key-release service decides."""

from functools import partial
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from attest.collect import collect_machine
from attest.release.client import KeyReleaseClient
from tests.collect.fake_machine import snp_machine
from tests.kms.conftest import harness  # noqa: F401  a fixture
from tests.kms.support import GUEST, MATERIAL, Harness
from tests.kms.test_api import client  # noqa: F401  a fixture


@pytest.fixture
def kind() -> str:
    """The database of the key service; elsewhere in this folder it is the kind of a TPM."""
    return "sqlite"


def test_a_machine_gets_its_key(client: TestClient, harness: Harness, tmp_path: Path) -> None:  # noqa: F811
    machine = snp_machine(tmp_path / "root", GUEST)
    released = KeyReleaseClient(client, service=harness.services.identity.public).release(  # type: ignore[arg-type]
        ("model",), attester=partial(collect_machine, access=machine.access)
    )
    assert [key.material for key in released] == [MATERIAL]
