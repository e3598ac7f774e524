"""Mutual attestation over real TLS: a served process proves itself, and somebody in between is found out."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from attest import TrustAnchors, load_policy
from attest.clock import system_clock
from attest.errors import BindingError
from attest.release import VerifierKey
from attest.release.client import KeyReleaseClient
from attest.release.mutual_attestation import ServiceExpectation
from attest_simulator import simulated_crl
from kms.config.settings import load_settings
from kms.domain.keys import KeyName
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.operations.services import open_vault
from tests.kms.process import ServedProcess
from tests.kms.proving import POLICIES, endorsements
from tests.kms.relay import relaying
from tests.kms.support import ACTOR, CHIP, MATERIAL, FakeRandom, Workload, policy_text
from tests.kms.test_tls import service
from tests.kms.tls import authority, issued, trusting

pytestmark = pytest.mark.loopback


def workload() -> Workload:
    made, today = Workload(), system_clock().replace(microsecond=0)
    return replace(made, guest=replace(made.guest, chip=replace(CHIP, certified_from=today - timedelta(days=7))))


@dataclass
class Served:
    """A service over TLS that proves itself by the simulator."""

    process: ServedProcess
    ca: Path
    tee: str

    @property
    def identity(self) -> VerifierKey:
        return VerifierKey.parse(self.process.identity)

    def expectation(self, **changes: Any) -> ServiceExpectation:  # noqa: ANN401  fields of an expectation
        base = ServiceExpectation(
            policy=load_policy(POLICIES[self.tee]),
            anchors=TrustAnchors.simulation(),
            endorsements=endorsements(system_clock()),
            clock=system_clock,
            random=FakeRandom("mutual"),
        )
        return replace(base, **changes)

    def release(self, port: int, expect: ServiceExpectation) -> bytes:
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting(self.ca), trust_env=False) as http:
            client = KeyReleaseClient(http, service=self.identity, expect=expect)
            (key,) = client.release(("model",), attester=workload().attest)
            return key.material


@pytest.fixture(params=["snp", "tdx"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    ca = authority(tmp_path)
    config = service(
        tmp_path, issued(ca), self_evidence=f'"simulated-{request.param}"', endorsements='["endorsements"]'
    )
    folder = config.parent / "endorsements"
    folder.mkdir()
    (folder / "crl.der").write_bytes(simulated_crl(CHIP.product, at=system_clock()))
    vault = open_vault(load_settings(flags={}, environ={}, config=config).settings, random=FakeRandom("wrap"))
    add_key(
        vault.store,
        vault.kek,
        name=KeyName.parse("model"),
        material=SecretBytes(MATERIAL),
        policy=policy_text(),
        kind=KEY_IMPORTED,
        actor=ACTOR,
        at=system_clock(),
    )
    vault.store.close()
    process = ServedProcess.start(config)
    try:
        yield Served(process=process, ca=ca, tee=str(request.param))
    finally:
        assert process.terminate() == 0


def test_mc_30_a_workload_gets_its_key_from_a_service_that_proved_itself(served: Served) -> None:
    assert served.release(served.process.port, served.expectation()) == MATERIAL


def test_somebody_in_between_whom_tls_itself_accepts_is_found_out_before_anything_is_asked(served: Served) -> None:
    """The same authority vouches for him: only the evidence says where the service is."""
    passed: list[bytes] = []
    with relaying(
        served.process.port, shown=issued(served.ca, "relay"), trusting=trusting(served.ca), passed=passed
    ) as port:
        with pytest.raises(BindingError) as caught:
            served.release(port, served.expectation())
        assert caught.value.code == "service-tls-key-mismatch"
        assert len(passed) == 1
        assert passed[0].startswith(b"GET /v1/attestation?nonce=")
