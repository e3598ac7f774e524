"""TDX and SGX in the browser: the page answers what the Python verifier answers, and takes nothing that was changed."""

import pytest

from tests.page.browser import Verifier
from tests.page.intel_cases import Case, all_cases
from tests.page.reference import answer, differences

pytestmark = pytest.mark.loopback
CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_page_answers_what_python_answers(case: Case, in_browser: Verifier) -> None:
    in_browser.hold(case.held)
    assert differences(answer(case.question, case.held), in_browser.ask(case.question)) == []
