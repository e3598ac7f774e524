"""A receipt whose model key was released by the key-release service itself, and not by a stand-in."""

from datetime import timedelta
from pathlib import Path

import pytest

from attest.receipts import OpenedModel
from attest.release import KeyReference
from attest.release.client import KeyReleaseClient
from attest.sealed import SealingNames, open_directory
from tests.kms.conftest import harness, kind, migrated_once, pytest_runtest_makereport
from tests.kms.support import MATERIAL, Harness, Workload
from tests.kms.test_api import client_of
from tests.receipts.machine import Machine, checked
from tests.sealed.made import OWNER, Place

__all__ = ["harness", "kind", "migrated_once", "pytest_runtest_makereport"]


@pytest.fixture
def machine(harness: Harness, tmp_path: Path) -> Machine:
    harness.add_key("model")
    place = Place(tmp_path)
    identity = harness.services.identity.public
    place.seal(key=MATERIAL, names=SealingNames(key=KeyReference.parse("model@1"), service=identity))
    with client_of(harness) as web:
        client = KeyReleaseClient(web, service=identity)  # type: ignore[arg-type]  # a client all the same
        (key,) = client.release(("model",), attester=Workload().attest)
    directory = open_directory(place.sealed, key=key.material, trusted=(OWNER.public_key(),), threads=1)
    for name in directory.entries:
        directory.read(name)
    return Machine(models=(OpenedModel(directory=directory, release=key),), at=harness.clock())


def test_the_release_of_the_service_is_verified_in_the_chain(machine: Machine) -> None:
    verified = checked(machine.file(), at=machine.at)
    release = verified.parts[0].release
    assert release is not None
    assert release.simulated
    assert release.log_size > 0
    assert abs(release.released_at - machine.at) < timedelta(minutes=1)
