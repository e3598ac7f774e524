"""A real service with a key for every kind of machine that the simulator has."""

import itertools
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import get_args

from attest.clock import system_clock
from attest_simulator.machines import MachineKind, SimulatedMachine
from kms.config.settings import Settings, load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.keys import OPAQUE, KeyName
from kms.domain.material import owned_material
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.keys.tenants import create_tenant
from kms.operations.services import initialise, open_vault
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, MATERIAL, FakeRandom

KINDS: tuple[MachineKind, ...] = get_args(MachineKind)
GPUS = (0, 2)
PASSWORD = b"postgres://app:correct-horse@db/prod\xc3\xa9"
PEM = b"-----BEGIN NOTHING-----\n\0\n" * 2000
"""A secret of the larger size class, which no variable can hold."""


def machine(kind: MachineKind, gpus: int = 0) -> SimulatedMachine:
    today = system_clock().replace(microsecond=0)
    return SimulatedMachine.of(kind, gpus=gpus, certified_from=today - timedelta(days=7))


def key_for(kind: MachineKind, gpus: int = 0) -> str:
    return f"{kind}-{gpus}"


def prepared(folder: Path) -> Path:
    """Make a service's directory, with what every vendor says."""
    config = prepare_directory(folder / "svc", origin="kms.test/session", allow_simulated=True)
    with config.open("a", encoding="utf-8") as file:
        file.write('endorsements = ["endorsements"]\nself_evidence = "simulated-snp"\n')
    settings: Settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=FakeRandom("session"))
    endorsements = config.parent / "endorsements"
    endorsements.mkdir()
    policies: dict[str, bytes] = {}
    for kind, gpus in itertools.product(KINDS, GPUS):
        made = machine(kind, gpus)
        policies[key_for(kind, gpus)] = made.policy(name=key_for(kind, gpus))
        for name, content in made.endorsement_files(at=system_clock()).items():
            (endorsements / f"{key_for(kind, gpus)}-{name}").write_bytes(content)
    # Those of docs/sdk.md.
    td = machine("tdx")
    policies |= {"llama-70b": td.policy(), "acme/adapter": td.policy()}
    # Those of examples/ and of docs/cookbook.md.
    policies |= dict.fromkeys(("my-model", "batch-results"), machine("snp").policy())
    _add_secrets(settings, {"database-url": PASSWORD}, td.policy())
    policies |= {"nobody-gets-this": td.with_other_image().policy()}
    _add_keys(settings, policies)
    _add_secrets(settings, {"database": PASSWORD, "certificate": PEM}, machine("snp").policy())
    return config


def _add_keys(settings: Settings, policies: Mapping[str, bytes]) -> None:
    vault = open_vault(settings, random=FakeRandom("wrap"))
    create_tenant(vault.store, "acme", actor=ACTOR, at=system_clock())
    for name, policy in policies.items():
        add_key(
            vault.store,
            vault.kek,
            name=KeyName.parse(name),
            material=SecretBytes(MATERIAL),
            policy=policy,
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=system_clock(),
        )
    vault.store.close()


def _add_secrets(settings: Settings, secrets: Mapping[str, bytes], policy: bytes) -> None:
    vault = open_vault(settings, random=FakeRandom(f"wrap {sorted(secrets)}"))
    for name, secret in secrets.items():
        add_key(
            vault.store,
            vault.kek,
            name=KeyName.parse(name),
            material=owned_material(SecretBytes(secret), algorithm=OPAQUE),
            policy=policy,
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=system_clock(),
            algorithm=OPAQUE,
        )
    vault.store.close()


def url_of(process: ServedProcess) -> str:
    return f"http://127.0.0.1:{process.port}"
