"""Under a rule for anchors a service starts with the roots that enough people approved, and with no others."""

from dataclasses import replace

import pytest

from attest import TrustAnchors
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from kms.configuration import anchor_lines, anchors_digest
from kms.quorum.admin import change_now
from kms.quorum.anchors import AnchorsApprove
from kms.quorum.changes import QuorumSet, read_change
from kms.quorum.people import Kind
from tests.kms.support import AT, Harness
from tests.kms.test_quorum import ROOT, Board, rule

BOTH = TrustAnchors.vendors().with_anchors(TrustAnchors.simulation().anchors)
THESE = AnchorsApprove(lines=anchor_lines(BOTH))
OTHERS = AnchorsApprove(lines=anchor_lines(TrustAnchors.vendors()))


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def started(harness: Harness) -> bool:
    try:
        harness.reopened().close()
    except ConfigurationError as exc:
        return exc.code != "anchors-not-approved"
    return True


def test_mc_23_a_service_starts_with_approved_anchors_alone(harness: Harness) -> None:
    board = Board(harness).found(rule(Kind.QUORUM))
    change_now(board.desk, OTHERS, actor=ROOT, at=AT)
    assert started(harness), "no rule demands it yet"
    board.agreed(QuorumSet(then=board.now().with_rule(rule(Kind.ANCHORS))))
    assert not started(harness)
    made = board.propose(THESE)
    board.sign(made, "alice")
    assert board.refused(made) == "quorum-not-reached"
    board.sign(made, "bob")
    board.execute(made)
    assert started(harness)
    entry = next(one for one in reversed(harness.entries()) if one["kind"] == "anchors-approved")
    assert (entry["sha256"], entry["approved_sha256"]) == (THESE.digest.hex(), OTHERS.digest.hex())
    again = board.agreed(OTHERS)
    assert board.refused(again) == "proposal-ended"
    assert not started(harness)


def test_under_a_rule_without_any_approved_nothing_starts(harness: Harness) -> None:
    Board(harness).found(rule(Kind.QUORUM), rule(Kind.ANCHORS))
    assert not started(harness)


def test_what_is_approved_is_read_as_it_was_written() -> None:
    assert read_change(THESE.action, THESE.arguments()) == THESE
    assert THESE.digest == anchors_digest(THESE.lines) != OTHERS.digest
    wrongs: tuple[dict[str, JsonValue], ...] = (
        THESE.arguments() | {"sha256": "00" * 32},
        replace(THESE, lines=THESE.lines[::-1]).arguments(),
        replace(THESE, lines=(*THESE.lines, THESE.lines[-1])).arguments(),
        {"anchors": []},
    )
    for wrong in wrongs:
        with pytest.raises(ConfigurationError) as caught:
            read_change(THESE.action, wrong)
        assert caught.value.code == "change-invalid"
