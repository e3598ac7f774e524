"""Under a rule for anchors a service starts with the roots that enough people approved, and with no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from attest import TrustAnchors
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.results import SigningKey
from kms.config.configuration import trust_lines
from kms.domain.anchors import anchor_lines, anchors_digest
from kms.domain.people import ChangeKind
from kms.quorum.admin import change_now
from kms.quorum.anchors import AnchorsApprove
from kms.quorum.changes import QuorumSet, read_change
from tests.kms.support import AT, Harness
from tests.kms.test_passports import SIGNING, STRANGER, issuer_of
from tests.kms.test_quorum import ROOT, Board, rule

BOTH = TrustAnchors.vendors().with_anchors(TrustAnchors.simulation().anchors)
THESE = AnchorsApprove(lines=anchor_lines(BOTH))
OTHERS = AnchorsApprove(lines=anchor_lines(TrustAnchors.vendors()))


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def verifiers_in(folder: Path, *, key: SigningKey = SIGNING, tenants: str = "") -> Path:
    (folder / "jwks.json").write_bytes(issuer_of(key).jwks(AT))
    path = folder / "verifiers.toml"
    path.write_text(f'[[verifier]]\nissuer = "https://verifier.example"\nkeys = "jwks.json"\n{tenants}\n')
    return path


def started(harness: Harness, **changes: object) -> bool:
    try:
        harness.reopened(**changes).close()
    except ConfigurationError as exc:
        return exc.code != "anchors-not-approved"
    return True


def test_mc_23_a_service_starts_with_approved_anchors_alone(harness: Harness) -> None:
    board = Board(harness).found(rule(ChangeKind.QUORUM))
    change_now(board.desk, OTHERS, actor=ROOT, at=AT)
    assert started(harness), "no rule demands it yet"
    board.agreed(QuorumSet(then=board.now().with_rule(rule(ChangeKind.ANCHORS))))
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


def test_mc_23_the_keys_of_verifiers_whose_word_is_taken_are_approved_too(harness: Harness) -> None:
    """Whoever signs passports stands for every chip; a key in a file would else pass by those who say whom to trust."""
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.ANCHORS))
    path = verifiers_in(harness.folder)
    board.agreed(THESE)
    assert started(harness)
    assert not started(harness, verifiers_file=path)
    more = trust_lines(harness.settings.model_copy(update={"verifiers_file": path}), BOTH)
    assert set(THESE.lines) < set(more)
    board.agreed(AnchorsApprove(lines=more))
    assert started(harness, verifiers_file=path)
    assert not started(harness)
    verifiers_in(harness.folder, key=STRANGER)
    assert not started(harness, verifiers_file=path), "another key of the same Verifier"
    verifiers_in(harness.folder, tenants='tenants = ["default"]')
    assert not started(harness, verifiers_file=path), "or for other tenants"


def test_under_a_rule_without_any_approved_nothing_starts(harness: Harness) -> None:
    Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.ANCHORS))
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
