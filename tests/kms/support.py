"""A service in memory of time, and workloads that come to it."""

import itertools
import re
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256, shake_256
from pathlib import Path

from sqlalchemy import create_engine

from attest import Binding, Evidence, EvidenceItem
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE, MEDIA_SNP_EXTENDED
from attest.evidence.snp.tcb import SnpProduct
from attest.release import CONTEXT, Challenge, KeyName, Release, ReleaseRequest, VerifierKey, WorkloadKey, release_info
from attest.release.receipts import read_receipt
from attest.release.wire import ROLE
from attest_simulator import SimulatedChip, SimulatedGuest, simulated_crl
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from kms.config.settings import Settings
from kms.domain.actors import Actor, Means
from kms.domain.leases import Lease, LeaseFilter
from kms.domain.references import StoredDocument
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.operations.services import initialise, open_services
from kms.release.service import ReleaseService
from kms.release.services import Services
from kms.store import ReadTransaction, locate

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
ORIGIN = "kms.test/unit"
MATERIAL = shake_256(b"the material of a test's key").digest(32)
"""Looked for in all that tests leave behind, see ``tests.kms.leaks``; nothing else has these bytes."""
ACTOR = Actor(name="tester", means=Means.LOCAL)
MODEL = KeyName(key_id="model")
CHIP = SimulatedChip.of(SnpProduct.GENOA)
GUEST = SimulatedGuest(chip=CHIP)
POLICY = """
schema: attest.policy/1
name: {name}
version: 1
simulated: {{unchecked: "a test on the simulator"}}
reference_values:
  good:
    values: ["{measurement}"]
    origin: the simulator
snp:
  products: [Genoa]
  measurement: [good]
  minimum_tcb:
    Genoa: {{bootloader: 9, tee: 0, snp: 26, microcode: 80}}
{more}
"""


def policy_text(*, name: str = "unit", measurement: bytes = GUEST.measurement, more: str = "") -> bytes:
    return POLICY.format(name=name, measurement=measurement.hex(), more=more).encode()


TD = SimulatedTd(platform=SimulatedPlatform.of())
TDX_POLICY = """
schema: attest.policy/1
name: {name}
version: 1
simulated: {{unchecked: "a test on the simulator"}}
reference_values:
  good:
    values: ["{mr_td}"]
    origin: the simulator
tdx:
  mr_td: [good]
  rtmr1: {{unchecked: "these tests are about other demands"}}
{more}
"""


def tdx_policy_text(*, name: str = "unit-tdx", mr_td: bytes = TD.mr_td, more: str = "") -> bytes:
    return TDX_POLICY.format(name=name, mr_td=mr_td.hex(), more=more).encode()


@dataclass
class FakeClock:
    at: datetime = AT

    def __call__(self) -> datetime:
        return self.at

    def forward(self, **amount: float) -> None:
        self.at += timedelta(**amount)


class FakeRandom:
    """Bytes that differ on every call and are the same on every run."""

    def __init__(self, seed: str = "random", *, calls: int = 0) -> None:
        self._seed = seed
        self._numbers = itertools.count(calls)
        self.calls = calls

    def __call__(self, size: int) -> bytes:
        number = next(self._numbers)
        self.calls = number + 1
        return shake_256(f"{self._seed} {number}".encode()).digest(size)


def settings_for(folder: Path, **changes: object) -> Settings:
    values: dict[str, object] = {
        "database": str(folder / "kms.db"),
        "kek_file": folder / "kek",
        "origin": ORIGIN,
        "endorsements": (folder / "endorsements",),
        "allow_simulated": True,
        "port": 0,
        "client_requests_per_second": 0,
        "identity_requests_per_second": 0,
        "chip_releases_per_minute": 0,
    }
    return Settings.model_validate(values | changes)


def write_endorsements(folder: Path, *, at: datetime) -> None:
    directory = folder / "endorsements"
    directory.mkdir(exist_ok=True)
    (directory / "crl.der").write_bytes(simulated_crl(SnpProduct.GENOA, at=at))


def write_intel_collateral(folder: Path, platform: SimulatedPlatform = TD.platform, *, at: datetime = AT) -> None:
    """Put what Intel says of a platform among the service's endorsements, as operators do."""
    directory = folder / "endorsements"
    directory.mkdir(exist_ok=True)
    (directory / f"{platform.sgx.fmspc.hex()}.json").write_bytes(platform.collateral("tdx", at=at).to_json())


@dataclass(frozen=True)
class Initialised:
    """What the initialisation of a service wrote, to be copied by the tests that are about what comes after it.

    Attributes:
        files: those with a database of SQLite, or all others, by their path.
        seed: of the random bytes.
        calls: how often it asked for some.
    """

    files: dict[Path, bytes]
    seed: str
    calls: int

    @staticmethod
    def make(folder: Path, settings: Settings, *, seed: str = "random") -> "Initialised":
        random = FakeRandom(seed)
        initialise(settings, clock=FakeClock(), random=random)
        files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return Initialised(files=files, seed=seed, calls=random.calls)

    def copy_into(self, folder: Path) -> FakeRandom:
        """Write the files, which are the service's alone, and return the random bytes that come next."""
        for path, content in self.files.items():
            if path.parent != Path():
                (folder / path.parent).mkdir(mode=0o700, exist_ok=True)
            (folder / path).touch(mode=0o600, exist_ok=False)
            (folder / path).write_bytes(content)
        return FakeRandom(self.seed, calls=self.calls)


@cache
def initialised(seed: str) -> Initialised:
    """Initialise one service on SQLite with the usual settings."""
    with tempfile.TemporaryDirectory() as name:
        return Initialised.make(Path(name), settings_for(Path(name)), seed=seed)


@dataclass
class Harness:
    """One service on a database of its own, with its clock."""

    folder: Path
    settings: Settings
    services: Services
    clock: FakeClock
    random: FakeRandom
    releases: ReleaseService = field(init=False)

    def __post_init__(self) -> None:
        self.releases = ReleaseService(self.services)

    @staticmethod
    def make(folder: Path, *, seed: str = "random", **changes: object) -> "Harness":
        """Initialise a service, or copy one of this seed if the settings are the usual ones."""
        clock = FakeClock()
        settings = settings_for(folder, **changes)
        write_endorsements(folder, at=clock.at)
        random = FakeRandom(seed)
        if changes:
            initialise(settings, clock=clock, random=random)
        else:
            random = initialised(seed).copy_into(folder)
        return Harness.open(settings, folder=folder, clock=clock, random=random)

    @staticmethod
    def open(settings: Settings, *, folder: Path, clock: FakeClock, random: FakeRandom) -> "Harness":
        services = open_services(settings, clock=clock, random=random)
        return Harness(folder=folder, settings=settings, services=services, clock=clock, random=random)

    def reopened(self, **changes: object) -> "Harness":
        """The same database opened once more, perhaps with other settings."""
        settings = settings_for(self.folder, **({"database": self.settings.database} | changes))
        return Harness.open(settings, folder=self.folder, clock=self.clock, random=self.random)

    @property
    def audience(self) -> str:
        return self.services.identity.public.text

    def add_key(
        self,
        key_id: str,
        *,
        material: bytes = MATERIAL,
        policy: bytes | None = None,
        references: tuple[StoredDocument, ...] = (),
    ) -> None:
        add_key(
            self.services.store,
            self.services.kek,
            name=KeyName.parse(key_id),
            material=SecretBytes(material),
            policy=policy_text() if policy is None else policy,
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=self.clock(),
            references=references,
        )

    def entries(self) -> list[dict[str, object]]:
        with self.services.store.reading() as tx:
            return [dict(entry.document()) for entry in tx.log.entries()]

    def decisions(self) -> list[dict[str, object]]:
        return [entry for entry in self.entries() if entry["kind"] == "decision"]

    def alter(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Do to the database what no command does, as somebody with its password could; ``?`` stands for a value."""
        if not self.on_postgres:
            with closing(sqlite3.connect(self.settings.database, timeout=0, isolation_level=None)) as database:
                return list(database.execute(statement, values))
        engine = create_engine(locate(self.settings.database))  # type: ignore[arg-type]  # a URL, as was asked
        try:
            with engine.connect() as connection, connection.begin():
                done = connection.exec_driver_sql(statement.replace("?", "%s"), values)
                return [tuple(row) for row in done] if done.returns_rows else []
        finally:
            engine.dispose()

    def unprotect(self, table: str) -> None:
        """Take the triggers away that keep a table as it is."""
        if self.on_postgres:
            self.alter(f"DROP TRIGGER {table}_append_only ON {table}")
        else:
            for verb in ("update", "delete"):
                self.alter(f"DROP TRIGGER {table}_no_{verb}")

    @property
    def on_postgres(self) -> bool:
        return self.settings.database.startswith("postgresql://")

    def close(self) -> None:
        self.services.store.close()


def live_leases(tx: ReadTransaction, name: KeyName, *, at: datetime) -> tuple[Lease, ...]:
    """The leases of a key that are neither expired nor ended at this moment, the oldest first."""
    return tuple(one.lease for one in tx.leases.pages(LeaseFilter(name=name), at=at))


WORKLOAD_KEY = WorkloadKey.generate()


@dataclass(frozen=True)
class Workload:
    """A simulated guest that wants keys; what is wrong with it is a field."""

    guest: SimulatedGuest = GUEST
    key: WorkloadKey = WORKLOAD_KEY
    context: str = CONTEXT
    role: str = ROLE
    audience: str | None = None
    nonce: bytes | None = None
    public: bytes | None = None

    def attest(self, binding: Binding) -> Evidence:
        """What `attest.release.client` calls an attester."""
        return Evidence(
            items=(
                EvidenceItem(
                    name="cpu",
                    media_type=MEDIA_SNP_EXTENDED,
                    value=self.guest.extended_report(binding.report_data()),
                ),
                EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes()),
            )
        )

    def binding(self, challenge: Challenge) -> Binding:
        return Binding(
            context=self.context,
            role=self.role,
            audience=self.audience or challenge.audience,
            nonce=self.nonce or challenge.nonce,
            key=self.key.public if self.public is None else self.public,
        )

    def request(self, challenge: Challenge, *key_ids: str) -> ReleaseRequest:
        evidence = self.attest(self.binding(challenge))
        return ReleaseRequest(challenge=challenge.token, evidence=evidence, key_ids=key_ids)

    def with_measurement(self, measurement: bytes) -> "Workload":
        return replace(self, guest=replace(self.guest, measurement=measurement))


@dataclass(frozen=True)
class TdWorkload(Workload):
    """A simulated trust domain that wants keys."""

    td: SimulatedTd = TD
    with_log: bool = False

    def attest(self, binding: Binding) -> Evidence:
        quote = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=self.td.quote(binding.report_data()))
        bound = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes())
        log = EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=self.td.event_log())
        return Evidence(items=(quote, bound, log) if self.with_log else (quote, bound))


def open_sealed(
    workload: Workload, request: ReleaseRequest, release: Release, service: VerifierKey
) -> dict[str, bytes]:
    """Open every key of a release, by the receipt's own words."""
    receipt = read_receipt(service.verify(release.receipt))
    return {
        str(key.name): workload.key.open(
            key.sealed,
            info=release_info(
                audience=service.text,
                nonce=bytes.fromhex(str(receipt["nonce"])),
                evidence_digest=request.evidence.digest,
                tenant=key.tenant,
                key_id=key.key_id,
                version=key.version,
                purpose=key.purpose,
                policy_digest=key.policy_digest,
                decision_digest=bytes.fromhex(str(receipt["decision"])),
            ),
        )
        for key in release.keys
    }


def open_release(
    workload: Workload, challenge: Challenge, request: ReleaseRequest, release: Release, harness: Harness
) -> dict[str, bytes]:
    """Open every key of a release of this harness, which must be about this challenge."""
    service = harness.services.identity.public
    assert read_receipt(service.verify(release.receipt))["nonce"] == challenge.nonce.hex()
    return open_sealed(workload, request, release, service)


def nonce_digest(challenge: Challenge) -> str:
    return sha256(challenge.nonce).hexdigest()


def documented_metrics() -> set[str]:
    """Return the names of the metrics in ``docs/monitoring.md``."""
    page = Path(__file__).parents[2] / "docs" / "monitoring.md"
    return set(re.findall(r"`(kms_[a-z_]+)`", page.read_text(encoding="utf-8")))
