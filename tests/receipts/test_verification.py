"""A receipt with its chain is verified, and every attack on a link of it is refused by its step."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.checks import Check, Outcome
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AppraisalError, AttestError, ConfigurationError
from attest.evidence.envelope import MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.policy import load_policy
from attest.receipts import (
    ModelParts,
    OpenedModel,
    PartReference,
    ReceiptFile,
    ReceiptStatement,
    ReleasePart,
    parse_receipt,
    parse_receipt_file,
    parse_statement,
)
from attest.release import sign_note
from attest.release.receipts import read_receipt, receipt_text
from attest.release.tlog import WitnessKey, WitnessPolicy, leaf_hash
from attest.release.wire import signed_text
from attest_simulator import SimulatedGuest
from tests.channel.support import POLICY, WORLD
from tests.receipts.machine import (
    CHALLENGE,
    ISSUER,
    REQUEST,
    RESPONSE,
    Machine,
    checked,
    expectation,
    opened,
    released,
    sealed_model,
)
from tests.release.test_client import KEY, SERVICE
from tests.samples import AT, NONCE, scene
from tests.sealed.made import OWNER, STRANGER

SECOND = timedelta(seconds=1)


def refusal(file: ReceiptFile, **arguments: object) -> AttestError:
    with pytest.raises(AttestError) as caught:
        checked(file, **arguments)  # type: ignore[arg-type]  # each as `checked` names it
    return caught.value


def step_of(error: AttestError) -> str:
    """The check that refused; exactly one did, and no later one passed."""
    steps = [check for check in error.checks if check.id.startswith("receipt.")]
    failed = [at for at, check in enumerate(steps) if check.outcome is Outcome.FAIL]
    assert len(failed) == 1
    assert {check.outcome for check in steps[failed[0] + 1 :]} <= {Outcome.NOT_EVALUATED}
    assert error.clause
    return steps[failed[0]].id


def outcomes(checks: tuple[Check, ...]) -> dict[str, Outcome]:
    return {check.id.removeprefix("receipt."): check.outcome for check in checks if check.id.startswith("receipt.")}


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine()


@pytest.fixture(scope="module")
def file(machine: Machine) -> ReceiptFile:
    return machine.file()


# -- what holds


@pytest.mark.parametrize("channel", [False, True], ids=["alone", "with the channel"])
def test_a_receipt_of_an_honest_machine_is_verified(channel: bool) -> None:
    verified = checked(Machine(channel=channel).file(challenge=CHALLENGE), challenge=CHALLENGE, nonce=NONCE)
    assert set(outcomes(verified.checks).values()) == {Outcome.PASS}
    assert verified.claims.issuer == ISSUER
    assert verified.claims.sampling == (("seed", "42"), ("temperature", "0.7"))
    assert verified.parts[0].signed.name == "sealed"
    assert verified.parts[0].partial == ()
    assert verified.parts[0].release is not None
    assert verified.parts[0].release.service == SERVICE
    assert [check.outcome for check in verified.checks if check.id == "freshness"] == [Outcome.PASS]


def test_a_receipt_is_verified_without_its_bodies_and_says_that_they_were_not_compared(file: ReceiptFile) -> None:
    verified = checked(file, request=None, response=None)
    found = outcomes(verified.checks)
    assert {name for name, outcome in found.items() if outcome is not Outcome.PASS} == {
        "request",
        "response",
        "challenge",
    }


def test_without_the_nonce_freshness_is_a_named_relaxation(file: ReceiptFile) -> None:
    verified = checked(file)
    assert [relaxed.check for relaxed in verified.unchecked] == ["freshness"]
    assert [check.outcome for check in verified.checks if check.id == "freshness"] == [Outcome.NOT_EVALUATED]


def test_a_simulated_machine_is_always_called_simulated(file: ReceiptFile) -> None:
    verified = checked(file)
    assert verified.simulated
    assert any("SIMULATED" in check.got for check in verified.checks if check.id == "receipt.policy")


def test_a_verified_receipt_is_no_condition(file: ReceiptFile) -> None:
    with pytest.raises(TypeError, match="not a condition"):
        bool(checked(file))


def test_an_answer_that_was_cut_off_is_refused_unless_it_is_asked_for(machine: Machine) -> None:
    cut = machine.file(events=(b"data: half",), complete=False)
    error = refusal(cut, response=b"data: half")
    assert (error.code, step_of(error)) == ("receipt-answer-incomplete", "receipt.complete")
    assert (error.field, error.got) == ("claims.response.complete", "cut off after 10 bytes")
    verified = checked(cut, response=b"data: half", allow_incomplete=True)
    assert outcomes(verified.checks)["complete"] is Outcome.WARNING
    assert not verified.claims.response.complete


def test_a_model_that_is_not_decrypted_completely_is_a_warning_with_its_files() -> None:
    machine = Machine(models=(OpenedModel(directory=opened(sealed_model(), whole=False), release=released()),))
    verified = checked(machine.file())
    assert outcomes(verified.checks)["loaded"] is Outcome.WARNING
    assert "model.safetensors" in verified.parts[0].partial


def test_a_model_without_a_service_has_no_release_and_the_result_says_so() -> None:
    machine = Machine(models=(OpenedModel(directory=opened(sealed_model(service=False))),))
    verified = checked(machine.file())
    assert outcomes(verified.checks)["release"] is Outcome.NOT_EVALUATED
    assert verified.parts[0].release is None


def test_a_file_by_digests_is_verified_with_its_parts_beside_it(file: ReceiptFile) -> None:
    compact = parse_receipt_file(file.compact().to_bytes())
    assert len(compact.to_bytes()) < 5000
    assert compact.parts == ()
    assert checked(compact.with_parts(file.parts)).claims == file.receipt.claims


# -- (2) the statement, (3) the signatures


def test_the_statement_of_another_machine_is_refused(file: ReceiptFile) -> None:
    other = Machine(seed="other")
    error = refusal(replace(file, statement=other.chain.statement, evidence=other.chain.evidence))
    assert (error.code, step_of(error)) == ("receipt-statement-mismatch", "receipt.statement")


def test_a_receipt_of_one_machine_never_verifies_under_the_keys_of_another(machine: Machine) -> None:
    """The other machine signs claims that name the first one's statement."""
    other = Machine(seed="other")
    forged = replace(machine.file().receipt.claims, model=machine.record.digest)
    other.signer.digest = machine.signer.digest
    error = refusal(machine.chain.file(other.signer.sign(forged)))
    assert (error.code, step_of(error)) == ("receipt-key-mismatch", "receipt.ed25519")


@pytest.mark.parametrize("name", ["ed25519", "ml_dsa_65"])
def test_both_signatures_are_required(machine: Machine, name: str) -> None:
    """Each is exchanged for one of another receipt, in which the other signature is genuine."""
    first, second = machine.file(), machine.file()
    mixed = replace(first.receipt, **{name: getattr(second.receipt, name)})
    error = refusal(replace(first, receipt=mixed))
    assert (error.code, step_of(error)) == ("receipt-signature-invalid", f"receipt.{name}")


@pytest.mark.parametrize("name", ["ed25519", "ml_dsa_65"])
def test_a_key_of_the_statement_that_is_another_machines_is_refused(machine: Machine, name: str) -> None:
    """The evidence certifies a statement with one stolen public key."""
    file, other = machine.file(), Machine(seed="other").signer.statement
    mixed = replace(machine.signer.statement, **{name: getattr(other, name)})
    claims = replace(file.receipt.claims, statement=mixed.digest)
    machine.signer.digest, before = mixed.digest, machine.signer.digest
    receipt = machine.signer.sign(claims)
    machine.signer.digest = before
    error = refusal(
        replace(
            file, receipt=parse_receipt(receipt), statement=mixed.to_bytes(), evidence=machine.evidence(mixed.digest)
        )
    )
    assert (error.code, step_of(error)) == ("receipt-key-mismatch", f"receipt.{name}")


def test_a_key_that_is_no_point_of_its_curve_is_refused(file: ReceiptFile, machine: Machine) -> None:
    assert isinstance(file.statement, bytes)
    bad = replace(parse_statement(file.statement), ed25519=b"\xff" * 32)
    assert signed_under(machine, bad).code == "receipt-signature-invalid"


def signed_under(machine: Machine, statement: ReceiptStatement) -> AttestError:
    """The refusal of a receipt whose kids and claims name this statement."""
    receipt = machine.file().receipt
    kid = sha256(statement.ed25519).digest()
    claims = replace(receipt.claims, statement=statement.digest)
    changed = replace(receipt, claims=claims, payload=claims.to_bytes(), ed25519_kid=kid)
    return refusal(replace(machine.file(), receipt=changed, statement=statement.to_bytes()))


# -- (4) the evidence, (5) the binding, (6) the policy


def test_simulated_evidence_is_refused_under_the_vendors_roots(file: ReceiptFile) -> None:
    error = refusal(file, anchors=TrustAnchors.vendors())
    assert (error.code, step_of(error)) == ("simulated-root-refused", "receipt.evidence")
    assert any(check.id.startswith("snp.") for check in error.checks)


def test_a_missing_endorsement_can_be_fetched_and_is_named(file: ReceiptFile) -> None:
    error = refusal(file, endorsements=NO_ENDORSEMENTS)
    assert (error.exit_code, step_of(error)) == (5, "receipt.evidence")
    assert checked(file, endorsements=NO_ENDORSEMENTS, fetch=lambda _evidence, _at: WORLD.endorsements).simulated


def test_another_nonce_than_the_clients_is_refused(file: ReceiptFile) -> None:
    error = refusal(file, nonce=bytes(32))
    assert (error.code, step_of(error)) == ("nonce-mismatch", "receipt.evidence")


@pytest.mark.parametrize(
    "binding",
    [
        {"context": "kms-release/v1"},
        {"role": "workload"},
        {"audience": "other.example"},
        {"init_data": None},
        {"init_data": bytes(32)},
        {"init_data": bytes(64)},
    ],
    ids=str,
)
@pytest.mark.parametrize("channel", [False, True], ids=["alone", "with the channel"])
def test_evidence_for_something_else_certifies_no_receipt_keys(binding: dict[str, object], channel: bool) -> None:
    error = refusal(Machine(binding=binding, channel=channel).file())
    assert (error.code, step_of(error)) == ("receipt-binding-mismatch", "receipt.binding")


def test_evidence_of_another_machine_is_refused(file: ReceiptFile) -> None:
    error = refusal(replace(file, evidence=Machine(seed="other").evidence()))
    assert (error.code, step_of(error)) == ("receipt-binding-mismatch", "receipt.binding")


def test_evidence_without_a_binding_is_refused(file: ReceiptFile, machine: Machine) -> None:
    report = machine.guest.report(machine.signer.digest.ljust(64, b"\0"))
    bare = Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=report),))
    error = refusal(replace(file, evidence=bare.to_cbor()))
    assert (error.code, step_of(error)) == ("receipt-binding-mismatch", "receipt.binding")


def test_a_receipt_of_another_service_is_refused(file: ReceiptFile) -> None:
    assert checked(file, audience=ISSUER).claims.issuer == ISSUER
    error = refusal(file, audience="other.example")
    assert (error.code, step_of(error)) == ("receipt-binding-mismatch", "receipt.binding")


def test_a_receipt_that_names_another_service_than_its_evidence_is_refused(machine: Machine) -> None:
    receipt = machine.receipt(recorder=machine.recorder(issuer="bank.example"))
    error = refusal(machine.chain.file(receipt))
    assert (error.code, step_of(error)) == ("receipt-binding-mismatch", "receipt.binding")


def test_a_machine_that_the_policy_refuses_makes_no_valid_receipt() -> None:
    bad = SimulatedGuest(chip=WORLD.guest.chip, measurement=bytes(48))
    error = refusal(Machine(guest=bad).file())
    assert isinstance(error, AppraisalError)
    assert (error.code, step_of(error)) == ("not-affirmed", "receipt.policy")
    failed = [check.id for check in error.checks if check.outcome is Outcome.FAIL]
    assert "policy.snp.measurement" in failed


def test_a_policy_that_does_not_tolerate_the_simulator_refuses(file: ReceiptFile) -> None:
    strict = load_policy(
        b"schema: attest.policy/1\nname: strict\nversion: 1\nreference_values:\n  good:\n    values: ["
        + f'"{WORLD.guest.measurement.hex()}"'.encode()
        + b"]\n    origin: x\nsnp:\n  products: [Genoa]\n  measurement: [good]\n  minimum_tcb:\n"
        b"    Genoa: {bootloader: 9, tee: 0, snp: 26, microcode: 80}\n"
    )
    assert step_of(refusal(file, policy=strict)) == "receipt.policy"
    assert POLICY.simulated is not None


# -- (7) the model, (8) its manifest, (9) what was loaded


def other_model() -> OpenedModel:
    return OpenedModel(directory=opened(sealed_model("other")), release=released())


def test_a_model_that_is_exchanged_after_the_evidence_never_verifies(machine: Machine) -> None:
    """The machine's keys sign for a model that the evidence does not commit to."""
    other = Machine(models=(other_model(),))
    file, before = machine.file(), machine.signer.statement
    exchanged = replace(before, models=(other.record,))
    claims = replace(file.receipt.claims, model=other.record.digest)
    # (a) The receipt names the new model, the statement is the old one.
    machine.signer.statement = exchanged
    named = parse_receipt(machine.signer.sign(claims))
    # (b) The statement is new as well, and the evidence is the old one.
    machine.signer.digest, digest = exchanged.digest, machine.signer.digest
    restated = parse_receipt(machine.signer.sign(replace(claims, statement=exchanged.digest)))
    machine.signer.statement, machine.signer.digest = before, digest
    error = refusal(replace(file, receipt=named, models=other.chain.models))
    assert (error.code, step_of(error)) == ("receipt-model-mismatch", "receipt.model")
    error = refusal(replace(file, receipt=restated, statement=exchanged.to_bytes(), models=other.chain.models))
    assert (error.code, step_of(error)) == ("receipt-binding-mismatch", "receipt.binding")


def test_the_manifest_of_another_model_is_refused(file: ReceiptFile) -> None:
    error = refusal(replace(file, models=(other_model().parts,)))
    assert (error.code, step_of(error)) == ("receipt-model-mismatch", "receipt.manifest")


def test_a_manifest_that_another_owner_signed_is_refused(file: ReceiptFile) -> None:
    error = refusal(file, owners=(STRANGER.public_key(),))
    assert (error.code, step_of(error)) == ("model-signature-untrusted", "receipt.manifest")
    assert step_of(refusal(file, owners=())) == "receipt.manifest"


def test_the_model_of_another_owner_is_refused() -> None:
    theirs = OpenedModel(directory=opened(sealed_model(owner=STRANGER), owner=STRANGER), release=released())
    error = refusal(Machine(models=(theirs,)).file())
    assert (error.code, step_of(error)) == ("model-signature-untrusted", "receipt.manifest")
    assert checked(Machine(models=(theirs,)).file(), owners=(STRANGER.public_key(), OWNER.public_key())).simulated


def test_another_sealing_of_the_same_owner_is_refused_where_one_is_wanted(file: ReceiptFile, machine: Machine) -> None:
    wanted = machine.record.parts[0].model
    assert checked(file, model=wanted).record == machine.record
    older = Machine(models=(OpenedModel(directory=opened(sealed_model("older")), release=released()),))
    assert checked(older.file()).record == older.record
    error = refusal(older.file(), model=wanted)
    assert (error.code, step_of(error)) == ("receipt-model-mismatch", "receipt.model")
    assert (error.expected, error.got) == (wanted.hex(), older.record.parts[0].model.hex())


def test_a_signature_over_another_manifest_is_refused(file: ReceiptFile) -> None:
    mixed = replace(file.models[0], signature=other_model().parts.signature)
    error = refusal(replace(file, models=(mixed,)))
    assert (error.code, step_of(error)) == ("sealed-digest-mismatch", "receipt.manifest")


def adapted() -> Machine:
    adapter = OpenedModel(directory=opened(sealed_model("adapter", adapter=True)), release=released())
    base = OpenedModel(directory=opened(sealed_model()), release=released())
    return Machine(models=(base, adapter), quantisation="int4")


def test_an_adapter_is_part_of_the_model_and_needs_its_manifest() -> None:
    machine = adapted()
    file = machine.file()
    verified = checked(file)
    assert [min(one.path for one in part.manifest.files) for part in verified.parts] == [
        "config.json",
        "adapter.safetensors",
    ]
    assert verified.record.quantisation == "int4"
    for models in (file.models[:1], file.models[1:], file.models[::-1], (*file.models, file.models[1])):
        error = refusal(replace(file, models=models))
        assert (error.code, step_of(error)) == ("receipt-model-mismatch", "receipt.manifest")


def test_a_receipt_of_the_adapted_model_is_none_of_the_base_model() -> None:
    base, machine = Machine(), adapted()
    assert base.record.digest != machine.record.digest
    error = refusal(replace(machine.file(), models=base.chain.models))
    assert step_of(error) == "receipt.manifest"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": bytes(16)}, "model"),
        ({"files": "path"}, "files"),
        ({"files": "header"}, "header of config.json"),
        ({"files": "decrypted"}, "segments of config.json"),
    ],
)
def test_a_record_of_something_that_the_owner_did_not_seal_is_refused(change: dict[str, object], field: str) -> None:
    machine = Machine()
    loaded = machine.record.parts[0]
    if change.get("files"):
        wrong: dict[str, Any] = {"path": "a-stranger", "header": b"\x28" + bytes(39), "decrypted": 2}
        name = str(change["files"])
        first = replace(loaded.files[0], **{name: wrong[name]})
        change = {"files": (first, *loaded.files[1:])}
    record = replace(machine.record, parts=(replace(loaded, **change),))  # type: ignore[arg-type]  # fields of it
    machine.record = record
    machine.signer = type(machine.signer).born((record,), random=machine.random, process=os.getpid, at=AT)
    error = refusal(machine.file())
    assert (error.code, error.field, step_of(error)) == ("receipt-model-mismatch", field, "receipt.loaded")


# -- (10) the release


def with_release(**changes: object) -> tuple[Machine, ReceiptFile]:
    """A machine that recorded this release, and its receipt."""
    key = replace(released(), **changes)  # type: ignore[arg-type]  # fields of a released key
    machine = Machine(models=(OpenedModel(directory=opened(sealed_model()), release=key),))
    return machine, machine.file()


def noted(**facts: object) -> str:
    """A release receipt of the service with other facts."""
    text = read_receipt(SERVICE.verify(released().receipt))
    head = receipt_text(
        audience="x", nonce=b"", evidence_digest=b"", decision_digest=b"", keys=(), released_at=AT, simulated=True
    ).split("\n", 1)[0]
    return sign_note(signed_text(head, {**text, **facts}), name=SERVICE.name, key=KEY)  # type: ignore[dict-item]


def key_with(**facts: object) -> dict[str, object]:
    keys: Any = read_receipt(SERVICE.verify(released().receipt))["keys"]  # Any: JSON of the service in memory
    return {**keys[0], **facts}


FOREIGN_RELEASES: dict[str, Callable[[], dict[str, object]]] = {
    "no key": lambda: {"keys": []},
    "text": lambda: {"keys": "model"},
    "numbers": lambda: {"keys": [1]},
    "another key": lambda: {"keys": [key_with(key_id="other")]},
    "another tenant": lambda: {"keys": [key_with(tenant="other")]},
    "another version": lambda: {"keys": [key_with(version=2)]},
    "the key twice": lambda: {"keys": [key_with(), key_with()]},
    "another policy": lambda: {"keys": [key_with(policy_digest="11" * 32)]},
    "another decision": lambda: {"decision": "00" * 32},
    "other evidence": lambda: {"evidence": "00" * 48},
}
UNREADABLE_RELEASES: dict[str, Callable[[], dict[str, object]]] = {
    "decision": lambda: {"decision": 1},
    "time": lambda: {"released_at": None},
    "policy": lambda: {"keys": [key_with(policy_digest=7)]},
    "policy in hex": lambda: {"keys": [key_with(policy_digest="z" * 64)]},
}


@pytest.mark.parametrize("name", FOREIGN_RELEASES)
def test_a_release_of_another_key_is_refused(name: str) -> None:
    _, changed = with_release(receipt=noted(**FOREIGN_RELEASES[name]()))
    error = refusal(changed)
    assert (error.code, step_of(error)) == ("receipt-release-mismatch", "receipt.release")


@pytest.mark.parametrize("name", UNREADABLE_RELEASES)
def test_a_release_without_the_text_that_a_release_has_is_refused(name: str) -> None:
    _, changed = with_release(receipt=noted(**UNREADABLE_RELEASES[name]()))
    error = refusal(changed)
    assert error.code in {"receipt-malformed", "hex-invalid", "receipt-release-mismatch"}
    assert step_of(error) == "receipt.release"


def test_a_release_of_another_machine_is_refused(file: ReceiptFile) -> None:
    """A genuine release of the same key, which this machine did not receive."""
    theirs = released(released_at=AT + SECOND)
    part = ReleasePart(receipt=theirs.receipt, entry=theirs.entry, proof=theirs.proof).to_bytes()
    error = refusal(replace(file, models=(replace(file.models[0], release=part),)))
    assert (error.code, step_of(error)) == ("receipt-release-mismatch", "receipt.release")


def test_a_release_that_another_service_signed_is_refused() -> None:
    text = SERVICE.verify(released().receipt)
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    _, changed = with_release(receipt=sign_note(text, name=SERVICE.name, key=stranger))
    error = refusal(changed)
    assert (error.code, step_of(error)) == ("note-signature-invalid", "receipt.release")


def test_a_release_whose_decision_is_not_in_the_log_is_refused() -> None:
    _, changed = with_release(proof=released().proof.replace("index 0", "index 1"))
    assert step_of(refusal(changed)) == "receipt.release"


def test_a_release_that_the_log_shows_as_refused_is_refused() -> None:
    entry = released().entry.replace(b'"allow"', b'"deny"')
    _, changed = with_release(entry=entry, receipt=noted(decision=leaf_hash(entry).hex()))
    assert (refusal(changed).code, step_of(refusal(changed))) == ("receipt-release-mismatch", "receipt.release")


def test_a_release_that_is_cut_out_of_the_chain_is_refused(file: ReceiptFile) -> None:
    error = refusal(replace(file, models=(replace(file.models[0], release=None),)))
    assert (error.code, step_of(error)) == ("receipt-release-missing", "receipt.release")


def test_a_machine_that_got_the_key_without_its_service_is_refused() -> None:
    error = refusal(Machine(models=(OpenedModel(directory=opened(sealed_model())),)).file())
    assert (error.code, step_of(error)) == ("receipt-release-missing", "receipt.release")


def test_a_release_of_a_model_without_a_service_is_refused() -> None:
    machine = Machine(models=(OpenedModel(directory=opened(sealed_model(service=False)), release=released()),))
    error = refusal(machine.file())
    assert (error.code, step_of(error)) == ("receipt-release-mismatch", "receipt.release")


def test_a_release_outside_of_its_policy_is_a_warning() -> None:
    machine, changed = with_release(receipt=noted(break_glass=True))
    verified = checked(changed)
    assert outcomes(verified.checks)["release"] is Outcome.WARNING
    assert verified.parts[0].release is not None
    assert verified.parts[0].release.break_glass
    assert any("break-glass" in check.got for check in verified.checks if check.id == "receipt.release")
    assert machine.record.releases != Machine().record.releases


def test_a_key_that_a_simulated_machine_got_is_refused_for_hardware() -> None:
    """The same chip under anchors that call it hardware; the service saw a simulator."""
    hardware = TrustAnchors(anchors=tuple(replace(one, simulated=False) for one in TrustAnchors.simulation().anchors))
    machine = Machine(models=(OpenedModel(directory=opened(sealed_model()), release=released(simulated=False)),))
    assert not checked(machine.file(), anchors=hardware).simulated
    error = refusal(Machine().file(), anchors=hardware)
    assert (error.code, step_of(error)) == ("receipt-release-mismatch", "receipt.release")


def test_witnesses_of_the_log_are_demanded_where_they_are_named(file: ReceiptFile) -> None:
    public = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
    witnesses = WitnessPolicy(witnesses=(WitnessKey(name="w", public=public),), quorum=1)
    error = refusal(file, witnesses=witnesses)
    assert (error.code, step_of(error)) == ("log-witnesses-missing", "receipt.release")


# -- a truncated chain


def referenced(file: ReceiptFile, part: str) -> ReceiptFile:
    nothing = PartReference(bytes(32))
    if part == "statement":
        return replace(file, statement=nothing)
    if part == "evidence":
        return replace(file, evidence=nothing)
    return replace(file, models=(replace(file.models[0], **{part: nothing}),))


@pytest.mark.parametrize("part", ["statement", "evidence", "manifest", "signature", "release"])
def test_a_part_that_is_not_there_is_refused_by_its_name(file: ReceiptFile, part: str) -> None:
    error = refusal(referenced(file, part))
    assert (error.code, error.field, error.exit_code) == ("receipt-part-missing", part, 5)
    assert step_of(error)


def test_a_part_that_does_not_have_the_named_digest_stays_missing(file: ReceiptFile) -> None:
    error = refusal(file.compact().with_parts((*file.parts[1:], b"other")))
    assert (error.code, error.field) == ("receipt-part-missing", "statement")


def test_parts_of_other_models_are_no_substitute(file: ReceiptFile) -> None:
    assert isinstance(other_model().parts, ModelParts)
    error = refusal(file.compact().with_parts(Machine(models=(other_model(),)).file().parts))
    assert error.code == "receipt-part-missing"


# -- (11) to (14) the exchange


@pytest.mark.parametrize(
    "wrong", [b"", REQUEST[:-1], REQUEST + b"\n", REQUEST[::-1], REQUEST.replace(b"why", b"who")], ids=len
)
def test_another_request_is_refused(file: ReceiptFile, wrong: bytes) -> None:
    error = refusal(file, request=wrong)
    assert (error.code, step_of(error)) == ("receipt-request-mismatch", "receipt.request")


@pytest.mark.parametrize("wrong", [b"", RESPONSE[:-1], RESPONSE + b"\n", RESPONSE[::-1], RESPONSE + RESPONSE], ids=len)
def test_a_cut_continued_or_changed_response_is_refused(file: ReceiptFile, wrong: bytes) -> None:
    error = refusal(file, response=wrong)
    assert (error.code, step_of(error)) == ("receipt-response-mismatch", "receipt.response")


def test_the_receipt_of_an_equal_exchange_answers_another_challenge(machine: Machine) -> None:
    file = machine.file(challenge=CHALLENGE)
    assert checked(file, challenge=CHALLENGE).claims.challenge == CHALLENGE
    for other in (file, machine.file()):
        error = refusal(other, challenge=bytes(16))
        assert (error.code, step_of(error)) == ("receipt-challenge-mismatch", "receipt.challenge")


@pytest.mark.parametrize("size", [0, 7, 65])
def test_a_challenge_that_no_receipt_can_have_is_a_mistake_of_the_caller(size: int) -> None:
    """An empty one would pass for a receipt without a challenge."""
    with pytest.raises(ValueError, match="8 to 64 bytes"):
        expectation(challenge=bytes(size))


@pytest.mark.parametrize(("at", "holds"), [(-121, False), (-120, True), (0, True), (86_400, True)])
def test_a_receipt_may_not_come_from_the_future(at: int, holds: bool) -> None:
    world = scene(at=AT - timedelta(days=1))
    machine = Machine(guest=world.guest)
    moment = AT + timedelta(seconds=at)
    if holds:
        assert checked(machine.file(), at=moment, endorsements=world.endorsements).simulated
    else:
        error = refusal(machine.file(), at=moment, endorsements=world.endorsements)
        assert (error.code, step_of(error)) == ("receipt-time-invalid", "receipt.time")


@pytest.mark.parametrize(("age", "holds"), [(59, True), (60, True), (61, False)])
def test_an_age_beyond_the_wanted_one_is_refused(file: ReceiptFile, age: int, holds: bool) -> None:
    moment, most = AT + timedelta(seconds=age), timedelta(seconds=60)
    if holds:
        assert checked(file, at=moment, max_age=most).simulated
    else:
        assert step_of(refusal(file, at=moment, max_age=most)) == "receipt.time"


@pytest.mark.parametrize("seconds", [-1, 7 * 86_400 + 1])
def test_a_time_outside_the_life_of_the_keys_is_refused(machine: Machine, seconds: int) -> None:
    """The statement is genuine; the machine's clock is set, and its signer does not look."""
    file = machine.file()
    claims = replace(file.receipt.claims, issued_at=AT + timedelta(seconds=seconds))
    signer, kept = machine.signer, machine.signer.statement
    signer.statement = replace(kept, not_before=AT - timedelta(days=9), not_after=AT + timedelta(days=9))
    receipt = signer.sign(claims)
    signer.statement = kept
    error = refusal(replace(file, receipt=parse_receipt(receipt)), at=AT + timedelta(days=8))
    assert (error.code, step_of(error)) == ("receipt-time-invalid", "receipt.time")


def test_a_moment_without_a_time_zone_is_a_mistake_of_the_caller(file: ReceiptFile) -> None:
    with pytest.raises(ValueError, match="time zone"):
        checked(file, at=AT.replace(tzinfo=None))
    with pytest.raises(ConfigurationError):
        expectation(policy=load_policy(b""))
