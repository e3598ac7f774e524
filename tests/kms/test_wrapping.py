"""The laws of wrapping, which hold wherever the key-encryption key is."""

import copy
import pickle
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from attest.release import PADDED_BYTES
from kms.domain.errors import IntegrityError
from kms.domain.keys import WrapContext, Wrapped
from kms.domain.log_verification import verify_log
from kms.domain.secret import SecretBytes
from kms.keys.wrapping.backends import identify, open_backend
from kms.operations.services import open_vault
from tests.kms.support import MATERIAL, FakeRandom, Harness, Workload, open_release
from tests.kms.wrapping import KINDS, Holder, definition, flattened, holding, made, opened

pytestmark = pytest.mark.loopback

CONTENT = b"0123456789abcdef0123456789abcdef"
SECRET = SecretBytes(CONTENT)
CONTEXT = WrapContext(
    tenant="default",
    key_id="model",
    version=1,
    purpose="model-key",
    algorithm="symmetric-256",
    policy_digest=b"p" * 32,
)
OTHERS: dict[str, object] = {
    "tenant": "other",
    "key_id": "mode",
    "version": 2,
    "purpose": "prompt-key",
    "algorithm": "symmetric-128",
    "policy_digest": b"q" * 32,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def holder(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holder]:
    yield from holding(kind, tmp_path, monkeypatch)


def test_what_was_wrapped_opens_under_its_key_and_context(holder: Holder, kind: str) -> None:
    kek, record = made(holder)
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET
    assert opened(holder, record).unwrap(wrapped, context=CONTEXT) == SECRET
    assert wrapped.kek_id == kek.id == record.id
    assert wrapped.content[0] == 1 + KINDS.index(kind)
    assert CONTENT not in wrapped.content


@pytest.mark.parametrize("size", [0, 1, 16, 32, 4096, *PADDED_BYTES])
def test_secrets_of_every_size_are_wrapped(holder: Holder, size: int) -> None:
    kek, _ = made(holder)
    secret = SecretBytes(bytes(size))
    assert kek.unwrap(kek.wrap(secret, context=CONTEXT), context=CONTEXT) == secret


def test_mc_28_what_was_wrapped_opens_in_no_other_context(holder: Holder) -> None:
    kek, _ = made(holder)
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    assert set(OTHERS) == {field.name for field in fields(CONTEXT)}
    contexts = [replace(CONTEXT, **{name: value}) for name, value in OTHERS.items()]  # type: ignore[arg-type]
    for context in (*contexts, replace(CONTEXT, policy_digest=None)):
        with pytest.raises(IntegrityError) as caught:
            kek.unwrap(wrapped, context=context)
        assert caught.value.code == "wrapped-key-invalid"
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET


def test_what_was_altered_cut_off_or_lengthened_is_refused(holder: Holder) -> None:
    kek, _ = made(holder)
    content = kek.wrap(SECRET, context=CONTEXT).content
    flipped = [content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :] for at in range(len(content))]
    cut = [content[:length] for length in range(len(content))]
    for other in (*flipped, *cut, content + b"\0", content[:1] + content, b"\xff" + content[1:]):
        with pytest.raises(IntegrityError) as caught:
            kek.unwrap(Wrapped(kek_id=kek.id, content=other), context=CONTEXT)
        assert caught.value.code == "wrapped-key-invalid"
    assert kek.unwrap(Wrapped(kek_id=kek.id, content=content), context=CONTEXT) == SECRET


def test_another_key_of_the_same_place_opens_nothing(holder: Holder) -> None:
    kek, _ = made(holder)
    other, _ = made(holder, "other")
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    assert other.id != kek.id
    for one in (wrapped, replace(wrapped, kek_id=other.id)):
        with pytest.raises(IntegrityError):
            other.unwrap(one, context=CONTEXT)


def test_mc_27_another_key_does_not_pass_for_the_one_of_a_record(holder: Holder) -> None:
    _, record = made(holder)
    _, stranger = made(holder, "other")
    backend = open_backend(definition(holder, "other"), random=FakeRandom())
    assert identify(backend, [record]) is None
    found = identify(backend, [record, stranger])
    assert found is not None
    assert found.id == stranger.id


def test_one_secret_is_never_wrapped_alike(holder: Holder) -> None:
    kek, _ = made(holder)
    assert len({kek.wrap(SECRET, context=CONTEXT).content for _ in range(20)}) == 20


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_mc_33_a_key_encryption_key_is_not_pickled_copied_or_shown(holder: Holder, copier: object) -> None:
    kek, _ = made(holder)
    for one in (kek, kek.backend):
        with pytest.raises(TypeError):
            copier(one)  # type: ignore[operator]
    assert repr(kek) == f"SingleKek(id={kek.id.hex()[:16]})"


def test_a_service_is_made_keeps_keys_and_releases_them(holder: Holder, kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    harness = Harness.make(folder, **flattened(holder.settings()))
    harness.add_key("model")
    again = harness.reopened(**flattened(holder.settings()))
    assert again.audience == harness.audience
    workload, challenge = Workload(), again.releases.challenge()
    request = workload.request(challenge, "model")
    release = again.releases.release(request)
    assert open_release(workload, challenge, request, release, again) == {"model": MATERIAL}
    assert harness.entries()[0]["kek"] == {"backend": kind, "id": harness.services.kek.id.hex()}
    with again.services.store.reading() as tx:
        verify_log(tx.log)
        assert {record.backend for record in tx.keks.all()} == {kind}
    again.close()
    harness.close()


def test_mc_27_a_service_does_not_start_with_another_key(holder: Holder, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = Harness.make(tmp_path / "one", **flattened(holder.settings()))
    Harness.make(tmp_path / "two", seed="two", **flattened(holder.settings("other"))).close()
    settings = one.settings.model_copy(update=flattened(holder.settings("other")))
    with pytest.raises(ConfigurationError) as caught:
        open_vault(settings, random=FakeRandom())
    assert caught.value.code == "kek-mismatch"
    one.close()
