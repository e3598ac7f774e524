"""A release from end to end, without the web in between."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256

import pytest

from attest.errors import AttestError, BindingError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.release import KEM_X25519, WorkloadKey
from attest.release.receipts import read_receipt
from attest_simulator import SimulatedChip, SimulatedGuest
from kms.domain.errors import (
    ChallengeError,
    ChallengeExpiredError,
    ChallengeUsedError,
    IntegrityError,
    KeyUnknownError,
    LogBrokenError,
    ReleaseDeniedError,
    UnavailableError,
)
from kms.domain.log_verification import verify_log
from kms.keys.admin import find_key, set_enabled
from tests.kms.stores import write_genuine
from tests.kms.support import (
    ACTOR,
    CHIP,
    GUEST,
    MATERIAL,
    MODEL,
    Harness,
    Workload,
    nonce_digest,
    open_release,
    policy_text,
)

OF_A, OF_B = sha256(b"a").digest(), sha256(b"b").digest()


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """What holds here holds on both databases."""
    return str(request.param)


def refused(harness: Harness, workload: Workload, *key_ids: str) -> AttestError:
    """Ask for keys, be refused, and find the refusal in the log."""
    challenge = harness.releases.challenge()
    before = len(harness.decisions())
    with pytest.raises(AttestError) as caught:
        harness.releases.release(workload.request(challenge, *key_ids))
    decisions = harness.decisions()
    assert len(decisions) == before + 1
    assert decisions[-1]["outcome"] == "deny"
    assert decisions[-1]["nonce_sha256"] == nonce_digest(challenge)
    assert caught.value.code in {reason["code"] for reason in decisions[-1]["reasons"]}  # type: ignore[attr-defined]
    return caught.value


def test_a_conforming_workload_gets_its_key_and_a_receipt(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    release = harness.releases.release(request)
    assert open_release(Workload(), challenge, request, release, harness) == {"model": MATERIAL}
    receipt = read_receipt(harness.services.identity.public.verify(release.receipt))
    assert receipt["simulated"] is True
    assert receipt["nonce"] == challenge.nonce.hex()
    (decision,) = harness.decisions()
    assert decision["outcome"] == "allow"
    assert decision["simulated"] is True
    assert decision["nonce_sha256"] == nonce_digest(challenge)


def test_mc_25_the_receipt_names_the_entry_of_the_log(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    release = harness.releases.release(Workload().request(challenge, "model"))
    receipt = read_receipt(harness.services.identity.public.verify(release.receipt))
    with harness.services.store.reading() as tx:
        (entry,) = tx.log.entries(after=tx.log.size() - 1)
        assert receipt["decision"] == entry.leaf_hash.hex()


def test_several_keys_come_in_the_order_of_the_request(harness: Harness) -> None:
    harness.add_key("b", material=OF_B)
    harness.add_key("a", material=OF_A, policy=policy_text(name="other"))
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "b", "a")
    release = harness.releases.release(request)
    assert [key.key_id for key in release.keys] == ["b", "a"]
    opened = open_release(Workload(), challenge, request, release, harness)
    assert opened == {"b": OF_B, "a": OF_A}


def test_x25519_alone_is_served_too(harness: Harness) -> None:
    harness.add_key("model")
    workload = Workload(key=WorkloadKey.generate(KEM_X25519))
    challenge = harness.releases.challenge()
    request = workload.request(challenge, "model")
    release = harness.releases.release(request)
    assert open_release(workload, challenge, request, release, harness) == {"model": MATERIAL}


def test_mc_18_another_workload_key_cannot_open_the_answer(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    release = harness.releases.release(request)
    with pytest.raises(AttestError):
        open_release(Workload(key=WorkloadKey.generate()), challenge, request, release, harness)


# -- what is refused


def test_a_wrong_measurement_is_refused_with_the_failed_check(harness: Harness) -> None:
    harness.add_key("model")
    error = refused(harness, Workload().with_measurement(b"\x01" * 48), "model")
    assert isinstance(error, ReleaseDeniedError)
    assert error.code == "policy-not-met"
    assert [check.id for check in error.checks] == ["policy.snp.measurement"]
    failed = harness.decisions()[-1]["failed_checks"]
    assert isinstance(failed, list)
    assert [check["got"] for check in failed] == ["01" * 48]


def test_an_old_tcb_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    old = SimulatedChip.of(SnpProduct.GENOA, tcb=SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=79))
    error = refused(harness, Workload(guest=SimulatedGuest(chip=old)), "model")
    assert error.code == "policy-not-met"


def test_mc_1_a_challenge_counts_once(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    harness.releases.release(request)
    with pytest.raises(ChallengeUsedError):
        harness.releases.release(request)
    assert [decision["outcome"] for decision in harness.decisions()] == ["allow"]


def test_mc_1_a_refusal_uses_the_challenge_up(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    with pytest.raises(ReleaseDeniedError):
        harness.releases.release(Workload().with_measurement(b"\x01" * 48).request(challenge, "model"))
    with pytest.raises(ChallengeUsedError):
        harness.releases.release(Workload().request(challenge, "model"))


@pytest.mark.parametrize(
    ("workload", "code"),
    [
        (Workload(context="channel/v1"), "binding-context-mismatch"),
        (Workload(role="service"), "binding-role-mismatch"),
        (Workload(audience="kms.test/other+00000000+AAAA"), "binding-audience-mismatch"),
        (Workload(nonce=b"\x07" * 32), "nonce-mismatch"),
    ],
)
def test_mc_2_evidence_bound_to_something_else_is_refused(harness: Harness, workload: Workload, code: str) -> None:
    harness.add_key("model")
    error = refused(harness, workload, "model")
    assert isinstance(error, BindingError)
    assert error.code == code


def test_mc_2_a_key_that_the_report_does_not_commit_to_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    mine, theirs = Workload(key=WorkloadKey.generate()), Workload()
    cpu = theirs.attest(theirs.binding(challenge)).items[0]
    swapped = mine.attest(mine.binding(challenge))
    evidence = replace(swapped, items=(cpu, swapped.items[1]))
    request = replace(mine.request(challenge, "model"), evidence=evidence)
    with pytest.raises(BindingError) as caught:
        harness.releases.release(request)
    assert caught.value.code == "binding-report-data-mismatch"


@pytest.mark.parametrize("public", [b"\x00", b"\x00\x20" + bytes(31), b"\xff\xff" + bytes(32), b"\x64\x7a" + bytes(9)])
def test_a_recipient_that_is_no_key_is_refused_and_logged(harness: Harness, public: bytes) -> None:
    harness.add_key("model")
    error = refused(harness, Workload(public=public), "model")
    assert isinstance(error, VerificationError)
    assert error.code == "recipient-key-invalid"
    assert [decision["outcome"] for decision in harness.decisions()] == ["deny"]


def test_evidence_without_a_binding_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    bare = replace(request, evidence=replace(request.evidence, items=request.evidence.items[:1]))
    with pytest.raises(BindingError) as caught:
        harness.releases.release(bare)
    assert caught.value.code == "binding-missing"


def test_malformed_evidence_is_refused_and_logged(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    cut = replace(request.evidence.items[0], value=b"short")
    with pytest.raises(EvidenceError):
        harness.releases.release(
            replace(request, evidence=replace(request.evidence, items=(cut, request.evidence.items[1])))
        )
    assert harness.decisions()[-1]["outcome"] == "deny"


def test_an_unknown_key_is_refused_after_the_proof(harness: Harness) -> None:
    error = refused(harness, Workload(), "nothing")
    assert isinstance(error, KeyUnknownError)


def test_mc_21_who_proves_nothing_does_not_learn_whether_a_key_exists(harness: Harness) -> None:
    harness.add_key("model")
    stranger = Workload(nonce=b"\x07" * 32)
    assert refused(harness, stranger, "model").code == refused(harness, stranger, "nothing").code


def test_all_keys_or_none(harness: Harness) -> None:
    harness.add_key("model")
    assert refused(harness, Workload(), "model", "nothing").code == "key-unknown"
    harness.add_key("strict", policy=policy_text(name="strict", measurement=b"\x02" * 48))
    assert refused(harness, Workload(), "model", "strict").code == "policy-not-met"


def test_a_disabled_key_is_refused_until_it_is_enabled(harness: Harness) -> None:
    harness.add_key("model")
    set_enabled(harness.services.store, MODEL, enabled=False, actor=ACTOR, at=harness.clock())
    assert refused(harness, Workload(), "model").code == "key-disabled"
    set_enabled(harness.services.store, MODEL, enabled=True, actor=ACTOR, at=harness.clock())
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))


def test_mc_17_a_service_that_does_not_allow_it_refuses_simulated_evidence(harness: Harness) -> None:
    harness.add_key("model")
    strict = harness.reopened(allow_simulated=False)
    error = refused(strict, Workload(), "model")
    assert isinstance(error, VerificationError)
    strict.close()


def test_a_policy_that_tolerates_nothing_simulated_refuses_it_here_too(harness: Harness) -> None:
    text = policy_text(name="hardware").replace(b'simulated: {unchecked: "a test on the simulator"}', b"")
    harness.add_key("model", policy=text)
    error = refused(harness, Workload(), "model")
    assert [check.id for check in error.checks] == ["policy.not_simulated"]


# -- challenges in time


def test_an_expired_challenge_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    harness.clock.forward(seconds=harness.settings.challenge_seconds)
    with pytest.raises(ChallengeExpiredError):
        harness.releases.release(request)
    assert harness.decisions() == []


def test_a_challenge_of_another_service_is_refused(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Harness.make(tmp_path_factory.mktemp("other"), seed="other")
    with pytest.raises(ChallengeError) as caught:
        harness.releases.release(Workload().request(other.releases.challenge(), "model"))
    assert caught.value.code == "challenge-invalid"
    other.close()


def test_a_used_challenge_is_remembered_until_after_its_end_and_then_forgotten(harness: Harness) -> None:
    harness.add_key("model")
    for _ in range(3):
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    count = "SELECT count(*) FROM used_nonces"
    assert harness.alter(count) == [(3,)]
    harness.clock.forward(seconds=harness.settings.challenge_seconds + 59)
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert harness.alter(count) == [(4,)]
    harness.clock.forward(seconds=2)
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert harness.alter(count) == [(2,)]


def test_mc_35_a_clock_that_goes_back_revives_no_challenge(harness: Harness) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    harness.releases.release(request)
    harness.clock.forward(days=1)
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))  # forgets the first
    harness.clock.forward(days=-1)
    with pytest.raises(UnavailableError) as caught:
        harness.releases.release(request)
    assert caught.value.code == "clock-went-back"


def test_requests_that_overlap_may_be_a_little_older_than_the_log(harness: Harness) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    harness.clock.forward(seconds=60)
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    harness.clock.forward(seconds=-60)
    harness.releases.release(request)
    times = [str(entry["time"]) for entry in harness.entries()]
    assert times == sorted(times)


def test_a_longer_lifetime_does_not_prolong_challenges_that_are_out(harness: Harness) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    longer = harness.reopened(challenge_seconds=3600)
    harness.clock.forward(seconds=300)
    with pytest.raises(ChallengeExpiredError):
        longer.releases.release(request)
    longer.close()


# -- what is not decided


def test_missing_endorsements_decide_nothing_and_use_nothing_up(harness: Harness) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    crl = harness.folder / "endorsements" / "crl.der"
    content = crl.read_bytes()
    crl.unlink()
    harness.services.endorsements.reload(at=harness.clock())
    with pytest.raises(EndorsementError):
        harness.releases.release(request)
    assert harness.decisions() == []
    crl.write_bytes(content)
    harness.services.endorsements.reload(at=harness.clock())
    harness.releases.release(request)


def test_mc_24_without_a_log_entry_no_key_leaves(harness: Harness) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    if harness.on_postgres:
        harness.alter("ALTER TABLE log_entries ADD CONSTRAINT filled CHECK (seq < 0) NOT VALID")
    else:
        harness.alter("CREATE TRIGGER filled BEFORE INSERT ON log_entries BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(UnavailableError) as caught:
        harness.releases.release(request)
    assert caught.value.code == "store-failed"
    harness.alter("ALTER TABLE log_entries DROP CONSTRAINT filled" if harness.on_postgres else "DROP TRIGGER filled")
    harness.releases.release(request)


def test_mc_19_the_state_of_the_moment_counts_not_that_of_the_beginning(harness: Harness) -> None:
    harness.add_key("model")
    attempts = []

    class Desk:
        """Endorsements during whose lookup the owner disables the key."""

        def __init__(self, real: object) -> None:
            self._real = real

        def current(self, *, at: object) -> object:
            attempts.append(at)
            if len(attempts) == 1:
                set_enabled(harness.services.store, MODEL, enabled=False, actor=ACTOR, at=harness.clock())
            return self._real.current(at=at)  # type: ignore[attr-defined]

    services = replace(harness.services, endorsements=Desk(harness.services.endorsements))  # type: ignore[arg-type]
    slow = Harness(
        folder=harness.folder, settings=harness.settings, services=services, clock=harness.clock, random=harness.random
    )
    with pytest.raises(ReleaseDeniedError) as caught:
        slow.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert caught.value.code == "key-disabled"
    assert len(attempts) == 2
    assert [decision["outcome"] for decision in harness.decisions()] == ["deny"]


def test_keys_that_change_all_the_time_are_not_released(harness: Harness) -> None:
    harness.add_key("model")

    class Desk:
        """Endorsements during whose lookup the owner changes the state of the key, each time."""

        def current(self, *, at: object) -> object:
            enabled = not find_key(harness.services.store, MODEL)[0].enabled
            set_enabled(harness.services.store, MODEL, enabled=enabled, actor=ACTOR, at=harness.clock())
            return harness.services.endorsements.current(at=harness.clock())

    services = replace(harness.services, endorsements=Desk())  # type: ignore[arg-type]
    slow = Harness(
        folder=harness.folder, settings=harness.settings, services=services, clock=harness.clock, random=harness.random
    )
    request = Workload().request(harness.releases.challenge(), "model")
    with pytest.raises(UnavailableError) as caught:
        slow.releases.release(request)
    assert caught.value.code == "keys-changing"
    assert harness.decisions() == []
    set_enabled(harness.services.store, MODEL, enabled=True, actor=ACTOR, at=harness.clock())
    harness.releases.release(request)


@pytest.mark.parametrize("value", ["text", b"{}", b"\xff"])
def test_mc_24_a_log_that_cannot_be_continued_blocks_the_release(harness: Harness, value: str | bytes) -> None:
    if harness.on_postgres and isinstance(value, str):
        pytest.skip("PostgreSQL keeps text out of a column of bytes")
    harness.add_key("model")
    harness.unprotect("log_entries")
    harness.alter("UPDATE log_entries SET entry = ?", value)
    with pytest.raises((LogBrokenError, IntegrityError)) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert caught.value.code in {"log-entry-invalid", "state-forged"}


def test_mc_24_a_tree_that_cannot_be_continued_blocks_the_release(harness: Harness) -> None:
    for name in ("a", "b"):  # with them there are three entries, and the fourth completes two subtrees
        harness.add_key(name)
    harness.unprotect("log_nodes")
    if harness.on_postgres:  # which keeps text out of a column of bytes
        harness.alter("DELETE FROM log_nodes")
    else:
        harness.alter("UPDATE log_nodes SET hash = 'a'")
    with pytest.raises(LogBrokenError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "a"))
    assert caught.value.code == "log-tree-broken"
    assert harness.decisions() == []


# -- what was altered in the database


def test_mc_28_swapped_wrapped_keys_are_refused(harness: Harness) -> None:
    harness.add_key("a", material=OF_A)
    harness.add_key("b", material=OF_B)
    ((wrapped,),) = harness.alter("SELECT wrapped FROM key_versions WHERE key_id = 'b'")
    write_genuine(harness, "key_versions", {"key_id": "a"}, wrapped=wrapped)
    with pytest.raises(IntegrityError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "a"))
    assert caught.value.code == "wrapped-key-invalid"
    assert harness.decisions() == []


def test_mc_28_a_key_moved_to_a_laxer_policy_is_refused(harness: Harness) -> None:
    harness.add_key("secret", policy=policy_text(name="strict", measurement=b"\x02" * 48))
    harness.add_key("open")
    ((lax,),) = harness.alter("SELECT policy_digest FROM key_versions WHERE key_id = 'open'")
    write_genuine(harness, "key_versions", {"key_id": "secret"}, policy_digest=lax)
    with pytest.raises(IntegrityError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "secret"))
    assert caught.value.code == "wrapped-key-invalid"


@pytest.mark.parametrize("document", [b"schema: nothing", policy_text(name="lax")])
def test_a_policy_that_was_altered_is_refused(harness: Harness, document: bytes) -> None:
    harness.add_key("model")
    harness.unprotect("policies")
    harness.alter("UPDATE policies SET document = ?", document)
    with pytest.raises(IntegrityError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert caught.value.code == "policy-altered"


@pytest.mark.parametrize(
    ("column", "value"), [("purpose", "coffee"), ("created_at", "yesterday"), ("wrapped", "text"), ("enabled", "maybe")]
)
def test_a_key_record_that_was_altered_into_nonsense_is_refused(harness: Harness, column: str, value: str) -> None:
    if harness.on_postgres and column in {"wrapped", "enabled"}:
        pytest.skip("PostgreSQL keeps text out of a column of another type")
    harness.add_key("model")
    table = "keys" if column in {"purpose", "enabled"} else "key_versions"
    harness.alter(f"UPDATE {table} SET {column} = ?", value)  # noqa: S608  names of this test
    with pytest.raises(IntegrityError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert caught.value.code == "state-forged"
    with pytest.raises(IntegrityError) as caught, harness.services.store.examining() as tx:
        tx.keys.find(MODEL)
    assert caught.value.code == "key-record-invalid"


def test_mc_28_a_model_key_is_not_released_as_a_prompt_key(harness: Harness) -> None:
    harness.add_key("model")
    write_genuine(harness, "keys", purpose="prompt-key")
    with pytest.raises(IntegrityError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert caught.value.code == "wrapped-key-invalid"
    assert harness.decisions() == []


# -- together


def test_mc_37_many_at_once_with_one_challenge_get_one_release(harness: Harness) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    start = threading.Barrier(16)

    def attempt(_: int) -> str:
        start.wait()
        try:
            harness.releases.release(request)
        except ChallengeUsedError as exc:
            return exc.code
        return "released"

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(attempt, range(16)))
    assert sorted(outcomes) == ["challenge-used"] * 15 + ["released"]
    assert [decision["outcome"] for decision in harness.decisions()] == ["allow"]


def test_mc_37_two_services_on_one_database_share_used_challenges(harness: Harness) -> None:
    harness.add_key("model")
    replica = harness.reopened()
    request = Workload().request(replica.releases.challenge(), "model")
    harness.releases.release(request)
    with pytest.raises(ChallengeUsedError):
        replica.releases.release(request)
    replica.close()


def test_mc_33_no_secret_and_no_token_reaches_the_database_or_its_log(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    harness.releases.release(Workload().request(challenge, "model"))
    harness.close()
    content = b"".join(path.read_bytes() for path in harness.folder.glob("kms.db*"))
    if harness.on_postgres:
        tables = [str(name) for (name,) in harness.alter("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        rows = [repr(harness.alter(f"SELECT * FROM {table}")) for table in tables]  # noqa: S608  as above
        content = "".join(rows).encode()
        assert repr(MATERIAL)[2:-1].encode() not in content
    for secret in (MATERIAL, challenge.nonce, challenge.token.encode(), challenge.nonce.hex().encode()):
        assert secret not in content
    assert sha256(challenge.nonce).hexdigest().encode() in content


def test_the_log_of_all_this_is_unbroken(harness: Harness) -> None:
    harness.add_key("model")
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    refused(harness, Workload().with_measurement(b"\x01" * 48), "model")
    with harness.services.store.reading() as tx:
        assert verify_log(tx.log).size == tx.log.head().seq
    assert [entry["kind"] for entry in harness.entries()] == ["initialised", "key-imported", "decision", "decision"]


def test_a_relaxation_counts_only_where_every_key_has_it(harness: Harness) -> None:
    relaxed = 'unchecked: {revocation: "no list in this test"}'
    harness.add_key("lax", policy=policy_text(name="lax", more=relaxed))
    harness.add_key("strict")
    (harness.folder / "endorsements" / "crl.der").unlink()
    harness.services.endorsements.reload(at=harness.clock())
    harness.releases.release(Workload().request(harness.releases.challenge(), "lax"))
    assert harness.decisions()[-1]["keys"][0]["appraisal"]["unchecked"] != []  # type: ignore[index]
    with pytest.raises(EndorsementError):
        harness.releases.release(Workload().request(harness.releases.challenge(), "lax", "strict"))


def test_the_guest_of_these_tests_is_the_one_that_the_policy_names() -> None:
    assert GUEST.chip is CHIP
