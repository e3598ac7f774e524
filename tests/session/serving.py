"""A real service with a key for every kind of machine that the simulator has."""

import itertools
import json
from datetime import timedelta
from pathlib import Path
from typing import get_args

from attest.simulator.machines import MachineKind, SimulatedMachine
from kms.clock import system_clock
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.keys.records import KeyName
from kms.keys.secret import SecretBytes
from kms.services import initialise, open_vault
from kms.settings import Settings, load_settings
from kms.setup import prepare_directory
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, MATERIAL, FakeRandom

KINDS: tuple[MachineKind, ...] = get_args(MachineKind)
GPUS = (0, 2)


def machine(kind: MachineKind, gpus: int = 0) -> SimulatedMachine:
    today = system_clock().replace(microsecond=0)
    return SimulatedMachine.of(kind, gpus=gpus, certified_from=today - timedelta(days=7))


def key_for(kind: MachineKind, gpus: int = 0) -> str:
    return f"{kind}-{gpus}"


def prepared(folder: Path, **more: str) -> Path:
    """Make a service's directory, with what every vendor says."""
    config = prepare_directory(folder / "svc", origin="kms.test/session", allow_simulated=True)
    with config.open("a", encoding="utf-8") as file:
        file.write('endorsements = ["endorsements"]\n')
        file.writelines(f"{name} = {value}\n" for name, value in more.items())
    settings: Settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=FakeRandom("session"))
    endorsements = config.parent / "endorsements"
    endorsements.mkdir()
    vault = open_vault(settings, random=FakeRandom("wrap"))
    for kind, gpus in itertools.product(KINDS, GPUS):
        made = machine(kind, gpus)
        for name, content in made.endorsement_files(at=system_clock()).items():
            (endorsements / f"{key_for(kind, gpus)}-{name}").write_bytes(content)
        add_key(
            vault.store,
            vault.kek,
            name=KeyName.parse(key_for(kind, gpus)),
            material=SecretBytes(MATERIAL),
            policy=made.policy(name=key_for(kind, gpus)),
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=system_clock(),
        )
    vault.store.close()
    return config


def url_of(process: ServedProcess) -> str:
    return f"http://127.0.0.1:{process.port}"


def document(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found
