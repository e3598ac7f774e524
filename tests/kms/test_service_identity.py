"""Mutual attestation: a service proves its machine, its TLS key and its configuration, or nothing is asked of it."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.testclient import TestClient

from attest import Binding, Endorsements, Evidence, TrustAnchors, load_policy
from attest.encoding import base64url_text
from attest.errors import (
    AppraisalError,
    AttestError,
    BindingError,
    CollectionError,
    ConfigurationError,
    EndorsementError,
    SignatureError,
    VerificationError,
)
from attest.release import sign_note, verifier_key
from attest.release.client import KeyReleaseClient
from attest.release.identity import (
    CONTEXT,
    ROLE,
    ServiceAttestation,
    ServiceStatement,
    identity_binding,
    identity_note,
)
from attest.release.mutual_attestation import AttestationAnswer
from kms.api.app import create_app
from kms.config.configuration import read_configuration
from kms.domain.errors import AttestationOffError, UnavailableError
from kms.running.self_evidence import SelfEvidenceService, open_source
from kms.running.self_evidence.service import MAX_REMEMBERED, MAX_WAITING, REPEAT_SECONDS
from tests.collect.fake_machine import plain_machine, snp_machine, tdx_machine
from tests.kms.proving import POLICIES, SOURCES, TLS_KEY, Proving, require_proof
from tests.kms.support import GUEST, MATERIAL, ORIGIN, Harness, Workload, policy_text, settings_for

STRANGER = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
NONCE = b"\x11" * 32


@pytest.fixture(params=["snp", "tdx"])
def proving(request: pytest.FixtureRequest, harness: Harness) -> Proving:
    return Proving(harness=harness, tee=str(request.param))


def refused(proving: Proving, **changes: Any) -> AttestError:  # noqa: ANN401  fields of an expectation
    mutual = proving.expecting(**changes)
    with pytest.raises(AttestError) as caught:
        require_proof(mutual, proving.ask)
    assert mutual.proven is None
    return caught.value


# -- what is proved


def test_mc_30_a_service_proves_its_machine_its_tls_key_and_its_configuration(proving: Proving) -> None:
    mutual = proving.expecting()
    require_proof(mutual, proving.ask)
    proven = mutual.proven
    assert proven is not None
    assert proven.statement.verifier_key == proving.harness.audience
    assert proven.statement.tls_spki_sha256 == TLS_KEY
    configuration = read_configuration(proving.harness.settings, proving.harness.services.anchors)
    assert proven.statement.configuration_sha256 == configuration.digest
    assert proven.statement.allow_simulated is True
    assert proven.result.verified.simulated is True
    assert proven.result.verified.binding is not None
    assert proven.result.verified.binding.audience == "unit/test client"


def test_the_configuration_can_be_demanded(proving: Proving) -> None:
    digest = read_configuration(proving.harness.settings, proving.harness.services.anchors).digest
    require_proof(proving.expecting(configuration=digest), proving.ask)
    error = refused(proving, configuration=b"\x01" * 32)
    assert (error.code, error.got) == ("service-configuration-mismatch", digest.hex())


def test_a_proof_counts_for_a_while_and_is_asked_for_again_then(proving: Proving) -> None:
    mutual = proving.expecting(max_age=timedelta(seconds=60))
    require_proof(mutual, proving.ask)
    proving.harness.clock.forward(seconds=59)
    require_proof(mutual, proving.ask)
    assert len(proving.asked) == 1
    proving.harness.clock.forward(seconds=1)
    require_proof(mutual, proving.ask)
    assert len(proving.asked) == 2
    proving.harness.clock.forward(seconds=-1)
    require_proof(mutual, proving.ask)
    assert len(proving.asked) == 3


def test_every_question_has_a_nonce_of_its_own(proving: Proving) -> None:
    mutual = proving.expecting(max_age=timedelta(0))
    for _ in range(3):
        require_proof(mutual, proving.ask)
    assert len(set(proving.asked)) == 3


# -- every member of the binding, altered by a machine that is genuine


ALTERED: dict[str, tuple[Callable[[Binding], Binding], str]] = {
    "context": (lambda b: replace(b, context="kms-release/v1"), "binding-context-mismatch"),
    "role": (lambda b: replace(b, role="workload"), "binding-role-mismatch"),
    "audience": (lambda b: replace(b, audience="anybody"), "binding-audience-mismatch"),
    "nonce": (lambda b: replace(b, nonce=bytes(32)), "nonce-mismatch"),
    "key": (lambda b: replace(b, key=b"another+12345678+service"), "service-identity-mismatch"),
    "devices": (lambda b: replace(b, devices=(bytes(48),)), "binding-devices-mismatch"),
    "init_data": (lambda b: replace(b, init_data=bytes(32)), "service-statement-mismatch"),
    "init_data absent": (lambda b: replace(b, init_data=None), "service-statement-mismatch"),
}


def test_every_member_of_the_binding_is_among_those_that_are_altered() -> None:
    assert {name.split()[0] for name in ALTERED} == set(Binding.__dataclass_fields__)


@pytest.mark.parametrize("name", ALTERED)
def test_mc_2_evidence_that_commits_to_something_else_is_refused(proving: Proving, name: str) -> None:
    proving.change, code = ALTERED[name]
    error = refused(proving)
    assert isinstance(error, VerificationError)
    assert error.code == code


def test_evidence_without_the_binding_that_it_commits_to_is_refused(proving: Proving) -> None:
    def without(answer: ServiceAttestation) -> ServiceAttestation:
        items = tuple(item for item in answer.evidence.items if item.name != "binding")
        return signed(proving.harness, replace(answer, evidence=replace(answer.evidence, items=items)), proving)

    proving.answered = without
    assert isinstance(refused(proving), (VerificationError, ValueError))


def signed(harness: Harness, answer: ServiceAttestation, proving: Proving) -> ServiceAttestation:
    """The same answer, signed by the service itself: it lies, and means it."""
    from attest.encoding import base64url_bytes

    nonce = base64url_bytes(proving.asked[-1].partition("nonce=")[2].partition("&")[0], what="nonce")
    text = identity_note(nonce=nonce, audience="unit/test client", statement=answer.statement, evidence=answer.evidence)
    identity = harness.services.identity
    return replace(answer, note=sign_note(text, name=identity.public.name, key=identity.key))


STATED: dict[str, Any] = {
    "tls_spki_sha256": b"\x52" * 32,
    "configuration_sha256": bytes(32),
    "anchors_sha256": bytes(32),
    "allow_simulated": False,
    "profile": "production",
    "version": "9.9.9",
}


@pytest.mark.parametrize("name", STATED)
def test_a_statement_that_the_evidence_does_not_commit_to_is_refused_signed_or_not(proving: Proving, name: str) -> None:
    def lying(answer: ServiceAttestation) -> ServiceAttestation:
        other = replace(ServiceStatement.parse(answer.statement), **{name: STATED[name]})
        return signed(proving.harness, replace(answer, statement=other.to_bytes()), proving)

    proving.answered = lying
    assert refused(proving).code == "service-statement-mismatch"


def test_every_member_of_the_statement_is_among_those_that_are_altered() -> None:
    assert {*STATED, "verifier_key"} == set(ServiceStatement.__dataclass_fields__)


@pytest.mark.parametrize("change", [b" ", b"{}", b"[]", b"null", b"x"])
def test_a_statement_of_another_spelling_is_refused(proving: Proving, change: bytes) -> None:
    proving.answered = lambda answer: replace(answer, statement=answer.statement + change if change == b" " else change)
    assert refused(proving).code in {"wire-invalid", "json-invalid"}


@pytest.mark.parametrize("name", ["more", "schema", "tls_spki_sha256", "allow_simulated", "version"])
def test_a_statement_with_other_members_is_refused(proving: Proving, name: str) -> None:
    def other(answer: ServiceAttestation) -> ServiceAttestation:
        document = json.loads(answer.statement) | {name: 7}
        raw = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        return replace(answer, statement=raw)

    proving.answered = other
    assert refused(proving).code == "wire-invalid"


# -- replayed, relayed, of somebody else


def test_mc_1_an_answer_to_another_question_is_refused(proving: Proving) -> None:
    old: list[ServiceAttestation] = []

    def replayed(answer: ServiceAttestation) -> ServiceAttestation:
        old.append(answer)
        return old[0]

    proving.answered = replayed
    mutual = proving.expecting(max_age=timedelta(0))
    require_proof(mutual, proving.ask)
    with pytest.raises(BindingError) as caught:
        require_proof(mutual, proving.ask)
    assert caught.value.code == "service-answer-replayed"


def test_old_evidence_under_a_new_signature_is_refused(proving: Proving) -> None:
    old: list[ServiceAttestation] = []

    def replayed(answer: ServiceAttestation) -> ServiceAttestation:
        old.append(answer)
        return signed(proving.harness, replace(answer, evidence=old[0].evidence), proving)

    proving.answered = replayed
    mutual = proving.expecting(max_age=timedelta(0))
    require_proof(mutual, proving.ask)
    with pytest.raises(BindingError) as caught:
        require_proof(mutual, proving.ask)
    assert caught.value.code == "nonce-mismatch"


def test_another_service_that_proves_itself_is_not_the_configured_one(proving: Proving) -> None:
    error = refused(proving, service=verifier_key(ORIGIN, STRANGER.public_key()))
    assert isinstance(error, SignatureError)
    assert error.code == "note-signature-invalid"


def test_a_stolen_signing_key_outside_the_machine_that_attests_is_refused(proving: Proving) -> None:
    """The signature is right; the evidence is that of a TEE that holds another identity."""
    stranger = verifier_key(ORIGIN, STRANGER.public_key()).text

    def relayed(answer: ServiceAttestation) -> ServiceAttestation:
        statement = replace(ServiceStatement.parse(answer.statement), verifier_key=stranger)
        nonce = bytes.fromhex(str(json.loads(answer.note.split("\n")[1])["nonce"]))
        binding = identity_binding(statement, nonce=nonce, audience="unit/test client")
        evidence = SOURCES[proving.tee](binding)
        return signed(proving.harness, replace(answer, statement=statement.to_bytes(), evidence=evidence), proving)

    proving.answered = relayed
    error = refused(proving)
    assert (error.code, error.got) == ("service-identity-mismatch", stranger)


@pytest.mark.parametrize("seen", [b"\x52" * 32, None])
def test_another_tls_key_than_the_one_that_is_proved_is_refused(proving: Proving, seen: bytes | None) -> None:
    proving.seen = seen
    assert refused(proving).code == "service-tls-key-mismatch"


def test_a_service_without_tls_is_refused_unless_that_is_allowed_by_name(harness: Harness) -> None:
    proving = Proving(harness=harness, tls=None, seen=None)
    assert refused(proving).code == "service-tls-key-mismatch"
    require_proof(proving.expecting(unchecked_tls="a test on the loopback address"), proving.ask)
    for reason in ("", "  "):
        with pytest.raises(ValueError, match="unchecked_tls needs a reason"):
            proving.expecting(unchecked_tls=reason)


def test_an_answer_over_another_channel_than_the_proved_one_does_not_count(proving: Proving) -> None:
    mutual = proving.expecting()
    mutual.require_same_channel(None)  # nothing is proved yet; what asks for a proof comes first
    require_proof(mutual, proving.ask)
    mutual.require_same_channel(TLS_KEY)
    with pytest.raises(BindingError):
        mutual.require_same_channel(b"\x52" * 32)


# -- the machine


def test_a_machine_that_the_policy_does_not_accept_is_refused_with_every_check(harness: Harness) -> None:
    proving = Proving(harness=harness)
    error = refused(proving, policy=load_policy(policy_text(measurement=b"\x01" * 48)))
    assert isinstance(error, AppraisalError)
    assert error.code == "service-policy-not-met"
    assert "policy.snp.measurement" in {check.id for check in error.checks}


def test_mc_17_simulated_evidence_is_refused_unless_anchors_and_policy_both_allow_it(proving: Proving) -> None:
    assert isinstance(refused(proving, anchors=TrustAnchors.vendors()), VerificationError)
    strict = b"\n".join(line for line in POLICIES[proving.tee].splitlines() if not line.startswith(b"simulated:"))
    assert refused(proving, policy=load_policy(strict)).code == "service-policy-not-met"


def test_missing_endorsements_are_asked_for_where_that_is_allowed(proving: Proving) -> None:
    from tests.kms.proving import endorsements

    none = Endorsements()
    assert isinstance(refused(proving, endorsements=none), EndorsementError)
    asked: list[Evidence] = []

    def fetch(evidence: Evidence, at: object) -> Endorsements:
        asked.append(evidence)
        return endorsements()

    require_proof(proving.expecting(endorsements=none, fetch=fetch), proving.ask)
    assert len(asked) == 1


def test_a_service_without_evidence_is_refused(harness: Harness) -> None:
    proving = Proving(harness=harness)
    mutual = proving.expecting()
    off = AttestationAnswer(status=404, document={"code": "attestation-off", "detail": "no"}, tls_key=TLS_KEY)
    with pytest.raises(VerificationError) as caught:
        require_proof(mutual, lambda _: off)
    assert caught.value.code == "service-evidence-missing"
    busy = replace(off, status=503, document={"code": "attestation-busy", "detail": "later"})
    with pytest.raises(EndorsementError) as later:
        require_proof(mutual, lambda _: busy)
    assert (later.value.code, later.value.retryable) == ("service-evidence-unavailable", True)
    strange: tuple[Any, ...] = ({}, [], None, {"statement": 1, "evidence": {}, "note": ""})
    for document in strange:
        with pytest.raises(AttestError):
            require_proof(mutual, lambda _, d=document: AttestationAnswer(status=200, document=d, tls_key=TLS_KEY))  # type: ignore[misc]


# -- over HTTP


def client_of(harness: Harness, **more: Any) -> TestClient:  # noqa: ANN401  arguments of the application
    app = create_app(harness.settings, harness.services, **more)
    return TestClient(app, raise_server_exceptions=False, base_url="http://kms.test")


def query(nonce: bytes = NONCE, **more: str) -> dict[str, str]:
    return {"nonce": base64url_text(nonce), **more}


def test_the_route_answers_with_evidence_for_the_question(harness: Harness) -> None:
    with client_of(harness, evidence=SOURCES["snp"]) as http:
        answer = http.get("/v1/attestation", params=query(audience="me"))
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        made = ServiceAttestation.from_json(answer.json())
        note = harness.services.identity.public.verify(made.note)
        assert json.loads(note.split("\n")[1])["nonce"] == NONCE.hex()
        (item,) = [item for item in made.evidence.items if item.name == "binding"]
        from attest.evidence.binding import parse_binding

        binding = parse_binding(item.value)
        assert (binding.context, binding.role, binding.audience) == (CONTEXT, ROLE, "me")
        assert binding.init_data == sha256(made.statement).digest()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"nonce": ""},
        {"nonce": "A" * 42},
        {"nonce": "A" * 44},
        {"nonce": "A" * 42 + "B"},  # bits that stand for nothing
        {"nonce": "A" * 42 + "="},
        query(audience=""),
        query(audience="a\nb"),
        query(audience="x" * 513),
    ],
)
def test_a_question_of_another_shape_is_422(harness: Harness, params: dict[str, str]) -> None:
    with client_of(harness, evidence=SOURCES["snp"]) as http:
        answer = http.get("/v1/attestation", params=params)
        assert (answer.status_code, answer.json()["code"]) == (422, "request-schema")


def test_a_service_that_proves_nothing_says_404_with_a_code(harness: Harness) -> None:
    with client_of(harness) as http:
        answer = http.get("/v1/attestation", params=query())
        assert (answer.status_code, answer.json()["code"]) == (404, "attestation-off")


def test_the_client_asks_for_nothing_before_the_service_has_proved_itself(harness: Harness) -> None:
    harness.add_key("model")
    asked: list[str] = []
    with client_of(harness, evidence=SOURCES["snp"]) as http:
        stream = http.stream
        http.stream = lambda method, url, **more: asked.append(str(url)) or stream(method, url, **more)  # type: ignore[method-assign, func-returns-value]
        proving = Proving(harness=harness)
        service = harness.services.identity.public
        good = proving.expectation(unchecked_tls="the test's client has no TLS")
        client = KeyReleaseClient(http, service=service, expect=good)  # type: ignore[arg-type]  # a client all the same
        (key,) = client.release(("model",), attester=Workload().attest)
        assert key.material == MATERIAL
        assert client.proven is not None
        assert [path.partition("?")[0] for path in asked] == [
            "/v1/attestation",
            "/v1/challenges",
            "/v1/releases",
        ]
        asked.clear()
        bad = replace(good, policy=load_policy(policy_text(measurement=bytes(48))))
        with pytest.raises(AppraisalError):
            KeyReleaseClient(http, service=service, expect=bad).release(  # type: ignore[arg-type]  # as above
                ("model",), attester=Workload().attest
            )
        assert [path.partition("?")[0] for path in asked] == ["/v1/attestation"]


# -- self-evidence


class Device:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False
        self.hold = threading.Event()
        self.hold.set()

    def __call__(self, binding: Binding) -> Evidence:
        self.asked += 1
        assert self.hold.wait(60)
        if self.fails:
            raise CollectionError("secret words of the device", code="tsm-busy")
        return SOURCES["snp"](binding)


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def self_evidence(harness: Harness, device: Device) -> SelfEvidenceService:
    proving = Proving(harness=harness)
    statement = ServiceStatement.parse(proving.self_evidence.answer(nonce=NONCE, audience="x").statement)
    return SelfEvidenceService(
        device, identity=harness.services.identity, state=lambda: statement, clock=harness.clock, per_minute=3
    )


def test_the_same_question_is_answered_without_asking_the_device_again(
    harness: Harness, self_evidence: SelfEvidenceService, device: Device
) -> None:
    first = self_evidence.answer(nonce=NONCE, audience="a")
    harness.clock.forward(seconds=REPEAT_SECONDS - 1)
    assert self_evidence.answer(nonce=NONCE, audience="a") is first
    assert device.asked == 1
    self_evidence.answer(nonce=NONCE, audience="b")
    harness.clock.forward(seconds=1)
    assert self_evidence.answer(nonce=NONCE, audience="a") is not first
    assert device.asked == 3


def test_mc_32_the_device_is_asked_so_often_in_a_minute_and_not_more(
    harness: Harness, self_evidence: SelfEvidenceService, device: Device
) -> None:
    for number in range(3):
        self_evidence.answer(nonce=bytes([number]) * 32, audience="a")
    harness.clock.forward(seconds=59)
    with pytest.raises(UnavailableError) as caught:
        self_evidence.answer(nonce=NONCE, audience="a")
    assert (caught.value.code, caught.value.retryable) == ("attestation-busy", True)
    harness.clock.forward(seconds=1)
    self_evidence.answer(nonce=NONCE, audience="a")
    assert device.asked == 4


def test_who_waits_for_a_slow_device_are_bounded(self_evidence: SelfEvidenceService, device: Device) -> None:
    device.hold.clear()
    threads = [
        threading.Thread(target=partial(self_evidence.answer, nonce=NONCE, audience="a")) for _ in range(MAX_WAITING)
    ]
    for thread in threads:
        thread.start()
    while self_evidence._waiting.under_way < MAX_WAITING:  # noqa: SLF001  nothing else shows that all of them wait
        pass
    with pytest.raises(UnavailableError) as caught:
        self_evidence.answer(nonce=NONCE, audience="a")
    assert caught.value.code == "attestation-busy"
    device.hold.set()
    for thread in threads:
        thread.join()
    assert device.asked == 1


def test_a_device_that_fails_is_503_and_its_words_stay_here(self_evidence: SelfEvidenceService, device: Device) -> None:
    device.fails = True
    with pytest.raises(UnavailableError) as caught:
        self_evidence.answer(nonce=NONCE, audience="a")
    assert caught.value.code == "attestation-failed"
    assert "secret words" not in caught.value.message
    device.fails = False
    self_evidence.answer(nonce=NONCE, audience="a")


def test_so_many_answers_are_remembered_and_no_more(harness: Harness, device: Device) -> None:
    statement = ServiceStatement.parse(
        Proving(harness=harness).self_evidence.answer(nonce=NONCE, audience="x").statement
    )
    self_evidence = SelfEvidenceService(
        device, identity=harness.services.identity, state=lambda: statement, clock=harness.clock, per_minute=6000
    )
    for number in range(MAX_REMEMBERED + 1):
        self_evidence.answer(nonce=number.to_bytes(32, "big"), audience="a")
    before = device.asked
    self_evidence.answer(nonce=MAX_REMEMBERED.to_bytes(32, "big"), audience="a")
    assert device.asked == before
    self_evidence.answer(nonce=bytes(32), audience="a")
    assert device.asked == before + 1


def test_nothing_is_answered_where_it_is_off(harness: Harness) -> None:
    self_evidence = SelfEvidenceService(
        None, identity=harness.services.identity, state=lambda: pytest.fail("asked"), clock=harness.clock, per_minute=1
    )
    with pytest.raises(AttestationOffError):
        self_evidence.answer(nonce=NONCE, audience="a")


# -- where evidence comes from


def binding() -> Binding:
    return Binding(context=CONTEXT, role=ROLE, audience="a", nonce=NONCE, key=b"k")


def sourced(tmp_path: Path, harness: Harness, evidence: str, machine: Any) -> Any:  # noqa: ANN401  fakes and sources
    settings = settings_for(tmp_path, self_evidence=evidence)
    return open_source(settings, clock=harness.clock, access=machine.access)


def test_the_machines_own_tee_is_asked(harness: Harness, tmp_path: Path) -> None:
    machines: tuple[tuple[str, Any], ...] = (("snp", snp_machine), ("tdx", tdx_machine))
    for number, (wanted, machine) in enumerate((*machines, *(("auto", machine) for _, machine in machines))):
        made = machine(tmp_path / str(number))
        source = sourced(tmp_path, harness, wanted, made)
        evidence = source(binding())
        assert {"cpu", "binding"} <= {item.name for item in evidence.items}


@pytest.mark.parametrize("wanted", ["snp", "tdx", "azure"])
def test_a_tee_that_is_demanded_and_not_there_is_an_error_at_the_start(
    harness: Harness, tmp_path: Path, wanted: str
) -> None:
    machines = {"none": plain_machine(tmp_path / "n")}
    machines |= {"tdx": tdx_machine(tmp_path / "t")} if wanted != "tdx" else {"snp": snp_machine(tmp_path / "s")}
    for machine in machines.values():
        with pytest.raises(ConfigurationError) as caught:
            sourced(tmp_path, harness, wanted, machine)
        assert caught.value.code == "self-evidence-unavailable"


def test_auto_without_a_tee_and_off_with_one_prove_nothing(harness: Harness, tmp_path: Path) -> None:
    assert sourced(tmp_path, harness, "auto", plain_machine(tmp_path / "n")) is None
    assert sourced(tmp_path, harness, "off", snp_machine(tmp_path / "s", GUEST)) is None


def test_mc_17_the_simulator_proves_a_service_only_where_simulation_is_accepted(tmp_path: Path) -> None:
    for name in ("simulated-snp", "simulated-tdx"):
        assert settings_for(tmp_path, self_evidence=name).self_evidence == name
        with pytest.raises(ValueError, match="allow_simulated"):
            settings_for(tmp_path, self_evidence=name, allow_simulated=False)
