"""The bounds of a service's document: the last value that is read, and the first that is refused."""

import base64
import gzip
from dataclasses import replace
from typing import Any

import pytest

from attest.errors import BindingError, EvidenceError
from attest.evidence.envelope import Evidence
from attest.evidence.providers import chutes, dstack, tinfoil
from attest.evidence.providers.cautions import cautions_of
from attest.evidence.providers.compose_manager import MAX_ACTIONS, read_compose_manager
from attest.evidence.providers.connection import connection_of
from attest.evidence.providers.document import MAX_MACHINES, MAX_NAME_CHARACTERS, PresentedMachine, StatedMachine
from attest.evidence.providers.families import FAMILIES, MAX_DOCUMENT_BYTES, parse_document
from attest.evidence.providers.judgement import judge_machines
from attest.evidence.providers.signing_keys import read_signing_key
from attest.evidence.providers.values import MAX_CERTIFICATES, certificates_at
from tests.evidence.providers import made
from tests.evidence.providers.made import Document

Value = Any  # of a document that is to be read


def field_of(error: pytest.ExceptionInfo[EvidenceError]) -> str | None:
    assert error.value.code == "provider-document-malformed"
    return error.value.field


@pytest.mark.parametrize(
    ("count", "read"), [(0, False), (1, True), (MAX_CERTIFICATES, True), (MAX_CERTIFICATES + 1, False)]
)
def test_a_chain_has_at_least_one_certificate_and_no_more_than_its_limit(count: int, read: bool) -> None:
    members: Value = {"chain": made.pem(made.certificate()) * count}
    if read:
        assert len(certificates_at(members, "chain", "a")) == count
        return
    with pytest.raises(EvidenceError) as caught:
        certificates_at(members, "chain", "a")
    assert field_of(caught) == "a.chain"


def test_another_block_beside_a_certificate_is_refused() -> None:
    for more in ("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "-----BEGIN CERTIFICATE-----\n"):
        with pytest.raises(EvidenceError) as caught:
            certificates_at({"chain": made.pem(made.certificate()) + more}, "chain", "a")
        assert field_of(caught) == "a.chain"


# -- Tinfoil


def packed(report: bytes, after: bytes = b"") -> Document:
    return made.tinfoil_v2(body=base64.b64encode(gzip.compress(report, mtime=0) + after).decode())


def test_a_packed_report_has_a_largest_size() -> None:
    most = tinfoil.MAX_REPORT_BYTES
    (machine,) = tinfoil.read_tinfoil(packed(bytes(most)), b"").machines
    assert machine.evidence.items[0].value == bytes(most)
    for document in (packed(bytes(most + 1)), packed(bytes(most + 100)), packed(b"x", after=b"y")):
        with pytest.raises(EvidenceError) as caught:
            tinfoil.read_tinfoil(document, b"")
        assert field_of(caught) == "body"


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"format": "x", "body": ""}, True),
        ({"format": "x", "report_data": {}}, True),
        ({"format": "x"}, False),
        ({"body": "", "report_data": {}}, False),
        (["format", "body"], False),
    ],
)
def test_a_document_of_tinfoil_has_a_format_and_a_report(document: Value, known: bool) -> None:
    assert tinfoil.is_tinfoil(document) is known


# -- Chutes


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"evidence": [], "failed_instance_ids": []}, True),
        ({"evidence": [{"quote": "", "gpu_evidence": []}]}, True),
        ({"evidence": [1, {"quote": "", "gpu_evidence": []}]}, True),
        ({"evidence": [{"quote": ""}]}, False),
        ({"evidence": [{"gpu_evidence": []}]}, False),
        ({"evidence": ["quote gpu_evidence"]}, False),
        ({"evidence": []}, False),
        ({"evidence": {}, "failed_instance_ids": []}, False),
        ([{"evidence": []}], False),
    ],
)
def test_evidence_of_chutes_is_a_list_of_instances(document: Value, known: bool) -> None:
    assert chutes.is_evidence(document) is known
    assert any(family.looks(document) for family in FAMILIES) is known


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"instances": [{"e2e_pubkey": ""}]}, True),
        ({"instances": [1, {"e2e_pubkey": ""}]}, True),
        ({"instances": [{"key": ""}]}, False),
        ({"instances": ["e2e_pubkey"]}, False),
        ({"instances": {"e2e_pubkey": ""}}, False),
        ({}, False),
        ([{"instances": [{"e2e_pubkey": ""}]}], False),
    ],
)
def test_keys_of_chutes_are_a_list_of_instances(document: Value, known: bool) -> None:
    assert chutes.is_instances(document) is known


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"attestation_type": "chutes", "all_attestations": []}, True),
        ({"attestation_type": "other", "all_attestations": []}, False),
        ({"attestation_type": "chutes"}, False),
        (["attestation_type", "all_attestations"], False),
    ],
)
def test_a_list_of_chutes_is_named_by_its_type(document: Value, known: bool) -> None:
    assert chutes.is_list(document) is known


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("", False),
        ("i", True),
        ("i" * MAX_NAME_CHARACTERS, True),
        ("i" * (MAX_NAME_CHARACTERS + 1), False),
        ("é", False),
        ("a\tb", False),
        ("a/b", False),
    ],
)
def test_the_name_of_an_instance_is_short_printable_ascii(name: str, read: bool) -> None:
    answer: Value = made.chutes(made.instance("a", instance_id=name))
    if read:
        assert chutes.read_evidence_answer(answer, None).machines[0].name == name
        return
    with pytest.raises(EvidenceError) as caught:
        chutes.read_evidence_answer(answer, None)
    assert field_of(caught) == "evidence[0].instance_id"


@pytest.mark.parametrize("size", [chutes.KEM_KEY_BYTES - 1, chutes.KEM_KEY_BYTES + 1])
def test_a_key_of_another_size_is_none_of_ml_kem_768(size: int) -> None:
    with pytest.raises(EvidenceError) as caught:
        chutes.read_evidence_answer(made.chutes(), made.instances("a", key=bytes(size)))
    assert field_of(caught) == "instances[0].e2e_pubkey"


def test_instances_and_their_keys_are_limited_in_number() -> None:
    instance, keys = made.instance(), made.instances(*map(str, range(chutes.MAX_INSTANCES)))
    found = chutes.read_evidence_answer(made.chutes(*[instance] * MAX_MACHINES), keys)
    assert len(found.machines) == MAX_MACHINES
    assert found.cautions == ("instances-without-evidence",)
    with pytest.raises(EvidenceError) as caught:
        chutes.read_evidence_answer(made.chutes(*[instance] * (MAX_MACHINES + 1)), None)
    assert field_of(caught) == "evidence"
    with pytest.raises(EvidenceError) as caught:
        chutes.read_evidence_answer(made.chutes(instance), made.instances(*map(str, range(chutes.MAX_INSTANCES + 1))))
    assert field_of(caught) == "instances"


def test_a_list_is_limited_in_number() -> None:
    entry = made.entry()
    assert len(chutes.read_list(made.listed(*[entry] * MAX_MACHINES)).machines) == MAX_MACHINES
    with pytest.raises(EvidenceError) as caught:
        chutes.read_list(made.listed(*[entry] * (MAX_MACHINES + 1)))
    assert field_of(caught) == "all_attestations"


# -- dstack


def test_machines_beside_the_first_are_limited_in_number() -> None:
    copies = [made.machine()] * MAX_MACHINES
    assert len(dstack.read_machine(made.machine(all_attestations=copies)).machines) == 1
    with pytest.raises(EvidenceError) as caught:
        dstack.read_machine(made.machine(all_attestations=[*copies, made.machine()]))
    assert field_of(caught) == "all_attestations"


def test_a_gateway_and_its_machines_are_limited_in_number() -> None:
    behind = [made.machine(gpus=())] * (MAX_MACHINES - 1)
    found = dstack.read_gateway(made.gateway(*behind))
    assert [machine.name for machine in found.machines] == [str(number) for number in range(MAX_MACHINES)]
    with pytest.raises(EvidenceError) as caught:
        dstack.read_gateway(made.gateway(*behind, made.machine(gpus=())))
    assert field_of(caught) == "model_attestations"


OTHERS: dict[str, object] = {
    "signing_address": "00" * 32,
    "signing_public_key": "00" * 32,
    "signing_key": "00" * 32,
    "request_nonce": "00" * 32,
    "intel_quote": "00",
    "quote": "00",
    "nvidia_payload": None,
    "event_log": [],
    "report_data": "00",
    "info": {},
    "vm_config": "{}",
    "tls_cert_fingerprint": "00" * 32,
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_machine_that_differs_in_a_member_with_a_meaning_is_no_copy(name: str) -> None:
    listed = [made.machine(extra=1), made.machine() | {name: OTHERS[name]}]
    found = dstack.read_machine(made.machine(all_attestations=listed))
    assert [machine.name for machine in found.machines] == ["0", "1"]


def test_a_list_of_actions_needs_the_quote_of_its_manager() -> None:
    plain, managed = (
        dstack.read_machine(document).machines[0].commitment
        for document in (made.machine(), made.machine(compose_manager_attestation=made.manager()))
    )
    presented = PresentedMachine(report_data=bytes(32) + made.NONCE, cpu=b"x", machine=b"m")
    witnessed = replace(presented, witness=presented)
    for commitment, machine in ((plain, presented), (plain, witnessed), (managed, presented)):
        facts = commitment.construct(machine, None).comparisons["statements"]()
        assert facts.got == "request_nonce, quote"
    with pytest.raises(BindingError):
        managed.construct(witnessed, None).comparisons["statements"]()


def signing(algorithm: str, address: str, **more: Value) -> Value:
    return {"signing_algo": algorithm, "signing_address": address, **more}


@pytest.mark.parametrize(
    ("members", "field"),
    [
        (signing("ecdsa", "0x" + "11" * 19), "signing_address"),
        (signing("ecdsa", "0x" + "11" * 21), "signing_address"),
        (signing("ecdsa", "11" * 20), "signing_address"),
        (signing("ed25519", "11" * 31), "signing_address"),
        (signing("ed25519", "11" * 33), "signing_address"),
        (signing("ed25519", "0x" + "11" * 32), "signing_address"),
        (signing("ecdsa", "0x" + "11" * 20, signing_key="11" * 63), "signing_key"),
        (signing("ecdsa", "0x" + "11" * 20, signing_key="04" + "11" * 65), "signing_key"),
        (signing("ecdsa", "0x" + "11" * 20, signing_key="03" + "11" * 64), "signing_key"),
        (signing("ed25519", "11" * 32, signing_public_key="11" * 31), "signing_public_key"),
        (signing("ed25519", "11" * 32, signing_public_key="11" * 33), "signing_public_key"),
    ],
)
def test_addresses_and_keys_have_the_size_of_their_algorithm(members: Value, field: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        read_signing_key(members, "m")
    assert field_of(caught) == f"m.{field}"


def test_a_key_may_stand_with_and_without_its_first_byte() -> None:
    point, address = made.POINT[1:], "0x" + made.ECDSA_ADDRESS.hex()
    for text in (point.hex(), "04" + point.hex()):
        key = read_signing_key(signing("ecdsa", address, signing_key=text), "m")
        assert (key.address, key.public_key) == (made.ECDSA_ADDRESS, point)
        assert key.require_fitting().got == "signing_key"
    assert read_signing_key(signing("ecdsa", address), "m").public_key is None


def test_an_address_is_that_of_every_key_that_is_stated() -> None:
    address = "0x" + made.ECDSA_ADDRESS.hex()
    members = signing("ecdsa", address, signing_public_key=made.POINT.hex(), signing_key="11" * 64)
    with pytest.raises(BindingError) as caught:
        read_signing_key(members, "m").require_fitting()
    assert (caught.value.code, caught.value.field) == ("provider-key-mismatch", "signing_key")


def test_actions_of_a_compose_manager_are_limited_in_number() -> None:
    def actions(count: int) -> Value:
        return {"compose_manager_attestation": made.manager(actions=[{"action": "x"}] * count)}

    found = read_compose_manager(actions(MAX_ACTIONS), "m")
    assert found is not None
    assert found.count == MAX_ACTIONS
    with pytest.raises(EvidenceError) as caught:
        read_compose_manager(actions(MAX_ACTIONS + 1), "m")
    assert field_of(caught) == "m.compose_manager_attestation.actions"


# -- documents as a whole


def test_a_document_has_a_largest_size() -> None:
    whole = made.evidence(made.machine(gpus=())).items[0]
    full = replace(whole, value=whole.value.ljust(MAX_DOCUMENT_BYTES))
    assert len(parse_document((full,)).machines) == 1
    with pytest.raises(EvidenceError) as caught:
        parse_document((replace(full, value=full.value + b" "),))
    assert field_of(caught) == "document"


def label_of(document: Value) -> str:
    return next(family.label for family in FAMILIES if family.looks(document))


def test_the_description_of_a_document_is_that_of_its_family() -> None:
    assert label_of(made.gateway()).startswith("attestation document of a gateway")
    assert label_of(made.machine(gpus=())).startswith("attestation document of a dstack machine")
    assert label_of(made.chutes()) == "Chutes evidence (JSON)"


@pytest.mark.parametrize(
    ("document", "machine", "gateway"),
    [
        ({"intel_quote": "", "signing_address": ""}, True, False),
        ({"intel_quote": ""}, False, False),
        ({"signing_address": ""}, False, False),
        ({"gateway_attestation": {}, "model_attestations": []}, False, True),
        ({"gateway_attestation": {}}, False, False),
        ({"model_attestations": []}, False, False),
        (["intel_quote", "signing_address", "gateway_attestation", "model_attestations"], False, False),
    ],
)
def test_documents_of_dstack_are_told_by_two_members(document: Value, machine: bool, gateway: bool) -> None:
    assert (dstack.is_machine(document), dstack.is_gateway(document)) == (machine, gateway)


# -- cautions


def machine_of(name: str, role: Value = "model") -> StatedMachine:
    (stated,) = tinfoil.read_tinfoil(packed(b"x"), b"").machines
    return replace(stated, name=name, role=role, evidence=Evidence(items=stated.evidence.items))


def codes(*devices: str, role: Value = "model") -> set[str]:
    presented = PresentedMachine(
        report_data=bytes(64), cpu=b"x", machine=b"m", gpu_nonces=tuple((name, bytes(32)) for name in devices)
    )
    return {one.code for one in cautions_of((), [(machine_of("0", role), presented)], nonce=b"n")}


def test_devices_that_were_not_shown_are_named() -> None:
    shown = {"gpus-not-shown", "switches-not-shown"}
    assert codes() & shown == {"gpus-not-shown"}
    assert codes(role="router") & shown == set()
    assert codes("nvswitch0") & shown == {"gpus-not-shown"}
    assert codes("gpu0") & shown == set()
    assert codes("gpu0", "gpu1") & shown == {"switches-not-shown"}
    assert codes("gpu0", "gpu1", "nvswitch0") & shown == set()


def test_a_caution_names_its_machines_unless_it_is_about_all() -> None:
    with_gpu = PresentedMachine(report_data=bytes(64), cpu=b"x", machine=b"m", gpu_nonces=(("gpu0", bytes(32)),))
    without = replace(with_gpu, gpu_nonces=())
    pairs = [(machine_of("a"), with_gpu), (machine_of("b"), without)]
    messages = {one.code: one.message for one in cautions_of((), pairs, nonce=None)}
    assert messages["gpus-not-shown"].endswith("(machine b)")
    assert "(machine" not in messages["nonce-not-carried"]
    assert "freshness-not-evaluated" in messages
    assert "freshness-not-evaluated" not in {one.code for one in cautions_of((), pairs, nonce=b"n")}


# -- machines that are not different


def repeated(*machines: tuple[str, bytes, tuple[bytes, ...]]) -> str | None:
    pairs = [
        (
            machine_of(name),
            PresentedMachine(
                report_data=bytes(64),
                cpu=cpu,
                machine=cpu,
                device_keys=tuple((f"gpu{number}", key) for number, key in enumerate(keys)),
            ),
        )
        for name, cpu, keys in machines
    ]
    check, error = judge_machines(pairs)
    if error is None:
        assert check.got == f"{len(machines)} machines"
        return None
    assert (error.code, error.check) == ("provider-machine-repeated", "provider.machines")
    return error.got


def test_what_stands_in_two_machines_is_named_with_both() -> None:
    a, b = ("a", b"1", (b"k1", b"k2")), ("b", b"2", (b"k3",))
    assert repeated(a) is None
    assert repeated(a, b) is None
    assert repeated(a, b, ("a", b"3", ())) == "the name of machine 2 is one of machine 0"
    assert repeated(a, b, ("c", b"2", ())) == "the report of machine 2 is one of machine 1"
    assert repeated(a, b, ("c", b"3", (b"k4", b"k3"))) == "the device gpu1 of machine 2 is one of machine 1"
    assert repeated(("a", b"1", (b"a", b"1"))) is None


def test_machines_are_counted_in_what_is_expected() -> None:
    one = (machine_of("a"), PresentedMachine(report_data=bytes(64), cpu=b"1", machine=b"1"))
    two = (machine_of("b"), PresentedMachine(report_data=bytes(64), cpu=b"2", machine=b"2"))
    assert [judge_machines(pairs)[0].expected for pairs in ([one], [one, two])] == [
        "one machine",
        "2 different machines",
    ]


# -- the connection


@pytest.mark.parametrize("name", ["public_key", "kem_public_key", "hpke_public_key"])
def test_a_connection_is_bound_by_each_key_that_requests_are_encrypted_to(name: str) -> None:
    claims: Value = {"binding": {name: "aa"}}
    assert connection_of(claims, recipient_key=b"\xaa") == "bound"
    assert connection_of(claims, recipient_key=b"\xbb") == "not bound to this connection"
    assert connection_of(claims, peer_spki_sha256=b"\xaa") == "not bound to this connection"
    assert connection_of({"binding": {name: None}}, recipient_key=b"\xaa") == "not bound to this connection"
    assert connection_of({"binding": [name]}, recipient_key=b"\xaa") == "not bound to this connection"
