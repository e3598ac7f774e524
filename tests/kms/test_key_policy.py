"""Another policy for a key: only upwards, for all of it, from the next request on, and by enough people."""

import base64
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from attest import Evidence, load_policy
from attest.errors import AttestError, ConfigurationError
from attest.policy.document import read_document
from attest.policy.signatures import identity_of
from attest.release import KeyName
from kms.domain.errors import KeyUnknownError, ReleaseDeniedError, UnavailableError
from kms.domain.log_verification import verify_log
from kms.domain.people import ChangeKind
from kms.keys.policy_trials import try_evidence
from kms.keys.vault import Vault
from kms.quorum.admin import QuorumService, change_now
from kms.quorum.change_context import Changing, Prepared
from kms.quorum.changes import read_change
from kms.quorum.key_policy import KeyPolicySet
from tests.kms.references import ALICE, STRANGER, by_signers, given, images, naming
from tests.kms.stores import write_genuine
from tests.kms.support import ACTOR, AT, GUEST, MATERIAL, Harness, Workload, open_release, policy_text
from tests.kms.test_quorum import Board, rule

MODEL = KeyName(key_id="model")
OTHER_IMAGE = bytes(47) + b"\x01"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def version(number: int, *, measurement: bytes = GUEST.measurement, name: str = "unit") -> bytes:
    return policy_text(name=name, measurement=measurement).replace(b"version: 1", b"version: %d" % number)


def desk(harness: Harness) -> QuorumService:
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    return QuorumService(vault=vault, audience=harness.audience, alone=False)


def put(harness: Harness, policy: bytes, name: KeyName = MODEL, **more: object) -> str:
    change = KeyPolicySet(name=name, policy=policy, **more)  # type: ignore[arg-type]
    return change_now(desk(harness), change, actor=ACTOR, at=harness.clock())


def digest(policy: bytes) -> bytes:
    return identity_of(read_document(policy)).digest


def released(harness: Harness, workload: Workload | None = None) -> dict[str, bytes]:
    workload = workload or Workload()
    challenge = harness.releases.challenge()
    request = workload.request(challenge, "model")
    return open_release(workload, challenge, request, harness.releases.release(request), harness)


def refused(harness: Harness, workload: Workload | None = None) -> str:
    with pytest.raises(ReleaseDeniedError) as caught:
        released(harness, workload)
    return caught.value.code


def test_another_policy_judges_from_the_next_request_on_and_the_key_stays(harness: Harness) -> None:
    harness.add_key("model")
    new = Workload().with_measurement(OTHER_IMAGE)
    assert refused(harness, new) == "policy-not-met"
    assert released(harness) == {"model": MATERIAL}
    replica = harness.reopened()
    assert put(harness, version(2, measurement=OTHER_IMAGE)).startswith("model is under unit version 2 (")
    assert released(replica, new) == {"model": MATERIAL}
    assert refused(replica) == "policy-not-met"
    replica.close()
    changed = harness.entries()[-3]
    assert changed["kind"] == "key-policy-changed"
    assert changed["before"] == {"policy": "unit", "policy_version": 1, "policy_sha256": digest(policy_text()).hex()}
    assert changed["policy_sha256"] == digest(version(2, measurement=OTHER_IMAGE)).hex()
    assert (changed["versions"], changed["effect"], changed["actor"]) == ([1], "changed", ACTOR.members())
    with harness.services.store.reading() as tx:
        verify_log(tx.log)
        (record,) = tx.keys.all()
    assert record.policy_digest.hex() == changed["policy_sha256"]


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (version(4), "policy-rolled-back"),
        (version(5), "policy-rolled-back"),
        (version(5, measurement=OTHER_IMAGE), "policy-rolled-back"),
        (version(6, name="another"), "policy-name-differs"),
        (b"schema: attest.policy/1\n", "policy-invalid"),
    ],
)
def test_mc_23_a_policy_goes_up_and_never_back(harness: Harness, policy: bytes, code: str) -> None:
    harness.add_key("model", policy=version(5))
    before = len(harness.entries())
    with pytest.raises(AttestError) as caught:
        put(harness, policy)
    assert caught.value.code == code
    assert len(harness.entries()) == before
    put(harness, version(6))


def test_mc_28_the_key_is_tied_to_its_new_policy_and_to_no_other(harness: Harness) -> None:
    """Whoever writes the old digest back into the database gets no key for it."""
    harness.add_key("model")
    put(harness, version(2, measurement=OTHER_IMAGE))
    write_genuine(harness, "key_versions", policy_digest=digest(policy_text()))
    with pytest.raises(AttestError) as caught:
        released(harness)
    assert caught.value.code == "wrapped-key-invalid"
    harness.alter("UPDATE key_versions SET policy_digest = ?", digest(version(2, measurement=OTHER_IMAGE)))
    with pytest.raises(AttestError) as caught:
        released(harness)
    assert caught.value.code == "state-forged"


def test_a_key_that_there_is_not_gets_no_policy(harness: Harness) -> None:
    with pytest.raises(KeyUnknownError):
        put(harness, version(2))


def test_mc_19_a_policy_that_changes_while_a_release_is_decided_counts(harness: Harness) -> None:
    harness.add_key("model")
    done: list[str] = []

    def asking() -> None:
        for _ in range(12):
            try:
                released(harness)
                done.append("released")
            except (ReleaseDeniedError, UnavailableError) as exc:
                done.append(exc.code)

    thread = threading.Thread(target=asking)
    thread.start()
    put(harness, version(2, measurement=OTHER_IMAGE))
    thread.join()
    assert refused(harness) == "policy-not-met"
    kinds = [entry["kind"] for entry in harness.entries()]
    after = harness.decisions()[-(len(kinds) - kinds.index("key-policy-changed") - 1) :]
    assert {entry["outcome"] for entry in after} == {"deny"}


def apply(harness: Harness, change: KeyPolicySet, prepared: Prepared) -> None:
    longest = timedelta(hours=1)
    with harness.services.store.writing() as tx:
        change.apply(Changing(tx=tx, actor=ACTOR, at=AT, approval={}, prepared=prepared, longest_relaxation=longest))


def test_a_version_that_changed_while_it_was_wrapped_is_not_overwritten(harness: Harness) -> None:
    harness.add_key("model")
    change = KeyPolicySet(name=MODEL, policy=version(2))
    prepared = change.prepare(desk(harness).vault)
    stale = {number: replace(one, before=one.after) for number, one in prepared.rewrapped.items()}
    for wrong in (Prepared(rewrapped=stale), Prepared()):
        with pytest.raises(UnavailableError) as caught:
            apply(harness, change, wrong)
        assert caught.value.code == "keys-changing"
    assert released(harness) == {"model": MATERIAL}


# -- documents of reference values


def naming_version(number: int) -> bytes:
    text = naming(by_signers(ALICE))
    return text.replace(b'"version": 1,', b'"version": %d,' % number, 1)


def test_documents_come_in_with_the_policy_that_names_them(harness: Harness) -> None:
    name = read_document(naming(by_signers(ALICE)))["name"]  # type: ignore[call-overload,index]
    harness.add_key("model", policy=policy_text(name=str(name)))
    with pytest.raises(ConfigurationError) as caught:
        put(harness, naming_version(2))
    assert caught.value.code == "references-missing"
    change = KeyPolicySet(name=MODEL, policy=naming_version(2), references=(given(images(), ALICE),))
    assert read_change(change.action, change.arguments()) == change
    with pytest.raises(ConfigurationError):
        put(harness, naming_version(2), references=(given(images(), STRANGER),))
    change_now(desk(harness), change, actor=ACTOR, at=AT)
    assert [entry["kind"] for entry in harness.entries()][-2:] == ["references-added", "key-policy-changed"]
    assert harness.entries()[-1]["references"] == harness.entries()[-2]["references"]


# -- quorum


def test_mc_23_under_a_rule_a_policy_takes_its_signatures(harness: Harness) -> None:
    harness.add_key("model")
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.KEY_POLICY))
    with pytest.raises(AttestError) as caught:
        put(harness, version(2))
    assert caught.value.code == "quorum-required"
    change = KeyPolicySet(name=MODEL, policy=version(2, measurement=OTHER_IMAGE))
    assert read_change(change.action, change.arguments()) == change
    made, late = board.propose(change), board.propose(KeyPolicySet(name=MODEL, policy=version(3)))
    assert made.arguments["policy"] == change.policy.decode(), "its approvers read what they sign"
    for one in (made, late):
        board.sign(one, "alice", "carol")
    board.execute(made)
    assert released(harness, Workload().with_measurement(OTHER_IMAGE)) == {"model": MATERIAL}
    assert board.refused(late) == "proposal-outdated", "they read the difference to version 1"
    changed = next(entry for entry in harness.entries() if entry["kind"] == "key-policy-changed")
    assert changed["proposal"] == made.digest


@pytest.mark.parametrize("change", ["digest", "members", "document", "list", "base64"])
def test_a_proposal_that_says_something_else_is_refused(change: str) -> None:
    arguments = KeyPolicySet(name=MODEL, policy=version(2)).arguments()
    good = base64.b64encode(b"x").decode()
    if change == "digest":
        arguments["policy_sha256"] = "00" * 32
    elif change == "members":
        arguments["more"] = 1
    elif change == "document":
        arguments["references"] = [{"document": good}]
    elif change == "list":
        arguments["references"] = "none"
    else:
        arguments["references"] = [{"document": "*", "signatures": [], "keys": []}]
    with pytest.raises(ConfigurationError) as caught:
        read_change("key-policy-set", arguments)
    assert caught.value.code == "change-invalid"


# -- trying it out


def recorded(harness: Harness) -> Iterator[Evidence]:
    for workload in (Workload(), Workload().with_measurement(OTHER_IMAGE)):
        yield workload.request(harness.releases.challenge(), "model").evidence


def test_both_policies_are_tried_on_recorded_evidence(harness: Harness) -> None:
    harness.add_key("model")
    change = KeyPolicySet(name=MODEL, policy=version(2, measurement=OTHER_IMAGE))
    with harness.services.store.reading() as tx:
        policies = change.policies(tx)
        effects = [one.effect for one in change.difference(tx).changes]
    assert policies[1].digest == load_policy(change.policy).digest
    assert set(map(str, effects)) <= {"label", "changed", "looser", "stricter"}
    pool, anchors = harness.services.endorsements.current(at=AT), harness.services.anchors
    old, new = (
        try_evidence("x", one, policies=policies, endorsements=pool, anchors=anchors, at=AT)
        for one in recorded(harness)
    )
    assert (old.before, old.after, old.changed) == ("affirmed", "policy.snp.measurement", True)
    assert (new.before, new.after, new.changed) == ("policy.snp.measurement", "affirmed", True)
    broken = Evidence(items=next(recorded(harness)).items[1:])
    none = try_evidence("x", broken, policies=policies, endorsements=pool, anchors=anchors, at=AT)
    assert (none.before, none.changed) == ("refused: evidence-unsupported", False)
