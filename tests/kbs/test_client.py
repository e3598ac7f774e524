"""The client against the running service: what guests get, and what each refusal is to a program."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.encoding import JsonValue
from attest.errors import (
    CollectionError,
    ConfigurationError,
    EndorsementError,
    KeyUnknownError,
    PolicyNotMetError,
    ReleaseRefusedError,
    ServiceUnreachableError,
)
from attest.kbs import Guest, KbsClient, MachineGuest, SampleGuest
from attest.results import read_public_keys
from attest.session import trusting
from attest_simulator import SimulatedGuest
from attest_simulator.azure import SimulatedAzureVm
from attest_simulator.intel import SimulatedTd
from attest_simulator.machines import MachineKind
from tests.collect.azure_vm import software_vm
from tests.collect.fake_machine import FakeMachine, plain_machine, snp_machine, tdx_machine, with_gpus
from tests.compat.kbs import client as peer
from tests.kbs.conftest import ALLOW_ALL, KbsService
from tests.kms.support import MATERIAL
from tests.session.serving import machine

pytestmark = pytest.mark.loopback
KINDS = ("p256", "p521", "rsa")


def snp(root: Path, gpus: int = 0) -> FakeMachine:
    made = machine("snp", gpus)
    assert isinstance(made.cpu, SimulatedGuest)
    found = snp_machine(root, made.cpu)
    if gpus:
        found = with_gpus(found, gpus)
        assert made.board is not None
        found.gpus = tuple(made.board.gpus)
    return found


def tdx(root: Path) -> FakeMachine:
    made = machine("tdx")
    assert isinstance(made.cpu, SimulatedTd)
    return tdx_machine(root, made.cpu)


def client(kbs: KbsService, guest: Guest, **more: object) -> KbsClient:
    return KbsClient(kbs.url, guest=guest, tls_ca=kbs.ca, **more)  # type: ignore[arg-type]


@pytest.fixture
def denying(kbs: KbsService) -> Iterator[KbsService]:
    """A service whose resource policy refuses every guest."""
    kbs.resource_policy("package policy\ndefault allow = false\n")
    yield kbs
    kbs.resource_policy(ALLOW_ALL)


# -- what works


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_guest_gets_the_bytes_that_were_uploaded(kbs: KbsService, kind: str) -> None:
    with client(kbs, SampleGuest(), key=kind) as found, found.resource(kbs.sample) as key:
        assert key.export() == kbs.content


def test_a_sample_device_is_additional_evidence(kbs: KbsService) -> None:
    with client(kbs, SampleGuest(with_device=True)) as found, found.resource(kbs.sample) as key:
        assert key.export() == kbs.content


def test_an_snp_guest_gets_its_key(kbs: KbsService, tmp_path: Path) -> None:
    guest = MachineGuest.of(snp(tmp_path).access)
    assert (guest.tee, guest.device_kinds) == ("snp", ())
    with client(kbs, guest) as found:
        assert found.resource(kbs.address_of("snp")).export() == MATERIAL


def test_a_tdx_guest_gets_its_key(kbs: KbsService, tmp_path: Path) -> None:
    guest = MachineGuest.of(tdx(tmp_path).access, tee="tdx")
    with client(kbs, guest) as found:
        assert found.resource(kbs.address_of("tdx")).export() == MATERIAL


def test_gpus_are_additional_evidence_under_the_digest_of_the_devices(kbs: KbsService, tmp_path: Path) -> None:
    guest = MachineGuest.of(snp(tmp_path, gpus=2).access)
    assert guest.device_kinds == ("nvidia",)
    with client(kbs, guest) as found:
        assert found.resource(kbs.address_of("snp", 2)).export() == MATERIAL


@pytest.mark.parametrize(("kind", "tee"), [("azure-snp", "az-snp-vtpm"), ("azure-tdx", "az-tdx-vtpm")])
def test_a_vm_on_azure_gets_its_key(kbs: KbsService, tmp_path: Path, kind: MachineKind, tee: str) -> None:
    made = machine(kind).cpu
    assert isinstance(made, SimulatedAzureVm)
    vm, _, _ = software_vm(tmp_path, made.host)
    vm.boot()
    guest = MachineGuest.of(vm.access)
    assert guest.tee == tee
    with client(kbs, guest) as found:
        assert found.resource(kbs.address_of(kind)).export() == MATERIAL


def test_several_resources_cost_one_handshake(kbs: KbsService, tmp_path: Path) -> None:
    guest = MachineGuest.of(snp(tmp_path).access)
    with client(kbs, guest) as found:
        one, other = (
            found.resources(kbs.address_of("snp"), kbs.address_of("snp"))[0],
            found.resource(kbs.address_of("snp")),
        )
        assert one.export() == other.export() == MATERIAL


def token_of(kbs: KbsService) -> str:
    """Attest with a client that is not this one, and return the service's token."""
    with httpx.Client(base_url=kbs.url, verify=trusting(kbs.ca), timeout=60) as http:
        other = peer.Guest(http)
        assert other.attest().status_code == 200
    assert other.token is not None
    return other.token


def test_the_services_token_is_verified_with_keys_that_the_caller_trusts(kbs: KbsService) -> None:
    header = jwt.get_unverified_header(token_of(kbs))
    known = {"keys": [{**header["jwk"], "kid": header["kid"]}]}
    trusted = read_public_keys(json.dumps(known).encode())
    with client(kbs, SampleGuest(), trusted=trusted) as found:
        assert found.resource(kbs.sample).export() == kbs.content
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    other = read_public_keys(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with client(kbs, SampleGuest(), trusted=other) as found, pytest.raises(EndorsementError) as caught:
        found.resource(kbs.sample)
    assert caught.value.code == "token-key-unknown"


# -- what the service refuses


def test_a_guest_that_does_not_meet_the_policy_is_told_so(kbs: KbsService, tmp_path: Path) -> None:
    made = machine("snp").with_other_image().cpu
    assert isinstance(made, SimulatedGuest)
    guest = MachineGuest.of(snp_machine(tmp_path, made).access)
    with client(kbs, guest) as found, pytest.raises(PolicyNotMetError) as caught:
        found.resource(kbs.address_of("snp"))
    assert (caught.value.code, caught.value.status, caught.value.exit_code) == ("kbs-policy-denied", 403, 1)
    assert "policy-not-met" in caught.value.message


def test_a_resource_policy_that_denies_is_a_policy_that_is_not_met(denying: KbsService) -> None:
    with client(denying, SampleGuest()) as found, pytest.raises(PolicyNotMetError, match=r"\[resource-policy\]"):
        found.resource(denying.sample)


def test_a_missing_resource_is_unknown_with_the_services_words(kbs: KbsService) -> None:
    with client(kbs, SampleGuest()) as found, pytest.raises(KeyUnknownError, match="there is no resource") as caught:
        found.resource("kbs:///default/no/such")
    assert (caught.value.code, caught.value.status) == ("kbs-resource-missing", 404)


def test_of_several_resources_all_come_or_none(kbs: KbsService) -> None:
    with client(kbs, SampleGuest()) as found, pytest.raises(KeyUnknownError):
        found.resources(kbs.sample, "kbs:///default/no/such")


def test_evidence_that_does_not_verify_is_refused_with_the_services_words(kbs: KbsService, tmp_path: Path) -> None:
    class Other(SampleGuest):
        def cpu(self, digest: bytes) -> JsonValue:
            return super().cpu(bytes(len(digest)))

    with client(kbs, Other()) as found, pytest.raises(ReleaseRefusedError, match="report-data-mismatch") as caught:
        found.resource(kbs.sample)
    assert (caught.value.code, caught.value.status) == ("kbs-attestation-refused", 401)


def test_a_server_certificate_of_another_authority_ends_the_call(kbs: KbsService) -> None:
    found = KbsClient(kbs.url, guest=SampleGuest(), timeout=1)
    with found, pytest.raises(ServiceUnreachableError, match="certificate verify failed"):
        found.resource(kbs.sample)


# -- what this machine refuses


def test_a_machine_without_a_tee_is_no_guest_unless_sample_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(CollectionError) as caught:
        MachineGuest.of(plain_machine(tmp_path).access)
    assert caught.value.code == "tee-missing"


def test_a_required_tee_is_the_machines_own_or_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError) as caught:
        MachineGuest.of(snp(tmp_path).access, tee="tdx")
    assert (caught.value.code, caught.value.expected, caught.value.got) == ("tee-differs", "tdx", "snp")


def test_a_machine_whose_tee_is_not_known_is_asked_as_the_required_one(tmp_path: Path) -> None:
    found = snp(tmp_path)
    found.has("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n")
    (tmp_path / "dev/sev-guest").unlink()
    with pytest.raises(CollectionError) as caught:
        MachineGuest.of(found.access)
    assert caught.value.code == "tee-missing"
    assert MachineGuest.of(found.access, tee="snp").tee == "snp"
    with pytest.raises(CollectionError):
        MachineGuest.of(found.access, tee="az-snp-vtpm")


def test_evidence_of_another_tee_than_announced_is_not_sent(tmp_path: Path) -> None:
    guest = replace(MachineGuest.of(snp(tmp_path).access), tee="tdx")
    with pytest.raises(Exception, match="no evidence of tdx"):
        guest.cpu(bytes(48))


@pytest.mark.parametrize(
    "address", ["key", "kbs:///a/b", "kbs:///a/b/c/d", "kbs://host/a/b/c", "kbs:///a/../c", "kbs:///a/b/c?x", ""]
)
def test_what_is_no_address_is_refused_before_any_request(address: str) -> None:
    with KbsClient("https://127.0.0.1:1", guest=SampleGuest()) as found, pytest.raises(ConfigurationError) as caught:
        found.resource(address)
    assert caught.value.code == "kbs-address-invalid"


@pytest.mark.parametrize(
    "url", ["http://kbs.example", "kbs.example", "https://u@kbs.example", "https://kbs.example/?a"]
)
def test_a_service_is_reached_over_tls(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KbsClient(url, guest=SampleGuest())
    assert caught.value.code == "kbs-url-invalid"


def test_plain_http_is_for_the_loopback_address_or_with_a_reason() -> None:
    for url in ("http://127.0.0.1:8080", "http://localhost:8080/"):
        KbsClient(url, guest=SampleGuest()).close()
    KbsClient("http://kbs.example", guest=SampleGuest(), unchecked_tls="a proxy of this pod ends TLS").close()
    with pytest.raises(ConfigurationError, match="needs a reason"):
        KbsClient("http://kbs.example", guest=SampleGuest(), unchecked_tls=" ")


def test_a_call_gets_a_bounded_number_of_resources() -> None:
    with KbsClient("https://127.0.0.1:1", guest=SampleGuest()) as found:
        for addresses in ((), ("kbs:///a/b/c",) * 17):
            with pytest.raises(ValueError, match="1 to 16"):
                found.resources(*addresses)
