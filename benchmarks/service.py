"""A key-release service on the simulator, and a machine with one CPU and one GPU that requests a key.

The clock is the machine's. The caller places the database on a disk, where a commit waits, or in memory, so
that computing alone is measured.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from attest import Binding, EvidenceItem
from attest.clock import system_clock
from attest.encoding import JsonValue, json_value
from attest.evidence.envelope import MEDIA_SNP_EXTENDED
from attest.evidence.snp.tcb import SnpProduct
from attest.release import CONTEXT, Challenge, ReleaseRequest, WorkloadKey
from attest.release.wire import ROLE
from attest_simulator import SimulatedChip, SimulatedGuest, simulated_crl
from attest_simulator.nvidia import SimulatedBoard, bound_evidence
from benchmarks.intel import remembering_tables
from benchmarks.signing import verifications
from kms.config.settings import Settings, load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.actors import local_actor
from kms.domain.keys import DEFAULT_TENANT, KeyName
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.operations.services import initialise, open_services, open_vault
from kms.release.service import ReleaseService
from kms.release.services import Services

__all__ = ["KEY_ID", "BenchedService", "Machine", "benched_service", "every_signature", "forgetting"]

KEY_ID = "model"
_PRODUCT = SnpProduct.GENOA
_CHALLENGE_SECONDS = 3600
"""Evidence is made before the clock runs; challenges have to last until it is sent."""
_MEMORY = Path("/dev/shm")
"""Folder in memory on Linux; without it a temporary folder is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A confidential VM with a GPU.

    Attributes:
        guest: its CPU's side.
        board: its GPU.
        key: recipient of released keys, ML-KEM-768 with X25519.
    """

    guest: SimulatedGuest
    board: SimulatedBoard
    key: WorkloadKey

    @staticmethod
    def of(label: str, *, at: datetime) -> Machine:
        """Return a machine of this name, whose chip was certified a week ago."""
        chip = SimulatedChip.of(_PRODUCT, name=label)
        guest = SimulatedGuest(chip=replace(chip, certified_from=at.replace(microsecond=0) - timedelta(days=7)))
        return Machine(guest=guest, board=SimulatedBoard.of(label, gpus=1, switches=0), key=WorkloadKey.generate())

    def request(self, challenge: Challenge) -> ReleaseRequest:
        """Collect evidence under a challenge, and ask for the key."""
        binding = Binding(
            context=CONTEXT,
            role=ROLE,
            audience=challenge.audience,
            nonce=challenge.nonce,
            key=self.key.public,
        )
        evidence = bound_evidence(binding, self.board.devices, self._cpu)
        return ReleaseRequest(challenge=challenge.token, evidence=evidence, key_ids=(KEY_ID,))

    def _cpu(self, report_data: bytes) -> tuple[EvidenceItem, ...]:
        value = self.guest.extended_report(report_data)
        return (EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=value),)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchedService:
    """One service, opened in this process too.

    Attributes:
        config: its settings file.
        services: opened from it.
        releases: its releases.
        machines: for which its endorsements suffice.
    """

    config: Path
    services: Services
    releases: ReleaseService
    machines: tuple[Machine, ...]

    def body(self, machine: Machine | None = None) -> bytes:
        """Return the body of a request that was not sent yet, of the first machine or of another one."""
        request = (machine or self.machines[0]).request(self.releases.challenge())
        return json.dumps(request.to_json()).encode()

    def answer(self, body: bytes) -> bytes:
        """Release from end to end: a request's bytes in, the answer's bytes out."""
        request = ReleaseRequest.from_json(json_value(body, what="request body"))
        answer: JsonValue = self.releases.release(request).to_json()
        return json.dumps(answer).encode()


def forgetting() -> Callable[[], None]:
    """Return what lets verification forget all that it remembers."""
    tables = remembering_tables()

    def forget() -> None:
        for clear in tables:
            clear()

    return forget


def every_signature(service: BenchedService) -> Counter[str]:
    """Return the signatures that a release verifies when no result is cached."""
    service.answer(service.body())
    body = service.body()
    forgetting()()
    return verifications(lambda: service.answer(body))


@contextmanager
def benched_service(*, machines: int = 1, in_memory: bool = False) -> Iterator[BenchedService]:
    """Make a service with one key and this many machines."""
    memory = _MEMORY if in_memory and _MEMORY.is_dir() else None
    with TemporaryDirectory(prefix="kms-bench-", dir=memory) as made:
        folder, at = Path(made) / "service", system_clock()
        config = prepare_directory(folder, origin="kms.bench/service", allow_simulated=True)
        known = tuple(Machine.of(f"machine {number}", at=at) for number in range(machines))
        _write_endorsements(folder / "endorsements", known, at)
        with config.open("a", encoding="utf-8") as file:
            file.write(f'endorsements = ["endorsements"]\nchallenge_seconds = {_CHALLENGE_SECONDS}\n')
        settings = load_settings(flags={}, environ={}, config=config).settings
        initialise(settings, clock=system_clock, random=secrets.token_bytes)
        _add_key(settings, known[0].guest.measurement)
        services = open_services(settings, clock=system_clock, random=secrets.token_bytes)
        try:
            releases = ReleaseService(services)
            yield BenchedService(config=config, services=services, releases=releases, machines=known)
        finally:
            services.store.close()


def _write_endorsements(folder: Path, machines: tuple[Machine, ...], at: datetime) -> None:
    folder.mkdir()
    (folder / "crl.der").write_bytes(simulated_crl(_PRODUCT, at=at))
    for number, machine in enumerate(machines):
        found = machine.board.endorsements(at=at)
        for place, answer in enumerate(found.ocsp):
            (folder / f"status-{number}-{place}.der").write_bytes(answer.der)
        for place, rim in enumerate(found.rims):
            (folder / f"rim-{place}.xml").write_bytes(rim.xml)


def _add_key(settings: Settings, measurement: bytes) -> None:
    vault = open_vault(settings, random=secrets.token_bytes)
    try:
        add_key(
            vault.store,
            vault.kek,
            name=KeyName(tenant=DEFAULT_TENANT, key_id=KEY_ID),
            material=SecretBytes(secrets.token_bytes(32)),
            policy=_policy(measurement),
            kind=KEY_IMPORTED,
            actor=local_actor(),
            at=system_clock(),
        )
    finally:
        vault.store.close()


def _policy(measurement: bytes) -> bytes:
    document = {
        "schema": "attest.policy/1",
        "name": "benchmark",
        "version": 1,
        "simulated": {"unchecked": "a benchmark"},
        "reference_values": {"image": {"values": [measurement.hex()], "origin": "the simulator"}},
        "snp": {
            "products": [str(_PRODUCT)],
            "measurement": ["image"],
            "minimum_tcb": {str(_PRODUCT): {"bootloader": 9, "tee": 0, "snp": 26, "microcode": 80}},
        },
        "gpu": {
            "architectures": ["hopper"],
            "driver_versions": {"at_least": "570.86"},
            "vbios_versions": {"at_least": "96.00.5E.00.01", "below": "97"},
        },
        "devices": {"gpus": 1},
    }
    return json.dumps(document).encode()
