"""The whole path of secure key release with this project's parts: guest, Verifier with MAA's claims, vault, client."""

import json
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509

from attest.clock import system_clock
from attest.errors import PolicyNotMetError, ReleaseRefusedError
from attest.evidence.snp.tcb import SnpProduct
from attest.policy.foreign.skr import parse_skr
from attest.results import read_public_keys
from attest.session.connection import open_client
from attest.skr import SkrClient
from attest.skr.guest import MachineSkrGuest
from attest_simulator import SimulatedGuest, simulated_crl
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.operations.services import initialise
from tests.collect.fake_machine import snp_guest, snp_machine
from tests.compat.conftest import Step
from tests.compat.skr.conftest import NAMES, Vault
from tests.kms.process import ServedProcess
from tests.kms.skr.vault import POLICY, SNP, b64url, write_certificates, write_vault

pytestmark = pytest.mark.loopback
CLIENT = "attest.skr"
GUEST = snp_guest()
RESOLVED = socket.getaddrinfo
NO_RATES = "client_requests_per_second = 0\nidentity_requests_per_second = 0\n"
TLS = 'tls_certificate_file = "vault.crt"\ntls_key_file = "vault.key"\n'
MACHINES = f"""
schema: attest.policy/1
name: machines
version: 1
simulated: {{unchecked: a test on the simulator}}
reference_values:
  image: {{values: ["{GUEST.measurement.hex()}"], origin: the simulator}}
snp:
  products: [Genoa]
  measurement: [image]
  minimum_tcb: {{Genoa: {{bootloader: 9, tee: 0, snp: 26, microcode: 80}}}}
"""


@pytest.fixture(autouse=True)
def _names_of_the_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve names below localhost, as a hosts file would."""

    def resolved(host: str, *arguments: object, **named: object) -> object:
        return RESOLVED("127.0.0.1" if host.endswith("localhost") else host, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


@contextmanager
def served(folder: Path, port: int, settings: str) -> Iterator[None]:
    """Serve over TLS what files in a folder state."""
    with (folder / "kms.toml").open("a", encoding="utf-8") as file:
        file.write(settings + TLS + NO_RATES)
    config = folder / "kms.toml"
    initialise(
        load_settings(flags={}, environ={}, config=config).settings, clock=system_clock, random=secrets.token_bytes
    )
    service = ServedProcess.start(config, "--port", str(port))
    yield
    assert service.terminate() == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a Verifier of simulated machines, and give its address."""
    folder, port, at = tmp_path_factory.mktemp("verifier") / "service", free_port(), system_clock()
    prepare_directory(folder, origin="kms.test/verifier", allow_simulated=True)
    address = f"https://localhost:{port}"
    write_certificates(folder, at=at, names=NAMES)
    (folder / "machines.yaml").write_text(MACHINES, encoding="utf-8")
    members = {"issuer": address, "key": "vault.key", "certificates": "vault.crt", "policy": "machines.yaml"}
    (folder / "maa.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in members.items()))
    (folder / "endorsements").mkdir()
    (folder / "endorsements/crl.der").write_bytes(simulated_crl(SnpProduct.GENOA, at=at))
    with served(folder, port, 'maa_file = "maa.toml"\nendorsements = ["endorsements"]\n'):
        yield address


def keys_of(verifier: str, ca: Path) -> bytes:
    with open_client(verifier, tls_ca=ca) as http:
        return http.get("/certs").content


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, verifier: str) -> Iterator[Vault]:
    """Serve a vault that takes the word of that Verifier."""
    folder, port = tmp_path_factory.mktemp("vault") / "service", free_port()
    prepare_directory(folder, origin="kms.test/vault", allow_simulated=True)
    policy = {
        **POLICY,
        "verifiers": [{"issuer": verifier}],
        "reference_values": {"image": {"values": [GUEST.measurement.hex()], "origin": "the simulator"}},
        "simulated": {"unchecked": "a test on the simulator"},
        "snp": {**SNP, "minimum_tcb": {"Genoa": {"bootloader": 9, "tee": 0, "snp": 26, "microcode": 80}}},
    }
    write_vault(
        folder,
        at=system_clock(),
        host=f"v1.localhost:{port}",
        names=NAMES,
        policy=policy,
        more=f'[[authorities]]\nurl = "{verifier}"\nkeys = "verifier.jwks.json"\n',
    )
    (folder / "verifier.jwks.json").write_bytes(keys_of(verifier, folder / "ca.pem"))
    with served(folder, port, 'skr_file = "skr.toml"\n'):
        yield Vault(folder, port)


def release_policy(verifier: str, measurement: bytes = GUEST.measurement) -> bytes:
    conditions = [
        {"claim": "x-ms-attestation-type", "equals": "sevsnpvm"},
        {"claim": "x-ms-sevsnpvm-launchmeasurement", "equals": measurement.hex()},
        {"claim": "x-ms-sevsnpvm-is-debuggable", "equals": "false"},
    ]
    return json.dumps({"version": "1.0.0", "anyOf": [{"authority": verifier, "allOf": conditions}]}).encode()


def made(vault: Vault, name: str, kty: str, policy: bytes) -> str:
    body = {"kty": kty, "attributes": {"exportable": True}, "release_policy": {"data": b64url(policy)}}
    with open_client(vault.url, tls_ca=vault.ca) as http:
        headers = {"Authorization": f"Bearer {vault.bearer()}"}
        answer = http.post(f"/keys/{name}/create?api-version=7.4", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["key"]["kid"])


def client(vault: Vault, verifier: str, folder: Path, policy: bytes, *, guest: SimulatedGuest = GUEST) -> SkrClient:
    return SkrClient(
        verifier,
        roots=(x509.load_pem_x509_certificate(vault.ca.read_bytes()),),
        bearer=lambda: vault.bearer(appid="workload-1"),
        guest=MachineSkrGuest.of(snp_machine(folder, guest).access),
        verifier_keys=read_public_keys(keys_of(verifier, vault.ca)),
        policy=parse_skr(policy),
        tls_ca=vault.ca,
    )


@pytest.mark.parametrize("kty", ["RSA-HSM", "EC-HSM", "oct-HSM"])
def test_a_conforming_machine_gets_the_key(vault: Vault, verifier: str, tmp_path: Path, step: Step, kty: str) -> None:
    step(CLIENT, f"machine, our Verifier with MAA's claims, our vault: {kty}")
    policy = release_policy(verifier)
    name = f"whole-{kty.partition('-')[0]}"
    kid = made(vault, name, kty, policy)
    with client(vault, verifier, tmp_path, policy) as skr:
        first, again = skr.release(f"{vault.url}/keys/{name}"), skr.release(kid)
        assert str(first.address.version) in kid
        assert bytes(first.export()) == bytes(again.export())


def test_a_release_policy_about_another_image_refuses_the_machine(
    vault: Vault, verifier: str, tmp_path: Path, step: Step
) -> None:
    step(CLIENT, "another image in the release policy: 403 of the vault")
    policy = release_policy(verifier, bytes(48))
    kid = made(vault, "other-image", "oct-HSM", policy)
    with client(vault, verifier, tmp_path, policy) as skr, pytest.raises(PolicyNotMetError) as caught:
        skr.release(kid)
    assert "release-policy" in caught.value.message


def test_a_machine_that_runs_another_image_gets_no_token(
    vault: Vault, verifier: str, tmp_path: Path, step: Step
) -> None:
    step(CLIENT, "another image in the machine: 403 of the Verifier")
    policy = release_policy(verifier)
    kid = made(vault, "other-machine", "oct-HSM", policy)
    other = SimulatedGuest(chip=GUEST.chip, measurement=bytes(48))
    with client(vault, verifier, tmp_path, policy, guest=other) as skr, pytest.raises(ReleaseRefusedError) as caught:
        skr.release(kid)
    assert (caught.value.code, "policy.snp.measurement" in caught.value.message) == ("maa-refused", True)
