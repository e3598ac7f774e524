"""A service that is killed at any moment forgets no key, breaks no log and releases nothing twice."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from attest.clock import system_clock
from attest.encoding import JsonValue
from attest.release import KeyName, Release, ReleaseRequest, VerifierKey
from attest.release.receipts import read_receipt
from attest.release.tlog import Checkpoint, LogProof, verify_logged
from attest_simulator import simulated_crl
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.log_verification import LogState, verify_log
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.operations.services import initialise, open_vault
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, CHIP, FakeRandom, Workload, open_sealed, policy_text

pytestmark = pytest.mark.loopback

LANES = 4
"""Services side by side, each on a database of its own; most of the time goes into starting them."""
REQUESTS = 3
MATERIALS = {name: sha256(name.encode()).digest() for name in "ab"}
ANSWER_SECONDS = 0.06
"""A release takes 10 to 40 ms here; the killing happens somewhere in or just after it."""


def workload() -> Workload:
    """A guest whose certificate is valid on the day of the test."""
    made = Workload()
    today = system_clock().replace(microsecond=0)
    return replace(made, guest=replace(made.guest, chip=replace(CHIP, certified_from=today - timedelta(days=7))))


@dataclass
class Lane:
    """One database and everything that was sent to it."""

    folder: Path
    seed: int
    cold: bool = False
    """Start each service with an interpreter of its own."""
    guarded: bool = False
    """Keep a rollback guard. A start then refuses challenges from before it; here the database alone has to."""
    guest: Workload = field(default_factory=workload)
    counts: Counter[str] = field(default_factory=Counter)
    decisions: set[str] = field(default_factory=set)
    checkpoints: list[Checkpoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.config = prepare_directory(self.folder, origin="kms.test/kill", allow_simulated=True)
        (self.folder / "endorsements").mkdir()
        (self.folder / "endorsements" / "crl.der").write_bytes(simulated_crl(CHIP.product, at=system_clock()))
        with self.config.open("a", encoding="utf-8") as file:
            file.write(f'endorsements = ["endorsements"]\nallow_no_rollback_guard = {str(not self.guarded).lower()}\n')
        self.settings = load_settings(flags={}, environ={}, config=self.config).settings
        self.identity = initialise(self.settings, clock=system_clock, random=FakeRandom(f"lane {self.seed}")).text
        vault = open_vault(self.settings, random=FakeRandom(f"wrap {self.seed}"))
        for key_id, material in MATERIALS.items():
            add_key(
                vault.store,
                vault.kek,
                name=KeyName(key_id=key_id),
                material=SecretBytes(material),
                policy=policy_text(name=f"policy-{key_id}"),
                kind=KEY_IMPORTED,
                actor=ACTOR,
                at=system_clock(),
            )
        vault.store.close()

    def run(self, kills: int) -> None:
        """Live and be killed that often, and then once more in peace."""
        outstanding: list[tuple[ReleaseRequest, int]] = []
        for _ in range(kills):
            service = ServedProcess.start(self.config, cold=self.cold)
            try:
                self._settle(service, outstanding)
                outstanding = self._killed_at_work(service)
            finally:
                service.kill()
        service = ServedProcess.start(self.config, cold=self.cold)
        try:
            assert service.identity == self.identity
            self._settle(service, outstanding)
            self._both_keys(service)
        finally:
            assert service.terminate() == 0
        self._check_log()

    def _killed_at_work(self, service: ServedProcess) -> list[tuple[ReleaseRequest, int]]:
        """Send requests together, the first one twice, and kill the service somewhere on the way."""
        challenges = [service.challenge() for _ in range(REQUESTS)]
        requests = [self.guest.request(challenge, "a", "b") for challenge in challenges]
        documents = [request.to_json() for request in (requests[0], *requests)]
        start = threading.Barrier(len(documents) + 1)

        def send(index: int) -> int:
            start.wait()
            answer = service.post("/v1/releases", documents[index])
            return self._counted(requests[max(0, index - 1)], answer)

        with ThreadPoolExecutor(len(documents)) as pool:
            sent = [pool.submit(send, index) for index in range(len(documents))]
            start.wait()
            time.sleep(self.random.uniform(0, ANSWER_SECONDS))
            self._kill(service)
            released = [future.result() for future in sent]
        self.counts["kills"] += 1
        self.counts["answered"] += sum(released)
        assert released[0] + released[1] <= 1, "one challenge released twice"
        return [(requests[0], released[0] + released[1]), *zip(requests[1:], released[2:], strict=True)]

    def _kill(self, service: ServedProcess) -> None:
        service.kill()

    def _settle(self, service: ServedProcess, outstanding: list[tuple[ReleaseRequest, int]]) -> None:
        """Send everything again: what was answered is not answered again, and nothing is answered twice."""
        for request, before in outstanding:
            first = self._counted(request, service.post("/v1/releases", request.to_json()), must_answer=True)
            second = self._counted(request, service.post("/v1/releases", request.to_json()), must_answer=True)
            assert before + first + second <= 1, "one challenge released twice"
            if not before:
                self.counts["lost after the commit" if not first else "killed before the commit"] += 1
            assert not second

    def _counted(
        self,
        request: ReleaseRequest,
        answer: tuple[int, dict[str, JsonValue]] | None,
        *,
        must_answer: bool = False,
    ) -> int:
        """Return 1 for a release, which must open and must be in the log, and 0 for a refusal or no answer."""
        if answer is None:
            assert not must_answer
            return 0
        status, document = answer
        if status != 200:
            assert (status, document["code"]) == (409, "challenge-used"), document
            return 0
        release = Release.from_json(document)
        service = VerifierKey.parse(self.identity)
        assert open_sealed(self.guest, request, release, service) == MATERIALS
        proof = LogProof.parse(release.proof)
        self.checkpoints.append(verify_logged(release.entry, proof, log=service))
        self.decisions.add(str(read_receipt(service.verify(release.receipt))["decision"]))
        return 1

    def _both_keys(self, service: ServedProcess) -> None:
        request = self.guest.request(service.challenge(), "a", "b")
        assert self._counted(request, service.post("/v1/releases", request.to_json()), must_answer=True) == 1

    def _check_log(self) -> None:
        vault = open_vault(self.settings, random=FakeRandom())
        with vault.store.reading() as tx:
            verify_log(tx.log, noted=[LogState(size=one.size, root=one.root) for one in self.checkpoints])
            entries = [(entry.document(), entry.leaf_hash.hex()) for entry in tx.log.entries()]
        vault.store.close()
        allowed = [str(document["nonce_sha256"]) for document, _ in entries if document.get("outcome") == "allow"]
        assert len(set(allowed)) == len(allowed), "one challenge allowed twice"
        assert self.decisions <= {digest for _, digest in entries}, "an answer without its entry"
        self.counts["allowed"] += len(allowed)


class WorkerLane(Lane):
    """One service of two workers, of which one is killed each time and the other goes on."""

    def run(self, kills: int) -> None:
        service = ServedProcess.start(self.config, "--workers", "2", cold=True)
        try:
            for _ in range(kills):
                self._settle(service, self._killed_at_work(service))
            self._both_keys(service)
        finally:
            assert service.terminate() == 0
        self._check_log()

    def _kill(self, service: ServedProcess) -> None:
        os.kill(self.random.choice(service.workers), signal.SIGKILL)


def kill_often(tmp_path: Path, kills: int, *, cold: bool = False) -> Iterator[Lane]:
    lanes = [Lane(folder=tmp_path / f"lane{number}", seed=number, cold=cold) for number in range(LANES)]
    with ThreadPoolExecutor(LANES) as pool:
        for future in [pool.submit(lane.run, kills // LANES) for lane in lanes]:
            future.result()
    yield from lanes


def total(lanes: Iterator[Lane]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for lane in lanes:
        counts += lane.counts
    print(f"kill test: {dict(counts)}")  # noqa: T201  shown with -s, and when it fails
    return counts


def test_mc_24_a_service_killed_40_times_releases_nothing_twice_and_forgets_nothing(tmp_path: Path) -> None:
    counts = total(kill_often(tmp_path, 40))
    assert counts["kills"] == 40


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mc_24_a_service_killed_300_times_releases_nothing_twice_and_forgets_nothing(tmp_path: Path) -> None:
    counts = total(kill_often(tmp_path, 300, cold=True))
    assert counts["kills"] == 300
    # The kills were spread well: some before the commit, some between the commit and the answer, some after it.
    assert counts["killed before the commit"] > 0
    assert counts["lost after the commit"] > 0
    assert counts["answered"] > 0


@pytest.mark.slow
def test_mc_24_a_worker_killed_10_times_loses_nothing_and_the_service_goes_on(tmp_path: Path) -> None:
    lane = WorkerLane(folder=tmp_path / "svc", seed=7, guarded=True)
    lane.run(10)
    assert lane.counts["kills"] == 10
