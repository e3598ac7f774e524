"""This verifier and dcap-qvl, side by side: the same verdict about everything, but for what is explained."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pytest

from tests.differential.differences import DIFFERENCES, Difference, explain
from tests.differential.made import made_cases
from tests.differential.mutations import Case, mutations
from tests.differential.verdicts import ours, theirs
from tests.evidence.intel.recorded import RECORDED, Recorded

# id of the quote → name of the difference; every other quote has one verdict.
EXPLAINED = {"v4-debug": "debug", "v3-00606a000000-debug": "debug"}


def cases_of(recorded: Recorded, vectors: Path) -> list[Case]:
    return [
        Case(
            vector=recorded.id,
            quote=recorded.read(vectors),
            collateral=json.loads((vectors / "collateral" / evaluation["collateral"]).read_bytes()),
            at=datetime.fromisoformat(evaluation["verify_time"]),
        )
        for evaluation in recorded.facts["evaluations"]
    ]


def all_cases(vectors: Path) -> list[Case]:
    return [case for recorded in RECORDED for case in cases_of(recorded, vectors)]


def compare(cases: Iterable[Case]) -> Counter[str]:
    """Count agreements and explained differences, and fail with all that nothing explains."""
    counts: Counter[str] = Counter()
    unexplained: list[str] = []
    for case in cases:
        mine, peer = ours(case), theirs(case)
        if mine.outcome == peer.outcome:
            counts["both refuse" if mine.status is None else "both accept"] += 1
        elif difference := explain(case, mine, peer):
            counts[difference.name] += 1
        else:
            unexplained.append(f"{case}\n  ours: {mine}\n  theirs: {peer}")
    told = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    assert not unexplained, "\n".join([f"{len(unexplained)} unexplained; {told}", *unexplained[:20]])
    assert counts["both accept"], told
    assert counts["both refuse"], told
    return counts


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.id)
def test_recorded_quotes_get_one_verdict(vectors_dir: Path, recorded: Recorded) -> None:
    cases = cases_of(recorded, vectors_dir)
    assert cases
    for case in cases:
        mine, peer = ours(case), theirs(case)
        difference = None if mine.outcome == peer.outcome else explain(case, mine, peer)
        assert (difference.name if difference else None) == EXPLAINED.get(recorded.id), f"{mine}; dcap-qvl: {peer}"
        if difference is None:
            assert mine.outcome == peer.outcome


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_an_explained_difference_is_real_and_explained_by_its_own_entry(
    vectors_dir: Path, difference: Difference
) -> None:
    accepted = next(case for case in all_cases(vectors_dir) if case.vector == "v4-b0c06f000000-uptodate")
    case = difference.example(accepted)
    mine, peer = ours(case), theirs(case)
    assert mine.outcome != peer.outcome, f"the verdicts are equal by now: take the entry out ({mine})"
    assert explain(case, mine, peer) is difference


def test_altered_quotes_and_collateral_get_one_verdict(vectors_dir: Path) -> None:
    compare(mutations(all_cases(vectors_dir), count=300, seed=1))


def test_simulated_platforms_with_collateral_signed_anew_get_one_verdict() -> None:
    compare(made_cases(count=150, seed=1))


@pytest.mark.slow
def test_thousands_of_altered_quotes_and_collateral_get_one_verdict(vectors_dir: Path) -> None:
    compare(mutations(all_cases(vectors_dir), count=8000, seed=2))


@pytest.mark.slow
def test_thousands_of_simulated_platforms_get_one_verdict() -> None:
    compare(made_cases(count=4000, seed=2))
