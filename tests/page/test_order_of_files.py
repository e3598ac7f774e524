"""Damaged copies among the endorsements and the order of files decide nothing in the page, as in Python."""

import pytest

from attest.encoding import rfc3339_text
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences
from tests.property.test_order_of_files import AT, MAKERS, REASON, scene

pytestmark = pytest.mark.loopback


@pytest.mark.parametrize("kind", MAKERS)
def test_damaged_copies_in_any_order_change_no_verdict(kind: str, in_browser: Verifier) -> None:
    made = scene(kind)
    files = dict(_named(kind, "evidence", made.evidence) | _named(kind, "endorsements", (*made.damaged, *made.good)))
    in_browser.hold(files)
    evidence, endorsements = ([name for name in files if part in name] for part in ("evidence", "endorsements"))
    answers = []
    unchecked = dict.fromkeys(made.unchecked, REASON)
    for number, order in enumerate((endorsements, endorsements[::-1], endorsements[1::2] + endorsements[::2])):
        question = Question(
            input=evidence[::-1] if number % 2 else evidence,
            at=rfc3339_text(AT),
            endorsements=order,
            anchors="simulation",
            unchecked=unchecked,
        )
        got = in_browser.ask(question)
        assert differences(answer(question, files), got) == []
        answers.append(got)
    assert [got["outcome"] for got in answers] == ["verified"] * 3
    missing = Question(
        input=evidence,
        at=rfc3339_text(AT),
        endorsements=endorsements[: len(made.damaged)],
        anchors="simulation",
        unchecked=unchecked,
    )
    assert differences(answer(missing, files), in_browser.ask(missing)) == []


def _named(kind: str, part: str, contents: tuple[bytes, ...]) -> dict[str, bytes]:
    return {f"order of {kind} {part} {number}": data for number, data in enumerate(contents)}
