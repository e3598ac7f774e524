"""TDX and SGX in the browser: the page answers what the Python verifier answers, to honest and to hostile evidence."""

from typing import Any

import pytest

from tests.page.browser import Verifier
from tests.page.intel_cases import Case, all_cases
from tests.page.intel_malformed_cases import malformed_cases
from tests.page.reference import answer, differences

pytestmark = pytest.mark.loopback
CASES = [*all_cases(), *malformed_cases()]
NAMES = [case.name for case in CASES]


@pytest.fixture(scope="module")
def answers(in_browser: Verifier) -> dict[str, dict[str, Any]]:
    """What the page says to each case, asked in one go: every way to the browser and back costs more than an answer."""
    for case in CASES:
        in_browser.hold(case.held)
    return dict(zip(NAMES, in_browser.ask_all([case.question for case in CASES]), strict=True))


def test_no_two_cases_bear_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_page_answers_what_python_answers(case: Case, answers: dict[str, dict[str, Any]]) -> None:
    assert differences(answer(case.question, case.held), answers[case.name]) == []
