"""The example of the front page against a real service: every kind of machine, blocking and not."""

import asyncio
import itertools
from pathlib import Path

import pytest

import attest
from attest.errors import KeyUnknownError, PolicyNotMetError
from attest.session import ServiceNotGenuineError, ServiceUnreachableError
from attest_simulator.machines import MachineKind
from tests.kms.process import ServedProcess
from tests.kms.support import MATERIAL
from tests.session.serving import GPUS, KINDS, key_for, machine, url_of

pytestmark = pytest.mark.loopback
MACHINES = pytest.mark.parametrize(("kind_", "gpus"), list(itertools.product(KINDS, GPUS)))


@pytest.fixture
def _configured(served: ServedProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an image is prepared: where the service is, and who it is."""
    monkeypatch.setenv("ATTEST_KMS_URL", url_of(served))
    monkeypatch.setenv("ATTEST_KMS_KEY", served.identity)


@MACHINES
@pytest.mark.usefixtures("_configured")
def test_three_lines_give_a_machine_its_key(kind_: MachineKind, gpus: int) -> None:
    with attest.Session(attester=machine(kind_, gpus)) as session:
        key = session.key(key_for(kind_, gpus))
        assert key.material == MATERIAL
        assert session.key(key_for(kind_, gpus)) is key
        assert key.valid
    assert not key.valid


@MACHINES
@pytest.mark.usefixtures("_configured")
def test_three_lines_give_a_machine_its_key_on_asyncio(kind_: MachineKind, gpus: int) -> None:
    async def program() -> None:
        async with attest.AsyncSession(attester=machine(kind_, gpus)) as session:
            key = await session.key(key_for(kind_, gpus))
            assert key.material == MATERIAL
            assert await session.key(key_for(kind_, gpus)) is key

    asyncio.run(program())


@pytest.mark.parametrize("kind_", KINDS)
@pytest.mark.usefixtures("_configured")
def test_another_image_gets_nothing_and_learns_which_checks_failed(kind_: MachineKind) -> None:
    with (
        attest.Session(attester=machine(kind_).with_other_image()) as session,
        pytest.raises(PolicyNotMetError) as caught,
    ):
        session.key(key_for(kind_))
    (failed,) = caught.value.failed_check_ids
    assert failed in {"policy.snp.measurement", "policy.tdx.mr_td", "policy.azure.pcr4"}
    assert (caught.value.status, caught.value.retryable) == (403, False)


@pytest.mark.usefixtures("_configured")
def test_a_key_that_is_not_there_is_unknown() -> None:
    with attest.Session(attester=machine("snp")) as session, pytest.raises(KeyUnknownError):
        session.key("nobodys")


def test_another_identity_than_the_configured_one_is_not_genuine(served: ServedProcess, tmp_path: Path) -> None:
    other = _identity_like(served.identity)
    with (
        attest.Session(url_of(served), service=other, attester=machine("snp")) as session,
        pytest.raises(ServiceNotGenuineError) as caught,
    ):
        session.key(key_for("snp"))
    assert caught.value.code == "service-identity-mismatch"


def _identity_like(text: str) -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from attest.release import verifier_key

    return verifier_key(text.partition("+")[0], Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()).text


def test_a_service_that_is_not_there_is_told_within_the_time(served: ServedProcess) -> None:
    with (
        attest.Session("http://127.0.0.1:9", service=served.identity, attester=machine("snp"), timeout=0.5) as session,
        pytest.raises(ServiceUnreachableError) as caught,
    ):
        session.key("model")
    assert "http://127.0.0.1:9 within 0.5 s" in caught.value.message
    assert caught.value.tried
    assert all("[service-unreachable]" in one for one in caught.value.tried)
