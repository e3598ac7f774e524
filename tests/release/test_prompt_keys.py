"""Prompt keys on the client's side: every fact is checked before anything is encrypted."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, BindingError, EvidenceError, SignatureError, VerificationError
from attest.release import KEM_HYBRID, KEM_X25519, KeyName, KeyReference, WorkloadKey, sign_note, verifier_key
from attest.release.log_monitor import LogWatch
from attest.release.prompt_keys import (
    PROMPT_ALGORITHMS,
    PUBLISHED,
    SKEW_SECONDS,
    PromptKey,
    PromptKeyNote,
    PublishedPromptKey,
    SealedPrompt,
    open_prompt,
    verify_prompt_key,
)
from attest.release.sealed_key import MATERIAL_BYTES
from attest.release.tlog import LogProof, leaf_hash, sign_checkpoint

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
SERVICE = verifier_key("kms.example/prod", KEY.public_key())
STRANGER = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
NAME = KeyName(tenant="acme", key_id="prompts")
POLICY = b"p" * 32
ALGORITHM = "hpke-mlkem768-x25519"
SECOND = timedelta(seconds=1)


def material_of(algorithm: str = ALGORITHM) -> bytes:
    return bytes(range(MATERIAL_BYTES[PROMPT_ALGORITHMS[algorithm]]))


def note_of(algorithm: str = ALGORITHM, **changes: Any) -> PromptKeyNote:  # noqa: ANN401  the note's own fields
    kem = PROMPT_ALGORITHMS[algorithm]
    made = PromptKeyNote(
        name=NAME,
        version=2,
        algorithm=algorithm,
        public_key=WorkloadKey.from_material(kem, material_of(algorithm)).public,
        policy_digest=POLICY,
        not_before=AT,
        use_until=AT + timedelta(hours=1),
        logged=bytes(32),
    )
    return replace(made, **changes)


def entry_of(note: PromptKeyNote, **changes: object) -> bytes:
    return json.dumps({"kind": PUBLISHED, **note.logged_members(), **changes}).encode()


def published(
    note: PromptKeyNote, *, entry: bytes | None = None, key: Ed25519PrivateKey = KEY, logged: bytes | None = None
) -> PublishedPromptKey:
    """What a service that signs and logs this note would answer."""
    raw = entry_of(note) if entry is None else entry
    signed = replace(note, logged=leaf_hash(raw) if logged is None else logged)
    checkpoint = sign_checkpoint(origin=SERVICE.name, size=1, root=leaf_hash(raw), key=KEY)
    proof = LogProof(index=0, hashes=(), checkpoint=checkpoint).to_text()
    return PublishedPromptKey(note=sign_note(signed.text(), name=SERVICE.name, key=key), entry=raw, proof=proof)


def verified(
    given_key: PublishedPromptKey,
    *,
    asked: str = "acme/prompts",
    policies: tuple[bytes, ...] = (POLICY,),
    at: datetime = AT,
    **more: Any,  # noqa: ANN401
) -> PromptKey:
    def fetch(old: int, new: int) -> tuple[bytes, ...]:
        raise AssertionError(old, new)

    return verify_prompt_key(
        given_key,
        requested=KeyReference.parse(asked),
        policies=policies,
        service=SERVICE,
        watch=LogWatch(SERVICE),
        fetch=fetch,
        at=at,
        **more,
    )


@pytest.mark.parametrize("algorithm", PROMPT_ALGORITHMS)
def test_what_is_encrypted_opens_with_the_private_half(algorithm: str) -> None:
    key = verified(published(note_of(algorithm)), kems=PROMPT_ALGORITHMS.values())
    sealed = SealedPrompt.from_json(json.loads(json.dumps(key.encrypt(b"hello", at=AT).to_json())))
    assert sealed.key == "acme/prompts@2"
    opened = open_prompt(
        sealed, algorithm=algorithm, material=material_of(algorithm), policy_digest=POLICY, service=SERVICE
    )
    assert opened == b"hello"


@pytest.mark.parametrize(
    "change",
    [
        {"policy_digest": b"q" * 32},
        {"service": verifier_key("kms.example/prod", STRANGER.public_key())},
        {"material": bytes(96)},
    ],
)
def test_it_opens_in_no_other_context(change: dict[str, Any]) -> None:
    sealed = verified(published(note_of())).encrypt(b"hello", at=AT)
    right: dict[str, Any] = {"material": material_of(), "policy_digest": POLICY, "service": SERVICE}
    for one in (sealed, replace(sealed, version=1), replace(sealed, name=replace(NAME, tenant="other"))):
        if one is sealed:
            with pytest.raises(BindingError):
                open_prompt(one, algorithm=ALGORITHM, **{**right, **change})
        else:
            with pytest.raises(BindingError):
                open_prompt(one, algorithm=ALGORITHM, **right)


def test_a_note_that_the_service_did_not_sign_is_refused() -> None:
    with pytest.raises(SignatureError):
        verified(published(note_of(), key=STRANGER))


@pytest.mark.parametrize("asked", ["prompts", "acme/other", "acme/prompts@1"])
def test_another_key_than_was_asked_for_is_refused(asked: str) -> None:
    with pytest.raises(BindingError) as caught:
        verified(published(note_of()), asked=asked)
    assert (caught.value.code, caught.value.field) == ("prompt-key-mismatch", "key")
    assert verified(published(note_of()), asked="acme/prompts@2").note.version == 2


@pytest.mark.parametrize("policies", [(), (b"q" * 32,)])
def test_mc_22_a_key_of_a_policy_that_is_not_expected_is_refused(policies: tuple[bytes, ...]) -> None:
    with pytest.raises(BindingError) as caught:
        verified(published(note_of()), policies=policies)
    assert caught.value.field == "policy_sha256"
    assert verified(published(note_of()), policies=(*policies, POLICY)).note.policy_digest == POLICY


@pytest.mark.parametrize(
    ("at", "accepted"),
    [
        (AT - (SKEW_SECONDS + 1) * SECOND, False),
        (AT - SKEW_SECONDS * SECOND, True),
        (AT + timedelta(hours=1) - SECOND, True),
        (AT + timedelta(hours=1), False),
    ],
)
def test_a_note_counts_from_its_beginning_to_before_its_end(at: datetime, accepted: bool) -> None:
    key = verified(published(note_of()))
    for attempt in (lambda: verified(published(note_of()), at=at), lambda: key.encrypt(b"", at=at)):
        if accepted:
            attempt()
            continue
        with pytest.raises(VerificationError) as caught:
            attempt()
        assert caught.value.code == "prompt-key-not-current"


@pytest.mark.parametrize(
    ("algorithm", "kems"),
    [("hpke-x25519", None), ("hpke-x25519", {KEM_HYBRID}), (ALGORITHM, {KEM_X25519}), (ALGORITHM, ())],
)
def test_a_key_of_a_kem_that_is_not_demanded_is_refused(algorithm: str, kems: Any) -> None:  # noqa: ANN401
    more = {} if kems is None else {"kems": kems}
    with pytest.raises(BindingError) as caught:
        verified(published(note_of(algorithm)), **more)
    assert (caught.value.code, caught.value.field, caught.value.got) == ("prompt-key-mismatch", "algorithm", algorithm)
    key = verified(published(note_of(algorithm)), kems=PROMPT_ALGORITHMS.values())
    assert key.note.algorithm == algorithm


def test_a_key_that_is_none_of_its_algorithm_is_refused() -> None:
    single = WorkloadKey.from_material(KEM_X25519, bytes(range(32))).public
    with pytest.raises(BindingError) as caught:
        verified(published(note_of(public_key=single)))
    assert caught.value.field == "public_key"
    for public in (single[:2] + bytes(31), single[:2] + bytes(33)):
        with pytest.raises(VerificationError):
            verified(published(note_of("hpke-x25519", public_key=public)), kems={KEM_X25519})


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "key-created"},
        {"tenant": "default"},
        {"key_id": "other"},
        {"version": 1},
        {"algorithm": "hpke-x25519"},
        {"public_key": "AAAA"},
        {"policy_sha256": "00" * 32},
        {"not_before": "2026-06-01T11:59:59Z"},
    ],
)
def test_a_log_that_says_something_else_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BindingError) as caught:
        verified(published(note_of(), entry=entry_of(note_of(), **change)))
    assert caught.value.field == next(iter(change))


def test_an_entry_that_is_not_the_one_that_the_note_names_is_refused() -> None:
    with pytest.raises(BindingError) as caught:
        verified(published(note_of(), logged=bytes(32)))
    assert caught.value.field == "logged"


def test_an_entry_that_the_log_does_not_hold_is_refused() -> None:
    other = published(note_of(version=3))
    with pytest.raises(AttestError) as caught:
        verified(replace(published(note_of()), proof=other.proof))
    assert caught.value.code == "log-inclusion-invalid"


def test_messages_read_back_as_they_were_written() -> None:
    note, key = note_of(), published(note_of())
    assert PromptKeyNote.parse(note.text()) == note
    assert PublishedPromptKey.from_json(json.loads(json.dumps(key.to_json()))) == key


def of_text(text: str) -> PromptKeyNote:
    return PromptKeyNote.parse(text)


def test_each_member_of_a_note_missing_retyped_or_unknown_is_refused() -> None:
    head, _, body = note_of().text().partition("\n")
    good = json.loads(body)
    for name in good:
        without = {k: v for k, v in good.items() if k != name}
        for wrong in (without, {**good, name: None}, {**good, name: True}, {**good, name: "?"}, {**good, name: {}}):
            with pytest.raises(EvidenceError):
                of_text(f"{head}\n{json.dumps(wrong)}\n")
    for text in ("", "other/v1\n{}\n", f"{head}\n[]\n", f"{head}\n{json.dumps({**good, 'more': 'x'})}\n"):
        with pytest.raises(EvidenceError):
            of_text(text)
    for version in (0, 1.0):
        with pytest.raises(EvidenceError):
            of_text(f"{head}\n{json.dumps({**good, 'version': version})}\n")
    with pytest.raises(EvidenceError):
        of_text(f"{head}\n{json.dumps({**good, 'logged': '00' * 31})}\n")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=9), x)
    )
)
def test_any_json_is_a_documented_refusal(document: Any) -> None:  # noqa: ANN401
    readers: tuple[Callable[[Any], object], ...] = (PublishedPromptKey.from_json, SealedPrompt.from_json)
    for read in readers:
        with pytest.raises(EvidenceError):
            read(document)


@pytest.mark.parametrize("key", ["acme/prompts", "acme/prompts@0", "A@1", 1])
def test_a_sealed_prompt_names_a_version(key: object) -> None:
    with pytest.raises(EvidenceError):
        SealedPrompt.from_json({"key": key, "sealed": "AAAA"})  # type: ignore[dict-item]


def test_material_of_another_size_makes_no_key() -> None:
    for kem, size in ((KEM_X25519, 31), (KEM_X25519, 96), (KEM_HYBRID, 95), (KEM_HYBRID, 32), (1, 32)):
        with pytest.raises(ValueError, match="number of bytes"):
            WorkloadKey.from_material(kem, bytes(size))
