"""Opaque secrets: any bytes of an owner, released like keys, and judged by nothing but their size."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from attest.errors import AttestError, ConfigurationError
from attest.release import MAX_SECRET_BYTES, KeyName, pad_secret, read_import_key, unpad_secret, wrap_key
from kms.domain.errors import IntegrityError, KeyConflictError
from kms.domain.keys import OPAQUE, KeyPurpose, KeyRecord
from kms.domain.material import new_material, owned_material, require_material
from kms.domain.permissions import Role
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.keys.import_key import first_terms
from kms.keys.rotation import Rotator, rotate_due, rotate_key, set_schedule
from kms.keys.vault import Vault
from kms.operations.fsck import examine
from kms.operations.kek_rotation import require_ready
from tests.kms.admins import AdminClient, admin_client
from tests.kms.database_writer import DatabaseWriter
from tests.kms.stores import write_genuine
from tests.kms.support import ACTOR, Harness, Workload, open_release, policy_text
from tests.kms.test_cli import Shell, shell
from tests.kms.test_kek_rotation import make_second, vault_of
from tests.kms.test_kek_rotation import rotate as rotate_wrapping
from tests.kms.test_key_policy import put, version

__all__ = ["shell"]
PASSWORD = b"postgres://app:correct-horse@db.internal/prod\n"
DATABASE = KeyName(key_id="database")
DAY = timedelta(days=1)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def add_secret(harness: Harness, secret: bytes = PASSWORD, key_id: str = "database", policy: bytes = b"") -> KeyRecord:
    return add_key(
        harness.services.store,
        harness.services.kek,
        name=KeyName(key_id=key_id),
        material=owned_material(SecretBytes(secret), algorithm=OPAQUE),
        policy=policy or policy_text(),
        kind=KEY_IMPORTED,
        actor=ACTOR,
        at=harness.clock(),
        algorithm=OPAQUE,
    )


def released(harness: Harness, asked: str = "database") -> tuple[bytes, int]:
    """The secret as its workload reads it, and the length of the ciphertext."""
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, asked)
    release = harness.releases.release(request)
    (key,) = release.keys
    assert key.purpose == "secret"
    (padded,) = open_release(Workload(), challenge, request, release, harness).values()
    return unpad_secret(padded), len(key.sealed)


def refused(harness: Harness, asked: str = "database") -> AttestError:
    with pytest.raises(AttestError) as caught:
        released(harness, asked)
    return caught.value


def rotate(harness: Harness, secret: bytes | None) -> KeyRecord:
    rotator = Rotator(store=harness.services.store, kek=harness.services.kek, random=harness.random)
    material = None if secret is None else owned_material(SecretBytes(secret), algorithm=OPAQUE)
    return rotate_key(rotator, DATABASE, overlap=DAY, actor=ACTOR, at=harness.clock(), material=material)


# -- what is released


@pytest.mark.parametrize("secret", [PASSWORD, b"a", b"\0\0", b"\xff" * MAX_SECRET_BYTES])
def test_a_workload_gets_every_byte_of_a_secret(harness: Harness, secret: bytes) -> None:
    record = add_secret(harness, secret)
    assert (record.purpose, record.algorithm) == (KeyPurpose.SECRET, OPAQUE)
    assert released(harness)[0] == secret
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    assert all(one.problems == () for one in examine(vault, origin=harness.settings.origin, noted=()))


def test_no_stored_or_sent_length_tells_that_of_a_secret(harness: Harness) -> None:
    records = [add_secret(harness, b"s" * length, key_id=f"s{length}") for length in (1, 40, 4096)]
    assert len({len(record.wrapped.content) for record in records}) == 1
    assert len({released(harness, str(record.name))[1] for record in records}) == 1


def test_the_log_names_a_secret_and_nothing_of_its_content(harness: Harness) -> None:
    add_secret(harness, b"x" * 1234)
    released(harness)
    (entry,) = (one for one in harness.entries() if one["kind"] == "key-imported")
    assert (entry["purpose"], entry["algorithm"]) == ("secret", "opaque")
    (allowed,) = harness.decisions()
    assert "'purpose': 'secret'" in str(allowed["keys"])
    assert "1234" not in str(allowed["keys"])


def test_a_guest_that_does_not_meet_the_policy_gets_no_secret(harness: Harness) -> None:
    add_secret(harness)
    request = Workload().with_measurement(b"\1" * 48).request(harness.releases.challenge(), "database")
    with pytest.raises(AttestError) as caught:
        harness.releases.release(request)
    assert caught.value.code == "policy-not-met"
    assert harness.decisions()[-1]["outcome"] == "deny"


def test_a_weak_or_short_secret_is_the_owners_own_choice_and_a_weak_key_is_not() -> None:
    require_material(owned_material(SecretBytes(b"aaaa"), algorithm=OPAQUE), algorithm=OPAQUE)
    with pytest.raises(KeyConflictError) as caught:
        require_material(SecretBytes(b"a" * 32), algorithm="symmetric-256")
    assert caught.value.code == "key-material-weak"


def test_given_material_is_overwritten_once_it_is_padded() -> None:
    given = bytearray(PASSWORD)
    padded = owned_material(SecretBytes(given), algorithm=OPAQUE)
    assert given == bytes(len(given))
    assert padded.lend(EXPORT, unpad_secret) == PASSWORD
    assert "postgres" not in repr(padded)


@pytest.mark.parametrize("length", [0, MAX_SECRET_BYTES + 1])
def test_an_empty_or_oversized_secret_is_not_stored(harness: Harness, length: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        add_secret(harness, b"a" * length)
    assert caught.value.code == "secret-size-invalid"


def test_material_that_is_not_padded_is_stored_as_no_secret() -> None:
    for material in (PASSWORD, bytes(pad_secret(PASSWORD))[:-1] + b"\1"):
        with pytest.raises(KeyConflictError) as caught:
            require_material(SecretBytes(material), algorithm=OPAQUE)
        assert caught.value.code == "key-material-invalid"
        assert b"postgres" not in str(caught.value.context()).encode()


# -- the next version


def test_the_next_value_of_a_secret_is_released_and_the_one_before_by_number(harness: Harness) -> None:
    add_secret(harness)
    assert rotate(harness, b"new").version == 2
    assert released(harness)[0] == b"new"
    assert released(harness, "database@1")[0] == PASSWORD


def test_the_service_generates_no_secret_and_rotates_none_by_itself(harness: Harness) -> None:
    add_secret(harness)
    for act in (
        lambda: rotate(harness, None),
        lambda: set_schedule(
            harness.services.store, DATABASE, every=DAY, overlap=timedelta(0), actor=ACTOR, at=harness.clock()
        ),
        lambda: new_material(OPAQUE, random=harness.random),
    ):
        with pytest.raises(KeyConflictError) as caught:
            act()
        assert caught.value.code == "secret-not-generated"
    harness.clock.forward(days=40)
    rotator = Rotator(store=harness.services.store, kek=harness.services.kek, random=harness.random)
    assert rotate_due(rotator, at=harness.clock(), failed=lambda *_: None) == ()


# -- what a key goes through


def test_a_secret_moves_to_another_policy_and_another_key_encryption_key(harness: Harness) -> None:
    add_secret(harness)
    put(harness, version(2), DATABASE)
    assert released(harness)[0] == PASSWORD
    serving = harness.reopened(kek_directory=harness.folder / "keks")
    target = make_second(harness)
    vault = vault_of(harness)
    require_ready(vault, target)
    assert {one.problems for one in rotate_wrapping(vault, target)} == {()}
    assert released(serving)[0] == PASSWORD
    vault.store.close()
    serving.close()


# -- attacks on the database


@pytest.mark.parametrize(
    ("table", "changes"),
    [("keys", {"purpose": "model-key"}), ("key_versions", {"algorithm": "symmetric-256"})],
)
def test_a_secret_whose_row_was_given_another_type_is_not_released(
    harness: Harness, table: str, changes: dict[str, object]
) -> None:
    add_secret(harness)
    DatabaseWriter(harness).update(table, {"key_id": "database"}, **changes)
    error = refused(harness)
    assert isinstance(error, IntegrityError)
    assert error.code == "state-forged"


@pytest.mark.parametrize(
    ("table", "changes"),
    [("keys", {"purpose": "model-key"}), ("key_versions", {"algorithm": "symmetric-256"})],
)
def test_mc_28_another_type_opens_no_secret_even_in_an_authenticated_row(
    harness: Harness, table: str, changes: dict[str, object]
) -> None:
    add_secret(harness)
    write_genuine(harness, table, {"key_id": "database"}, **changes)
    assert refused(harness).code == "wrapped-key-invalid"


def test_mc_28_secrets_whose_wrapped_forms_were_swapped_are_not_released(harness: Harness) -> None:
    add_secret(harness)
    add_secret(harness, b"test", key_id="test", policy=policy_text(name="test"))
    writer = DatabaseWriter(harness)
    (one,), (other,) = (writer.rows("key_versions", key_id=name) for name in ("database", "test"))
    assert len(one["wrapped"]) == len(other["wrapped"])
    writer.update("key_versions", {"key_id": "test"}, wrapped=one["wrapped"])
    assert refused(harness, "test").code == "state-forged"
    writer.update("key_versions", {"key_id": "test"}, wrapped=other["wrapped"])
    write_genuine(harness, "key_versions", {"key_id": "test"}, wrapped=one["wrapped"])
    assert refused(harness, "test").code == "wrapped-key-invalid"


def test_an_older_value_that_is_put_back_is_not_released(harness: Harness) -> None:
    add_secret(harness)
    writer = DatabaseWriter(harness)
    before = writer.copy("key_versions")
    rotate(harness, b"new")
    writer.put_back(before)
    assert refused(harness).code == "state-forged"


# -- administration


@pytest.fixture
def admin(harness: Harness) -> Iterator[AdminClient]:
    with admin_client(harness) as client:
        client.give("owner", Role.KEY_OWNER, "default")
        client.give("operator", Role.OPERATOR)
        yield client


def wrapped_secret(admin: AdminClient, secret: bytes = PASSWORD, *, version: int = 1, padded: bool = True) -> str:
    service = admin.harness.services.identity.public
    note = admin.http.post("/v1/import-key?tenant=default", json={}, headers=admin.bearer("owner"))
    key = read_import_key(note.text, service=service)
    terms = replace(first_terms(DATABASE, algorithm=OPAQUE, policy=policy_text()), version=version)
    content = bytes(pad_secret(secret)) if padded else secret
    return wrap_key(content, import_key=key, service=service, terms=terms).to_json().decode()


def importing(wrapped: str, **more: object) -> dict[str, object]:
    named = {"tenant": "default", "key_id": "database", "policy": policy_text().decode(), "algorithm": "opaque"}
    return {**named, "wrapped": wrapped, **more}


@pytest.mark.parametrize("secret", [PASSWORD, b"\xff" * MAX_SECRET_BYTES])
def test_an_owner_imports_a_sealed_secret_over_the_network(admin: AdminClient, secret: bytes) -> None:
    body = importing(wrapped_secret(admin, secret))
    refusal = admin.http.post("/v1/keys/import", json=body, headers=admin.bearer("operator"))
    assert (refusal.status_code, refusal.json()["code"]) == (403, "not-permitted")
    answer = admin.http.post("/v1/keys/import", json=body, headers=admin.bearer("owner"))
    assert (answer.status_code, answer.json()["purpose"]) == (200, "secret")
    assert released(admin.harness)[0] == secret
    again = {"wrapped": wrapped_secret(admin, b"new", version=2)}
    path = "/v1/keys/default/database/rotate"
    assert admin.http.post(path, json=again, headers=admin.bearer("owner")).json()["version"] == 2
    assert released(admin.harness)[0] == b"new"


def test_sealed_files_of_one_size_class_have_one_length(admin: AdminClient) -> None:
    lengths = {len(wrapped_secret(admin, b"s" * length)) for length in (1, 100, 4096)}
    assert len(lengths) == 1


def test_a_sealed_secret_without_padding_or_beyond_the_limit_is_not_imported(admin: AdminClient) -> None:
    owner = admin.bearer("owner")
    plain = admin.http.post("/v1/keys/import", json=importing(wrapped_secret(admin, padded=False)), headers=owner)
    assert (plain.status_code, plain.json()["code"]) == (409, "key-material-invalid")
    assert "postgres" not in plain.text
    too_long = admin.http.post("/v1/keys/import", json=importing("x" * (128 * 1024 + 1)), headers=owner)
    assert (too_long.status_code, too_long.json()["code"]) == (422, "request-schema")


def test_a_secret_that_was_sealed_as_a_secret_is_imported_as_no_key(admin: AdminClient) -> None:
    body = importing(wrapped_secret(admin), algorithm="symmetric-256")
    answer = admin.http.post("/v1/keys/import", json=body, headers=admin.bearer("owner"))
    assert (answer.status_code, answer.json()["code"]) == (403, "wrapped-key-mismatch")


def test_the_network_api_generates_no_secret(admin: AdminClient) -> None:
    owner = admin.bearer("owner")
    body = {name: value for name, value in importing("").items() if name != "wrapped"}
    for wanted in (body, {**body, "algorithm": None, "purpose": "secret"}):
        answer = admin.http.post("/v1/keys", json=wanted, headers=owner)
        assert (answer.status_code, answer.json()["code"]) == (409, "secret-not-generated")


# -- the command line


def imported(shell: Shell, *more: str, code: int = 0, stdin: bytes = PASSWORD) -> tuple[str, str]:
    given = ("key", "import", "database", "--policy", str(shell.policy), *more)
    return shell.with_config(*given, code=code, stdin=stdin)


@pytest.mark.parametrize("from_file", [True, False])
def test_a_secret_is_imported_from_a_file_or_standard_input(shell: Shell, from_file: bool) -> None:
    shell.init()
    file = shell.folder / "password"
    file.write_bytes(PASSWORD)
    file.chmod(0o600)
    out, err = imported(shell, "--secret", "--from", str(file) if from_file else "-")
    assert "database  version 1  secret  current" in out
    listed = shell.with_config("key", "list", "--json")[0] + shell.with_config("key", "show", "database")[0]
    for text in (out, err, listed):
        assert "correct-horse" not in text
        assert str(len(PASSWORD)) + " bytes" not in text


def test_a_secret_file_that_others_can_read_is_refused(shell: Shell) -> None:
    shell.init()
    file = shell.folder / "password"
    file.write_bytes(PASSWORD)
    file.chmod(0o644)
    assert "[secret-file-exposed]" in imported(shell, "--secret", "--from", str(file), code=2)[1]


@pytest.mark.parametrize(
    ("more", "stdin", "code", "expected"),
    [
        (("--secret", "--from", "-"), b"", 2, "[secret-size-invalid]"),
        (("--secret", "--from", "-"), b"a" * (MAX_SECRET_BYTES + 1), 2, "[secret-size-invalid]"),
        (("--secret", "--from", "-"), b"a" * (3 * 1024 * 1024), 2, "[secret-size-invalid]"),
        (("--secret", "--algorithm", "symmetric-256", "--from", "-"), PASSWORD, 2, "give either --secret"),
        (("--secret",), PASSWORD, 2, "--from or --wrapped"),
        (("--from", "-"), PASSWORD, 1, "give --secret"),
    ],
    ids=["empty", "too-long", "far-too-long", "two-types", "no-source", "as-a-key"],
)
def test_what_is_no_secret_is_refused(
    shell: Shell, more: tuple[str, ...], stdin: bytes, code: int, expected: str
) -> None:
    shell.init()
    err = imported(shell, *more, code=code, stdin=stdin)[1]
    assert expected in err
    assert "correct-horse" not in err
    assert shell.with_config("key", "list")[0] == ""


def test_a_secret_that_is_typed_is_not_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.init()
    asked: list[str] = []

    def ask(text: str) -> str:
        asked.append(text)
        return "correct-horse"

    monkeypatch.setattr("click.termui.hidden_prompt_func", ask)
    given = ("key", "import", "database", "--policy", str(shell.policy), "--secret", "--from", "-")
    code, out, err = shell.tried(*given, "--config", str(shell.config), terminal=True)
    assert (code, len(asked)) == (0, 2), err
    assert "correct-horse" not in out + err


def test_an_owner_seals_a_secret_and_its_next_value_at_the_command_line(shell: Shell) -> None:
    identity, note = shell.init().partition("identity: ")[2].strip(), shell.folder / "import-key.txt"
    note.write_text(shell.with_config("key", "import-key")[0], encoding="utf-8")
    for number, secret in ((1, PASSWORD), (2, b"next")):
        out = shell.folder / f"database.{number}"
        _, err = shell.run(
            *("key", "wrap", "database", "--to", str(note), "--service", identity, "--secret", "--from", "-"),
            *("--policy", str(shell.policy), "--version", str(number), "--out", str(out)),
            stdin=secret,
        )
        assert b"correct-horse" not in out.read_bytes()
        assert ("kms key import database --secret" in err) is (number == 1)
    imported(shell, "--secret", "--wrapped", str(shell.folder / "database.1"))
    shell.with_config("key", "rotate", "database", "--wrapped", str(shell.folder / "database.2"))
    shell.with_config("key", "rotate", "database", "--from", "-", stdin=b"third")
    err = shell.with_config("key", "rotate", "database", code=1)[1]
    assert "[secret-not-generated]" in err
