"""Break-glass: one named relaxation, for one key, until a moment, by several people, and loudly."""

from dataclasses import replace
from datetime import timedelta

import pytest

from attest.encoding import JsonValue
from attest.errors import AttestError, ConfigurationError
from attest.release import KeyName, Release
from attest.release.receipts import read_receipt
from kms.controls.admin import freeze, thaw_in
from kms.controls.break_glass import BreakGlassService
from kms.domain.errors import IntegrityError, KeyConflictError, QuorumRequiredError, ReleaseDeniedError
from kms.domain.freezes import target
from kms.domain.limits import NO_LIMITS
from kms.domain.people import ChangeKind
from kms.keys.admin import set_enabled
from kms.operations.fsck import examine
from kms.quorum.admin import change_now
from kms.quorum.break_glass import BreakGlassOpen, close_glass
from kms.quorum.changes import read_change
from kms.quorum.key_limits import KeyLimitsSet
from kms.quorum.key_policy import KeyPolicySet
from tests.kms.stores import examined_unauthenticated, write_genuine
from tests.kms.support import ACTOR, AT, MATERIAL, Harness, Workload, live_leases, open_release, policy_text
from tests.kms.test_quorum import ROOT, Board, rule

MODEL = KeyName(key_id="model")
UNTIL = AT + timedelta(hours=1)
OTHER_IMAGE = bytes(47) + b"\x01"
OTHER = Workload().with_measurement(OTHER_IMAGE)
ALL = target("all", None)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def board(harness: Harness) -> Board:
    for key_id in ("model", "other"):
        harness.add_key(key_id)
    return Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.BREAK_GLASS))


def lifting(scope: str = "all", name: str | None = None, **changes: object) -> BreakGlassOpen:
    made = BreakGlassOpen(name=MODEL, lifts=target(scope, name), policy=None, reason="4711", until=UNTIL)
    return replace(made, **changes)  # type: ignore[arg-type]


def judging(**changes: object) -> BreakGlassOpen:
    policy = policy_text(name="emergency", measurement=OTHER_IMAGE)
    return replace(lifting(), lifts=None, policy=policy, **changes)  # type: ignore[arg-type]


def frozen(board: Board, scope: str = "all", name: str | None = None) -> None:
    freeze(board.desk.vault.store, target(scope, name), reason="x", actor=ROOT, at=board.harness.clock())


def release(board: Board, key_id: str = "model", workload: Workload | None = None) -> Release:
    workload = workload or Workload()
    challenge = board.harness.releases.challenge()
    request = workload.request(challenge, key_id)
    made = board.harness.releases.release(request)
    assert open_release(workload, challenge, request, made, board.harness) == {key_id: MATERIAL}
    return made


def refusal(board: Board, key_id: str = "model", workload: Workload | None = None) -> str:
    with pytest.raises(ReleaseDeniedError) as caught:
        release(board, key_id, workload)
    return caught.value.code


def loud(board: Board) -> list[JsonValue]:
    decision = board.harness.decisions()[-1]
    assert decision.get("break_glass") is True
    opened = decision["break_glass_open"]
    assert isinstance(opened, list)
    return opened


@pytest.mark.parametrize(
    ("scope", "name", "code"),
    [
        ("all", None, "service-frozen"),
        ("tenant", "default", "tenant-frozen"),
        ("key", "model", "key-frozen"),
        ("product", "genoa", "product-frozen"),
    ],
)
def test_a_freeze_is_lifted_for_one_key_until_a_moment_and_everything_says_so(
    board: Board, scope: str, name: str | None, code: str
) -> None:
    frozen(board, scope, name)
    assert refusal(board) == code
    made = board.agreed(lifting(scope, name))
    released = release(board)
    (opened,) = loud(board)
    assert isinstance(opened, dict)
    assert (opened["key"], opened["number"]) == ("model", 1)
    receipt = read_receipt(board.harness.services.identity.public.verify(released.receipt))
    assert receipt["break_glass"] is True
    entry = next(one for one in board.harness.entries() if one["kind"] == "break-glass-opened")
    assert (entry["break_glass"], entry["proposal"], entry["reason"]) == (True, made.digest, "4711")
    if scope != "key":
        assert refusal(board, "other") == code, "for the one key alone"
        assert "break_glass" not in board.harness.decisions()[-1]
    with board.desk.vault.store.reading() as tx:
        (lease,) = live_leases(tx, MODEL, at=AT)
    assert lease.expires_at == UNTIL, "nobody is promised anything beyond it"
    board.harness.clock.at = UNTIL - timedelta(milliseconds=1)
    release(board)
    board.harness.clock.at = UNTIL
    assert refusal(board) == code
    assert "break_glass" not in board.harness.decisions()[-1]


def test_another_policy_judges_until_a_moment_and_attestation_stays(board: Board) -> None:
    assert refusal(board, workload=OTHER) == "policy-not-met"
    board.agreed(judging())
    released = release(board, workload=OTHER)
    assert released.keys[0].policy_digest == judging().policy_digest
    assert refusal(board) == "policy-not-met", "the emergency's policy judges, and nobody is let through unjudged"
    assert loud(board) != []
    assert refusal(board, "other", OTHER) == "policy-not-met"
    board.harness.clock.at = UNTIL
    assert refusal(board, workload=OTHER) == "policy-not-met"
    release(board)


def test_another_policy_of_the_key_ends_what_judged_in_the_place_of_the_one_before(board: Board) -> None:
    """Who makes the policy stricter while an emergency's policy judges means it to count."""
    board.agreed(judging())
    board.agreed(judging(name=KeyName(key_id="other")))
    release(board, workload=OTHER)
    change_now(
        board.desk,
        KeyPolicySet(name=MODEL, policy=policy_text().replace(b"version: 1", b"version: 2")),
        actor=ACTOR,
        at=AT,
    )
    assert refusal(board, workload=OTHER) == "policy-not-met"
    release(board)
    release(board, "other", OTHER)
    closed = next(one for one in board.harness.entries() if one["kind"] == "break-glass-closed")
    assert (closed["number"], closed["actor"]) == (1, ACTOR.members())
    assert problems(board) == ()


def test_it_counts_at_every_replica_and_is_closed_by_one(board: Board) -> None:
    frozen(board)
    board.agreed(lifting())
    replica = replace(board, harness=board.harness.reopened())
    release(replica)
    close_glass(board.desk.vault.store, 1, reason="over", actor=ROOT, at=AT)
    assert refusal(replica) == "service-frozen"
    with pytest.raises(KeyConflictError) as caught:
        close_glass(board.desk.vault.store, 1, reason="over", actor=ROOT, at=AT)
    assert caught.value.code == "break-glass-not-open"
    assert board.kinds().count("break-glass-closed") == 1
    replica.harness.close()


def test_nothing_but_the_named_thing_is_relaxed(board: Board) -> None:
    frozen(board)
    frozen(board, "key", "model")
    board.agreed(lifting())
    assert refusal(board) == "key-frozen", "the other freeze still counts"
    board.agreed(lifting("key", "model"))
    release(board)
    limits = replace(NO_LIMITS, version=1, holders=0)
    change_now(board.desk, KeyLimitsSet(name=MODEL, limits=limits), actor=ACTOR, at=AT)
    assert refusal(board) == "holders-exceeded"
    set_enabled(board.desk.vault.store, MODEL, enabled=False, actor=ACTOR, at=AT)
    assert refusal(board) == "key-disabled"


def test_nobody_breaks_glass_alone(harness: Harness) -> None:
    harness.add_key("model")
    board = Board(harness)
    board.desk = replace(board.desk, alone=True)
    frozen(board)
    for attempt in (lambda: change_now(board.desk, lifting(), actor=ROOT, at=AT), lambda: board.propose(lifting())):
        with pytest.raises(QuorumRequiredError) as caught:
            attempt()
        assert caught.value.code == "quorum-required"
    assert refusal(board) == "service-frozen"


@pytest.mark.parametrize(
    ("until", "fits"),
    [
        (AT, False),
        (AT + timedelta(seconds=1), True),
        (AT + timedelta(hours=4), True),
        (AT + timedelta(hours=4, seconds=1), False),
    ],
)
def test_it_is_open_for_so_long_at_most(board: Board, until: object, fits: bool) -> None:
    frozen(board)
    made = board.propose(lifting(until=until))
    board.sign(made, "alice", "bob")
    if fits:
        board.execute(made)
        release(board)
    else:
        assert board.refused(made) == "break-glass-time"
        assert refusal(board) == "service-frozen"


def test_the_same_is_not_opened_twice(board: Board) -> None:
    frozen(board)
    board.agreed(lifting())
    made = board.propose(lifting(reason="again"))
    board.sign(made, "alice", "bob")
    assert board.refused(made) == "break-glass-open"


def test_a_freeze_that_was_made_anew_is_not_lifted_by_what_was_signed_before(board: Board) -> None:
    frozen(board)
    made = board.propose(lifting())
    board.sign(made, "alice", "bob")
    write_genuine(board.harness, "freezes", reason="worse")
    assert board.refused(made) == "proposal-outdated"
    with pytest.raises(AttestError) as caught:
        board.propose(lifting("product", "tdx"))
    assert caught.value.code == "not-frozen"


def test_a_freeze_that_was_made_after_it_was_opened_counts(board: Board) -> None:
    """What was agreed on is one freeze with its reason; whoever freezes again knows something that nobody agreed on."""
    frozen(board)
    board.agreed(lifting())
    release(board)
    with board.desk.vault.store.writing() as tx:
        thaw_in(tx, ALL)
    board.harness.clock.at = AT + timedelta(milliseconds=1)
    frozen(board)
    assert refusal(board) == "service-frozen"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE break_glass SET until = until + 3600000",
        "UPDATE break_glass SET key_id = 'other'",
        "UPDATE break_glass SET lifts_scope = 'tenant', lifts_name = 'default'",
        "UPDATE break_glass SET reason = 'better'",
    ],
)
def test_mc_28_what_somebody_wrote_into_the_database_opens_nothing(board: Board, statement: str) -> None:
    """The seal is wrapped under the key-encryption key, which whoever has the database alone does not have."""
    frozen(board)
    frozen(board, "tenant", "default")
    board.agreed(lifting())
    close_glass(board.desk.vault.store, 1, reason="over", actor=ROOT, at=AT)
    assert problems(board) == ()
    for table in ("break_glass", "break_glass_ends"):
        board.harness.unprotect(table)
    board.harness.alter("DELETE FROM break_glass_ends")
    board.harness.alter(statement)
    for key_id in ("model", "other"):
        with pytest.raises((IntegrityError, ReleaseDeniedError)) as caught:
            release(board, key_id)
        assert caught.value.code in {"state-forged", "service-frozen"}
    altered, ended = examined_unauthenticated(board.harness)["break-glass"].problems
    assert altered.startswith("break-glass 1: digest ")
    assert ended.startswith("break-glass 1: state not closed in the database, closed since entry ")
    with board.desk.vault.store.opening() as tx:
        ((glass, _),) = tx.break_glass.all()
    assert not BreakGlassService(board.desk.vault.kek).is_sealed(glass)


def problems(board: Board) -> tuple[str, ...]:
    found = {one.check: one for one in examine(board.desk.vault, origin=board.harness.settings.origin, noted=())}
    return found["break-glass"].problems


def test_one_that_cannot_be_read_stops_everything(board: Board) -> None:
    frozen(board)
    board.agreed(lifting())
    write_genuine(board.harness, "break_glass", lifts_scope=None)
    with pytest.raises(IntegrityError) as caught:
        release(board)
    assert caught.value.code == "glass-record-invalid"


def test_a_proposal_for_it_is_read_as_it_was_written() -> None:
    for change in (lifting(), lifting("product", "tdx"), judging()):
        assert read_change(change.action, change.arguments()) == change
    good = lifting().arguments()
    for wrong in (
        good | {"policy": "x"},
        good | {"lifts": None},
        good | {"until": "soon"},
        good | {"more": 1},
        judging().arguments() | {"policy_sha256": "00" * 32},
        good | {"key": 1},
    ):
        with pytest.raises(ConfigurationError):
            read_change("break-glass-open", wrong)
