"""The running service that the client is tried against, over TLS, with a resource for each kind of guest."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import jwt
import pytest

from attest.clock import system_clock
from attest.encoding import base64url_text
from attest.session import trusting
from attest_simulator.machines import MachineKind, SimulatedMachine
from kms.config.settings import Settings, load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.aliases import Alias
from kms.domain.keys import Disclosure, KeyName
from kms.domain.secret import SecretBytes
from kms.domain.wires import Wire
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.keys.aliases import add_alias
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.operations.services import initialise, open_vault
from tests.kms.kbs.face import ADMINISTRATOR, write_rules
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, MATERIAL
from tests.kms.tls import authority, issued
from tests.session.serving import key_for, machine

MACHINES: tuple[tuple[MachineKind, int], ...] = (("snp", 0), ("snp", 2), ("tdx", 0), ("azure-snp", 0), ("azure-tdx", 0))
ALLOW_ALL = 'package policy\ndefault allow = false\nallow if data.plugin == "resource"\n'


@dataclass
class KbsService:
    """A service that speaks the protocol, and what it holds."""

    url: str
    ca: Path
    sample: str = "kbs:///default/sample/value"
    content: bytes = field(default_factory=lambda: secrets.token_bytes(1000))

    def address_of(self, kind: MachineKind, gpus: int = 0) -> str:
        """Return the address of the key whose policy such a machine meets."""
        return f"kbs:///default/model-key/{key_for(kind, gpus)}"

    def administer(self, path: str, body: bytes) -> None:
        """Send a request of an administrator."""
        token = jwt.encode({"exp": int(system_clock().timestamp()) + 600, "role": "admin"}, ADMINISTRATOR, "EdDSA")
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.post(f"{self.url}/kbs/v0/{path}", content=body, headers=headers, verify=trusting(self.ca))
        assert answer.status_code == 200, answer.text

    def resource_policy(self, text: str) -> None:
        """Put a resource policy into force."""
        self.administer("resource-policy", json.dumps({"policy": base64url_text(text.encode())}).encode())


def _without_driver(policy: bytes) -> bytes:
    """Return a policy that does not ask for what a GPU's driver states: guests of this protocol do not send it."""
    document = json.loads(policy)
    if "gpu" in document:
        reason = {"unchecked": "the protocol does not carry what the driver states"}
        document["gpu"] |= dict.fromkeys(("environment", "cc_mode", "dev_tools_mode"), reason)
    return json.dumps(document).encode()


def _add_keys(settings: Settings, policies: dict[str, bytes]) -> None:
    vault = open_vault(settings, random=secrets.token_bytes)
    for name, policy in policies.items():
        key = KeyName.parse(name)
        add_key(
            vault.store,
            vault.kek,
            name=key,
            material=SecretBytes(MATERIAL),
            policy=policy,
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=system_clock(),
        )
        alias = Alias(address=f"kbs:///default/model-key/{name}", key=key)
        add_alias(vault.store, alias, actor=ACTOR, at=system_clock())
        then = ReleaseSettings(disclosure=Disclosure.CHECKS, lease_seconds=None, via=frozenset(Wire))
        set_release_settings(vault.store, key, then, actor=ACTOR, at=system_clock())
    vault.store.close()


@pytest.fixture(scope="session")
def kbs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KbsService]:
    """Serve the protocol over TLS, with keys for simulated machines and an uploaded value."""
    folder = tmp_path_factory.mktemp("kbs") / "service"
    config = prepare_directory(folder, origin="kms.test/kbs", allow_simulated=True)
    write_rules(folder)
    endorsements = folder / "endorsements"
    endorsements.mkdir()
    policies: dict[str, bytes] = {}
    for kind, gpus in MACHINES:
        made: SimulatedMachine = machine(kind, gpus)
        policies[key_for(kind, gpus)] = _without_driver(made.policy(name=key_for(kind, gpus)))
        for name, content in made.endorsement_files(at=system_clock()).items():
            (endorsements / f"{key_for(kind, gpus)}-{name}").write_bytes(content)
    ca = authority(folder)
    served = issued(ca)
    with config.open("a", encoding="utf-8") as file:
        file.write('kbs_file = "kbs.toml"\nendorsements = ["endorsements"]\nclient_requests_per_second = 0\n')
        file.write(f'tls_certificate_file = "{served.certificate}"\ntls_key_file = "{served.key}"\n')
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=secrets.token_bytes)
    _add_keys(settings, policies)
    process = ServedProcess.start(config)
    service = KbsService(url=f"https://127.0.0.1:{process.port}", ca=ca / "ca.pem")
    service.administer(f"resource/{service.sample.removeprefix('kbs:///')}", service.content)
    service.resource_policy(ALLOW_ALL)
    yield service
    assert process.terminate() == 0
