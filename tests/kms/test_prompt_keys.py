"""Prompt keys from end to end: made, published, encrypted to, released, rotated."""

import json
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from fastapi.testclient import TestClient

from attest.encoding import JsonValue, base64url_text
from attest.errors import AttestError, ConfigurationError, ReleaseRefusedError
from attest.release import KeyName
from attest.release.client import KeyReleaseClient
from attest.release.prompt_keys import PROMPT_ALGORITHMS, PromptKeyNote, SealedPrompt, open_prompt
from kms.api.app import create_app
from kms.domain.errors import KeyConflictError, KeyUnknownError
from kms.domain.keys import Disclosure, KeyPurpose, KeyReference
from kms.domain.material import new_material, require_algorithm
from kms.keys.admin import KEY_CREATED, add_key, require_key, set_enabled
from kms.keys.destruction import schedule_destruction
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.keys.rotation import Rotator, rotate_due, rotate_key, set_schedule
from kms.keys.tenants import create_tenant
from kms.keys.vault import Vault
from kms.operations.fsck import examine
from kms.quorum.break_glass import BreakGlassOpen
from kms.quorum.key_policy import KeyPolicySet
from kms.release.prompt_keys import MAX_PAGE, NOTE_SECONDS, PromptKeyService
from tests.kms.stores import write_genuine
from tests.kms.support import ACTOR, AT, Harness, Workload, open_release, policy_text
from tests.kms.test_key_policy import put
from tests.kms.test_key_policy import version as policy_version

NAME = KeyName(key_id="prompts")
HYBRID, SINGLE = "hpke-mlkem768-x25519", "hpke-x25519"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def add_prompt_key(harness: Harness, name: KeyName = NAME, *, algorithm: str = HYBRID) -> None:
    add_key(
        harness.services.store,
        harness.services.kek,
        name=name,
        material=new_material(algorithm, random=harness.random),
        policy=policy_text(),
        kind=KEY_CREATED,
        actor=ACTOR,
        at=harness.clock(),
        algorithm=algorithm,
    )


def rotator(harness: Harness) -> Rotator:
    return Rotator(store=harness.services.store, kek=harness.services.kek, random=harness.random)


@pytest.fixture
def client(harness: Harness) -> Iterator[TestClient]:
    with TestClient(create_app(harness.settings, harness.services)) as made:
        yield made


@pytest.fixture
def keyed(harness: Harness) -> Harness:
    add_prompt_key(harness)
    return harness


def policy_of(harness: Harness) -> bytes:
    with harness.services.store.reading() as tx:
        return require_key(tx, NAME).policy_digest


def sealed_to(client: TestClient, harness: Harness, prompt: bytes = b"hello") -> SealedPrompt:
    """What a client makes that knows the service's key and the policy."""
    made = KeyReleaseClient(client, service=harness.services.identity.public)  # type: ignore[arg-type]  # an httpx client
    key = made.prompt_key(str(NAME), policies={policy_of(harness)}, at=harness.clock(), kems=PROMPT_ALGORITHMS.values())
    return key.encrypt(prompt, at=harness.clock())


def opened(harness: Harness, prompt: SealedPrompt, *, algorithm: str = HYBRID) -> bytes:
    """What a conforming workload reads."""
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, prompt.key)
    release = harness.releases.release(request)
    assert (release.keys[0].purpose, release.keys[0].version) == ("prompt-key", prompt.version)
    (material,) = open_release(Workload(), challenge, request, release, harness).values()
    return open_prompt(
        prompt,
        algorithm=algorithm,
        material=material,
        policy_digest=release.keys[0].policy_digest,
        service=harness.services.identity.public,
    )


@pytest.mark.parametrize("algorithm", PROMPT_ALGORITHMS)
def test_a_prompt_reaches_a_conforming_workload(client: TestClient, harness: Harness, algorithm: str) -> None:
    add_prompt_key(harness, algorithm=algorithm)
    assert opened(harness, sealed_to(client, harness), algorithm=algorithm) == b"hello"


def test_a_key_is_published_in_the_log_with_its_policy(keyed: Harness) -> None:
    created, entry = keyed.entries()[-2:]
    assert (created["kind"], created["algorithm"], created["purpose"]) == ("key-created", HYBRID, "prompt-key")
    assert (entry["kind"], entry["tenant"], entry["key_id"], entry["version"]) == (
        "prompt-key-published",
        "default",
        "prompts",
        1,
    )
    assert entry["policy_sha256"] == policy_of(keyed).hex()
    found = PromptKeyService(keyed.services).find(NAME)
    note = PromptKeyNote.parse(keyed.services.identity.public.verify(found.note))
    assert entry["public_key"] == base64url_text(note.public_key)
    assert (note.not_before, note.use_until) == (AT, AT + timedelta(seconds=NOTE_SECONDS))


def test_a_rotation_lets_what_is_in_flight_finish(client: TestClient, keyed: Harness) -> None:
    before = sealed_to(client, keyed)
    rotate_key(rotator(keyed), NAME, overlap=timedelta(hours=2), actor=ACTOR, at=keyed.clock())
    assert [entry["kind"] for entry in keyed.entries()[-2:]] == ["key-rotated", "prompt-key-published"]
    after = sealed_to(client, keyed, b"later")
    assert (before.version, after.version) == (1, 2)
    assert (opened(keyed, before), opened(keyed, after)) == (b"hello", b"later")
    keyed.clock.forward(hours=2)
    with pytest.raises(AttestError) as caught:
        opened(keyed, before)
    assert caught.value.code == "key-version-retired"


def test_a_note_ends_with_the_next_rotation(keyed: Harness) -> None:
    prompts, store = PromptKeyService(keyed.services), keyed.services.store
    set_schedule(store, NAME, every=timedelta(hours=2), overlap=timedelta(hours=1), actor=ACTOR, at=keyed.clock())

    def use_until() -> timedelta:
        note = keyed.services.identity.public.verify(prompts.find(NAME).note)
        return PromptKeyNote.parse(note).use_until - AT

    assert use_until() == timedelta(hours=1)
    keyed.clock.forward(minutes=90)
    assert use_until() == timedelta(hours=2)
    keyed.clock.forward(minutes=30)
    assert use_until() == timedelta(hours=3)
    assert len(rotate_due(rotator(keyed), at=keyed.clock(), failed=lambda _what, _error: None)) == 1
    assert PromptKeyNote.parse(keyed.services.identity.public.verify(prompts.find(NAME).note)).version == 2


@pytest.mark.parametrize("end", ["disabled", "destroying", "frozen"])
def test_a_key_that_workloads_do_not_get_is_not_published(client: TestClient, keyed: Harness, end: str) -> None:
    store = keyed.services.store
    if end == "disabled":
        set_enabled(store, NAME, enabled=False, actor=ACTOR, at=AT)
    elif end == "destroying":
        week = timedelta(days=7)
        schedule_destruction(store, KeyReference(name=NAME), after=week, minimum=week, actor=ACTOR, at=AT)
    else:
        freeze_key(keyed)
    assert client.get("/v1/prompt-keys").json() == {"prompt_keys": [], "next": None}
    answer = client.get("/v1/prompt-keys/default/prompts")
    assert (answer.status_code, answer.json()["code"]) == (404, "key-unknown")


def freeze_key(harness: Harness) -> None:
    from kms.controls.admin import freeze
    from kms.domain.freezes import Scope, Target

    target = Target(scope=Scope.KEY, name=str(NAME))
    freeze(harness.services.store, target, reason="a test", actor=ACTOR, at=AT)


def test_mc_21_what_is_no_prompt_key_is_unknown_like_what_is_not_there(client: TestClient, keyed: Harness) -> None:
    keyed.add_key("model")
    told = set()
    for name in ("model", "none"):
        answer = client.get(f"/v1/prompt-keys/default/{name}")
        assert answer.status_code == 404
        problem = {member: value for member, value in answer.json().items() if member != "request_id"}
        told.add(json.dumps(problem).replace(name, "…"))
    answer = client.get("/v1/prompt-keys/nobody/prompts")
    assert answer.json()["code"] == "key-unknown"
    assert len(told) == 1
    with pytest.raises(KeyUnknownError):
        PromptKeyService(keyed.services).find(KeyName(key_id="model"))


def test_mc_38_a_key_of_which_nothing_is_told_is_not_handed_out(client: TestClient, keyed: Harness) -> None:
    store = keyed.services.store
    for disclosure in (Disclosure.CODES, Disclosure.NONE):
        then = ReleaseSettings(disclosure=disclosure, lease_seconds=None)
        set_release_settings(store, NAME, then, actor=ACTOR, at=keyed.clock())
        told = disclosure is not Disclosure.NONE
        assert (listed(client)[0] == [str(NAME)]) is told
        answer = client.get(f"/v1/prompt-keys/{NAME.tenant}/{NAME.key_id}")
        assert answer.status_code == (200 if told else 404)


def test_a_client_refuses_a_key_of_another_policy(client: TestClient, keyed: Harness) -> None:
    made = KeyReleaseClient(client, service=keyed.services.identity.public)  # type: ignore[arg-type]  # as above
    with pytest.raises(AttestError) as caught:
        made.prompt_key("prompts", policies={bytes(32)}, at=AT)
    assert caught.value.code == "prompt-key-mismatch"
    with pytest.raises(ReleaseRefusedError) as refused:
        made.prompt_key("none", policies={bytes(32)}, at=AT)
    assert refused.value.code == "key-unknown"
    with pytest.raises(ConfigurationError):
        made.prompt_key("prompts@1", policies={bytes(32)}, at=AT)


def test_keys_are_listed_page_by_page(client: TestClient, harness: Harness) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=AT)
    names = [KeyName(tenant="acme", key_id="b"), *(KeyName(key_id=one) for one in ("a", "b", "c"))]
    for name in reversed(names):
        add_prompt_key(harness, name, algorithm=SINGLE)
    assert listed(client) == (["acme/b", "a", "b", "c"], None)
    assert listed(client, limit=2) == (["acme/b", "a"], "a")
    assert listed(client, limit=2, after="a") == (["b", "c"], None)
    assert listed(client, limit=1, after="acme/b") == (["a"], "a")
    assert listed(client, tenant="acme") == (["acme/b"], None)
    assert listed(client, key="b") == (["acme/b", "b"], None)
    assert listed(client, tenant="none") == ([], None)
    for wrong in ({"limit": 0}, {"limit": MAX_PAGE + 1}, {"tenant": "A"}, {"key": "a/b"}, {"after": "default/a"}):
        answer = client.get("/v1/prompt-keys", params=wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "request-schema")


def listed(client: TestClient, **query: object) -> tuple[list[str], str | None]:
    answer = client.get("/v1/prompt-keys", params=query)  # type: ignore[arg-type]  # texts and numbers
    assert answer.status_code == httpx.codes.OK
    document: dict[str, JsonValue] = answer.json()
    rows = document["prompt_keys"]
    assert isinstance(rows, list)
    notes = [PromptKeyNote.parse(str(row["note"]).partition("\n\n")[0] + "\n") for row in rows]  # type: ignore[index,call-overload]
    after = document["next"]
    return [str(note.name) for note in notes], None if after is None else str(after)


def test_what_is_published_is_examined(keyed: Harness) -> None:
    vault = Vault(store=keyed.services.store, kek=keyed.services.kek)

    def problems(check: str) -> str:
        found = {one.check: one for one in examine(vault, origin=keyed.settings.origin, noted=())}
        return " ".join(found[check].problems)

    assert (problems("keys"), problems("prompt-keys")) == ("", "")
    keyed.unprotect("prompt_keys")
    keyed.alter("UPDATE prompt_keys SET public_key = ?", bytes(34))
    assert "does not match the key" in problems("keys")
    assert "since entry 3 of the log" in problems("prompt-keys")


def test_a_prompt_key_keeps_its_policy_for_which_clients_chose_it(keyed: Harness) -> None:
    before = policy_of(keyed)
    changes = (
        KeyPolicySet(name=NAME, policy=policy_version(2)),
        BreakGlassOpen(name=NAME, lifts=None, policy=policy_version(2), reason="a test", until=AT + timedelta(hours=1)),
    )
    for change in changes:
        with keyed.services.store.reading() as tx, pytest.raises(KeyConflictError) as caught:
            change.state(tx)
        assert (caught.value.code, caught.value.field) == ("prompt-key-policy", "prompts")
    with pytest.raises(KeyConflictError):
        put(keyed, policy_version(2), NAME)
    assert policy_of(keyed) == before


def test_an_altered_public_key_is_refused_by_who_encrypts(client: TestClient, keyed: Harness) -> None:
    add_prompt_key(keyed, KeyName(key_id="mine"))
    ((mine,),) = keyed.alter("SELECT public_key FROM prompt_keys WHERE key_id = 'mine'")
    write_genuine(keyed, "prompt_keys", {"key_id": "prompts"}, public_key=mine)
    with pytest.raises(AttestError) as caught:
        sealed_to(client, keyed)
    assert (caught.value.code, caught.value.field) == ("prompt-key-mismatch", "public_key")


def test_algorithms_belong_to_purposes(harness: Harness) -> None:
    assert require_algorithm(SINGLE, purpose=KeyPurpose.PROMPT_KEY) == SINGLE
    for name, purpose in (
        (SINGLE, KeyPurpose.MODEL_KEY),
        ("symmetric-256", KeyPurpose.PROMPT_KEY),
        ("rsa", KeyPurpose.MODEL_KEY),
    ):
        with pytest.raises(ConfigurationError) as caught:
            require_algorithm(name, purpose=purpose)
        assert caught.value.code == "key-algorithm-invalid"
    with pytest.raises(KeyConflictError):
        add_key(
            harness.services.store,
            harness.services.kek,
            name=NAME,
            material=new_material("symmetric-256", random=harness.random),
            policy=policy_text(),
            kind=KEY_CREATED,
            actor=ACTOR,
            at=AT,
            algorithm=HYBRID,
        )
