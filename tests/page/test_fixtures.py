"""The simulator's evidence, sound and spoiled: the page answers what Python answers, and what was stated."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.browser import REPOSITORY, Question, Verifier
from tests.page.reference import answer, differences

pytestmark = pytest.mark.loopback
FIXTURES = REPOSITORY / "fixtures"
CASES: list[dict[str, Any]] = json.loads((FIXTURES / "MANIFEST.json").read_text())["cases"]


def _names(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def question_of(case: dict[str, Any]) -> Question:
    return Question(
        input=_names(case["evidence"]),
        at=case["at"],
        endorsements=case["endorsements"],
        event_log=case["eventlog"],
        unchecked=dict.fromkeys(case["unchecked"], "the case says so"),
        anchors=case["anchors"],
    )


def _files(question: Question) -> Iterator[str]:
    yield from question.input
    yield from question.endorsements
    yield from _names(question.event_log)


def held(cases: list[dict[str, Any]]) -> dict[str, bytes]:
    """Read the files that cases name."""
    return {name: (FIXTURES / name).read_bytes() for case in cases for name in _files(question_of(case))}


def test_every_case_of_the_simulator_ends_in_the_page_as_in_python(in_browser: Verifier) -> None:
    questions, files = [question_of(case) for case in CASES], held(CASES)
    in_browser.hold(files)
    failed: list[str] = []
    for case, question, got in zip(CASES, questions, in_browser.ask_all(questions), strict=True):
        failed += [f"{case['id']}: {text}" for text in differences(answer(question, files), got)]
        found = got["outcome"] if got["error"] is None else got["error"]["code"]
        failed += [] if found == case["expected"] else [f"{case['id']}: expected {case['expected']}, got {found}"]
    assert failed == []


def test_verifications_side_by_side_do_not_touch_each_other(in_browser: Verifier) -> None:
    questions, files = [question_of(case) for case in CASES], held(CASES)
    in_browser.hold(files)
    together = "async (asked) => JSON.stringify(await Promise.all(asked.map((question) => attest.ask(question))))"
    in_browser.reload()
    in_browser.hold(files)
    at_once = json.loads(in_browser.page.evaluate(together, [question.document() for question in questions]))
    assert at_once == in_browser.ask_all(questions)


def test_no_case_of_the_simulator_is_verified_under_the_vendors_roots(in_browser: Verifier) -> None:
    cases = [case for case in CASES if case["expected"] == "verified"]
    questions = [question_of(case | {"anchors": "vendors"}) for case in cases]
    files = held(cases)
    in_browser.hold(files)
    answers = in_browser.ask_all(questions)
    assert [case["id"] for case, got in zip(cases, answers, strict=True) if got["outcome"] != "refused"] == []
    assert "simulated-root-refused" in {got["error"]["code"] for got in answers}
