"""Recorded machines of three services: every log replays, and every statement agrees."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attest.evidence.dstack.facts import log_document
from attest.evidence.dstack.judgement import DstackJudgement, judge_dstack
from attest.evidence.dstack.statements import read_statements
from attest.evidence.dstack.structure import dstack_log
from attest.evidence.intel.quote import parse_quote
from attest.evidence.tdx.structure import ParsedTdReport

DOCUMENTS = {"near-direct": 2, "near-cloud": 2, "venice": 1, "nanogpt": 2}
"""Folders, each with the number of its machines; some of them stand twice in a document."""


def machines(value: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of a document that has a quote and a log."""
    if isinstance(value, dict):
        if {"intel_quote", "event_log"} <= set(value):
            yield path, value
        for name, member in value.items():
            yield from machines(member, f"{path}.{name}")
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield from machines(member, f"{path}[{at}]")


def judged(machine: dict[str, Any]) -> DstackJudgement:
    body = parse_quote(bytes.fromhex(machine["intel_quote"])).body
    assert isinstance(body, ParsedTdReport)
    log = dstack_log(machine["event_log"], "event_log")
    return judge_dstack(report=body, log=log, statements=read_statements(machine))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_recorded_machine_passes_every_check(vectors_dir: Path, name: str) -> None:
    document = json.loads((vectors_dir / "providers" / name / "report.json").read_text())
    found = list(machines(document, name))
    assert len(found) == DOCUMENTS[name]
    for path, machine in found:
        result = judged(machine)
        assert result.failure is None, path
        assert {str(check.outcome) for check in result.checks} == {"pass"}, path
        assert int(result.checks[-1].got.split()[0]) >= 14, path


def test_a_full_log_shows_the_firmware_and_a_stripped_one_only_digests(vectors_dir: Path) -> None:
    forms = {}
    for name in ("near-direct", "nanogpt"):
        document = json.loads((vectors_dir / "providers" / name / "report.json").read_text())
        result = judged(document)
        assert result.eventlog is not None
        claims: Any = log_document(result.eventlog)
        forms[name] = claims["form"], claims["events"], "secure_boot" in claims, len(claims["initrds"])
    assert forms == {"near-direct": ("dstack", 30, True, 1), "nanogpt": ("dstack-stripped", 30, False, 0)}
