"""Whole documents of services: what is honest is verified, and each thing that is changed is refused by its check."""

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from attest.checks import Outcome
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import AttestError, BindingError, EvidenceError
from attest.evidence.binding import ExpectedBinding
from attest.evidence.device_format import FormatTable
from attest.evidence.envelope import MEDIA_PROVIDER_DOCUMENT, MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest.evidence.providers.connection import connection_of
from attest.evidence.providers.families import MAX_DOCUMENT_BYTES, device_items, parse_document
from attest.evidence.providers.raw_members import raw_members
from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence, verify
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from tests.evidence.dstack import made as dstack_made
from tests.evidence.providers import made
from tests.evidence.providers.made import NONCE, Document, verified
from tests.samples import AT

_OTHER_KEY = ec.derive_private_key(9, ec.SECP384R1())
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
OTHER_NONCE = b"\x55" * 32
OTHER = SimulatedTd(platform=SimulatedPlatform.of(), mr_td=b"\7" * 48)
UNDER_DEBUG = replace(made.TD, td_attributes=made.TD.td_attributes | 1)
OTHER_ENCLAVE = replace(made.ENCLAVE, mr_enclave=b"\7" * 32)
ELSEWHERE = SimulatedTd(platform=SimulatedPlatform.of("another platform"))


def refused(
    document: object, keys: object = None, *, nonce: bytes | None = NONCE, pool: Endorsements | None = None
) -> AttestError:
    with pytest.raises(AttestError) as raised:
        verified(document, keys, nonce=nonce, pool=pool)
    return raised.value


def outcome(result: VerifiedEvidence | AttestError, check: str) -> str:
    """The outcomes of a check over all machines, worst first."""
    return " ".join(sorted({str(one.outcome) for one in result.checks if one.id == check}))


def claims(result: VerifiedEvidence, name: str = "0/cpu") -> Document:
    return next(item.claims for item in result.items if item.name == name)


# -- honest documents


@pytest.mark.parametrize("family", made.HONEST)
def test_an_honest_document_is_verified_and_fresh(family: str) -> None:
    result = verified(*made.HONEST[family]())
    assert result.freshness is Freshness.MATCHED
    assert result.ignored == ()
    assert not [check for check in result.checks if check.outcome is Outcome.FAIL]
    assert {check.id for check in result.checks} >= {"provider.form", "provider.nonce", "provider.machines"}
    assert all(item.machine is not None and item.role is not None for item in result.items)
    assert all(
        item.claims["nonce_bound"] is True and item.claims["binding"] for item in result.items if "/cpu" in item.name
    )


@pytest.mark.parametrize("family", made.HONEST)
def test_without_a_nonce_freshness_is_not_evaluated_whatever_the_document_names(family: str) -> None:
    result = verified(*made.HONEST[family](), nonce=None)
    assert result.freshness is Freshness.NOT_EVALUATED
    assert "freshness-not-evaluated" in {caution.code for caution in result.cautions}
    assert all(item.claims["nonce_bound"] is False for item in result.items if "/cpu" in item.name)


@pytest.mark.parametrize("family", made.HONEST)
def test_another_nonce_is_refused(family: str) -> None:
    error = refused(*made.HONEST[family](), nonce=OTHER_NONCE)
    assert (error.code, error.exit_code, error.check) == ("nonce-mismatch", 4, "provider.nonce")
    assert outcome(error, "freshness") == "fail"


@pytest.mark.parametrize("family", made.HONEST)
def test_a_missing_endorsement_hides_no_other_nonce(family: str) -> None:
    assert refused(*made.HONEST[family](), pool=NO_ENDORSEMENTS).exit_code == 5
    assert refused(*made.HONEST[family](), nonce=OTHER_NONCE, pool=NO_ENDORSEMENTS).exit_code == 4


def test_claims_state_what_the_report_data_of_a_dstack_machine_commits_to() -> None:
    result = verified(made.machine(ohttp_attestation=made.ohttp(), compose_manager_attestation=made.manager()))
    stated = claims(result)
    assert stated["binding"] == {
        "address": made.ADDRESS.hex(),
        "algorithm": "ed25519",
        "public_key": made.ADDRESS.hex(),
        "tls_spki_sha256": made.spki_sha256(made.certificate()).hex(),
    }
    assert (stated["gpu_binding"], stated["key_scope"]) == ("nonce", "app")
    assert stated["ohttp_key_config"] == made.ohttp()["key_config"]
    assert stated["compose_manager"] == {"actions": 2}
    codes = [caution.code for caution in result.cautions]
    assert codes == ["key-of-app", "code-reported", "weights-not-proven", "gpus-by-nonce", "never-proven"]


def test_an_ecdsa_key_is_bound_by_its_address() -> None:
    stated = claims(verified(made.ecdsa_machine()))
    assert stated["binding"] == {
        "address": made.ECDSA_ADDRESS.hex(),
        "algorithm": "ecdsa",
        "public_key": made.POINT[1:].hex(),
    }
    without = claims(verified(made.ecdsa_machine(signing_key=None, signing_public_key=None)))
    assert "public_key" not in without["binding"]


def test_a_gateway_and_its_machines_are_items_with_their_roles() -> None:
    result = verified(made.gateway())
    assert [(item.name, item.machine, item.role) for item in result.items] == [
        ("0/cpu", "0", "gateway"),
        ("1/cpu", "1", "model"),
        ("1/gpu0", "1", "model"),
    ]
    assert claims(result)["gpu_binding"] == "none"
    about = {caution.code: caution.message for caution in result.cautions}
    assert about["gpus-by-nonce"].endswith("(machine 1)")


def test_a_chutes_instance_is_bound_through_its_report_data() -> None:
    result = verified(made.chutes(made.instance("a")), made.instances("a", "c"))
    stated = claims(result, "a/cpu")
    assert stated["binding"] == {"kem_public_key": made.kem_key("a").hex()}
    assert (stated["gpu_binding"], stated["key_scope"]) == ("report-data", "machine")
    assert "instances-without-evidence" in {caution.code for caution in result.cautions}


def test_without_a_nonce_the_key_of_a_chutes_instance_is_no_claim() -> None:
    result = verified(made.chutes(made.instance("a")), made.instances("a"), nonce=None)
    stated = claims(result, "a/cpu")
    assert stated["binding"] == {}
    assert "key_scope" not in stated
    codes = [caution.code for caution in result.cautions]
    assert codes[:2] == ["freshness-not-evaluated", "keys-not-bound"]
    assert outcome(result, "provider.binding") == "not evaluated"


@pytest.mark.parametrize("family", sorted(set(made.HONEST) - {"Chutes"}))
@pytest.mark.parametrize("nonce", [NONCE, None])
def test_every_other_document_commits_to_its_keys(family: str, nonce: bytes | None) -> None:
    result = verified(*made.HONEST[family](), nonce=nonce)
    assert "keys-not-bound" not in {caution.code for caution in result.cautions}
    assert all(item.claims.get("key_scope") for item in result.items if "binding" in item.claims)


def test_a_tinfoil_document_hashes_its_gpus() -> None:
    result = verified(made.tinfoil_bytes(made.tinfoil(switches=True)))
    stated = claims(result)
    assert stated["gpu_binding"] == "hash"
    assert stated["binding"] == {
        "tls_spki_sha256": made.spki_sha256(made.certificate()).hex(),
        "hpke_public_key": made.HPKE_KEY.hex(),
    }
    assert {item.role for item in verified(made.tinfoil_bytes(made.tinfoil(gpus=False))).items} == {"router"}


def test_an_older_tinfoil_document_has_keys_and_no_nonce() -> None:
    result = verified(made.tinfoil_v2(nonce=NONCE.hex()), nonce=None)
    assert claims(result)["binding"] == {
        "tls_spki_sha256": (b"\1" * 32).hex(),
        "hpke_public_key": (b"\2" * 32).hex(),
    }
    assert "nonce-not-carried" in {caution.code for caution in result.cautions}
    error = refused(made.tinfoil_v2(nonce=NONCE.hex()))
    assert (error.code, error.exit_code) == ("nonce-mismatch", 4)
    report = made.GUEST.report(b"\1" * 32 + b"\2" * 32)
    assert verified(made.tinfoil_v2(report, form="sev-snp-guest"), nonce=None).items[0].kind == "sev-snp"


def test_a_machine_that_serves_a_model_without_gpus_is_named() -> None:
    codes = {caution.code for caution in verified(made.machine(gpus=())).cautions}
    assert "gpus-not-shown" in codes
    many = verified(made.machine(gpus=("gpu of a service", "another gpu")))
    assert "switches-not-shown" in {caution.code for caution in many.cautions}


# -- each statement that is changed

Case = Callable[[], tuple[object, object]]
_POINT_OF_ANOTHER_KEY = "04" + "11" * 64
CHANGED: dict[str, tuple[Case, str, str]] = {
    "address": (
        lambda: (made.machine(signing_address="00" * 32), None),
        "provider.binding",
        "provider-binding-mismatch",
    ),
    "fingerprint": (
        lambda: (made.machine(tls_cert_fingerprint="00" * 32), None),
        "provider.binding",
        "provider-binding-mismatch",
    ),
    "fingerprint left out": (
        lambda: (made.machine(tls_cert_fingerprint=None), None),
        "provider.binding",
        "provider-binding-mismatch",
    ),
    "fingerprint added": (
        lambda: (made.ecdsa_machine(tls_cert_fingerprint="00" * 32), None),
        "provider.binding",
        "provider-binding-mismatch",
    ),
    "ecdsa address": (
        lambda: (made.ecdsa_machine(signing_address="0x" + "11" * 20), None),
        "provider.binding",
        "provider-binding-mismatch",
    ),
    "public key": (
        lambda: (made.machine(signing_public_key="00" * 32), None),
        "provider.keys",
        "provider-key-mismatch",
    ),
    "second public key": (
        lambda: (made.ecdsa_machine(signing_key=_POINT_OF_ANOTHER_KEY), None),
        "provider.keys",
        "provider-key-mismatch",
    ),
    "stated nonce": (
        lambda: (made.machine(request_nonce="00" * 32), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "copy of the quote": (
        lambda: (made.machine(quote=made.quote(bytes(64)).hex()), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "GPU of another nonce": (
        lambda: (made.ecdsa_machine(nvidia_payload=[made.device(nonce=OTHER_NONCE)]), None),
        "provider.gpus",
        "provider-gpu-nonce-mismatch",
    ),
    "gateway's certificate": (
        lambda: (made.gateway(tls_certificate=made.pem(made.certificate(made.rsa_key()))), None),
        "provider.keys",
        "provider-key-mismatch",
    ),
    "gateway's certificate behind another": (
        lambda: (
            made.gateway(tls_certificate=made.pem(made.certificate(made.rsa_key())) + made.pem(made.certificate())),
            None,
        ),
        "provider.keys",
        "provider-key-mismatch",
    ),
    "ohttp signature": (
        lambda: (made.machine(ohttp_attestation=made.ohttp(signature="00" * 64)), None),
        "provider.envelope",
        "provider-signature-invalid",
    ),
    "ohttp copy": (
        lambda: (made.machine(ohttp_attestation=made.ohttp(), ohttp_key_config="00"), None),
        "provider.envelope",
        "provider-statement-mismatch",
    ),
    "empty ohttp copy": (
        lambda: (made.machine(ohttp_attestation=made.ohttp(), ohttp_key_config=""), None),
        "provider.envelope",
        "provider-statement-mismatch",
    ),
    "manager's list": (
        lambda: (made.machine(compose_manager_attestation=made.manager() | {"actions": made.ACTIONS[:1]}), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager's hash": (
        lambda: (made.machine(compose_manager_attestation=made.manager(actions_hash="00" * 32)), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager's stated nonce": (
        lambda: (made.machine(compose_manager_attestation=made.manager() | {"nonce": "00" * 32}), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager of another moment": (
        lambda: (made.machine(compose_manager_attestation=made.manager(nonce=OTHER_NONCE)), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager of another machine": (
        lambda: (made.machine(compose_manager_attestation=made.manager(td=OTHER)), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager of a machine under debug": (
        lambda: (made.machine(compose_manager_attestation=made.manager(td=UNDER_DEBUG)), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager of another owner": (
        lambda: (
            made.machine(compose_manager_attestation=made.manager(td=replace(made.TD, mr_owner=b"\1" * 48))),
            None,
        ),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager on another platform": (
        lambda: (made.machine(compose_manager_attestation=made.manager(td=ELSEWHERE)), None),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "manager in another enclave": (
        lambda: (
            made.machine(td=made.ENCLAVE, compose_manager_attestation=made.manager(td=OTHER_ENCLAVE)),
            None,
        ),
        "provider.statements",
        "provider-statement-mismatch",
    ),
    "key of an instance": (
        lambda: (made.chutes(made.instance("a")), made.instances("a", key=bytes(1184))),
        "provider.nonce",
        "nonce-mismatch",
    ),
    "certificate of an instance": (
        lambda: (
            made.chutes(
                made.instance("a", certificate=base64.b64encode(made.certificate().public_bytes(Encoding.DER)).decode())
            ),
            made.instances("a"),
        ),
        "provider.keys",
        "provider-key-mismatch",
    ),
    "GPUs of an instance": (
        lambda: (made.chutes(made.instance("a", gpu_evidence=[made.device()])), made.instances("a")),
        "provider.gpus",
        "provider-gpu-nonce-mismatch",
    ),
    "key in a list": (
        lambda: (made.listed(made.entry("a", e2e_pubkey=base64.b64encode(bytes(1184)).decode())), None),
        "provider.nonce",
        "nonce-mismatch",
    ),
    "nonce in a list": (
        lambda: (made.listed(made.entry("a", nonce="00" * 32)), None),
        "provider.binding",
        "provider-binding-mismatch",
    ),
    "hash without GPUs": (lambda: (_tinfoil(gpu=None), None), "provider.gpus", "provider-gpus-uncommitted"),
    "GPUs without a hash": (
        lambda: (_tinfoil(gpu={"evidences": [made.device()]}, gpus=False), None),
        "provider.gpus",
        "provider-gpus-uncommitted",
    ),
    "other GPUs": (
        lambda: (_tinfoil(gpu={"evidences": [made.device("a third gpu")]}), None),
        "provider.gpus",
        "provider-gpu-hash-mismatch",
    ),
    "members of report_data": (
        lambda: (made.tinfoil_bytes(_stated(hpke_key="00" * 32)), None),
        "provider.binding",
        "provider-binding-mismatch",
    ),
    "certificate of tinfoil": (
        lambda: (
            made.tinfoil_bytes(made.tinfoil(certificate=made.pem(made.certificate(_OTHER_KEY))), _OTHER_KEY),
            None,
        ),
        "provider.keys",
        "provider-key-mismatch",
    ),
    "certificate with an RSA key": (
        lambda: (made.tinfoil_bytes(made.tinfoil(key=made.rsa_key()), made.rsa_key()), None),
        "provider.envelope",
        "provider-signature-invalid",
    ),
    "byte outside the signed parts": (
        lambda: (made.tinfoil_bytes(made.tinfoil()).replace(b'{"format"', b'{ "format"'), None),
        "provider.envelope",
        "provider-signature-invalid",
    ),
}


def _tinfoil(*, gpus: bool = True, **more: object) -> bytes:
    return made.tinfoil_bytes(made.tinfoil(gpus=gpus) | more)


def _stated(**more: object) -> Document:
    document = made.tinfoil()
    return document | {"report_data": document["report_data"] | more}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_statement_fails_its_own_check(name: str) -> None:
    case, check, code = CHANGED[name]
    error = refused(*case())
    assert error.exit_code == 4
    assert "fail" in outcome(error, check)
    codes = {error.code}
    assert (error.check, error.code) == (check, code), codes


def test_the_managers_list_may_be_hashed_with_members_in_the_order_of_their_names() -> None:
    result = verified(made.machine(compose_manager_attestation=made.manager(by_name=True)))
    assert claims(result)["compose_manager"] == {"actions": 2}
    for by_name in (False, True):
        odd = made.manager(actions=made.ODD_ACTIONS, by_name=by_name)
        assert verified(made.machine(compose_manager_attestation=odd)).items
    bare = made.manager()
    del bare["nonce"], bare["actions_hash"]
    assert verified(made.machine(compose_manager_attestation=bare)).items


def test_a_forged_quote_of_the_manager_is_refused() -> None:
    forged = bytearray(bytes.fromhex(made.manager()["quote"]))
    forged[690] ^= 1  # the signature
    error = refused(made.machine(compose_manager_attestation=made.manager(quote=bytes(forged).hex())))
    assert error.exit_code == 4
    assert {check.item for check in error.checks if check.outcome is Outcome.FAIL} == {"0/witness/cpu"}


def test_a_key_configuration_that_another_key_signed_is_no_claim() -> None:
    result = verified(made.ecdsa_machine(ohttp_attestation=made.ohttp()))
    assert "ohttp_key_config" not in claims(result)


def test_evidence_without_its_key_is_an_endorsement_that_is_missing() -> None:
    for document, keys in (
        (made.chutes(made.instance("a")), None),
        (made.chutes(made.instance("a")), made.instances("b")),
        (made.listed(made.entry("a", e2e_pubkey=None)), None),
    ):
        for nonce in (NONCE, None):
            error = refused(document, keys, nonce=nonce)
            assert (error.code, error.exit_code) == ("provider-key-missing", 5)


# -- several machines


def test_a_machine_that_stands_twice_is_refused() -> None:
    twice = made.entry("a")
    error = refused(made.listed(twice, twice))
    assert (error.code, error.check, error.exit_code) == ("provider-machine-repeated", "provider.machines", 4)


def other_bytes(quote: str, *, signature: bool) -> str:
    """The same report in other bytes: behind it, or in the signature, which (r, n - s) is as well as (r, s)."""
    data = bytearray.fromhex(quote)
    if not signature:
        return (data + b"\1").hex()
    s = slice(48 + 584 + 4 + 32, 48 + 584 + 4 + 64)
    data[s] = (_P256_ORDER - int.from_bytes(data[s], "big")).to_bytes(32, "big")
    return data.hex()


@pytest.mark.parametrize("signature", [False, True])
def test_one_report_in_other_bytes_is_no_second_machine(signature: bool) -> None:
    first = made.machine(gpus=())
    second = first | {"intel_quote": other_bytes(first["intel_quote"], signature=signature), "quote": None}
    error = refused(made.gateway(first, second))
    assert (error.code, error.check, error.exit_code) == ("provider-machine-repeated", "provider.machines", 4)
    alone = verified(second)
    assert [item.name for item in alone.items] == ["0/cpu"]


def test_one_gpu_in_two_machines_is_refused() -> None:
    second = made.machine(td=OTHER)
    error = refused(made.gateway(made.machine(), second))
    assert error.code == "provider-machine-repeated"
    assert "device gpu0 of machine 2 is one of machine 1" in error.message


def test_a_copy_of_the_machine_is_judged_once_and_a_different_one_too() -> None:
    top = made.machine()
    assert len(verified({**top, "all_attestations": [dict(top)]}).items) == 2
    other = made.machine(td=OTHER, gpus=("another gpu",))
    names = [item.name for item in verified({**top, "all_attestations": [dict(top), other]}).items]
    assert names == ["0/cpu", "0/gpu0", "1/cpu", "1/gpu0"]
    error = refused({**top, "all_attestations": [{**top, "vm_config": "{}"}]})
    assert error.code == "provider-machine-repeated"


def test_a_copy_with_another_type_of_one_value_is_no_copy() -> None:
    top = made.machine(info={"odd": 1}, gpus=())
    assert len(verified({**top, "all_attestations": [dict(top)]}).items) == 1
    for value in (True, 1.0):
        error = refused({**top, "all_attestations": [{**top, "info": {"odd": value}}]})
        assert error.code == "provider-machine-repeated"


def test_one_bad_machine_fails_the_document() -> None:
    bad = made.machine(td=OTHER, gpus=("another gpu",), signing_address="00" * 32)
    error = refused(made.gateway(made.machine(), bad))
    assert error.code == "provider-binding-mismatch"
    assert {check.item for check in error.checks if check.outcome is Outcome.FAIL} == {"2"}


# -- expectations that such a document cannot meet


def test_a_document_has_no_binding_and_no_report_data_to_expect() -> None:
    document = made.evidence(made.machine())
    ask = partial(verify, document, endorsements=made.endorsements(), anchors=TrustAnchors.simulation(), at=AT)
    with pytest.raises(BindingError) as raised:
        ask(expected=ExpectedBinding(context="c", role="r", audience="a", nonce=NONCE))
    assert raised.value.code == "binding-missing"
    with pytest.raises(ValueError, match="report data"):
        ask(expected=ExpectedFreshness(report_data=bytes(64)))
    with pytest.raises(ValueError, match="32 bytes"):
        ask(expected=ExpectedFreshness(nonce=b"short"))


# -- structure


def test_a_dstack_machine_has_its_event_log_and_statements_as_items() -> None:
    entries = list(dstack_made.BOOT + dstack_made.RUNTIME_EVENTS)
    document = made.machine(event_log=entries, info={"app_id": dstack_made.APP_ID.hex()}, gpus=())
    whole = parse_document(made.evidence(document).items).machines[0].evidence
    assert [item.name for item in whole.items] == ["cpu", "eventlog", "dstack"]
    as_text = made.machine(event_log=json.dumps(entries, separators=(",", ":")), gpus=())
    assert parse_document(made.evidence(as_text).items).machines[0].evidence.items[1] == whole.items[1]
    error = refused(document)
    assert "fail" in outcome(error, "dstack.replay")


def test_an_instance_may_have_no_gpus() -> None:
    entry = made.instance("a", gpu_evidence=None)
    assert claims(verified(made.chutes(entry), made.instances("a")), "a/cpu")["gpu_binding"] == "none"


def test_a_device_without_a_chain_that_names_it_is_refused() -> None:
    pem = base64.b64decode(made.device()["certificate"]).decode().split("-----END CERTIFICATE-----")[0]
    alone = base64.b64encode(f"{pem}-----END CERTIFICATE-----\n".encode()).decode()
    assert refused(made.ecdsa_machine(nvidia_payload=[made.device() | {"certificate": alone}])).exit_code == 4


@pytest.mark.parametrize("family", [*made.HONEST, "tinfoil v2"])
def test_a_document_is_recognised_by_its_members(family: str) -> None:
    document, keys = made.HONEST[family]() if family in made.HONEST else (made.tinfoil_v2(), None)
    data = document if isinstance(document, bytes) else made.jsons(document)
    files = [("document.json", data), *([("keys.json", made.jsons(keys))] if keys is not None else [])]
    found = read_evidence(files, form="provider-json")
    assert found.evidence == made.evidence(data, keys)
    assert read_evidence(files[::-1]).evidence == found.evidence
    assert found.evidence.digest == read_evidence(files[::-1]).evidence.digest


def test_keys_without_evidence_are_no_evidence() -> None:
    with pytest.raises(EvidenceError) as raised:
        read_evidence([("keys.json", made.jsons(made.instances("a")))])
    assert raised.value.code == "evidence-empty"


def test_documents_of_two_services_are_ambiguous() -> None:
    with pytest.raises(EvidenceError) as raised:
        read_evidence([("a", made.jsons(made.machine())), ("b", made.jsons(made.tinfoil_v2()))])
    assert raised.value.code == "evidence-ambiguous"


def test_the_items_of_a_document_are_those_of_its_machines() -> None:
    names = [item.name for item in device_items(made.evidence(made.gateway()))]
    assert names == ["0/cpu", "1/cpu", "1/gpu0"]
    plain = Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=b"x"),))
    assert device_items(plain) == plain.items


_BAD_GZIP = base64.b64encode(b"\x1f\x8bnot gzip").decode()
MALFORMED: dict[str, tuple[object, object, str]] = {
    "no algorithm": (made.machine(signing_algo=None), None, "document.signing_algo"),
    "unknown algorithm": (made.machine(signing_algo="rsa"), None, "document.signing_algo"),
    "address in other text": (made.machine(signing_address="xyz"), None, "document.signing_address"),
    "short address": (made.machine(signing_address="00"), None, "document.signing_address"),
    "address without its prefix": (
        made.ecdsa_machine(signing_address=made.ECDSA_ADDRESS.hex()),
        None,
        "document.signing_address",
    ),
    "compressed key": (made.ecdsa_machine(signing_key="02" + "11" * 64), None, "document.signing_key"),
    "quote in other text": (made.machine(intel_quote="zz"), None, "document.intel_quote"),
    "list of something else": ({**made.machine(), "all_attestations": [1]}, None, "all_attestations[0]"),
    "gateway alone": (made.gateway() | {"model_attestations": []}, None, "model_attestations"),
    "certificate in other text": (made.gateway(tls_certificate="x"), None, "gateway_attestation.tls_certificate"),
    "broken certificate": (
        made.gateway(tls_certificate="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        None,
        "gateway_attestation.tls_certificate",
    ),
    "ohttp algorithm": (
        made.machine(ohttp_attestation=made.ohttp(signing_algo="x")),
        None,
        "document.ohttp_attestation.signing_algo",
    ),
    "no instance": ({"evidence": [], "failed_instance_ids": []}, None, "evidence"),
    "no instance in a list": (made.listed() | {"all_attestations": []}, None, "all_attestations"),
    "name of an instance": (made.chutes(made.instance("a/b")), None, "evidence[0].instance_id"),
    "instance certificate": (made.chutes(made.instance("a", certificate="AAAA")), None, "evidence[0].certificate"),
    "instance certificate in other text": (
        made.chutes(made.instance("a", certificate="?")),
        None,
        "evidence[0].certificate",
    ),
    "instance twice among the keys": (
        made.chutes(made.instance("a")),
        made.instances("a", "a"),
        "instances[1].instance_id",
    ),
    "keys without instances": (made.chutes(made.instance("a")), {"nonce_expires_in": 60}, "instances"),
    "short key": (made.chutes(made.instance("a")), made.instances("a", key=b"x"), "instances[0].e2e_pubkey"),
    "no signature": (made.tinfoil(signature=None), None, "signature"),
    "no gzip": (made.tinfoil_v2(body=_BAD_GZIP), None, "body"),
    "too much in the gzip": (made.tinfoil_v2(bytes(70_000)), None, "body"),
    "two gzip streams": (
        made.tinfoil_v2(body=base64.b64encode(gzip.compress(b"a" * 700) + gzip.compress(b"b" * 700)).decode()),
        None,
        "body",
    ),
    "an empty gzip stream in front": (
        made.tinfoil_v2(body=base64.b64encode(gzip.compress(b"") + gzip.compress(made.quote(bytes(64)))).decode()),
        None,
        "body",
    ),
    "bytes behind the gzip": (
        made.tinfoil_v2(body=base64.b64encode(gzip.compress(made.quote(bytes(64))) + b"\0").decode()),
        None,
        "body",
    ),
    "cut gzip": (
        made.tinfoil_v2(body=base64.b64encode(gzip.compress(bytes(100))[:-3]).decode()),
        None,
        "body",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_document_is_refused_by_its_path(name: str) -> None:
    document, keys, field = MALFORMED[name]
    error = refused(document, keys)
    assert (error.code, error.exit_code, error.field) == ("provider-document-malformed", 3, field)
    assert error.check == "provider.form"


def test_an_unknown_form_is_unsupported_by_name() -> None:
    for document in (
        made.tinfoil_v2() | {"format": "https://tinfoil.sh/predicate/sev-snp-guest/v1"},
        made.tinfoil(cpu={"platform": "arm-cca", "report": ""}),
        {"something": "else"},
    ):
        error = refused(document)
        assert (error.code, error.exit_code) == ("evidence-unsupported", 3)


def test_a_document_stands_alone_or_with_its_keys() -> None:
    document, keys = made.evidence(made.chutes(), made.instances("instance-1")).items
    report = EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=b"x")
    other = made.evidence(made.machine()).items[0]
    for items in ((keys,), (document, replace(document, name="second")), (document, report), (other, keys)):
        with pytest.raises(EvidenceError) as raised:
            parse_document(items)
        assert raised.value.code == "evidence-ambiguous"


def test_a_document_of_more_than_its_limit_is_refused() -> None:
    big = EvidenceItem(
        name="document",
        media_type=MEDIA_PROVIDER_DOCUMENT,
        value=b'{"a":"' + b"x" * MAX_DOCUMENT_BYTES + b'"}',
    )
    with pytest.raises(EvidenceError) as raised:
        parse_document((big,))
    assert raised.value.code == "provider-document-malformed"


def test_a_machine_needs_a_report_of_a_known_kind() -> None:
    with pytest.raises(EvidenceError) as raised:
        verify(
            made.evidence(made.machine(gpus=())),
            endorsements=made.endorsements(),
            anchors=TrustAnchors.simulation(),
            at=AT,
            formats=FormatTable(kinds=()),
        )
    assert raised.value.code == "evidence-unsupported"


def test_members_of_a_document_keep_their_exact_bytes() -> None:
    text = ' {\n "a" : [1,\t2] , "\\u0062":{"c": "}"},"d":"é"} '
    places = raw_members(text.encode())
    assert {name: text[place] for name, place in places.items()} == {"a": "[1,\t2]", "b": '{"c": "}"}', "d": '"é"'}
    assert raw_members(b" { } ") == {}
    assert json.loads(text)["b"] == {"c": "}"}


def test_a_gateway_may_send_its_chain_behind_its_certificate() -> None:
    chain = made.pem(made.certificate()) + made.pem(made.certificate(made.rsa_key()))
    assert verified(made.gateway(tls_certificate=chain))


def test_a_connection_is_bound_by_its_tls_key_or_by_the_key_that_requests_are_encrypted_to() -> None:
    near = claims(verified(made.machine()))
    fingerprint = made.spki_sha256(made.certificate())
    assert connection_of(near, peer_spki_sha256=fingerprint) == "bound"
    assert connection_of(near, recipient_key=made.ADDRESS) == "bound"
    chutes = claims(verified(made.chutes(made.instance("a")), made.instances("a")), "a/cpu")
    assert connection_of(chutes, recipient_key=made.kem_key("a")) == "bound"
    for stated in (near, chutes, {}):
        for given in ({}, {"peer_spki_sha256": bytes(32)}, {"recipient_key": fingerprint}):
            assert connection_of(stated, **given) == "not bound to this connection"
