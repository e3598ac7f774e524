"""Every byte of a dstack log and of what stands beside it: changed means refused, or without any meaning.

What may change unnoticed is listed here: the payloads of the firmware's events that no digest covers, types where no
fact rests on them, hints, and the spelling of the JSON.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.errors import EvidenceError
from attest.evidence.dstack.facts import dstack_document, read_facts
from attest.evidence.dstack.judgement import DstackJudgement, judge_dstack
from attest.evidence.dstack.statements import NO_STATEMENTS, DstackStatements, read_statements
from attest.evidence.dstack.structure import parse_dstack_log
from tests.evidence.dstack.made import BOOT, GUEST, RUNTIME, Entry, parsed, stripped
from tests.evidence.dstack.test_statements import document

HONEST = dstack_document(read_facts(parsed(GUEST.entries)))
UNCOVERED = frozenset(at for at, entry in enumerate(BOOT) if entry["event_type"] in (0x8000000B, 0x80000003, 6))
"""Events of the firmware whose digest is of something that the log does not hold."""
REPORT = GUEST.report


def judged(data: bytes, statements: DstackStatements = NO_STATEMENTS) -> DstackJudgement | None:
    """Judge a log; None for one that is malformed."""
    try:
        log = parse_dstack_log(data)
    except EvidenceError:
        return None
    return judge_dstack(report=REPORT, log=log, statements=statements)


def accepted(entries: list[Entry]) -> bool:
    """Return True if a log is accepted; its facts then are those of the honest one, or fewer of them."""
    result = judged(json.dumps(entries).encode())
    if result is None or result.failure is not None:
        return False
    found = dstack_document(read_facts(parsed(entries)))
    assert_says_no_more(found)
    return True


def assert_says_no_more(found: Mapping[str, JsonValue]) -> None:
    assert all(HONEST[name] == value for name, value in found.items() if name != "sources")


def with_member(entries: list[Entry], at: int, name: str, value: object) -> list[Entry]:
    return [{**entry, name: value} if number == at else entry for number, entry in enumerate(entries)]


def flips(text: str) -> Iterator[str]:
    """Yield hex with one bit of each byte changed."""
    raw = bytes.fromhex(text)
    for at in range(len(raw)):
        yield (raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :]).hex()


@pytest.mark.parametrize("entries", [[*GUEST.entries], stripped(GUEST.entries)], ids=["full", "stripped"])
def test_every_byte_of_a_digest_counts(entries: list[Entry]) -> None:
    assert accepted(entries)
    for at, entry in enumerate(entries):
        for digest in flips(entry["digest"]):
            assert not accepted(with_member(entries, at, "digest", digest)), at


@pytest.mark.parametrize("entries", [[*GUEST.entries], stripped(GUEST.entries)], ids=["full", "stripped"])
def test_every_byte_of_a_payload_counts_but_for_those_that_no_digest_covers(entries: list[Entry]) -> None:
    for at, entry in enumerate(entries):
        for payload in flips(entry["event_payload"]):
            assert accepted(with_member(entries, at, "event_payload", payload)) is (at in UNCOVERED), at


def test_every_character_of_a_name_counts() -> None:
    for entries in ([*GUEST.entries], stripped(GUEST.entries)):
        for at, entry in enumerate(entries):
            name = entry["event"]
            if entry["event_type"] == RUNTIME:
                others = [name[:i] + chr(ord(name[i]) ^ 1) + name[i + 1 :] for i in range(len(name))]
                assert not any(
                    accepted(with_member(entries, at, "event", other)) for other in (*others, name + " ", "")
                )


def test_the_register_of_every_event_counts() -> None:
    for at, entry in enumerate(GUEST.entries):
        for imr in {0, 1, 2, 3} - {entry["imr"]}:
            assert not accepted(with_member([*GUEST.entries], at, "imr", imr)), (at, imr)


def test_another_type_states_less_and_never_something_else() -> None:
    for at, entry in enumerate(GUEST.entries):
        for kind in (RUNTIME, 4, 0x80000001, 0x80000007, 0x0D, 3, 0):
            if kind != entry["event_type"]:
                accepted(with_member([*GUEST.entries], at, "event_type", kind))


def test_events_that_are_left_out_repeated_or_exchanged_do_not_replay() -> None:
    entries = [*GUEST.entries]
    for at in range(len(entries)):
        assert not accepted(entries[:at] + entries[at + 1 :])
        assert not accepted([*entries[: at + 1], *entries[at:]])
    for at in range(len(entries) - 1):
        one, two = entries[at], entries[at + 1]
        if one["imr"] == two["imr"] and one["digest"] != two["digest"]:
            assert not accepted([*entries[:at], two, one, *entries[at + 2 :]]), at


def test_every_member_of_every_event_left_out_or_retyped_is_refused_or_a_hint() -> None:
    for at, entry in enumerate(GUEST.entries):
        for name in entry:
            without: Entry = {key: value for key, value in entry.items() if key != name}
            changed: list[Entry] = [*GUEST.entries[:at], without, *GUEST.entries[at + 1 :]]
            assert not accepted(changed), (at, name)
            values: tuple[JsonValue, ...] = (None, True, [], {}, 1.5)
            for value in values:
                assert not accepted(with_member([*GUEST.entries], at, name, value)), (at, name, value)


def test_a_log_cut_anywhere_is_refused() -> None:
    data = json.dumps(GUEST.entries).encode()
    for end in range(len(data)):
        assert judged(data[:end]) is None, end


def test_any_byte_of_the_text_changed_is_refused_or_states_nothing_else() -> None:
    data = json.dumps(GUEST.entries, separators=(",", ":")).encode()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1 << at % 7]) + data[at + 1 :]
        result = judged(changed)
        if result is not None and result.failure is None:
            found = dstack_document(read_facts(parse_dstack_log(changed)))
            assert_says_no_more(found)


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:  # noqa: ANN401  any JSON
    """Yield the path of every member that is text, also within text that is JSON."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    if isinstance(value, dict):
        for name, member in value.items():
            yield from places(member, (*path, name))
    elif isinstance(value, str):
        yield path


def changed_at(root: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401  any JSON
    """Return the document with the last character of one member changed."""
    if isinstance(root, str) and path:
        return json.dumps(changed_at(json.loads(root), path))
    if path:
        return {**root, path[0]: changed_at(root[path[0]], path[1:])}
    return root[:-1] + ("0" if root[-1] != "0" else "1")


UNSTATED = {"app_cert", "app_name", "device_id"}
"""Members of Info that repeat nothing signed."""


def test_every_member_of_the_statements_counts_but_for_those_that_repeat_nothing_signed() -> None:
    whole = document()
    log = json.dumps(GUEST.entries).encode()
    for path in places(whole):
        if "event_log" in path:
            continue
        try:
            statements = read_statements(changed_at(whole, path))
        except EvidenceError:
            continue
        result = judged(log, statements)
        assert result is not None
        assert (result.failure is None) is (path[-1] in UNSTATED), path
