"""dstack's answers as files: recognised, put together, and refused by name where they are not read."""

import json
from typing import Any

import pytest

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.dstack.forms import is_packed_attestation, parse_statements, read_quote_answer, statements_json
from attest.evidence.envelope import MEDIA_DSTACK_LOG, MEDIA_DSTACK_STATEMENTS, MEDIA_INTEL_QUOTE, Evidence
from attest.evidence.input_files import read_evidence
from tests.evidence.dstack.made import APP_COMPOSE, GUEST
from tests.evidence.dstack.test_statements import info

QUOTE = (4).to_bytes(2, "little") + (2).to_bytes(2, "little") + (0x81).to_bytes(4, "little") + bytes(40)
ANSWER: dict[str, Any] = {
    "quote": QUOTE.hex(),
    "event_log": json.dumps(GUEST.entries),
    "report_data": "55" * 64,
    "vm_config": "{}",
}


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def read(*files: bytes) -> Evidence:
    return read_evidence([(f"file {n}", data) for n, data in enumerate(files)]).evidence


def refused(*files: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        read(*files)
    return caught.value


def test_an_answer_of_get_quote_is_quote_log_and_statements() -> None:
    cpu, log, stated = read(as_json(ANSWER)).items
    assert (cpu.name, cpu.media_type, cpu.value) == ("cpu", MEDIA_INTEL_QUOTE, QUOTE)
    assert (log.name, log.media_type, log.value.decode()) == ("eventlog", MEDIA_DSTACK_LOG, ANSWER["event_log"])
    assert (stated.name, stated.media_type) == ("dstack", MEDIA_DSTACK_STATEMENTS)
    assert json.loads(stated.value) == {"report_data": "55" * 64, "vm_config": "{}"}


def test_the_log_of_an_answer_may_be_an_array() -> None:
    items = read(as_json({**ANSWER, "event_log": GUEST.entries, "hash_algorithm": "raw"})).items
    assert json.loads(items[1].value) == list(GUEST.entries)


def test_info_and_app_compose_join_the_statements_in_any_order() -> None:
    files = [as_json(ANSWER), as_json(info()), APP_COMPOSE.encode()]
    found = {read(*order).items[2] for order in (files, files[::-1], files[1:] + files[:1])}
    assert len(found) == 1
    statements = parse_statements(found.pop().value)
    assert [path for path, _ in statements.app_composes] == ["app_compose", "info.tcb_info.app_compose"]
    assert statements.app_composes[0][1] == APP_COMPOSE.encode()


def test_info_and_app_compose_accompany_a_quote_alone() -> None:
    cpu, stated = read(QUOTE, as_json(info())).items
    assert (cpu.value, stated.media_type) == (QUOTE, MEDIA_DSTACK_STATEMENTS)
    assert parse_statements(read(QUOTE.hex().encode(), APP_COMPOSE.encode()).items[1].value).stated == ()


def test_info_and_app_compose_alone_are_no_evidence() -> None:
    for file in (as_json(info()), APP_COMPOSE.encode()):
        assert refused(file).code == "evidence-empty"


def test_two_files_of_one_kind_are_ambiguous() -> None:
    assert refused(as_json(ANSWER), as_json(info()), as_json(info())).code == "evidence-ambiguous"
    assert refused(as_json(ANSWER), as_json(ANSWER)).code == "evidence-ambiguous"


@pytest.mark.parametrize(
    ("file", "label"),
    [
        (as_json(GUEST.entries), "dstack event log"),
        (as_json({"attestation": "00"}), "dstack attestation"),
        (b"\x82\xa8platform\xa3tdx\xa5stack\xa6dstack", "dstack attestation (msgpack)"),
        (b"\xde\x00\x01\xd9\x05stack\xa6dstack", "dstack attestation (msgpack)"),
        ((b"\xdf\x00\x00\x00\x01\xa5stack\xa6dstack" + bytes(40)).hex().encode(), "dstack attestation (msgpack)"),
    ],
)
def test_what_proves_nothing_alone_or_is_not_read_is_refused_by_name(file: bytes, label: str) -> None:
    error = refused(file)
    assert isinstance(error, UnsupportedError)
    assert (error.code, label in error.message) == ("evidence-unsupported", True)


@pytest.mark.parametrize(
    ("data", "packed"),
    [
        (b"\x81\xa5stack\xa6dstack", True),
        (b"\x81\xa5stack\xa5other", False),
        (b"\x81\x65stack\x66dstack", False),
        (b"dstack", False),
    ],
)
def test_a_packed_attestation_is_a_map_of_msgpack_that_names_its_stack(data: bytes, packed: bool) -> None:
    assert is_packed_attestation(data) is packed


@pytest.mark.parametrize("document", [{"quote": 3}, {"quote": "zz"}, {"quote": None}])
def test_a_quote_that_is_no_hex_is_malformed(document: dict[str, Any]) -> None:
    assert refused(as_json({**ANSWER, **document})).code == "dstack-malformed"


def test_an_answer_without_a_log_is_malformed_when_the_log_is_read() -> None:
    assert read_quote_answer({**ANSWER, "event_log": None}).log == b"null"


def test_app_compose_has_to_be_text() -> None:
    with pytest.raises(EvidenceError) as caught:
        statements_json(answer=None, info=None, app_compose=b"\xff")
    assert (caught.value.code, caught.value.field) == ("dstack-malformed", "app_compose")


@pytest.mark.parametrize("value", [b"{", b"[]", b"", b"3"])
def test_an_item_of_statements_is_one_object(value: bytes) -> None:
    with pytest.raises(EvidenceError) as caught:
        parse_statements(value)
    assert caught.value.code == "dstack-malformed"


def test_a_document_of_a_service_is_no_answer_of_get_quote() -> None:
    assert refused(as_json({**ANSWER, "intel_quote": QUOTE.hex()})).code != "dstack-malformed"
