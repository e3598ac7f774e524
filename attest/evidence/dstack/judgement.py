"""Judgement of dstack's log and statements by a TD quote: checks dstack.log to dstack.statements.

The quote itself is verified elsewhere. What is concluded here counts once its signature holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha384
from typing import NamedTuple

from attest.checks import Check
from attest.errors import AttestError, BindingError, VerificationError
from attest.evidence.dstack.compose import compose_hash_of, judge_compose
from attest.evidence.dstack.facts import DstackFacts, read_facts
from attest.evidence.dstack.statements import NO_STATEMENTS, DstackStatements, require_agreement, signed_values
from attest.evidence.dstack.structure import DstackEvent, ParsedDstackLog
from attest.evidence.eventlog.replay import VerifiedEventLog, verify_event_log
from attest.evidence.procedure import Procedure, Step
from attest.evidence.tdx.structure import ParsedTdReport


class DstackSteps(NamedTuple):
    """Every check, in order."""

    log: Step = Step("dstack.log", "dstack, event log of RTMR3")
    events: Step = Step("dstack.events", "dstack, events of RTMR3")
    replay: Step = Step("dstack.replay", "dstack, event log of RTMR3; Intel TDX module, TDG.MR.RTMR.EXTEND")
    compose: Step = Step("dstack.compose", "dstack, compose hash and MRCONFIGID")
    statements: Step = Step("dstack.statements", "dstack, Info and GetQuote")


_STEPS = DstackSteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class DstackJudgement:
    """Result of the judgement.

    Attributes:
        checks: of every step.
        failure: the worst refusal, or None.
        eventlog: the log that replays; None without a log, or after a refusal.
    """

    checks: tuple[Check, ...]
    failure: AttestError | None
    eventlog: VerifiedEventLog | None


def judge_dstack(
    *, report: ParsedTdReport, log: ParsedDstackLog | None, statements: DstackStatements = NO_STATEMENTS
) -> DstackJudgement:
    """Judge a log and statements by the report of a quote; nothing is raised.

    Args:
        report: the TD report of the quote that came with them.
        log: the event log; None takes the first one that the statements repeat.
        statements: the unsigned statements beside it.
    """
    procedure = Procedure(_STEPS, independent=True)
    if log is None and statements.logs:
        log = statements.logs[0][1]
    verified: VerifiedEventLog | None = None
    facts: DstackFacts | None = None
    with procedure.attempt(_STEPS.log):
        found = procedure.need(log, "no event log was given")
        procedure.record("a JSON event log of RTMR0 to RTMR3", f"{len(found.events)} events, form {found.form}")
    with procedure.attempt(_STEPS.events):
        found = procedure.need(log, "no event log was given")
        require_digests(found)
        facts = read_facts(found)
        procedure.record("digests of dstack's events, each event once", f"{_runtime_count(found)} events of dstack")
    with procedure.attempt(_STEPS.replay):
        found = procedure.need(log, "no event log was given")
        verified = verify_event_log(found, signed=_registers(report))
        procedure.record("the registers of the quote", f"{len(found.events)} events replay")
    if log is None:
        facts = DstackFacts()
    with procedure.attempt(_STEPS.compose):
        outcome, expected, got = judge_compose(
            mr_config_id=report.mr_config_id,
            facts=procedure.need(facts, _EARLIER),
            app_composes=statements.app_composes,
        )
        procedure.record(expected, got, outcome)
    with procedure.attempt(_STEPS.statements):
        known = procedure.need(facts, _EARLIER)
        compose_hash = known.compose_hash or compose_hash_of(report.mr_config_id)
        _require_logs(statements, report)
        count = require_agreement(statements, signed_values(report, known, compose_hash))
        procedure.record("no contradiction to quote and log", f"{count} statements agree")
    try:
        checks = procedure.finish().checks
    except AttestError as failure:
        return DstackJudgement(checks=failure.checks, failure=failure, eventlog=None)
    return DstackJudgement(checks=checks, failure=None, eventlog=verified)


_EARLIER = "an earlier check failed"


def _runtime_count(log: ParsedDstackLog) -> int:
    return sum(event.is_runtime for event in log.events)


def _registers(report: ParsedTdReport) -> dict[str, bytes]:
    return {f"RTMR{number}": value for number, value in enumerate(report.rtmrs)}


def require_digests(log: ParsedDstackLog) -> None:
    """Require the digest of each event of dstack to be that of its name and payload.

    Raises:
        VerificationError: ``dstack-event-mismatch``, with the first one that differs.

    Spec: specs/dstack.md, section 2, check dstack.events.
    """
    for event in log.events:
        computed = sha384(event.data).digest() if event.is_runtime else event.digest
        if computed != event.digest:
            raise _mismatch(event, computed)


def _mismatch(event: DstackEvent, computed: bytes) -> VerificationError:
    expected, got = event.digest.hex(), computed.hex()
    return VerificationError(
        f"event {event.number} ({event.name}) of the dstack event log: the digest is {expected}, name and payload give "
        f"{got}",
        code="dstack-event-mismatch",
        field=f"events[{event.number - 1}].digest",
        expected=expected,
        got=got,
        clause=_STEPS.events.clause,
        hint="the log was changed after it was made; collect log and quote together",
    )


def _require_logs(statements: DstackStatements, report: ParsedTdReport) -> None:
    """Require the logs that statements repeat to replay as well."""
    for path, log in statements.logs:
        try:
            require_digests(log)
            verify_event_log(log, signed=_registers(report))
        except VerificationError as exc:
            raise BindingError(
                f"{path} is not the log of this quote: {exc.message}",
                code="dstack-statement-mismatch",
                field=path,
                expected=exc.expected,
                got=exc.got,
                clause=_STEPS.statements.clause,
            ) from exc
