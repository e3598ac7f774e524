"""Secrets stay hidden, the key-encryption key stays private, wrapped keys stay where they belong."""

import copy
import os
import pickle
import re
import traceback
from dataclasses import fields, replace
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from kms.domain.errors import IntegrityError, KeyConflictError, KeyUnknownError
from kms.domain.keys import KeyName, WrapContext, Wrapped
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.admin import find_key, set_enabled
from kms.keys.wrapping.backend import SingleKek
from kms.keys.wrapping.file import FileBackend, create_kek_file, read_kek_file
from tests.kms.support import ACTOR, AT, MODEL, FakeRandom, Harness
from tests.kms.wrapping import file_kek

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


def kek(seed: str = "kek") -> SingleKek:
    return file_kek(seed)


# -- secrets


def test_mc_33_a_secret_shows_only_its_length() -> None:
    for text in (repr(SECRET), str(SECRET), f"{SECRET}", repr([SECRET]), repr({"k": SECRET})):
        assert "0123" not in text
        assert "30" not in text
    assert repr(SECRET) == "SecretBytes(<32 bytes>)"
    assert len(SECRET) == 32


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_is_not_pickled_or_copied(copier: object) -> None:
    with pytest.raises(TypeError):
        copier(SECRET)  # type: ignore[operator]
    with pytest.raises(TypeError):
        copier(kek())  # type: ignore[operator]


def test_a_secret_takes_the_capability_to_be_read() -> None:
    assert SECRET.lend(EXPORT, bytes) == CONTENT
    with pytest.raises(TypeError):
        SECRET.lend(object(), bytes)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        bytes(SECRET)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        hash(SECRET)
    with pytest.raises(TypeError):
        SecretBytes("text")  # type: ignore[arg-type]


def test_secrets_are_equal_by_content() -> None:
    assert SecretBytes(CONTENT) == SECRET
    assert SecretBytes(b"other") != SECRET
    assert SECRET != CONTENT


def test_a_secret_is_lent_to_be_read_and_for_the_call_alone() -> None:
    kept: list[memoryview] = []
    SECRET.lend(EXPORT, kept.append)
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])

    def write(content: memoryview) -> None:
        content[0] = 0

    with pytest.raises(TypeError, match="read-only"):
        SECRET.lend(EXPORT, write)
    assert SECRET.lend(EXPORT, bytes) == CONTENT


def test_a_wiped_secret_is_overwritten_and_cannot_be_read() -> None:
    content = bytearray(CONTENT)
    secret = SecretBytes(content)
    for _ in range(2):
        secret.wipe()
        assert content == bytes(32)
    for use in (lambda: secret.lend(EXPORT, bytes), lambda: secret == SECRET, lambda: SECRET.__eq__(secret)):
        with pytest.raises(ValueError, match="wiped"):
            use()
    assert len(secret) == 32
    assert repr(secret) == "SecretBytes(<32 bytes>)"


def test_what_a_secret_was_made_of_stays_as_it_is_unless_it_can_be_written_to() -> None:
    content = bytes(bytearray(CONTENT))
    SecretBytes(content).wipe()
    assert content == CONTENT


def test_a_secret_is_wiped_when_its_block_ends_and_when_it_is_let_go() -> None:
    ended, failed, let_go = (bytearray(CONTENT) for _ in range(3))
    with SecretBytes(ended) as secret:
        assert secret == SECRET
    with pytest.raises(KeyError), SecretBytes(failed):
        raise KeyError
    secret = SecretBytes(let_go)
    assert let_go == CONTENT
    del secret
    assert [bytes(one) for one in (ended, failed, let_go)] == [bytes(32)] * 3


def test_a_wrapped_key_opens_into_memory_that_is_wiped() -> None:
    one = kek()
    opened = one.backend.open(one.wrap(SECRET, context=CONTEXT).content, associated_data=CONTEXT.associated_data())
    assert isinstance(opened, bytearray)
    with SecretBytes(opened):
        assert opened == CONTENT
    assert opened == bytes(32)


def test_only_these_modules_may_read_secrets() -> None:
    root = Path(__file__).resolve().parents[2]
    importing = {
        str(path.relative_to(root))
        for path in (root / "kms").rglob("*.py")
        if re.search(r"\bEXPORT\b", path.read_text(encoding="utf-8"))
    }
    assert importing == {
        "kms/release/challenges.py",  # the MAC key
        "kms/keys/import_key.py",  # opens what owners seal
        "kms/domain/material.py",  # the public half of a prompt key
        "kms/domain/vault_material.py",  # the public half of a vault's key
        "kms/domain/secret.py",  # defines it
        "kms/domain/state_root.py",  # derives the keys of the state
        "kms/keys/wrapping/backend.py",  # wraps and unwraps
        "kms/keys/wrapping/file.py",  # the key-encryption key of a file
        "kms/keys/wrapping/tokens.py",  # the PIN of a token
        "kms/keys/wrapping/transit.py",  # the token for a transit engine
        "kms/release/sealing.py",  # seals
        "kms/release/foreign.py",  # seals in the form of another protocol
        "kms/keys/token_key.py",  # the key that signs tokens of that protocol
        "kms/operations/services.py",  # the signing key
        "kms/config/tls/material.py",  # compares the TLS key with its certificate
        "kms/config/skr_signer.py",  # the key that signs answers of a vault
        "kms/config/tls/server_context.py",  # hands both to OpenSSL
    }


# -- wrapping


def test_a_wrapped_key_opens_under_its_key_and_context() -> None:
    wrapped = kek().wrap(SECRET, context=CONTEXT)
    assert kek().unwrap(wrapped, context=CONTEXT) == SECRET
    assert CONTENT not in wrapped.content
    assert wrapped.content[0] == 1
    assert len(wrapped.content) == 1 + 12 + 32 + 16
    assert wrapped.kek_id == kek().id


def test_mc_28_a_wrapped_key_opens_in_no_other_context() -> None:
    wrapped = kek().wrap(SECRET, context=CONTEXT)
    others = {
        "tenant": "other",
        "key_id": "mode",
        "version": 2,
        "purpose": "prompt-key",
        "algorithm": "symmetric-128",
        "policy_digest": b"q" * 32,
    }
    assert set(others) == {field.name for field in fields(CONTEXT)}
    for name, value in others.items():
        with pytest.raises(IntegrityError):
            kek().unwrap(wrapped, context=replace(CONTEXT, **{name: value}))  # type: ignore[arg-type]
    with pytest.raises(IntegrityError):
        kek().unwrap(wrapped, context=replace(CONTEXT, policy_digest=None))


def test_a_wrapped_key_with_any_byte_altered_is_refused() -> None:
    content = kek().wrap(SECRET, context=CONTEXT).content
    altered = [content[:index] + bytes([byte ^ 1]) + content[index + 1 :] for index, byte in enumerate(content)]
    for other in (*altered, *(content[:length] for length in range(len(content))), content + b"\0"):
        with pytest.raises(IntegrityError):
            kek().unwrap(Wrapped(kek_id=kek().id, content=other), context=CONTEXT)


def test_another_key_encryption_key_opens_nothing_and_has_another_id() -> None:
    with pytest.raises(IntegrityError):
        kek("other").unwrap(kek().wrap(SECRET, context=CONTEXT), context=CONTEXT)
    assert kek("other").id != kek().id == kek().id


def test_no_nonce_is_used_twice() -> None:
    one = kek()
    assert len({one.wrap(SECRET, context=CONTEXT).content[1:13] for _ in range(50)}) == 50


def test_a_key_encryption_key_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        FileBackend(SecretBytes(bytes(31)), random=FakeRandom(), path=Path("kek"))
    assert "SecretBytes" not in repr(kek())


# -- the file


def test_a_new_file_is_private_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "kek"
    create_kek_file(path, random=FakeRandom())
    assert path.stat().st_mode & 0o7777 == 0o600
    first = read_kek_file(path, random=FakeRandom())
    assert first.derived_id == read_kek_file(path, random=FakeRandom()).derived_id
    path.chmod(0o400)
    assert read_kek_file(path, random=FakeRandom()).derived_id == first.derived_id


def test_a_new_file_is_on_the_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are wrapped under it next: a directory that forgets it in a power failure takes all of them along."""
    flushed: list[Path] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    create_kek_file(tmp_path / "kek", random=FakeRandom())
    assert flushed == [tmp_path / "kek.new", tmp_path]


def test_mc_31_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "kek"
    path.write_bytes(b"something")
    with pytest.raises(ConfigurationError) as caught:
        create_kek_file(path, random=FakeRandom())
    assert caught.value.code == "kek-file-exists"
    assert path.read_bytes() == b"something"


def test_a_file_in_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        create_kek_file(tmp_path / "none" / "kek", random=FakeRandom())
    assert caught.value.code == "kek-file-unusable"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_mc_34_a_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "kek"
    create_kek_file(path, random=FakeRandom())
    path.chmod(mode)
    with pytest.raises(ConfigurationError) as caught:
        read_kek_file(path, random=FakeRandom())
    assert caught.value.code == "kek-file-exposed"
    assert str(path) in (caught.value.hint or "")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_kek_file(tmp_path / "kek", random=FakeRandom())
    assert caught.value.code == "kek-file-missing"


def test_a_directory_a_link_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir(mode=0o700)
    create_kek_file(tmp_path / "kek", random=FakeRandom())
    (tmp_path / "link").symlink_to(tmp_path / "kek")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("directory", "link", "pipe"):
        with pytest.raises(ConfigurationError) as caught:
            read_kek_file(tmp_path / name, random=FakeRandom())
        assert caught.value.code == "kek-file-unusable", name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kek"
    create_kek_file(path, random=FakeRandom())
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigurationError) as caught:
        read_kek_file(path, random=FakeRandom())
    assert caught.value.code == "kek-file-unusable"


def test_every_other_content_is_refused_without_being_shown(tmp_path: Path) -> None:
    path = tmp_path / "kek"
    create_kek_file(path, random=FakeRandom())
    good = path.read_bytes()
    contents = [
        *(good[:length] for length in range(len(good))),
        good + b"\n",
        good + good,
        good[:-1] + b"x",
        good.replace(b"v1", b"v2"),
        bytes(32),
        good[:-2] + b"!\n",
        good[:-2] + b"\xff\n",
        good[:-2] + b"=\n",
    ]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ConfigurationError) as caught:
            read_kek_file(path, random=FakeRandom())
        assert caught.value.code == "kek-file-invalid"
        shown = "".join(traceback.format_exception(caught.value))
        assert good[18:-2].decode() not in shown


# -- administration


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_material_of_another_size_is_refused(harness: Harness, size: int) -> None:
    with pytest.raises(KeyConflictError) as caught:
        harness.add_key("model", material=bytes(size))
    assert caught.value.code == "key-material-invalid"
    assert [entry["kind"] for entry in harness.entries()] == ["initialised"]


@pytest.mark.parametrize("weak", [bytes(32), b"k" * 32, b"deadbeef" * 4, bytes(range(8)) * 4, b"key" + bytes(29)])
def test_a_key_that_is_not_random_is_refused(harness: Harness, weak: bytes) -> None:
    with pytest.raises(KeyConflictError) as caught:
        harness.add_key("model", material=weak)
    assert caught.value.code == "key-material-weak"
    assert weak.hex() not in repr(caught.value)
    assert [entry["kind"] for entry in harness.entries()] == ["initialised"]
    harness.add_key("model", material=bytes(range(9)) + bytes(23))  # a poor key, and no business of this check


def test_a_key_is_never_replaced(harness: Harness) -> None:
    harness.add_key("model")
    with pytest.raises(KeyConflictError) as caught:
        harness.add_key("model", material=bytes(range(32)))
    assert caught.value.code == "key-exists"
    assert [entry["kind"] for entry in harness.entries()] == ["initialised", "key-imported"]


def test_a_key_needs_a_policy_that_can_be_read(harness: Harness) -> None:
    with pytest.raises(ConfigurationError):
        harness.add_key("model", policy=b"{}")


def test_one_policy_may_guard_several_keys(harness: Harness) -> None:
    harness.add_key("a")
    harness.add_key("b")
    first, second = (find_key(harness.services.store, KeyName(key_id=one))[1] for one in ("a", "b"))
    assert first == second


def test_changes_of_state_are_logged_and_told_apart(harness: Harness) -> None:
    store = harness.services.store
    with pytest.raises(KeyUnknownError):
        set_enabled(store, MODEL, enabled=False, actor=ACTOR, at=AT)
    with pytest.raises(KeyUnknownError):
        find_key(store, MODEL)
    harness.add_key("model")
    set_enabled(store, MODEL, enabled=False, actor=ACTOR, at=AT)
    with pytest.raises(KeyConflictError):
        set_enabled(store, MODEL, enabled=False, actor=ACTOR, at=AT)
    assert find_key(store, MODEL)[0].enabled is False
    entries = harness.entries()
    assert [entry["kind"] for entry in entries] == ["initialised", "key-imported", "key-disabled"]
    for entry in entries[1:]:
        assert (entry["tenant"], entry["key_id"], entry["actor"]) == ("default", "model", ACTOR.members())
