"""Two processes on one PostgreSQL database."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from attest.clock import system_clock
from attest_simulator import simulated_crl
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.log_verification import verify_log
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.operations.services import initialise, open_vault
from tests.kms.postgres import Server
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, CHIP, GUEST, MATERIAL, MODEL, Workload, policy_text


@pytest.mark.loopback
def test_mc_37_of_two_processes_one_releases_and_the_other_goes_on_when_the_first_is_killed(
    postgres: Server, tmp_path: Path
) -> None:
    url = postgres.fresh()
    config = prepare_directory(tmp_path / "svc", origin="kms.test/replicas", allow_simulated=True)
    text = config.read_text(encoding="utf-8").replace('database = "kms.db"\n', "")
    (tmp_path / "svc" / "endorsements").mkdir()
    crl = simulated_crl(CHIP.product, at=system_clock())
    (tmp_path / "svc" / "endorsements" / "crl.der").write_bytes(crl)
    config.write_text(f'{text}endorsements = ["endorsements"]\n\n[store]\nurl = "{url}"\n', encoding="utf-8")
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=secrets.token_bytes)
    vault = open_vault(settings, random=secrets.token_bytes)
    material = SecretBytes(MATERIAL)
    add_key(
        vault.store,
        vault.kek,
        name=MODEL,
        material=material,
        policy=policy_text(),
        kind=KEY_IMPORTED,
        actor=ACTOR,
        at=system_clock(),
    )
    guest = workload_of_today()
    with ThreadPoolExecutor(2) as threads:
        replicas = list(threads.map(ServedProcess.start, [config] * 2))
        try:
            assert replicas[0].identity == replicas[1].identity
            for _ in range(3):
                document = guest.request(replicas[0].challenge(), "model").to_json()
                sent = [threads.submit(replica.post, "/v1/releases", document) for replica in replicas]
                both = [one.result() for one in sent]
                assert sorted(status for status, _ in filter(None, both)) == [200, 409]
            # Killed in the middle of answering: the other one answers, and never a second time for one challenge.
            document = guest.request(replicas[1].challenge(), "model").to_json()
            answer = threads.submit(replicas[0].post, "/v1/releases", document)
            replicas[0].kill()
            first, second = answer.result(), replicas[1].post("/v1/releases", document)
            assert second is not None
            assert second[0] in ({409} if first is not None and first[0] == 200 else {200, 409})
        finally:
            for replica in replicas:
                if replica.process.poll() is None:
                    assert replica.terminate() == 0
    with vault.store.reading() as tx:
        verify_log(tx.log)
        decided = [entry.document()["nonce_sha256"] for entry in tx.log.entries() if b'"kind":"decision"' in entry.raw]
    assert len(decided) == len(set(decided)) == 4
    vault.store.close()


def workload_of_today() -> Workload:
    """A guest whose certificate is valid on the day of the test."""
    today = system_clock().replace(microsecond=0)
    return Workload(guest=replace(GUEST, chip=replace(CHIP, certified_from=today - timedelta(days=7))))
