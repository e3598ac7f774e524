"""Nothing is sealed to keys whose evidence does not hold, was made for something else, or has ended."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.channel import (
    ChannelExpectation,
    ChannelKey,
    ChannelRecord,
    KeyDocument,
    KeyOffer,
    PromptRecord,
    ServiceKeys,
    published_nonce,
    released_key,
    verify_offer,
)
from attest.channel.config import KeyConfig, parse_key_document
from attest.channel.hpke import HpkeKey
from attest.channel.keys import LIFETIME, OVERLAP, Proofs
from attest.channel.prompt import prompt_document
from attest.channel.records import evidence_proof
from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError, ConfigurationError, EvidenceError
from attest.evidence.envelope import EvidenceItem, parse_envelope
from attest.policy import load_policy
from attest.release.prompt_keys import PromptKey
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519
from attest.verification import ExpectedFreshness, verify
from tests.channel.support import ASK, POLICY, SECOND, WORLD, Service, expectation, offer_of, sealed
from tests.release.test_prompt_keys import SERVICE, material_of, note_of
from tests.samples import AT, NONCE

KEY = ChannelKey.born(random=os.urandom, at=AT)
OTHER = ChannelKey.born(random=os.urandom, at=AT)


def code_of(work: Callable[[], object]) -> str:
    with pytest.raises(AttestError) as refused:
        work()
    return refused.value.code


def offered(offer: KeyOffer, expect: ChannelExpectation | None = None, *, at: datetime = AT) -> ChannelRecord:
    return verify_offer(offer, expect=expect or expectation(), nonce=NONCE, at=at)


def test_an_honest_offer_becomes_a_record_that_ends() -> None:
    record = offered(offer_of(KEY.document, NONCE))
    assert record.keys == KEY.document
    assert record.expires == AT + timedelta(minutes=5)
    record.require_current(AT)
    record.require_current(record.expires - SECOND)
    for at in (record.expires, AT - SECOND):
        assert code_of(lambda at=at: record.require_current(at)) == "channel-record-expired"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"context": "kms-release/v1"}, "binding-context-mismatch"),
        ({"role": "workload"}, "binding-role-mismatch"),
        ({"audience": "other.example"}, "binding-audience-mismatch"),
        ({"nonce": bytes(32)}, "nonce-mismatch"),
        ({"key": OTHER.document.digest}, "channel-keys-mismatch"),
        ({"key": KEY.document.to_bytes()[:32]}, "channel-keys-mismatch"),
    ],
)
def test_evidence_for_something_else_is_refused(change: dict[str, object], code: str) -> None:
    usual: dict[str, Any] = {"nonce": NONCE}
    assert code_of(lambda: offered(offer_of(KEY.document, **usual | change))) == code


def test_no_byte_of_the_document_can_be_altered() -> None:
    offer = offer_of(KEY.document, NONCE)
    for at in range(0, len(offer.keys), 7):
        altered = offer.keys[:at] + bytes((offer.keys[at] ^ 1,)) + offer.keys[at + 1 :]
        assert code_of(lambda altered=altered: offered(replace(offer, keys=altered))) in {  # type: ignore[misc]
            "channel-keys-mismatch",
            "channel-keys-malformed",
        }


def test_a_front_end_cannot_take_the_hybrid_out_or_add_a_key_of_its_own() -> None:
    key = ChannelKey.born(random=os.urandom, at=AT, kems=(KEM_HYBRID, KEM_X25519))
    offer = offer_of(key.document, NONCE)
    own = KeyConfig(key_id=77, kem=KEM_HYBRID, public_key=HpkeKey.from_seed(KEM_HYBRID, bytes(32)).public)
    for configs in (key.document.configs[1:], key.document.configs[::-1], (*key.document.configs, own)):
        forged = replace(offer, keys=KeyDocument(configs=configs).to_bytes())
        assert code_of(lambda forged=forged: offered(forged)) == "channel-keys-mismatch"  # type: ignore[misc]


def test_no_byte_of_the_report_can_be_altered() -> None:
    offer = offer_of(KEY.document, NONCE)
    (cpu, binding) = offer.evidence.items
    for at in range(0x2A0):
        value = cpu.value[:at] + bytes((cpu.value[at] ^ 0x80,)) + cpu.value[at + 1 :]
        evidence = replace(offer.evidence, items=(replace(cpu, value=value), binding))
        with pytest.raises(AttestError):
            offered(replace(offer, evidence=evidence))


def test_a_machine_that_the_policy_does_not_accept_gives_no_record() -> None:
    strict = load_policy(
        b"schema: attest.policy/1\nname: strict\nversion: 1\nsimulated: {unchecked: a test}\n"
        b"reference_values:\n  good:\n    values: ['" + b"00" * 48 + b"']\n    origin: nowhere\n"
        b"snp:\n  products: [Genoa]\n  measurement: [good]\n"
        b"  minimum_tcb:\n    Genoa: {bootloader: 9, tee: 0, snp: 26, microcode: 80}\n"
    )
    offer = offer_of(KEY.document, NONCE)
    assert code_of(lambda: offered(offer, expectation(policy=strict))) == "not-affirmed"
    assert code_of(lambda: offered(offer, expectation(anchors=TrustAnchors.vendors()))) != "not-affirmed"


def test_missing_endorsements_are_asked_for_where_somebody_can_be_asked() -> None:
    offer = offer_of(KEY.document, NONCE)
    nothing = expectation(endorsements=NO_ENDORSEMENTS)
    assert code_of(lambda: offered(offer, nothing)).endswith("missing")
    fetched = replace(nothing, fetch=lambda _evidence, _at: WORLD.endorsements)
    assert offered(offer, fetched).keys == KEY.document


def test_a_record_cannot_be_made_of_anything_else() -> None:
    record = offered(offer_of(KEY.document, NONCE))
    assert code_of(lambda: replace(record, keys=OTHER.document)) == "channel-keys-mismatch"
    assert code_of(lambda: replace(record, audience="other")) == "binding-audience-mismatch"
    for expected in (None, ExpectedFreshness(report_data=WORLD.guest.report(bytes(64))[0x50:0x90])):
        unbound = parse_envelope(offer_of(KEY.document, NONCE).evidence.to_json())
        evidence = unbound if expected is None else replace(unbound, items=(_bare(),))
        verified = verify(
            evidence,
            endorsements=WORLD.endorsements,
            anchors=TrustAnchors.simulation(),
            at=AT,
            expected=expected,
        )
        result = appraise(verified, policy=POLICY, at=AT)
        assert code_of(lambda result=result: replace(record, result=result)) in {"nonce-mismatch", "not-affirmed"}  # type: ignore[misc]


def _bare() -> EvidenceItem:
    offer = offer_of(KEY.document, NONCE)
    return replace(offer.evidence.items[0], value=WORLD.guest.report(bytes(64)))


def test_a_policy_that_asks_for_no_freshness_makes_no_record_of_evidence_that_answers_nobody() -> None:
    relaxed = replace(POLICY, unchecked=(Unchecked(check="freshness", reason="a test"),))
    verified = verify(
        offer_of(KEY.document, NONCE).evidence,
        endorsements=WORLD.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        unchecked=relaxed.unchecked,
    )
    result = appraise(verified, policy=relaxed, at=AT)
    assert result.affirmed
    record = offered(offer_of(KEY.document, NONCE))
    assert code_of(lambda: replace(record, result=result)) == "nonce-mismatch"


# -- published evidence


def published(begin: datetime, end: datetime) -> KeyOffer:
    return replace(offer_of(KEY.document, published_nonce(begin, end)), published=(begin, end))


ALLOWED = expectation(unchecked_freshness="a mirror without a nonce")
DAY = timedelta(days=1)


def test_published_evidence_counts_where_it_is_allowed_by_name_and_while_it_says() -> None:
    offer = KeyOffer.from_json(json.loads(json.dumps(published(AT, AT + 2 * SECOND).to_json())))
    record = verify_offer(offer, expect=ALLOWED, nonce=None, at=AT)
    assert record.expires == AT + 2 * SECOND
    assert verify_offer(published(AT, AT + DAY), expect=ALLOWED, nonce=None, at=AT).expires < AT + DAY
    with pytest.raises(ValueError, match="unchecked_freshness"):
        verify_offer(offer, expect=expectation(), nonce=None, at=AT)
    with pytest.raises(ValueError, match="a reason is required"):
        expectation(unchecked_freshness=" ")


def test_published_evidence_is_no_answer_to_a_nonce_and_the_reverse() -> None:
    assert code_of(lambda: offered(published(AT, AT + DAY))) == "nonce-mismatch"
    live = offer_of(KEY.document, NONCE)
    assert code_of(lambda: verify_offer(live, expect=ALLOWED, nonce=None, at=AT)) == "nonce-mismatch"


@pytest.mark.parametrize(
    ("begin", "end", "code"),
    [
        (AT + SECOND, AT + DAY, "channel-record-expired"),
        (AT - DAY, AT, "channel-record-expired"),
        (AT, AT + DAY + SECOND, "wire-invalid"),
        (AT + SECOND, AT, "wire-invalid"),
    ],
)
def test_published_evidence_out_of_time_is_refused(begin: datetime, end: datetime, code: str) -> None:
    assert code_of(lambda: verify_offer(published(begin, end), expect=ALLOWED, nonce=None, at=AT)) == code


def test_the_times_of_published_evidence_cannot_be_altered() -> None:
    for times in ((AT, AT + DAY), (AT - SECOND, AT + 2 * SECOND)):
        offer = replace(published(AT, AT + 2 * SECOND), published=times)
        assert code_of(lambda offer=offer: verify_offer(offer, expect=ALLOWED, nonce=None, at=AT)) == "nonce-mismatch"  # type: ignore[misc]


@pytest.mark.parametrize(
    "change",
    [
        {"keys": None},
        {"keys": 5},
        {"evidence": None},
        {"more": 1},
        {"not_before": 1},
        {"not_before": 1, "not_after": "2"},
        {"not_before": -1, "not_after": 2},
        {"not_before": True, "not_after": 2},
        {"not_before": 1, "not_after": 1 << 36},
    ],
)
def test_an_offer_with_other_members_is_refused(change: dict[str, object]) -> None:
    document = {**offer_of(KEY.document, NONCE).to_json(), **change}
    with pytest.raises(EvidenceError):
        KeyOffer.from_json(document)  # type: ignore[arg-type]
    for name in ("keys", "evidence"):
        less = {key: value for key, value in document.items() if key != name}
        with pytest.raises(EvidenceError):
            KeyOffer.from_json(less)  # type: ignore[arg-type]
    with pytest.raises(EvidenceError):
        KeyOffer.from_json([])


def test_evidence_has_one_name_in_every_encoding() -> None:
    evidence = offer_of(KEY.document, NONCE).evidence
    assert evidence_proof(parse_envelope(evidence.to_cbor())) == evidence_proof(parse_envelope(evidence.to_json()))
    assert evidence_proof(evidence) != evidence_proof(offer_of(OTHER.document, NONCE).evidence)


# -- keys of a service


def test_a_replaced_key_is_accepted_for_the_overlap_and_then_dropped() -> None:
    first = ChannelKey.born(random=os.urandom, at=AT, kems=(KEM_HYBRID, KEM_X25519))
    keys = ServiceKeys(first)
    second = ChannelKey.born(random=os.urandom, at=AT, first_id=2)
    keys.replace(second, at=AT + SECOND)
    assert keys.current is second
    until = AT + SECOND + OVERLAP
    for key_id in (0, 1):
        assert (found := keys.find(key_id, at=until - SECOND)) is not None
        assert found[0] is first
    assert keys.find(0, at=until) is None
    assert keys.find(0, at=AT) is None  # it is gone, whatever the clock says later
    assert (found := keys.find(2, at=AT)) is not None
    assert found[0] is second
    assert keys.find(3, at=AT) is None


def test_a_key_that_nobody_replaced_is_not_accepted_for_ever() -> None:
    keys = ServiceKeys(KEY)
    assert keys.find(0, at=AT + LIFETIME + OVERLAP - SECOND) is not None
    assert keys.find(0, at=AT + LIFETIME + OVERLAP) is None


def test_a_key_id_stands_for_one_key_at_a_time() -> None:
    keys = ServiceKeys(KEY)
    with pytest.raises(ValueError, match="still in use"):
        keys.replace(OTHER, at=AT)
    keys.replace(ChannelKey.born(random=os.urandom, at=AT, first_id=1), at=AT)
    keys.replace(OTHER, at=AT + OVERLAP)
    assert keys.current is OTHER


@pytest.mark.parametrize("lifetime", [timedelta(0), LIFETIME + SECOND])
def test_a_key_lives_for_a_day_at_most(lifetime: timedelta) -> None:
    with pytest.raises(ValueError, match="lives"):
        ChannelKey.born(random=os.urandom, at=AT, lifetime=lifetime)


def test_key_ids_go_round() -> None:
    key = ChannelKey.born(random=os.urandom, at=AT, first_id=255, kems=(KEM_HYBRID, KEM_X25519))
    assert [config.key_id for config in key.document.configs] == [255, 0]
    assert key.half(7) is None


def test_the_proofs_that_are_remembered_are_the_newest() -> None:
    proofs = Proofs(2)
    for proof in (b"a", b"b", b"b", b"c"):
        proofs.add(proof)
    assert [proof in proofs for proof in (b"a", b"b", b"c", None)] == [False, True, True, False]


# -- prompt keys


def prompt_record() -> PromptRecord:
    return PromptRecord(key=PromptKey(note=note_of(), audience=SERVICE.text))


def test_any_replica_with_the_released_half_opens_what_is_sealed_to_a_prompt_key() -> None:
    note = note_of()
    at = note.not_before
    options = {"insecure_replays": "a test of one replica at a time"}
    for _ in range(2):
        replica = Service(key=released_key(note, material=material_of()), options=options)
        assert replica.key.document == prompt_document(note) == parse_key_document(prompt_document(note).to_bytes())
        body, _ = sealed(prompt_record(), ASK, at=at)  # type: ignore[arg-type]
        assert getattr(replica.receive(body, at=at)[1], "content", None) == ASK.content


def test_a_prompt_key_ends_with_its_note() -> None:
    record, note = prompt_record(), note_of()
    record.require_current(note.not_before)
    assert code_of(lambda: record.require_current(note.use_until)) == "channel-record-expired"
    assert code_of(lambda: record.require_current(note.not_before - 61 * SECOND)) == "channel-record-expired"


def test_a_released_half_of_another_key_is_refused() -> None:
    with pytest.raises(ConfigurationError) as refused:
        released_key(note_of(), material=bytes(96))
    assert refused.value.code == "channel-key-mismatch"


def test_a_service_with_another_note_tells_the_client_that_it_is_stale() -> None:
    note = note_of()
    options = {"insecure_replays": "a test of one replica"}
    other = replace(note, logged=b"l" * 32)
    replica = Service(key=released_key(other, material=material_of()), options=options)
    body, _ = sealed(prompt_record(), ASK, at=note.not_before)  # type: ignore[arg-type]
    assert getattr(replica.receive(body, at=note.not_before)[1], "code", None) == "evidence-stale"
