"""The event log of dstack in JSON: its two forms, and what is malformed."""

import contextlib
import json
from hashlib import sha384

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError
from attest.evidence.dstack.structure import is_dstack_log, parse_dstack_log
from attest.evidence.eventlog.content import event_text
from attest.evidence.eventlog.replay import replay
from attest.evidence.eventlog.structure import MAX_EVENTS, MAX_LOG_BYTES
from tests.evidence.dstack.made import GUEST, Entry, event, parsed, registers, stripped


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_dstack_log(data)
    assert caught.value.code == "dstack-log-malformed"
    assert (caught.value.check, caught.value.exit_code) == ("dstack.log", 3)
    return caught.value


def changed(**members: object) -> bytes:
    """Return a log of one event with other members; a member that is None is left out."""
    entry: Entry = {**event("app-id", bytes(20)), **members}
    return as_json([{name: value for name, value in entry.items() if value is not None}])


def test_a_full_log_is_read_with_its_digests_and_registers() -> None:
    log = parse_dstack_log(as_json(GUEST.entries))
    assert log.form == "dstack"
    assert [(e.register, e.digest.hex(), e.name, e.payload.hex()) for e in log.events] == [
        (f"RTMR{entry['imr']}", entry["digest"], entry["event"], entry["event_payload"]) for entry in GUEST.entries
    ]
    assert [e.number for e in log.events] == [*range(1, len(log.events) + 1)]
    assert tuple(replay(log).values.values()) == registers(GUEST.entries)


def test_an_event_is_shown_to_people_by_its_name() -> None:
    (app_id,) = parsed([event("app-id", bytes(20))]).events
    assert event_text(app_id) == "app-id"


def test_a_stripped_log_gives_the_same_digests() -> None:
    full, short = (parse_dstack_log(as_json(entries)) for entries in (GUEST.entries, stripped(GUEST.entries)))
    assert short.form == "dstack-stripped"
    assert [e.digest for e in short.events] == [e.digest for e in full.events]
    assert [e.withheld for e in short.events if not e.is_runtime] == [True] * len(GUEST.boot)


def test_a_log_may_stand_as_text_within_json() -> None:
    assert parse_dstack_log(as_json(json.dumps(GUEST.entries))) == parse_dstack_log(as_json(GUEST.entries))


def test_a_log_that_is_text_is_told_from_one_in_binary() -> None:
    assert [is_dstack_log(data) for data in (b" \n[]", b'"[]"', b"\1\0\0\0\3\0\0\0", b"", b"{}")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_the_digest_of_version_2_covers_canonical_json() -> None:
    entry = event("pré", b"\1\2", version=2)
    covered = '{"name":"pré","payload":"0102","type":134217729}'.encode()
    (found,) = parsed([{**entry, "digest": ""}]).events
    assert (found.digest, found.version) == (sha384(covered).digest(), 2)


def test_an_event_of_dstack_is_one_by_type_and_register() -> None:
    elsewhere = {**event("app-id", bytes(20)), "imr": 2}
    other_type = {**event("app-id", bytes(20)), "event_type": 5}
    assert [e.is_runtime for e in parsed([elsewhere, other_type, event("app-id", bytes(20))]).events] == [
        False,
        False,
        True,
    ]
    for entry in (elsewhere, other_type):
        assert refused(as_json([{**entry, "digest": ""}])).field == "events[0].digest"


def test_unknown_members_and_a_wrong_preimage_are_left_out() -> None:
    known = parse_dstack_log(changed())
    assert parse_dstack_log(changed(preimage="zz", colour="blue")) == known


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"imr": 4}, "imr"),
        ({"imr": -1}, "imr"),
        ({"imr": "3"}, "imr"),
        ({"imr": True}, "imr"),
        ({"imr": None}, "imr"),
        ({"event_type": "134217729"}, "event_type"),
        ({"event_type": 1 << 32}, "event_type"),
        ({"event_type": None}, "event_type"),
        ({"digest": "00ff"}, "digest"),
        ({"digest": "z" * 96}, "digest"),
        ({"digest": "0" * 98}, "digest"),
        ({"digest": None}, "digest"),
        ({"event": 3}, "event"),
        ({"event": None}, "event"),
        ({"event_payload": "0"}, "event_payload"),
        ({"event_payload": None}, "event_payload"),
        ({"version": 3}, "version"),
        ({"version": 0}, "version"),
        ({"version": "2"}, "version"),
    ],
)
def test_a_member_of_another_kind_is_malformed(members: Entry, field: str) -> None:
    assert refused(changed(**members)).field == f"events[0].{field}"


@pytest.mark.parametrize("data", [b"[", b"{}", b"3", b"", b'"["', b'"3"', b"[3]", b'[{"imr":0,"imr":0}]', b"\xff["])
def test_other_documents_are_malformed(data: bytes) -> None:
    refused(data)


def test_a_log_is_limited_in_events_and_bytes() -> None:
    most = [{"imr": 0, "event_type": 4, "digest": "00" * 48, "event": "", "event_payload": ""}] * MAX_EVENTS
    assert len(parsed(most).events) == MAX_EVENTS
    with pytest.raises(EvidenceError, match=str(MAX_EVENTS)):
        parsed([*most, most[0]])
    padded = as_json([event("app-id", bytes(20))])
    assert len(parse_dstack_log(padded.ljust(MAX_LOG_BYTES)).events) == 1
    assert str(MAX_LOG_BYTES) in (refused(padded.ljust(MAX_LOG_BYTES + 1)).expected or "")
    assert "values" in (refused(b"[" * 600_000).got or "")


@given(st.binary(max_size=80))
def test_any_bytes_give_a_log_or_a_documented_refusal(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert parse_dstack_log(data).form in ("dstack", "dstack-stripped")


def test_only_an_event_of_dstack_s_own_has_its_type() -> None:
    log = parse_dstack_log(as_json(GUEST.entries))
    assert {(e.is_runtime, e.type_name == "dstack") for e in log.events} == {(True, True), (False, False)}
