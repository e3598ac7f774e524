"""Judgement of a log by a TD report: which check fails, and that one failure hides no other."""

from typing import Any

import pytest

from attest.checks import Outcome
from attest.errors import AttestError, VerificationError
from attest.evidence.dstack.facts import log_document
from attest.evidence.dstack.judgement import DstackJudgement, judge_dstack
from attest.evidence.dstack.statements import read_statements
from attest.evidence.eventlog.replay import replay, verify_event_log
from attest.evidence.eventlog.structure import parse_event_log
from tests.evidence.dstack.made import (
    APP_COMPOSE,
    COMPOSE_HASH,
    CONFIG_ID,
    GUEST,
    Entry,
    Guest,
    event,
    parsed,
    stripped,
)
from tests.evidence.eventlog import writer as w

CHECKS = ["dstack.log", "dstack.events", "dstack.replay", "dstack.compose", "dstack.statements"]


def outcomes(judged: DstackJudgement) -> list[Outcome]:
    assert [check.id for check in judged.checks] == CHECKS
    return [check.outcome for check in judged.checks]


def failed(judged: DstackJudgement, *checks: str) -> AttestError:
    assert [check.id for check in judged.checks if check.outcome is Outcome.FAIL] == [*checks]
    assert judged.eventlog is None
    assert judged.failure is not None
    assert (judged.failure.exit_code, judged.failure.check) == (4, checks[0])
    return judged.failure


@pytest.mark.parametrize("entries", [GUEST.entries, stripped(GUEST.entries)], ids=["full", "stripped"])
def test_a_log_of_this_guest_passes_every_check(entries: list[Entry]) -> None:
    judged = GUEST.judge(entries)
    assert outcomes(judged) == [Outcome.PASS] * 5
    assert judged.failure is None
    assert judged.eventlog is not None
    assert judged.eventlog.proven == {"RTMR0", "RTMR1", "RTMR2", "RTMR3"}


def test_the_claims_have_form_count_and_facts_and_what_the_firmware_measured() -> None:
    judged = GUEST.judge()
    assert judged.eventlog is not None
    document: Any = log_document(judged.eventlog)
    assert (document["form"], document["events"], document["event_count"]) == ("dstack", 20, 20)
    assert document["dstack"]["compose_hash"] == COMPOSE_HASH.hex()
    assert document["secure_boot"]["enabled"] is True
    assert [one["digest"] for one in document["load_options"]] == [GUEST.boot[-1]["digest"]]
    assert {one["verification"] for one in document["other_runtime_events"]} == {"verified"}


def test_a_stripped_log_states_digests_and_no_content_of_the_firmware() -> None:
    judged = GUEST.judge(stripped(GUEST.entries))
    assert judged.eventlog is not None
    document: Any = log_document(judged.eventlog)
    assert document["form"] == "dstack-stripped"
    assert "secure_boot" not in document
    assert {one["verification"] for one in document["other_loader_events"]} == {"unverified"}


def test_the_claims_of_a_log_in_binary_are_as_before() -> None:
    log = parse_event_log(w.log(*w.boot()))
    document = log_document(verify_event_log(log, signed=replay(log).values))
    assert "event_count" in document
    assert not {"form", "events", "dstack"} & set(document)


def test_a_payload_that_is_not_that_of_the_digest_is_refused() -> None:
    at = len(GUEST.boot) + 2
    entries = [*GUEST.entries]
    entries[at] = {**entries[at], "event_payload": "ab" * 32}
    error = failed(GUEST.judge(entries), "dstack.events")
    assert (error.code, error.field) == ("dstack-event-mismatch", f"events[{at}].digest")


def test_a_stripped_log_with_another_payload_does_not_replay() -> None:
    entries = stripped(GUEST.entries)
    entries[len(GUEST.boot) + 2]["event_payload"] = "ab" * 32
    error = failed(GUEST.judge(entries), "dstack.replay", "dstack.compose")
    assert (error.code, error.field) == ("eventlog-register-mismatch", "RTMR3")


def test_a_firmware_payload_that_is_not_that_of_the_digest_is_refused() -> None:
    entries = [*GUEST.entries]
    entries[2] = {**entries[2], "event_payload": "01000000"}
    error = failed(GUEST.judge(entries), "dstack.replay")
    assert (error.code, error.offset) == ("eventlog-data-mismatch", None)
    assert "offset" not in error.message


def test_a_log_that_ends_early_does_not_replay() -> None:
    for end in range(len(GUEST.entries)):
        judged = GUEST.judge(GUEST.entries[:end])
        assert "dstack.replay" in [check.id for check in judged.checks if check.outcome is Outcome.FAIL]


def test_a_fact_that_stands_twice_is_refused_even_where_it_replays() -> None:
    guest = GUEST.with_event(3, event("compose-hash", b"\1" * 32))
    error = failed(guest.judge(), "dstack.events")
    assert error.code == "dstack-event-invalid"


def test_another_configuration_is_refused() -> None:
    guest = Guest(mr_config_id=CONFIG_ID[:1] + b"\1" * 32 + bytes(15))
    assert failed(guest.judge(), "dstack.compose").code == "dstack-config-id-mismatch"


def test_one_failure_hides_no_other() -> None:
    entries = [*GUEST.entries[:-1], {**GUEST.entries[-1], "digest": "00" * 48}]
    statements = read_statements({"report_data": "00" * 64, "app_compose": "{}"})
    judged = GUEST.judge(entries, statements)
    failed(judged, "dstack.events", "dstack.replay")
    assert outcomes(judged)[3:] == [Outcome.NOT_EVALUATED, Outcome.NOT_EVALUATED]
    failed(GUEST.judge(statements=statements), "dstack.compose", "dstack.statements")


def test_without_a_log_the_statements_are_compared_with_the_quote() -> None:
    statements = read_statements({"app_compose": APP_COMPOSE, "info": {"compose_hash": COMPOSE_HASH.hex()}})
    judged = judge_dstack(report=GUEST.report, log=None, statements=statements)
    assert outcomes(judged) == [Outcome.NOT_EVALUATED] * 3 + [Outcome.PASS] * 2
    assert (judged.failure, judged.eventlog) == (None, None)
    wrong = read_statements({"info": {"compose_hash": "00" * 32}})
    failed(judge_dstack(report=GUEST.report, log=None, statements=wrong), "dstack.statements")


def test_a_log_that_only_the_statements_have_is_the_log() -> None:
    statements = read_statements({"info": {"tcb_info": {"event_log": [*GUEST.entries]}}})
    judged = judge_dstack(report=GUEST.report, log=None, statements=statements)
    assert judged.eventlog is not None
    assert judged.eventlog.log == parsed([*GUEST.entries])


def test_every_failure_is_a_verification_error() -> None:
    assert isinstance(GUEST.judge([]).failure, VerificationError)
