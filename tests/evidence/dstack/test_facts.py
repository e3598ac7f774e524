"""Facts of dstack's events: what is read, from where, and what ends the reading."""

import json
from typing import Any

import pytest

from attest.errors import VerificationError
from attest.evidence.dstack.facts import DstackFacts, KeyProvider, dstack_document, key_provider_of, read_facts
from tests.evidence.dstack.made import (
    APP_ID,
    COMPOSE_HASH,
    GUEST,
    IMAGE,
    INSTANCE_ID,
    KEY_ID,
    MR_KMS,
    RUNTIME_EVENTS,
    Entry,
    Guest,
    event,
    parsed,
)

OTHER = b"\xee" * 32


def facts(guest: Guest) -> DstackFacts:
    return read_facts(parsed([*guest.entries]))


def refused(guest: Guest) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        facts(guest)
    assert (caught.value.code, caught.value.check) == ("dstack-event-invalid", "dstack.events")
    return caught.value


def place(name: str) -> int:
    return next(at for at, entry in enumerate(RUNTIME_EVENTS) if entry["event"] == name)


def test_every_fact_is_read_and_shown_with_its_event() -> None:
    document = dstack_document(facts(GUEST))
    sources: Any = document.pop("sources")
    assert document == {
        "app_id": APP_ID.hex(),
        "compose_hash": COMPOSE_HASH.hex(),
        "instance_id": INSTANCE_ID.hex(),
        "os_image_hash": IMAGE.hex(),
        "mr_kms": MR_KMS.hex(),
        "gpu_policy_hash": "03" * 32,
        "gpu_attestation": '{"count":1}',
        "key_provider": {"name": "kms", "id": KEY_ID.hex()},
        "init_script_hashes": ["01" * 32, "02" * 32],
    }
    assert set(sources) == set(document) - {"init_script_hashes"}
    of_compose = GUEST.entries[sources["compose_hash"]["event"] - 1]
    assert (of_compose["event"], of_compose["digest"]) == ("compose-hash", sources["compose_hash"]["digest"])
    assert sources["compose_hash"]["register"] == "RTMR3"


def test_a_log_without_events_of_dstack_states_nothing() -> None:
    assert dstack_document(facts(Guest(runtime=()))) == {"sources": {}}


def test_an_instance_without_an_id_states_none() -> None:
    document = dstack_document(facts(GUEST.with_payload("instance-id", b"")))
    assert "instance_id" not in document
    assert "instance_id" not in document["sources"]  # type: ignore[operator]


@pytest.mark.parametrize("after", [event("compose-hash", OTHER), event("app-id", b"short"), event("new", OTHER)])
def test_nothing_is_read_after_system_ready(after: Entry) -> None:
    assert facts(Guest(runtime=(*RUNTIME_EVENTS, after))) == facts(GUEST)


def test_events_with_unknown_names_are_passed_over() -> None:
    found = facts(GUEST.with_event(2, event("something-new", b"\1")))
    assert found.compose_hash == COMPOSE_HASH


@pytest.mark.parametrize("name", [entry["event"] for entry in RUNTIME_EVENTS if entry["event"] != "init-script-hash"])
def test_an_event_that_stands_twice_is_refused(name: str) -> None:
    again = RUNTIME_EVENTS[place(name)]
    if name == "system-ready":
        assert facts(GUEST.with_event(place(name), again)) == facts(GUEST)
    else:
        assert "twice" in (refused(GUEST.with_event(place(name) + 1, again)).got or "")


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("system-preparing", b"x"),
        ("app-id", bytes(19)),
        ("app-id", b""),
        ("compose-hash", bytes(31)),
        ("compose-hash", bytes(33)),
        ("instance-id", bytes(21)),
        ("boot-mr-done", b"x"),
        ("mr-kms", bytes(20)),
        ("os-image-hash", b""),
        ("system-ready", b"x"),
        ("key-provider", b"kms"),
        ("key-provider", b'{"name":"kms"}'),
        ("key-provider", b'{"name":"kms","id":"zz"}'),
        ("key-provider", b"\xff"),
        ("gpu-attestation", b"\xff"),
    ],
)
def test_a_payload_of_another_size_or_kind_is_refused(name: str, payload: bytes) -> None:
    assert name in refused(GUEST.with_payload(name, payload)).message


def test_the_compose_hash_stands_in_front_of_the_end_of_the_boot() -> None:
    late = GUEST.without("compose-hash").with_event(8, event("compose-hash", COMPOSE_HASH))
    assert late.runtime[7]["event"] == "boot-mr-done"
    assert "other order" in (refused(late).got or "")


def relabelled(guest: Guest, name: str) -> Guest:
    """Return the log in which an event stands as one of another type: the digest stays, and so the register."""
    entries = tuple({**e, "event_type": 5} if e["event"] == name else e for e in guest.runtime)
    return Guest(runtime=entries)


def test_an_application_cannot_pass_its_own_events_off_by_relabelling_those_of_dstack() -> None:
    """The application extends RTMR3 with a good compose hash, and the log's bearer hides the true one and the end."""
    extended = Guest(runtime=(*RUNTIME_EVENTS, event("compose-hash", OTHER)))
    hidden = relabelled(relabelled(extended, "system-ready"), "compose-hash")
    # One type stands for both events of the name: hide the true one only.
    entries = [*hidden.entries]
    entries[-1] = event("compose-hash", OTHER)
    assert read_facts(parsed(entries)).compose_hash is None


def test_a_list_that_may_go_on_is_not_stated() -> None:
    guest = relabelled(GUEST, "gpu-policy-hash")
    found = facts(guest)
    assert (found.compose_hash, found.init_script_hashes) == (COMPOSE_HASH, ())
    assert len(facts(GUEST).init_script_hashes) == 2


def test_an_event_whose_name_may_end_elsewhere_ends_the_reading() -> None:
    """A compose hash that begins with a colon could be written as an event of another name with a shorter payload."""
    chosen = b":" + bytes(31)
    true = event("compose-hash", chosen)
    disguised = {**true, "event": "compose-hash:", "event_payload": chosen[1:].hex()}
    log = parsed([{**disguised, "digest": ""}])
    assert log.events[0].digest.hex() == true["digest"]
    guest = Guest(runtime=(event("app-id", APP_ID), disguised, event("compose-hash", OTHER)))
    assert facts(guest) == facts(Guest(runtime=(event("app-id", APP_ID),)))


def test_a_colon_in_a_name_of_version_2_is_part_of_it() -> None:
    guest = Guest(runtime=(event("a:b", b"x", version=2), event("app-id", APP_ID)))
    assert facts(guest).app_id == APP_ID


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (json.dumps({"name": "tpm", "id": ""}), KeyProvider(name="tpm", id=b"")),
        (json.dumps({"name": "kms", "id": "00FF", "more": 1}), KeyProvider(name="kms", id=b"\0\xff")),
        (json.dumps({"name": 1, "id": ""}), None),
        (json.dumps({"id": ""}), None),
        ("[]", None),
        ("{", None),
    ],
)
def test_a_key_provider_is_an_object_with_name_and_id(text: str, found: KeyProvider | None) -> None:
    assert key_provider_of(text) == found
