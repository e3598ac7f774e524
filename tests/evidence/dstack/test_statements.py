"""Unsigned statements beside a quote agree with what is signed, or the evidence is refused."""

import json
from hashlib import sha256
from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.errors import BindingError, EvidenceError
from attest.evidence.dstack.statements import MAX_STATEMENT_BYTES, DstackStatements, read_statements
from tests.evidence.dstack.made import (
    APP_COMPOSE,
    APP_ID,
    COMPOSE_HASH,
    GUEST,
    IMAGE,
    INSTANCE_ID,
    KEY_PROVIDER,
    Guest,
    event,
    registers,
    stripped,
)

RTMRS = registers(GUEST.entries)


def aggregated(guest: Guest) -> str:
    report = guest.report
    configuration = report.mr_config_id + report.mr_owner + report.mr_owner_config
    return sha256(report.mr_td + b"".join(report.rtmrs) + (configuration if any(configuration) else b"")).hexdigest()


def tcb_info() -> dict[str, Any]:
    return {
        "mrtd": "77" * 48,
        **{f"rtmr{n}": value.hex() for n, value in enumerate(RTMRS)},
        "event_log": [*GUEST.entries],
        "app_compose": APP_COMPOSE,
        "compose_hash": COMPOSE_HASH.hex(),
        "os_image_hash": IMAGE.hex(),
        "mr_aggregated": aggregated(GUEST),
        "device_id": "e3b0",
    }


def info() -> dict[str, Any]:
    return {
        "app_id": APP_ID.hex(),
        "instance_id": INSTANCE_ID.hex(),
        "app_cert": "-----BEGIN CERTIFICATE-----",
        "app_name": "sample",
        "device_id": "e3b0",
        "mr_aggregated": aggregated(GUEST),
        "os_image_hash": IMAGE.hex(),
        "key_provider_info": KEY_PROVIDER.decode(),
        "compose_hash": COMPOSE_HASH.hex(),
        "vm_config": json.dumps({"os_image_hash": IMAGE.hex(), "cpu_count": 2}),
        "tcb_info": tcb_info(),
    }


def document() -> dict[str, Any]:
    return {
        "report_data": "55" * 64,
        "vm_config": json.dumps({"os_image_hash": IMAGE.hex()}),
        "info": info(),
        "app_compose": APP_COMPOSE,
    }


def put(root: dict[str, Any], path: str, value: JsonValue) -> dict[str, Any]:
    """Return the document with another value at a dotted path; members that are JSON text stay text."""
    name, _, rest = path.partition(".")
    if not rest:
        return {**root, name: value}
    inner = root[name]
    if isinstance(inner, str):
        return {**root, name: json.dumps(put(json.loads(inner), rest, value))}
    return {**root, name: put(inner, rest, value)}


def failure(statements: DstackStatements, guest: Guest = GUEST) -> BindingError:
    found = guest.judge(statements=statements).failure
    assert isinstance(found, BindingError)
    return found


def test_statements_that_agree_are_counted() -> None:
    judged = GUEST.judge(statements=read_statements(document()))
    assert judged.failure is None
    assert judged.checks[-1].got == "17 statements agree"


def test_objects_may_stand_as_text() -> None:
    whole = document()
    texts = put(put(whole, "info.tcb_info", json.dumps(whole["info"]["tcb_info"])), "info.vm_config", None)
    assert GUEST.judge(statements=read_statements({**texts, "info": json.dumps(texts["info"])})).failure is None
    provider = put(whole, "info.key_provider_info", json.loads(KEY_PROVIDER))
    assert GUEST.judge(statements=read_statements(provider)).failure is None


STATED = (
    "report_data",
    "vm_config.os_image_hash",
    "info.app_id",
    "info.instance_id",
    "info.mr_aggregated",
    "info.os_image_hash",
    "info.compose_hash",
    "info.vm_config.os_image_hash",
    "info.tcb_info.mrtd",
    "info.tcb_info.rtmr0",
    "info.tcb_info.rtmr1",
    "info.tcb_info.rtmr2",
    "info.tcb_info.rtmr3",
    "info.tcb_info.compose_hash",
    "info.tcb_info.os_image_hash",
    "info.tcb_info.mr_aggregated",
)


def stated(path: str) -> str:
    value: Any = document()
    for name in path.split("."):
        value = (json.loads(value) if isinstance(value, str) else value)[name]
    return str(value)


@pytest.mark.parametrize("path", STATED)
def test_a_statement_that_differs_in_any_byte_is_refused(path: str) -> None:
    right = bytes.fromhex(stated(path))
    for at in range(len(right)):
        wrong = right[:at] + bytes([right[at] ^ 0x40]) + right[at + 1 :]
        error = failure(read_statements(put(document(), path, wrong.hex())))
        assert (error.code, error.field, error.check) == ("dstack-statement-mismatch", path, "dstack.statements")
        assert (error.expected, error.got) == (right.hex(), wrong.hex())


@pytest.mark.parametrize("provider", [{"name": "tpm", "id": "3059aabb"}, {"name": "kms", "id": "3059aabc"}])
def test_another_key_provider_is_refused(provider: dict[str, str]) -> None:
    error = failure(read_statements(put(document(), "info.key_provider_info", json.dumps(provider))))
    assert (error.code, error.field) == ("dstack-statement-mismatch", "info.key_provider_info")


@pytest.mark.parametrize("path", ["app_compose", "info.tcb_info.app_compose"])
def test_another_app_compose_is_refused_wherever_it_stands(path: str) -> None:
    error = failure(read_statements(put(document(), path, APP_COMPOSE + " ")))
    assert (error.code, error.field, error.check) == ("dstack-compose-mismatch", path, "dstack.compose")


def test_another_log_beside_the_statements_is_refused() -> None:
    for entries in (
        GUEST.entries[:-1],
        [*GUEST.entries[:-1], {**GUEST.entries[-1], "event": "other"}],
        [{**GUEST.entries[0], "digest": "00" * 48}, *GUEST.entries[1:]],
    ):
        error = failure(read_statements(put(document(), "info.tcb_info.event_log", list(entries))))
        assert (error.code, error.field) == ("dstack-statement-mismatch", "info.tcb_info.event_log")


def test_the_log_beside_the_statements_may_be_stripped_and_stand_alone() -> None:
    statements = read_statements(put(document(), "info.tcb_info.event_log", [*stripped(GUEST.entries)]))
    judged = Guest().judge(statements=statements)
    assert judged.failure is None


def test_tcb_info_may_repeat_no_log() -> None:
    without = put(document(), "info.tcb_info.event_log", None)
    assert GUEST.judge(statements=read_statements(without)).failure is None


def test_members_that_are_empty_or_null_are_not_there() -> None:
    empty = {**document(), "report_data": "", "vm_config": None, "app_compose": ""}
    for name in ("instance_id", "key_provider_info", "tcb_info", "vm_config"):
        empty = put(empty, f"info.{name}", "")
    judged = GUEST.judge(statements=read_statements(empty))
    assert (judged.failure, judged.checks[-1].got) == (None, "4 statements agree")
    assert read_statements({}) == DstackStatements()


def test_what_neither_quote_nor_log_has_is_not_compared() -> None:
    guest = GUEST.without("app-id", "instance-id", "os-image-hash", "key-provider")
    whole = put(document(), "info.tcb_info", None)
    for name in ("mr_aggregated", "vm_config"):
        whole = put(whole, f"info.{name}", None)
    assert guest.judge(statements=read_statements(whole)).failure is None


def test_the_aggregate_leaves_a_configuration_of_zeros_out() -> None:
    guest = Guest(mr_config_id=bytes(48))
    whole: dict[str, JsonValue] = {"info": {"mr_aggregated": aggregated(guest)}}
    assert guest.judge(statements=read_statements(whole)).failure is None
    owned = Guest(mr_config_id=bytes(48), fields={"mr_owner": b"\1" * 48})
    assert failure(read_statements(whole), owned).code == "dstack-statement-mismatch"
    assert owned.judge(statements=read_statements({"info": {"mr_aggregated": aggregated(owned)}})).failure is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("report_data", "55" * 63),
        ("report_data", 5),
        ("info.app_id", "zz"),
        ("info.app_id", "00" * 21),
        ("info.key_provider_info", "kms"),
        ("info.key_provider_info", {"name": "kms"}),
        ("info.key_provider_info", 1),
        ("info.tcb_info", "{"),
        ("info.tcb_info", []),
        ("info", "3"),
        ("info", [1]),
        ("app_compose", {"manifest_version": 2}),
        ("info.tcb_info.app_compose", 1),
        ("info.vm_config", "["),
        ("vm_config", 3),
    ],
)
def test_a_member_of_another_kind_is_malformed_and_named(path: str, value: JsonValue) -> None:
    with pytest.raises(EvidenceError) as caught:
        read_statements(put(document(), path, value))
    assert (caught.value.code, caught.value.field) == ("dstack-malformed", path)


def test_a_text_that_holds_a_document_is_limited() -> None:
    text = json.dumps({"os_image_hash": IMAGE.hex()})
    assert len(read_statements({"vm_config": text.ljust(MAX_STATEMENT_BYTES)}).stated) == 1
    with pytest.raises(EvidenceError, match=str(MAX_STATEMENT_BYTES)):
        read_statements({"vm_config": text.ljust(MAX_STATEMENT_BYTES + 1)})


def test_a_log_among_the_statements_that_is_malformed_is_named() -> None:
    with pytest.raises(EvidenceError) as caught:
        read_statements(put(document(), "info.tcb_info.event_log", [{}]))
    assert (caught.value.code, caught.value.field) == ("dstack-log-malformed", "info.tcb_info.event_log[0].imr")


def test_an_event_of_an_application_changes_no_statement() -> None:
    guest = Guest(runtime=(*GUEST.runtime, event("os-image-hash", bytes(32))))
    assert guest.judge(statements=read_statements({"info": {"os_image_hash": IMAGE.hex()}})).failure is None
