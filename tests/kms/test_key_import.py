"""Keys that come in wrapped: they open here, as this key, and nowhere else."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from attest.errors import AttestError, BindingError, EvidenceError, SignatureError
from attest.release import KeyName, VerifierKey, WorkloadKey, sign_note
from attest.release.key_import import ImportTerms, WrappedKey, import_key_text, open_wrapped, read_import_key, wrap_key
from kms.domain.errors import KeyConflictError, UnavailableError
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.admin import require_key
from kms.keys.import_key import find_import_key, first_terms, make_import_key, next_terms, unwrap_material
from kms.keys.rotation import Rotator, rotate_key
from kms.keys.vault import Vault
from kms.operations.fsck import examine
from tests.kms.support import ACTOR, AT, MATERIAL, MODEL, FakeRandom, Harness, policy_text
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]
ALGORITHM = "symmetric-256"


def import_key(harness: Harness) -> WorkloadKey:
    services = harness.services
    return make_import_key(
        services.store,
        services.kek,
        service=services.identity.public,
        random=harness.random,
        actor=ACTOR,
        at=AT,
    )


TERMS = first_terms(MODEL, algorithm=ALGORITHM, policy=policy_text())


def wrapped_for(harness: Harness, key: WorkloadKey, terms: ImportTerms = TERMS) -> WrappedKey:
    return wrap_key(MATERIAL, import_key=key.public, service=harness.services.identity.public, terms=terms)


def unwrapped(
    harness: Harness,
    data: bytes,
    *,
    terms: ImportTerms = TERMS,
    service: VerifierKey | None = None,
) -> bytes:
    services = harness.services
    known = services.identity.public if service is None else service
    return unwrap_material(services.store, services.kek, data, service=known, terms=terms).lend(EXPORT, bytes)


def test_what_was_sealed_to_the_import_key_opens_as_the_key_that_it_is(harness: Harness) -> None:
    key = import_key(harness)
    assert unwrapped(harness, wrapped_for(harness, key).to_json()) == MATERIAL


def test_the_import_key_is_made_once_and_logged(harness: Harness) -> None:
    assert (
        find_import_key(harness.services.store, harness.services.kek, service=harness.services.identity.public) is None
    )
    first = import_key(harness)
    assert import_key(harness).public == first.public
    assert [entry["kind"] for entry in harness.entries()] == ["initialised", "import-key-created"]
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    assert all(one.problems == () for one in examine(vault, origin=harness.settings.origin, noted=()))


def test_without_an_import_key_nothing_is_opened(harness: Harness) -> None:
    key = WorkloadKey.from_material(0x647A, bytes(96))
    with pytest.raises(KeyConflictError) as caught:
        unwrapped(harness, wrapped_for(harness, key).to_json())
    assert caught.value.code == "import-key-missing"


def test_mc_28_it_opens_as_no_other_key(harness: Harness) -> None:
    key = import_key(harness)
    wrapped = wrapped_for(harness, key)
    others = {
        "key": replace(TERMS, name=KeyName(tenant="acme", key_id="model")),
        "algorithm": replace(TERMS, algorithm="hpke-x25519"),
        "version": replace(TERMS, version=2),
        "policy_sha256": replace(TERMS, policy_digest=bytes(32)),
    }
    for field, terms in others.items():
        with pytest.raises(BindingError) as caught:
            unwrapped(harness, wrapped.to_json(), terms=terms)
        assert (caught.value.code, caught.value.field) == ("wrapped-key-mismatch", field)
        # Whoever rewrites the file meets the seal.
        renamed = replace(wrapped, terms=terms)
        with pytest.raises(BindingError) as caught:
            unwrapped(harness, renamed.to_json(), terms=terms)
        assert caught.value.code == "release-not-for-this-exchange"


def test_mc_28_the_operator_puts_it_under_no_other_policy(shell: Shell) -> None:
    identity = shell.init().partition("identity: ")[2].strip()
    note, wrapped, weak = (shell.folder / name for name in ("import-key.txt", "model.wrapped", "weak.yaml"))
    note.write_text(shell.with_config("key", "import-key")[0], encoding="utf-8")
    sealing = ("key", "wrap", "model", "--to", str(note), "--from", str(shell.key), "--policy", str(shell.policy))
    shell.run(*sealing, "--service", identity, "--out", str(wrapped))
    weak.write_text(shell.policy.read_text().replace("snp: 26", "snp: 1"))
    command = ("key", "import", "model", "--wrapped", str(wrapped), "--policy")
    assert "[wrapped-key-mismatch]" in shell.with_config(*command, str(weak), code=1)[1]
    shell.with_config(*command, str(shell.policy))


def test_a_version_is_kept_as_what_it_was_sealed_as_or_not_at_all(harness: Harness) -> None:
    harness.add_key("model")
    services = harness.services
    rotator = Rotator(store=services.store, kek=services.kek, random=harness.random)
    with services.store.reading() as tx:
        terms = next_terms(require_key(tx, MODEL))
    rotate_key(rotator, MODEL, overlap=timedelta(days=1), actor=ACTOR, at=AT)  # somebody else was quicker
    material = SecretBytes(bytes(range(32)))
    with pytest.raises(UnavailableError) as caught:
        rotate_key(rotator, MODEL, overlap=timedelta(days=1), actor=ACTOR, at=AT, material=material, terms=terms)
    assert caught.value.code == "keys-changing"


def test_it_opens_at_no_other_service(harness: Harness, tmp_path: Path) -> None:
    key = import_key(harness)
    (tmp_path / "other").mkdir()
    elsewhere = Harness.make(tmp_path / "other", seed="other")
    other_key = import_key(elsewhere)
    with pytest.raises(BindingError) as caught:
        unwrapped(elsewhere, wrapped_for(harness, key).to_json())
    assert (caught.value.code, caught.value.field) == ("wrapped-key-mismatch", "to")
    with pytest.raises(BindingError):
        open_wrapped(
            wrapped_for(harness, other_key),
            key=other_key,
            service=elsewhere.services.identity.public,
            terms=TERMS,
        )
    elsewhere.close()


def test_an_import_key_of_somebody_else_is_refused(harness: Harness) -> None:
    key, identity = import_key(harness), harness.services.identity
    note = sign_note(import_key_text(key.public), name=identity.public.name, key=identity.key)
    assert read_import_key(note, service=identity.public) == key.public
    with pytest.raises(SignatureError):
        read_import_key(note.replace('"public_key"', '"Public_key"'), service=identity.public)
    for text in ("attest-import-key/v1\n{}\n", "other/v1\n{}\n", 'attest-import-key/v1\n{"public_key":1}\n'):
        with pytest.raises(EvidenceError):
            read_import_key(sign_note(text, name=identity.public.name, key=identity.key), service=identity.public)


def test_each_member_of_a_wrapped_key_missing_or_retyped_is_refused(harness: Harness) -> None:
    key = WorkloadKey.from_material(0x647A, FakeRandom()(96))
    good = json.loads(wrapped_for(harness, key).to_json())
    service = harness.services.identity.public

    def opened(document: object) -> bytes:
        found = WrappedKey.from_json(json.dumps(document).encode())
        return open_wrapped(found, key=key, service=service, terms=TERMS)

    assert opened(good) == MATERIAL
    for name in good:
        without = {k: v for k, v in good.items() if k != name}
        others: tuple[object, ...] = (without, {**good, name: None}, {**good, name: "A B"}, {**good, "more": "x"}, [])
        for wrong in others:
            with pytest.raises((EvidenceError, BindingError)):
                opened(wrong)
    with pytest.raises(AttestError):
        WrappedKey.from_json(b"\xff")


def test_a_key_is_wrapped_by_its_owner_and_imported(shell: Shell) -> None:
    identity = shell.init().partition("identity: ")[2].strip()
    note, wrapped = shell.folder / "import-key.txt", shell.folder / "model.wrapped"
    note.write_text(shell.with_config("key", "import-key")[0], encoding="utf-8")
    assert shell.with_config("key", "import-key")[0] == note.read_text(encoding="utf-8")
    sealing = ("key", "wrap", "model", "--to", str(note), "--from", str(shell.key), "--policy", str(shell.policy))
    owner = (*sealing, "--out", str(wrapped), "--service")
    _, err = shell.run(*owner, identity)
    assert "note: import it with 'kms key import model --policy " in err
    assert "[file-unwritable]" in shell.run(*owner, identity, code=2)[1]
    wrong = VerifierKey(name="kms.test/cli", public=bytes(32)).text
    assert "[note-signature-invalid]" in shell.run(*owner, wrong, code=1)[1]
    assert MATERIAL not in wrapped.read_bytes()
    policy = ("--policy", str(shell.policy))
    _, err = shell.with_config("key", "import", "other", "--wrapped", str(wrapped), *policy, code=1)
    assert "[wrapped-key-mismatch]" in err
    shell.with_config("key", "import", "model", "--wrapped", str(wrapped), "--from", str(shell.key), *policy, code=2)
    shell.with_config("key", "import", "model", *policy, code=2)
    assert shell.with_config("key", "import", "model", "--wrapped", str(wrapped), *policy)[0].startswith(
        "model  version 1"
    )
    _, err = shell.with_config("key", "rotate", "model", "--wrapped", str(wrapped), code=1)
    assert "[wrapped-key-mismatch]" in err
    second = shell.folder / "second.wrapped"
    _, err = shell.run(*sealing, "--version", "2", "--out", str(second), "--service", identity)
    assert f"note: import it with 'kms key rotate model --wrapped {second}'" in err
    told = json.loads(shell.with_config("key", "rotate", "model", "--wrapped", str(second), "--json")[0])
    assert told["schema"] == "kms.keys/1"
    assert [(one["key_id"], one["version"], one["state"]) for one in told["keys"]] == [("model", 2, "current")]
    made = json.loads(shell.with_config("key", "create", "made", *policy, "--json")[0])
    assert [(one["key_id"], one["version"]) for one in made["keys"]] == [("made", 1)]
    assert json.loads(shell.with_config("key", "rotate", "--due", "--json")[0])["keys"] == []
    assert "import-key-created" in shell.with_config("log", "list")[0]
    shell.with_config("fsck")
