"""Changes that take several people: who counts, what they signed, and what makes their signatures worthless."""

import json
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, ConfigurationError, SignatureError
from attest.policy.signing_keys import PolicyPrivateKey
from kms.controls.admin import freeze
from kms.domain.actors import Actor, Means
from kms.domain.canonical_json import canonical_json
from kms.domain.errors import IntegrityError, KeyConflictError, KeyUnknownError, QuorumRequiredError
from kms.domain.freezes import target
from kms.domain.people import MAX_PEOPLE, NOBODY, ChangeKind, Person, Quorum, QuorumRule, read_quorum
from kms.domain.proposals import MAX_LIFETIME, Approval, Proposal, approve_with, missing, read_approval, read_proposal
from kms.keys.vault import Vault
from kms.operations.fsck import examine
from kms.quorum.admin import QuorumService, approve, change_now, execute, find, propose, standing, withdraw
from kms.quorum.change_context import ProposedChange
from kms.quorum.changes import CHANGES, QuorumSet, Thaw, read_change
from tests.kms.stores import write_genuine
from tests.kms.support import AT, Harness
from tests.kms.test_tokens import ORDERS

ROOT = Actor(name="root", means=Means.LOCAL)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ed25519(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


KEYS: dict[str, PolicyPrivateKey] = {
    "alice": ed25519(1),
    "bob": ec.derive_private_key(7, ec.SECP256R1()),
    "carol": ec.derive_private_key(8, ec.SECP384R1()),
    "mallory": ed25519(9),
}


def pem(key: PolicyPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def people(*names: str) -> Quorum:
    found = NOBODY
    for name in names:
        found = found.with_person(name, pem(KEYS[name]))
    return found


THREE = ("alice", "bob", "carol")


def rule(
    kind: ChangeKind, threshold: int = 2, names: tuple[str, ...] = THREE, *, proposer_counts: bool = True
) -> QuorumRule:
    return QuorumRule(kind=kind, threshold=threshold, people=names, proposer_counts=proposer_counts)


@dataclass
class Board:
    """A service with three people, two of whom are needed for everything that has a rule."""

    harness: Harness
    desk: QuorumService = field(init=False)

    def __post_init__(self) -> None:
        vault = Vault(store=self.harness.services.store, kek=self.harness.services.kek)
        self.desk = QuorumService(vault=vault, audience=self.harness.audience, alone=False)

    def now(self) -> Quorum:
        with self.desk.vault.store.reading() as tx:
            return tx.quorum.current()

    def set(self, then: Quorum) -> None:
        change_now(self.desk, QuorumSet(then=then), actor=ROOT, at=self.harness.clock())

    def found(self, *rules: QuorumRule) -> "Board":
        for name in THREE:
            self.set(self.now().with_person(name, pem(KEYS[name])))
        for one in rules or (rule(ChangeKind.QUORUM), rule(ChangeKind.THAW)):
            # The first may be set by one person; from then on it takes two.
            self.agreed(QuorumSet(then=self.now().with_rule(one))) if self.now().rules else self.set(
                self.now().with_rule(one)
            )
        return self

    def propose(self, change: ProposedChange, **more: object) -> Proposal:
        at = self.harness.clock()
        return propose(self.desk, change, reason="a test", actor=ROOT, at=at, **more)  # type: ignore[arg-type]

    def sign(self, proposal: Proposal, *names: str) -> None:
        for name in names:
            approve(self.desk, approve_with(proposal, KEYS[name]), actor=ROOT, at=self.harness.clock())

    def execute(self, proposal: Proposal) -> str:
        return execute(self.desk, proposal.digest, actor=ROOT, at=self.harness.clock())

    def agreed(self, change: ProposedChange, *names: str) -> Proposal:
        made = self.propose(change)
        self.sign(made, *(names or ("alice", "bob")))
        self.execute(made)
        return made

    def refused(self, proposal: Proposal) -> str:
        with pytest.raises(AttestError) as caught:
            self.execute(proposal)
        return caught.value.code

    def freeze(self) -> Thaw:
        freeze(self.desk.vault.store, target("all", None), reason="a test", actor=ROOT, at=self.harness.clock())
        return Thaw(target=target("all", None), reason="all clear")

    def frozen(self) -> int:
        with self.desk.vault.store.reading() as tx:
            return len(tx.freezes.all())

    def kinds(self) -> list[object]:
        return [entry["kind"] for entry in self.harness.entries()]


@pytest.fixture
def board(harness: Harness) -> Board:
    return Board(harness)


# -- people and rules


def test_the_first_people_and_rules_are_set_by_one_and_all_later_ones_by_the_rule(board: Board) -> None:
    board.found()
    assert [one.name for one in board.now().people] == list(THREE)
    more = board.now().with_person("mallory", pem(KEYS["mallory"]))
    with pytest.raises(QuorumRequiredError) as caught:
        board.set(more)
    assert (caught.value.code, caught.value.field) == ("quorum-required", "quorum")
    board.agreed(QuorumSet(then=more), "bob", "carol")
    assert board.now() == more
    changed = [entry for entry in board.harness.entries() if entry["kind"] == "quorum-changed"]
    assert changed[-1]["approved_by"] == [f"{one.name} {one.key_id}" for one in more.people[1:3]]
    assert len(changed) == more.version


@pytest.mark.parametrize("gone", ["lower", "clear", "fewer", "rekeyed"])
def test_a_rule_is_not_lowered_without_those_whom_it_names(board: Board, gone: str) -> None:
    """The rule for 'quorum' takes two; the rule for thawing takes all three, and goes on doing so."""
    board.found(rule(ChangeKind.QUORUM), rule(ChangeKind.THAW, 3))
    now = board.now()
    if gone == "lower":
        then = now.with_rule(rule(ChangeKind.THAW, 1))
    elif gone == "clear":
        then = now.without_rule(ChangeKind.THAW)
    elif gone == "fewer":
        then = now.with_rule(rule(ChangeKind.THAW, 2, ("alice", "bob")))
    else:
        others = [one for one in now.people if one.name != "carol"]
        carol = Person(name="carol", public_key=pem(KEYS["mallory"]).decode())
        then = read_quorum(replace(now, version=now.version + 1, people=(*others, carol)).members())
    made = board.propose(QuorumSet(then=then))
    board.sign(made, "alice", "bob")
    assert board.refused(made) == "quorum-not-reached"
    assert board.now() == now
    board.sign(made, "carol")
    board.execute(made)
    assert board.now() == then


def test_a_rule_without_one_for_quorum_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        people(*THREE).with_rule(rule(ChangeKind.THAW))
    assert caught.value.code == "quorum-invalid"
    both = people(*THREE).with_rule(rule(ChangeKind.QUORUM)).with_rule(rule(ChangeKind.THAW))
    with pytest.raises(ConfigurationError) as caught:
        both.without_rule(ChangeKind.QUORUM)
    assert caught.value.code == "quorum-invalid"


@pytest.mark.parametrize(
    "make",
    [
        lambda: people(*THREE).with_rule(rule(ChangeKind.QUORUM, 0)),
        lambda: people(*THREE).with_rule(rule(ChangeKind.QUORUM, 4)),
        lambda: people(*THREE).with_rule(rule(ChangeKind.QUORUM, 2, ("alice", "alice"))),
        lambda: people(*THREE).with_rule(rule(ChangeKind.QUORUM, 1, ("alice", "nobody"))),
        lambda: people(*THREE).with_rule(rule(ChangeKind.QUORUM)).without_person("alice"),
        lambda: people("alice").with_person("alice", pem(KEYS["bob"])),
        lambda: people("alice").with_person("bob", pem(KEYS["alice"])),
        lambda: people("alice").with_person("Bob", pem(KEYS["bob"])),
        lambda: people("alice").without_person("bob"),
        lambda: people("alice").without_rule(ChangeKind.KEK),
        lambda: read_quorum([]),
        lambda: read_quorum(people("alice").members() | {"more": 1}),
        lambda: read_quorum(people("alice").members() | {"schema": "kms.quorum/2"}),
        lambda: read_quorum(people("alice").members() | {"version": True}),
        lambda: read_quorum(people("alice").members() | {"rules": [{}]}),
        lambda: read_quorum(people("alice").members() | {"people": "x"}),
    ],
)
def test_people_and_rules_that_cannot_be_are_refused(make: Callable[[], Quorum]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert caught.value.code == "quorum-invalid"


def test_there_is_room_for_so_many_people() -> None:
    found = NOBODY
    for number in range(MAX_PEOPLE):
        found = found.with_person(f"p{number:02}", pem(ed25519(number + 10)))
    with pytest.raises(ConfigurationError):
        found.with_person("one-more", pem(ed25519(5)))
    assert read_quorum(json.loads(canonical_json(found.members()))) == found


@pytest.mark.parametrize("threshold", [1, 3])
def test_the_threshold_is_one_to_all(threshold: int) -> None:
    found = people(*THREE).with_rule(rule(ChangeKind.QUORUM, threshold)).rule(ChangeKind.QUORUM)
    assert found == rule(ChangeKind.QUORUM, threshold)


# -- proposals


def test_what_enough_people_signed_is_done_once(board: Board) -> None:
    board.found()
    thaw = board.freeze()
    with pytest.raises(QuorumRequiredError):
        change_now(board.desk, thaw, actor=ROOT, at=board.harness.clock())
    made = board.propose(thaw)
    assert board.refused(made) == "quorum-not-reached"
    board.sign(made, "alice")
    assert board.refused(made) == "quorum-not-reached"
    assert board.frozen() == 1
    board.sign(made, "carol")
    assert "no longer frozen" in board.execute(made)
    assert board.frozen() == 0
    assert board.refused(made) == "proposal-ended"
    assert board.kinds()[-2:] == ["thawed", "proposal-executed"]
    thawed = board.harness.entries()[-2]
    assert (thawed["proposal"], len(thawed["approved_by"])) == (made.digest, 2)  # type: ignore[arg-type]
    board.freeze()
    assert board.refused(made) == "proposal-ended"


def test_mc_31_nobody_makes_himself_the_quorum_while_something_is_frozen(board: Board) -> None:
    thaw = board.freeze()
    board.set(board.now().with_person("alice", pem(KEYS["alice"])))
    alone = board.now().with_rule(rule(ChangeKind.QUORUM, 1, ("alice",)))
    for then in (alone, alone.with_rule(rule(ChangeKind.THAW, 1, ("alice",)))):
        with pytest.raises(KeyConflictError) as caught:
            board.set(replace(then, version=board.now().version + 1))
        assert caught.value.code == "quorum-while-frozen"
    with pytest.raises(QuorumRequiredError):
        change_now(board.desk, thaw, actor=ROOT, at=board.harness.clock())
    # Under the setting, which every start announces, it thaws, and the quorum is set up then.
    change_now(replace(board.desk, alone=True), thaw, actor=ROOT, at=board.harness.clock())
    board.set(alone)


def test_mc_31_while_something_is_frozen_another_rule_takes_the_quorum_in_force(board: Board) -> None:
    board.found(rule(ChangeKind.QUORUM), rule(ChangeKind.THAW))
    board.freeze()
    for then in (
        board.now().with_rule(rule(ChangeKind.THAW, 1)),
        board.now().without_rule(ChangeKind.THAW),
        board.now().with_rule(rule(ChangeKind.BREAK_GLASS, 1)),
    ):
        made = board.propose(QuorumSet(then=then))
        board.sign(made, "alice")
        assert board.refused(made) == "quorum-not-reached"


def test_the_same_person_and_the_same_key_count_once(board: Board) -> None:
    board.found()
    made = board.propose(board.freeze())
    board.sign(made, "bob")
    again = approve_with(made, KEYS["bob"])
    with pytest.raises(KeyConflictError) as caught:
        approve(board.desk, again, actor=ROOT, at=AT)
    assert caught.value.code == "approval-repeated"
    assert board.refused(made) == "quorum-not-reached"


@pytest.mark.parametrize(("name", "order"), [("bob", ORDERS["ES256"]), ("carol", ORDERS["ES384"])])
def test_a_signature_in_its_other_form_is_no_second_approval(board: Board, name: str, order: int) -> None:
    board.found()
    made = board.propose(board.freeze())
    honest = approve_with(made, KEYS[name])
    r, s = decode_dss_signature(honest.signature)
    other = replace(honest, signature=encode_dss_signature(r, order - s))
    assert other.signature != honest.signature
    approve(board.desk, other, actor=ROOT, at=AT)
    with pytest.raises(KeyConflictError) as caught:
        approve(board.desk, honest, actor=ROOT, at=AT)
    assert caught.value.code == "approval-repeated"
    assert board.refused(made) == "quorum-not-reached"
    entries = [entry for entry in board.harness.entries() if entry["kind"] == "proposal-approved"]
    assert [entry["person"] for entry in entries].count(name) <= 2, "once to set the rules up, once now"
    assert (entries[-1]["person"], entries[-1]["key_id"]) == (name, honest.key_id)
    for form in (honest, other):
        assert b64encode(form.signature).decode() not in str(entries)
        assert form.signature.hex() not in str(entries)


def test_a_signature_of_a_stranger_or_over_something_else_is_refused(board: Board) -> None:
    board.found()
    made = board.propose(board.freeze())
    with pytest.raises(SignatureError) as caught:
        board.sign(made, "mallory")
    assert caught.value.code == "approval-unknown-key"
    honest = approve_with(made, KEYS["alice"])
    other = approve_with(replace(made, serial=99), KEYS["alice"])
    raw = KEYS["alice"].sign(made.raw)  # type: ignore[call-arg]  # Ed25519
    for wrong in (
        replace(honest, signature=bytes(64)),
        replace(honest, signature=raw),
        replace(other, proposal=made.digest),
        replace(honest, signature=approve_with(made, KEYS["mallory"]).signature),
    ):
        with pytest.raises(SignatureError) as caught:
            approve(board.desk, wrong, actor=ROOT, at=AT)
        assert caught.value.code == "approval-signature-invalid"
    with pytest.raises(KeyUnknownError) as unknown:
        approve(board.desk, other, actor=ROOT, at=AT)
    assert unknown.value.code == "proposal-unknown"


def test_a_proposal_counts_until_just_before_it_expires(board: Board) -> None:
    board.found()
    made = board.propose(board.freeze(), lifetime=timedelta(hours=1))
    late = board.propose(Thaw(target=target("all", None), reason="later"), lifetime=timedelta(hours=1))
    for one in (made, late):
        board.sign(one, "alice", "bob")
    board.harness.clock.at = made.expires
    assert board.refused(made) == "proposal-expired"
    with pytest.raises(KeyConflictError):
        board.sign(made, "carol")
    with board.desk.vault.store.reading() as tx:
        assert standing(tx, made, alone=False, at=made.expires).state == "expired"
    board.harness.clock.at = made.expires - timedelta(microseconds=1)
    board.execute(late)


@pytest.mark.parametrize(("lifetime", "fits"), [(MAX_LIFETIME, True), (MAX_LIFETIME + timedelta(seconds=1), False)])
def test_a_proposal_stands_for_a_bounded_time(board: Board, lifetime: timedelta, fits: bool) -> None:
    board.found()
    thaw = board.freeze()
    if fits:
        assert board.propose(thaw, lifetime=lifetime).expires == AT + lifetime
        return
    for bad in (lifetime, timedelta(0)):
        with pytest.raises(ConfigurationError) as caught:
            board.propose(thaw, lifetime=bad)
        assert caught.value.code == "proposal-invalid"


def test_mc_23_what_people_did_not_read_is_not_done(board: Board) -> None:
    """Between approval and execution the freeze was thawed and made anew, for another reason."""
    board.found()
    thaw = board.freeze()
    old, new = board.propose(thaw), board.propose(thaw)
    for one in (old, new):
        board.sign(one, "alice", "bob")
    board.execute(new)
    assert board.refused(old) == "not-frozen"
    board.harness.clock.forward(seconds=1)
    board.freeze()
    assert board.refused(old) == "proposal-outdated"
    assert board.frozen() == 1


def test_two_changes_of_rules_are_not_both_done(board: Board) -> None:
    board.found()
    first = board.propose(QuorumSet(then=board.now().with_rule(rule(ChangeKind.KEK))))
    second = board.propose(QuorumSet(then=board.now().with_rule(rule(ChangeKind.ANCHORS))))
    for one in (first, second):
        board.sign(one, "alice", "bob")
    board.execute(first)
    assert board.refused(second) == "quorum-version"


def test_who_is_no_longer_registered_no_longer_counts(board: Board) -> None:
    board.found(rule(ChangeKind.QUORUM, 2, ("alice", "bob")), rule(ChangeKind.THAW, 1))
    made = board.propose(board.freeze())
    board.sign(made, "carol")
    board.agreed(
        QuorumSet(then=board.now().with_rule(rule(ChangeKind.THAW, 1, ("alice", "bob")))), "alice", "bob", "carol"
    )
    assert board.refused(made) == "quorum-not-reached"
    board.agreed(QuorumSet(then=board.now().without_person("carol")))
    with board.desk.vault.store.reading() as tx:
        assert standing(tx, made, alone=False, at=AT).signed == ()
    assert board.refused(made) == "quorum-not-reached"
    board.sign(made, "alice")
    board.execute(made)


def test_a_rule_that_rose_since_the_approval_counts(board: Board) -> None:
    board.found()
    made = board.propose(board.freeze())
    board.sign(made, "alice", "bob")
    board.agreed(QuorumSet(then=board.now().with_rule(rule(ChangeKind.THAW, 3))))
    assert board.refused(made) == "quorum-not-reached"


def test_a_withdrawn_proposal_is_done_by_nobody(board: Board) -> None:
    board.found()
    made = board.propose(board.freeze())
    board.sign(made, "alice", "bob")
    withdraw(board.desk, made.digest, reason="never mind", actor=ROOT, at=AT)
    assert board.refused(made) == "proposal-ended"
    with pytest.raises(KeyConflictError):
        withdraw(board.desk, made.digest, reason="never mind", actor=ROOT, at=AT)
    assert board.kinds()[-1] == "proposal-withdrawn"


def test_a_proposal_for_another_service_is_refused(board: Board) -> None:
    board.found()
    elsewhere = Board(board.harness)
    elsewhere.desk = replace(board.desk, audience="kms.test/other+00000000+AAAA")
    made = elsewhere.propose(board.freeze())
    board.sign(made, "alice", "bob")
    assert board.refused(made) == "proposal-other-service"


def test_where_the_proposer_stands_apart_others_have_to_sign_as_well(board: Board) -> None:
    board.found(rule(ChangeKind.QUORUM), rule(ChangeKind.THAW, 2, proposer_counts=False))
    thaw = board.freeze()
    nobody = board.propose(thaw)
    board.sign(nobody, *THREE)
    assert board.refused(nobody) == "quorum-not-reached"
    made = board.propose(thaw, person="alice")
    board.sign(made, "bob", "carol")
    assert board.refused(made) == "quorum-not-reached", "alice, who proposes it, has to sign"
    board.sign(made, "alice")
    board.execute(made)
    with pytest.raises(ConfigurationError):
        board.propose(board.freeze(), person="nobody")


def test_two_who_execute_at_once_do_it_once(board: Board) -> None:
    board.found()
    made = board.propose(board.freeze())
    board.sign(made, "alice", "bob")
    outcomes: list[str] = []

    def run() -> None:
        try:
            board.execute(made)
            outcomes.append("done")
        except AttestError as exc:
            outcomes.append(exc.code)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done"] + ["proposal-ended"] * 3
    assert board.kinds().count("thawed") == 1


def test_what_somebody_wrote_into_the_database_is_found(board: Board) -> None:
    board.found()
    made = board.propose(board.freeze())
    board.sign(made, "alice", "bob")

    def problems() -> tuple[str, ...]:
        found = {one.check: one for one in examine(board.desk.vault, origin=board.harness.settings.origin, noted=())}
        return found["quorum"].problems

    assert problems() == ()
    forged = board.now().with_rule(rule(ChangeKind.THAW, 1, ("alice",)))
    write_genuine(
        board.harness,
        "quorum_documents",
        {"version": forged.version - 1},
        document=canonical_json(replace(forged, version=forged.version - 1).members()),
    )
    (problem,) = problems()
    assert problem.startswith(f"people and rules, version {forged.version - 1}: digest ")
    write_genuine(board.harness, "approvals", {"person": "alice"}, signature=bytes(64))
    assert board.refused(made) == "approval-signature-invalid"
    assert len(problems()) == 3, "alice signed a change of rules, too"
    write_genuine(board.harness, "proposals", document=replace(made, reason="other").raw)
    with pytest.raises(IntegrityError) as caught, board.desk.vault.store.reading() as tx:
        find(tx, made.digest)
    assert caught.value.code == "proposal-altered"
    board.harness.alter("UPDATE quorum_documents SET document = ?", b"{}")
    for reading, code in (
        (board.desk.vault.store.examining, "quorum-record-invalid"),
        (board.desk.vault.store.reading, "state-forged"),
    ):
        with pytest.raises(IntegrityError) as caught, reading() as tx:
            tx.quorum.current()
        assert caught.value.code == code


# -- pure


PROPOSAL = Proposal(
    audience="kms+00000000+AAAA",
    serial=1,
    kind=ChangeKind.THAW,
    action="thaw",
    arguments={"scope": "all", "name": "", "reason": "x"},
    state={"freeze": {}},
    reason="x",
    proposer=ROOT.members(),
    person=None,
    created=AT,
    expires=AT + timedelta(hours=1),
)


def test_a_proposal_has_one_spelling() -> None:
    assert read_proposal(PROPOSAL.raw) == PROPOSAL
    document = json.loads(PROPOSAL.raw)
    for wrong in (
        json.dumps(document, indent=1).encode(),
        b"{}",
        b"[]",
        b"x",
        b"",
        canonical_json(document | {"more": 1}),
        canonical_json(document | {"kind": "everything"}),
        canonical_json(document | {"expires": "soon"}),
        canonical_json(document | {"arguments": []}),
        canonical_json(document | {"serial": "1"}),
        b" " * (1 << 20),
    ):
        with pytest.raises(ConfigurationError) as caught:
            read_proposal(wrong)
        assert caught.value.code == "proposal-invalid"


def test_a_signature_file_is_read_as_it_was_written() -> None:
    made = approve_with(PROPOSAL, KEYS["carol"])
    raw = json.dumps(made.members()).encode()
    assert read_approval(raw) == made
    for wrong in (b"", b"[]", b"{}", raw.replace(b"signature/1", b"signature/2"), raw.replace(b'"sig', b'"gis')):
        with pytest.raises(ConfigurationError) as caught:
            read_approval(wrong)
        assert caught.value.code == "approval-invalid"
    with pytest.raises(ConfigurationError):
        approve_with(PROPOSAL, ec.generate_private_key(ec.SECP521R1()))


def test_what_cannot_be_done_is_not_proposed() -> None:
    for action, arguments in (
        ("everything", {}),
        ("thaw", {}),
        ("quorum-set", {"quorum": NOBODY.members(), "sha256": "00"}),
    ):
        with pytest.raises(ConfigurationError) as caught:
            read_change(action, arguments)  # type: ignore[arg-type]  # JSON
        assert caught.value.code == "change-invalid"
    assert {"quorum-set", "thaw"} <= set(CHANGES)


BY_NAME = {one.name: one for one in people(*THREE, "mallory").people}


@given(
    st.integers(1, 3),
    st.sets(st.sampled_from(sorted(BY_NAME))),
    st.booleans(),
    st.sampled_from([None, *sorted(BY_NAME)]),
)
def test_a_rule_is_met_by_so_many_different_people_whom_it_names_and_by_nothing_else(
    threshold: int, signed: set[str], counts: bool, person: str | None
) -> None:
    one = rule(ChangeKind.THAW, threshold, proposer_counts=counts)
    met = missing(one, replace(PROPOSAL, person=person), [BY_NAME[name] for name in signed]) is None
    named = signed & set(THREE)
    if counts:
        assert met == (len(named) >= threshold)
    else:
        assert met == (person in signed and len(named - {str(person)}) >= threshold)
    if met:  # more signatures never unmake a quorum
        assert missing(one, replace(PROPOSAL, person=person), BY_NAME.values()) is None


def test_an_approval_says_nothing_by_itself() -> None:
    assert Approval(proposal="", key_id="", signature=b"").members()["schema"] == "kms.proposal-signature/1"
