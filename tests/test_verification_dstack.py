"""dstack's log and statements beside a quote, through ``verify``."""

import json
from dataclasses import replace
from typing import Any

import pytest

from attest.checks import Outcome
from attest.errors import AttestError, UnsupportedError
from attest.evidence.envelope import (
    MEDIA_DSTACK_LOG,
    MEDIA_DSTACK_STATEMENTS,
    MEDIA_INTEL_QUOTE,
    Evidence,
    EvidenceItem,
)
from attest_simulator.intel import SimulatedTd
from attest_simulator.intel.eventlog import LogEntry, MeasuredEvent
from tests.evidence.dstack.made import APP_COMPOSE, COMPOSE_HASH, CONFIG_ID, GUEST, Entry
from tests.samples import report_evidence, scene
from tests.samples_intel import ZEROS, intel_scene, log_item, quote_evidence

HONEST = intel_scene()


def td() -> SimulatedTd:
    """Return a TD whose registers are those of the made guest."""
    entries = tuple(
        LogEntry(
            index=entry["imr"] + 1,
            event=MeasuredEvent(kind=entry["event_type"], data=b"", digest=bytes.fromhex(entry["digest"])),
        )
        for entry in GUEST.entries
    )
    return replace(HONEST.td, log=entries, mr_config_id=CONFIG_ID)


QUOTE = td().quote(ZEROS)


def log(entries: tuple[Entry, ...] = GUEST.entries) -> EvidenceItem:
    return EvidenceItem(name="eventlog", media_type=MEDIA_DSTACK_LOG, value=json.dumps(entries).encode())


def stated(**members: object) -> EvidenceItem:
    return EvidenceItem(name="dstack", media_type=MEDIA_DSTACK_STATEMENTS, value=json.dumps(members).encode())


def beside_quote(*items: EvidenceItem, quote: bytes = QUOTE) -> Evidence:
    return Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote), *items))


def refused(evidence: Evidence) -> AttestError:
    with pytest.raises(AttestError) as caught:
        HONEST.verify(evidence)
    return caught.value


def test_facts_of_dstack_are_claims_of_the_machine() -> None:
    verified = HONEST.verify(beside_quote(log(), stated(app_compose=APP_COMPOSE)))
    claims: Any = verified.items[0].claims
    assert claims["eventlog"]["dstack"]["compose_hash"] == COMPOSE_HASH.hex()
    assert {c.id: c.outcome for c in verified.checks if c.id.startswith("dstack.")} == dict.fromkeys(
        ("dstack.log", "dstack.events", "dstack.replay", "dstack.compose", "dstack.statements"), Outcome.PASS
    )
    assert verified.ignored == ()


def test_a_log_of_another_machine_is_refused_with_every_check() -> None:
    error = refused(beside_quote(log(GUEST.entries[:-1])))
    assert (error.code, error.exit_code, error.check) == ("eventlog-register-mismatch", 4, "dstack.replay")
    assert {"dstack.log", "dstack.events", "tdx.quote_signature"} <= {check.id for check in error.checks}


def test_statements_alone_are_compared_with_the_quote_and_give_no_claim() -> None:
    verified = HONEST.verify(beside_quote(stated(app_compose=APP_COMPOSE)))
    assert "eventlog" not in verified.items[0].claims
    assert refused(beside_quote(stated(app_compose="{}"))).code == "dstack-compose-mismatch"


def test_statements_beside_a_log_in_binary_form_are_judged_and_its_facts_kept() -> None:
    plain = HONEST.td
    evidence = quote_evidence(plain.quote(ZEROS), log=plain.event_log())
    verified = HONEST.verify(replace(evidence, items=(*evidence.items, stated(report_data=ZEROS.hex()))))
    ids = {check.id for check in verified.checks}
    assert {"eventlog.replay", "dstack.statements"} <= ids
    assert "dstack" not in verified.items[0].claims["eventlog"]  # type: ignore[operator]


@pytest.mark.parametrize("item", [log(), stated(app_compose=APP_COMPOSE)], ids=["log", "statements"])
def test_beside_a_machine_without_rtmrs_they_prove_nothing_and_are_refused(item: EvidenceItem) -> None:
    snp = report_evidence(scene().report)
    enclave = quote_evidence(HONEST.enclave.quote(ZEROS))
    for evidence in (snp, enclave):
        error = refused(replace(evidence, items=(*evidence.items, item)))
        assert isinstance(error, UnsupportedError)
        assert (error.code, "RTMRs" in error.message) == ("eventlog-without-registers", True)


def test_two_logs_or_two_sets_of_statements_are_ambiguous() -> None:
    for pair in (
        (log(), replace(log(), name="eventlog2")),
        (log(), replace(log_item(HONEST.td.event_log()), name="eventlog2")),
        (stated(), replace(stated(), name="dstack2")),
    ):
        assert refused(beside_quote(*pair)).code == "evidence-ambiguous"


def test_a_malformed_log_or_statement_is_refused_before_anything_is_judged() -> None:
    for item in (replace(log(), value=b"[{}]"), replace(stated(), value=b"[]"), stated(report_data="00")):
        error = refused(beside_quote(item, quote=QUOTE[:-700] + b"\1" + QUOTE[-699:]))
        assert (error.exit_code, error.check) == (3, "dstack.log")
