"""Two values of one demand: the effect of each difference, and how it is told."""

from datetime import UTC, datetime
from typing import Any

import pytest

from attest.checks import Unchecked
from attest.evidence.snp.tcb import SnpTcbVersion
from attest.policy.authoring.comparison import Effect, Resolved, combined, compare_values, shown
from attest.policy.devices import Count
from attest.policy.intel_tcb import AcceptedAdvisory
from attest.policy.snp import SnpAbi

Value = Any  # of a demand
STRICTER, LOOSER, CHANGED, LABEL = Effect.STRICTER, Effect.LOOSER, Effect.CHANGED, Effect.LABEL
JUNE, JULY = datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
IN_JUNE, IN_JULY = "2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"
A, B = b"\xaa", b"\xbb"


def tcb(**levels: int) -> SnpTcbVersion:
    return SnpTcbVersion(**{"bootloader": 1, "tee": 2, "snp": 3, "microcode": 4, **levels})


def advisory(reason: str = "x", expires: datetime = JUNE) -> AcceptedAdvisory:
    return AcceptedAdvisory(reason=reason, expires=expires)


def resolved(end: datetime | None = None, *digests: bytes, elsewhere: tuple[str, ...] = ()) -> Resolved:
    return Resolved(ends=dict.fromkeys(digests, end), names=dict.fromkeys(digests, "n"), elsewhere=elsewhere)


FORWARD: list[tuple[str, Value, Value, list[tuple[Effect, str]]]] = [
    # lists
    ("products", ("a", "b"), ("b", "c", "d", "c"), [(LOOSER, "added c, d"), (STRICTER, "removed a")]),
    ("products", ("a", "b"), ("b", "a", "a"), []),
    ("denied_chip_ids", (A,), (B,), [(STRICTER, "added bb"), (LOOSER, "removed aa")]),
    ("boot_variables", ("a",), (), [(CHANGED, "at least one of a, now no such event")]),
    ("boot_variables", (), ("a",), [(CHANGED, "no such event, now at least one of a")]),
    ("boot_variables", ("a",), ("a", "b"), [(LOOSER, "added b")]),
    ("load_options", (), (), []),
    ("other_runtime_events", ("a",), (), [(CHANGED, "at least one of a, now no such event")]),
    ("application_events", ("a", "b"), ("b", "a"), []),
    ("application_events", ("a",), ("a", "b"), [(CHANGED, "a, now a, b")]),
    # numbers
    ("minimum_guest_svn", 1, 2, [(STRICTER, "raised from 1 to 2")]),
    ("minimum_guest_svn", 2, 1, [(LOOSER, "lowered from 2 to 1")]),
    ("minimum_guest_svn", 2, 2, []),
    ("minimum_abi", SnpAbi(major=1, minor=2), SnpAbi(major=1, minor=1), [(LOOSER, "lowered from 1.2 to 1.1")]),
    ("minimum_tcb_date", JUNE, JULY, [(STRICTER, f"raised from {IN_JUNE} to {IN_JULY}")]),
    ("maximum_age", 1, 2, [(LOOSER, "raised from 1 to 2")]),
    ("maximum_age", 2, 1, [(STRICTER, "lowered from 2 to 1")]),
    ("mitigations_now", 0b0011, 0b0110, [(STRICTER, "bits 0x4 demanded"), (LOOSER, "bits 0x1 no longer demanded")]),
    ("mitigations_at_launch", 3, 3, []),
    ("gpus", Count(at_least=1, at_most=2), Count(at_least=1, at_most=3), [(LOOSER, "at most 2, now at most 3")]),
    ("gpus", Count(at_least=1, at_most=3), Count(at_least=1, at_most=2), [(STRICTER, "at most 3, now at most 2")]),
    (
        "gpus",
        Count(at_least=1, at_most=None),
        Count(at_least=2, at_most=3),
        [(STRICTER, "raised from 1 to 2"), (STRICTER, "at most any number, now at most 3")],
    ),
    (
        "gpus",
        Count(at_least=1, at_most=3),
        Count(at_least=1, at_most=None),
        [(LOOSER, "at most 3, now at most any number")],
    ),
    # switches
    ("debug", True, False, [(CHANGED, "true, now false")]),
    ("debug", False, False, []),
    # tables
    (
        "minimum_tcb",
        {"Genoa": tcb()},
        {"Genoa": tcb(snp=4, tee=1)},
        [(LOOSER, "Genoa: tee lowered from 2 to 1"), (STRICTER, "Genoa: snp raised from 3 to 4")],
    ),
    (
        "minimum_tdx_module_svn",
        {"1.5": 3},
        {"1.5": 4, "1.6": 1},
        [(STRICTER, "1.5: raised from 3 to 4"), (LOOSER, "added 1.6: 1")],
    ),
    ("minimum_tdx_module_svn", {"1.5": 3, "1.6": 1}, {"1.5": 3}, [(STRICTER, "removed 1.6: 1")]),
    ("waived_measurements", {"7": "a"}, {"7": "b"}, [(LABEL, "7: reason 'a', now 'b'")]),
    ("unchecked", (Unchecked(check="rim", reason="a"),), (), [(STRICTER, "removed rim: a")]),
    (
        "accepted_advisories",
        {"S": advisory()},
        {"S": advisory("y", JULY)},
        [(LOOSER, f"S: counts until {IN_JULY}, before: {IN_JUNE}"), (LABEL, "S: reason 'x', now 'y'")],
    ),
    (
        "accepted_advisories",
        {"S": advisory("x", JULY)},
        {"S": advisory()},
        [(STRICTER, f"S: counts until {IN_JUNE}, before: {IN_JULY}")],
    ),
    ("accepted_advisories", {}, {"S": advisory()}, [(LOOSER, f"added S: until {IN_JUNE}: x")]),
    # reference values
    ("measurement", resolved(None, A), resolved(None, B), [(STRICTER, "removed n aa"), (LOOSER, "added n bb")]),
    (
        "measurement",
        resolved(None, A),
        resolved(JUNE, A, B),
        [(STRICTER, f"n aa: counts until {IN_JUNE}, before: no end"), (LOOSER, f"added n bb, until {IN_JUNE}")],
    ),
    ("measurement", resolved(JUNE, A), resolved(None, A), [(LOOSER, f"n aa: counts until no end, before: {IN_JUNE}")]),
    (
        "measurement",
        resolved(JULY, A),
        resolved(JUNE, A),
        [(STRICTER, f"n aa: counts until {IN_JUNE}, before: {IN_JULY}")],
    ),
    (
        "measurement",
        resolved(elsewhere=("x",)),
        resolved(elsewhere=("y",)),
        [(LOOSER, "added y"), (STRICTER, "removed x")],
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "told"), FORWARD)
def test_a_difference_has_its_effect_and_its_words(
    name: str, old: Value, new: Value, told: list[tuple[Effect, str]]
) -> None:
    assert [(one.effect, one.text) for one in compare_values(name, old, new)] == told


@pytest.mark.parametrize(
    ("effects", "together"),
    [
        ((), None),
        ((LABEL,), LABEL),
        ((LABEL, LOOSER, LOOSER), LOOSER),
        ((STRICTER, LOOSER), CHANGED),
        ((CHANGED, LABEL), CHANGED),
    ],
)
def test_effects_come_together(effects: tuple[Effect, ...], together: Effect | None) -> None:
    assert combined(effects) is together


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (A, "aa"),
        (JUNE, IN_JUNE),
        ((), "none"),
        ((A, 1), "aa, 1"),
        ({}, "none"),
        ({"a": True, "b": 2}, "a true; b 2"),
        (resolved(None, A, B, elsewhere=("m", "n")), "n, m"),
        (3, "3"),
    ],
)
def test_a_value_is_written_for_people(value: Value, text: str) -> None:
    assert shown(value) == text
