"""The running service that clients of the Key Broker Service's protocol are shown."""

import secrets
from collections.abc import Iterator

import httpx
import pytest

from attest.clock import system_clock
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import simulated_crl
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.operations.services import initialise
from tests.kms.kbs.face import write_rules
from tests.kms.process import ServedProcess


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the protocol, and give its address."""
    folder, at = tmp_path_factory.mktemp("kbs") / "service", system_clock()
    config = prepare_directory(folder, origin="kms.test/kbs", allow_simulated=True)
    write_rules(folder, more='profile = "coco"')
    (folder / "endorsements").mkdir()
    (folder / "endorsements/crl.der").write_bytes(simulated_crl(SnpProduct.GENOA, at=at))
    with config.open("a", encoding="utf-8") as file:
        file.write('kbs_file = "kbs.toml"\nendorsements = ["endorsements"]\nclient_requests_per_second = 0\n')
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=secrets.token_bytes)
    service = ServedProcess.start(config)
    yield f"http://127.0.0.1:{service.port}"
    assert service.terminate() == 0


@pytest.fixture(scope="module")
def http(address: str) -> Iterator[httpx.Client]:
    """Give a client with one kept connection."""
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client
