"""Checks: the single steps of verification and appraisal, with their outcomes."""

from __future__ import annotations

import enum
import unicodedata
from dataclasses import dataclass
from typing import NoReturn


class Outcome(enum.StrEnum):
    """The outcome of one check. Only ``PASS`` counts in favour of an Attester."""

    PASS = "pass"  # noqa: S105  a word, not a password
    FAIL = "fail"
    WARNING = "warning"
    NOT_EVALUATED = "not evaluated"


class Tier(enum.StrEnum):
    """Trustworthiness tier of a check or a result (draft-ietf-rats-ar4si, section 3.2)."""

    AFFIRMING = "affirming"
    WARNING = "warning"
    CONTRAINDICATED = "contraindicated"
    NONE = "none"


_TIERS = {
    Outcome.PASS: Tier.AFFIRMING,
    Outcome.WARNING: Tier.WARNING,
    Outcome.FAIL: Tier.CONTRAINDICATED,
    Outcome.NOT_EVALUATED: Tier.NONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check with its outcome.

    Attributes:
        id: stable dotted name (``snp.signature``).
        expected: what the check demands, for people.
        got: what it found, for people.
        clause: the specification's clause, with the number that ``docs/`` uses.
        item: name of the evidence item that was examined (``cpu``), or None for the evidence as a whole.
        branch: the branch of the policy that demands it (``any_of[genoa]``), or None for the policy itself.
    """

    id: str
    outcome: Outcome
    expected: str
    got: str
    clause: str
    item: str | None = None
    branch: str | None = None

    @property
    def tier(self) -> Tier:
        """The trustworthiness tier that this outcome stands for."""
        return _TIERS[self.outcome]

    def __bool__(self) -> NoReturn:
        raise TypeError("a Check has four outcomes; compare .outcome instead of using it as a condition")


def judged(check_id: str, *, holds: bool, expected: str, got: str, clause: str, item: str | None = None) -> Check:
    """Return a check that passes if its test holds, and fails otherwise."""
    outcome = Outcome.PASS if holds else Outcome.FAIL
    return Check(id=check_id, outcome=outcome, expected=expected, got=got, clause=clause, item=item)


_DRAWN = "LNPS"
"""Unicode categories of letters, numbers, punctuation and symbols; other characters leave no ink of their own."""
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters of these categories without any ink: fillers of Hangul, and the empty pattern of Braille."""


def is_visible(text: str) -> bool:
    """Return True if a text has a character that people can see."""
    return any(unicodedata.category(each)[0] in _DRAWN and each not in _BLANK for each in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """Something that a genuine and acceptable result does not show. It changes no outcome.

    Attributes:
        code: stable name (``freshness-not-evaluated``).
        message: for people.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """A named, reasoned decision to tolerate that one thing cannot be judged.

    It never tolerates a negative finding: a CRL that lists the certificate refuses all the same.

    Attributes:
        check: what is left unjudged, one of ``NAMES``.
        reason: the reason of the decision; shown in every result.

    Raises:
        ValueError: another name, or a reason without a visible character.
    """

    check: str
    reason: str

    NAMES = ("revocation", "freshness", "rim", "tcb", "eventlog", "topology")

    def __post_init__(self) -> None:
        if self.check not in self.NAMES:
            raise ValueError(f"cannot leave {self.check!r} unchecked: expected one of {', '.join(self.NAMES)}")
        if not is_visible(self.reason):
            raise ValueError(f"leaving {self.check} unchecked needs a reason")
