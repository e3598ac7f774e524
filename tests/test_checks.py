"""Checks and relaxations as values."""

import pytest

from attest.checks import Check, Outcome, Tier, Unchecked

INVISIBLE = ("", "  ", "\n", "\u200b", "\u2060\ufeff", "\u00ad", "\u0301", "\u2800", "\u3164 \u115f", "\u202e", "\x00")
"""Texts in which nobody sees anything."""


@pytest.mark.parametrize(
    ("outcome", "tier"),
    [
        (Outcome.PASS, Tier.AFFIRMING),
        (Outcome.WARNING, Tier.WARNING),
        (Outcome.FAIL, Tier.CONTRAINDICATED),
        (Outcome.NOT_EVALUATED, Tier.NONE),
    ],
)
def test_only_a_pass_counts_in_favour(outcome: Outcome, tier: Tier) -> None:
    check = Check(id="x", outcome=outcome, expected="", got="", clause="")
    assert check.tier is tier
    with pytest.raises(TypeError):
        bool(check)


@pytest.mark.parametrize("name", Unchecked.NAMES)
def test_what_may_stay_unjudged_is_a_closed_list_and_needs_a_reason(name: str) -> None:
    assert Unchecked(check=name, reason="because").reason == "because"
    for reason in INVISIBLE:
        with pytest.raises(ValueError, match="reason"):
            Unchecked(check=name, reason=reason)


@pytest.mark.parametrize("name", ["", "everything", "Revocation", "signature", "measurement"])
def test_what_must_be_judged_cannot_be_left_unchecked(name: str) -> None:
    with pytest.raises(ValueError, match="expected one of"):
        Unchecked(check=name, reason="because")
