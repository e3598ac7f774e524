"""What travels: read back as written, and nothing else is read."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import cbor_value
from attest.errors import EvidenceError
from attest.release import Challenge, Release, ReleaseRequest, SealedKey, release_info
from attest.release.receipts import read_receipt, receipt_text
from attest.release.wire import MAX_KEYS
from tests.samples import NONCE, binding, bound_evidence, scene

CHALLENGE = Challenge(token="t", nonce=NONCE, audience="kms", expires_at=datetime(2026, 6, 1, tzinfo=UTC))
REQUEST = ReleaseRequest(challenge="t", evidence=bound_evidence(scene().guest, binding()), key_ids=("a", "b"))
SEALED = SealedKey(
    tenant="default",
    key_id="a",
    version=1,
    purpose="model-key",
    policy_digest=bytes(32),
    sealed=b"sealed",
    lease_id="0a" * 16,
    expires_at=datetime(2026, 6, 2, tzinfo=UTC),
)
RELEASE = Release(keys=(SEALED,), receipt="note", entry=b"{}", proof="proof")
WITH_PROOF = replace(RELEASE, consistency=(bytes(32), bytes(range(32))))


@pytest.mark.parametrize("message", [CHALLENGE, REQUEST, SEALED, RELEASE, WITH_PROOF])
def test_a_message_reads_back_as_it_was_written(message: Any) -> None:  # noqa: ANN401  any of the four
    again = type(message).from_json(json.loads(json.dumps(message.to_json())))
    if isinstance(message, ReleaseRequest):
        assert again.evidence.items == message.evidence.items
        assert (again.challenge, again.key_ids) == (message.challenge, message.key_ids)
    else:
        assert again == message


def test_a_consistency_proof_has_a_bounded_number_of_hashes() -> None:
    good = WITH_PROOF.to_json()
    assert Release.from_json({**good, "consistency": ["AAAA"] * 63}).consistency == (bytes(3),) * 63
    strange: tuple[Any, ...] = (None, {}, True, "AAAA", ["AAAA"] * 64, ["!"], ["AAAA\n"])
    for wrong in strange:
        with pytest.raises(EvidenceError):
            Release.from_json({**good, "consistency": wrong})


@pytest.mark.parametrize("message", [CHALLENGE, REQUEST, SEALED, RELEASE])
def test_each_member_missing_retyped_or_unknown_is_refused(message: Any) -> None:  # noqa: ANN401
    good = message.to_json()
    for name in good:
        without = {k: v for k, v in good.items() if k != name}
        for wrong in (without, {**good, name: None}, {**good, name: {}}, {**good, name: True}):
            with pytest.raises(EvidenceError):
                type(message).from_json(wrong)
    strange: tuple[Any, ...] = ({**good, "extra": "x"}, [], "text", None, 7)
    for wrong in strange:
        with pytest.raises(EvidenceError):
            type(message).from_json(wrong)


@pytest.mark.parametrize("keys", [[], ["a", "a"], ["a"] * (MAX_KEYS + 1), [1], ["a", None]])
def test_a_request_names_each_key_once_and_not_too_many(keys: list[Any]) -> None:
    with pytest.raises(EvidenceError):
        ReleaseRequest.from_json({**REQUEST.to_json(), "keys": keys})


@pytest.mark.parametrize(
    "change",
    [{"version": 0}, {"policy_digest": "zz"}, {"policy_digest": "00"}, {"policy_digest": "AA" * 32}, {"sealed": "a="}],
)
def test_a_sealed_key_with_a_wrong_value_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError):
        SealedKey.from_json({**SEALED.to_json(), **change})


INFO: dict[str, Any] = {
    "audience": "kms",
    "nonce": NONCE,
    "evidence_digest": bytes(48),
    "tenant": "default",
    "key_id": "a",
    "version": 1,
    "purpose": "model-key",
    "policy_digest": bytes(32),
    "decision_digest": bytes(32),
}


def test_every_fact_of_the_exchange_changes_the_info() -> None:
    """must-check 18."""
    good = release_info(**INFO)
    assert cbor_value(good, what="info")
    for name, value in INFO.items():
        other = value + (b"x" if isinstance(value, bytes) else "x" if isinstance(value, str) else 1)
        assert release_info(**{**INFO, name: other}) != good, name


def test_a_receipt_reads_back_and_another_text_is_refused() -> None:
    text = receipt_text(
        audience="kms",
        nonce=NONCE,
        evidence_digest=bytes(48),
        decision_digest=bytes(32),
        keys=(SEALED,),
        released_at=datetime(2026, 6, 1, tzinfo=UTC),
        simulated=True,
    )
    assert read_receipt(text)["simulated"] is True
    assert text.count("\n") == 2
    for wrong in ("", "other/v1\n{}\n", "attest-release-receipt/v1\n[]\n", "attest-release-receipt/v1\n{\n"):
        with pytest.raises(EvidenceError):
            read_receipt(wrong)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=9), x)
    )
)
def test_any_json_is_a_message_or_a_documented_refusal(document: Any) -> None:  # noqa: ANN401
    for message in (Challenge, ReleaseRequest, SealedKey, Release):
        with pytest.raises(EvidenceError):
            message.from_json(document)
