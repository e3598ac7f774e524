"""Leases: what a release promises until when, who may renew it, and what stops that."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from attest.errors import AttestError
from attest.evidence.snp.tcb import SnpProduct
from attest.release import Challenge, KeyName, Release, ReleaseRequest, WorkloadKey
from attest.release.receipts import key_members, read_receipt
from attest_simulator import SimulatedChip
from kms.domain.attesters import holder_of, instance_of
from kms.domain.errors import IntegrityError, ReleaseDeniedError
from kms.domain.lease_claims import read_claims
from kms.domain.leases import Lease, LeaseFilter, LeaseState, LeaseStop
from kms.keys.admin import set_enabled
from kms.keys.tenants import create_tenant
from kms.store import ReadTransaction
from tests.kms.support import (
    ACTOR,
    AT,
    CHIP,
    GUEST,
    MATERIAL,
    MODEL,
    TD,
    Harness,
    TdWorkload,
    Workload,
    live_leases,
    open_release,
    policy_text,
    tdx_policy_text,
    write_intel_collateral,
)

DAY = 86_400
CHALLENGE = Challenge(token="t", nonce=bytes(32), audience="kms", expires_at=AT)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """What holds here holds on both databases."""
    return str(request.param)


def released(
    harness: Harness, *key_ids: str, workload: Workload | None = None, renews: tuple[str, ...] = ()
) -> Release:
    asked = (workload or Workload()).request(harness.releases.challenge(), *(key_ids or ("model",)))
    return harness.releases.release(replace(asked, renews=renews))


def refused(
    harness: Harness, *key_ids: str, workload: Workload | None = None, renews: tuple[str, ...] = ()
) -> AttestError:
    """Ask, be refused by a decision that is in the log, and gain no lease."""
    with harness.services.store.reading() as tx:
        before = list(everything(tx))
    with pytest.raises(ReleaseDeniedError) as caught:
        released(harness, *key_ids, workload=workload, renews=renews)
    with harness.services.store.reading() as tx:
        assert list(everything(tx)) == before
    decision = harness.decisions()[-1]
    assert decision["outcome"] == "deny"
    assert caught.value.code in {reason["code"] for reason in decision["reasons"]}  # type: ignore[attr-defined]
    return caught.value


def everything(tx: ReadTransaction) -> list[LeaseState]:
    return list(tx.leases.pages(LeaseFilter(live=None), at=AT))


def states(harness: Harness) -> list[LeaseState]:
    with harness.services.store.reading() as tx:
        return everything(tx)


def live(harness: Harness, key_id: str = "model") -> list[Lease]:
    with harness.services.store.reading() as tx:
        return list(live_leases(tx, KeyName.parse(key_id), at=harness.clock()))


def holders(harness: Harness, *, beside: bytes | None = None) -> int:
    with harness.services.store.reading() as tx:
        return tx.leases.counts.holders(KeyName(key_id="model"), at=harness.clock(), beside=beside)


# -- granting


def test_mc_25_a_release_says_until_when_in_the_answer_the_receipt_and_the_log(harness: Harness) -> None:
    harness.add_key("model")
    release = released(harness)
    (key,) = release.keys
    assert key.expires_at == harness.clock() + timedelta(seconds=DAY)
    receipt = read_receipt(harness.services.identity.public.verify(release.receipt))
    assert receipt["keys"] == [key_members(key)]
    assert key_members(key)["expires_at"] == "2026-06-02T12:00:00Z"
    logged = harness.decisions()[-1]["keys"][0]["lease"]  # type: ignore[index]
    with harness.services.store.reading() as tx:
        lease = tx.leases.states([key.lease_id or ""])[key.lease_id or ""].lease
    assert logged == {
        "id": key.lease_id,
        "expires_at": "2026-06-02T12:00:00Z",
        "renewed_from": None,
        "ended": [],
        "sha256": lease.digest.hex(),
    }


def test_a_lease_says_who_holds_what_on_which_proof(harness: Harness) -> None:
    harness.add_key("model")
    released(harness)
    (lease,) = live(harness)
    decision = harness.decisions()[-1]
    assert (str(lease.name), lease.version) == ("model", 1)
    assert (lease.tee, lease.product, lease.chip) == ("sev-snp", "Genoa", f"amd:{CHIP.hwid.hex()}")
    assert lease.measurement == GUEST.measurement
    assert lease.evidence_digest.hex() == decision["evidence_sha384"]
    assert lease.recipient.hex() == decision["recipient_sha256"]
    assert lease.log_seq == decision["seq"]
    assert (lease.gpus, lease.simulated, lease.renewed_from) == (0, True, None)
    assert lease.policy_digest.hex() == decision["keys"][0]["policy_sha256"]  # type: ignore[index]


def test_the_kept_claims_are_those_a_policy_judges_and_none_of_one_exchange(harness: Harness) -> None:
    harness.add_key("model")
    released(harness)
    released(harness, workload=Workload(key=WorkloadKey.generate()))
    one, two = live(harness)
    assert one.claims_digest == two.claims_digest  # another exchange and another key: the same claims
    with harness.services.store.reading() as tx:
        kept = read_claims(tx.leases.claims(one.claims_digest) or b"")
    (cpu,) = kept.items
    assert (cpu.name, cpu.kind, kept.bound) == ("cpu", "sev-snp", True)
    assert cpu.verified.values["measurement"] == GUEST.measurement
    assert cpu.verified.values["reported_tcb"]["snp"] == CHIP.reported_tcb.snp  # type: ignore[index,call-overload]
    assert "report_data" not in cpu.verified.values


def test_a_trust_domain_is_told_by_its_platform(harness: Harness) -> None:
    write_intel_collateral(harness.folder)
    harness.services.endorsements.reload(at=harness.clock())
    harness.add_key("model", policy=tdx_policy_text())
    released(harness, workload=TdWorkload())
    (lease,) = live(harness)
    assert lease.tee == "tdx"
    assert lease.chip is not None
    assert lease.chip.startswith("intel:")
    assert lease.measurement == TD.mr_td
    assert lease.product == TD.platform.sgx.fmspc.hex()


def test_each_key_of_a_release_has_its_lease(harness: Harness) -> None:
    harness.add_key("a")
    harness.add_key("b", policy=policy_text(name="other"))
    release = released(harness, "b", "a")
    assert [key.lease_id for key in release.keys] == [live(harness, name)[0].lease_id for name in ("b", "a")]
    assert len({key.lease_id for key in release.keys}) == 2


def test_a_refused_workload_gets_no_lease(harness: Harness) -> None:
    harness.add_key("model")
    refused(harness, workload=Workload().with_measurement(b"\x01" * 48))
    assert states(harness) == []


def test_what_cannot_be_sealed_to_gets_no_lease(harness: Harness) -> None:
    harness.add_key("model")
    with pytest.raises(AttestError) as caught:
        released(harness, workload=Workload(public=b"\x00\x20" + bytes(5)))
    assert caught.value.code == "recipient-key-invalid"
    assert states(harness) == []


@pytest.mark.parametrize(("seconds", "count"), [(DAY - 0.001, 1), (DAY, 0), (DAY + 1, 0)])
def test_a_lease_counts_until_its_end_which_is_excluded(harness: Harness, seconds: float, count: int) -> None:
    harness.add_key("model")
    released(harness)
    harness.clock.forward(seconds=seconds)
    assert (len(live(harness)), holders(harness)) == (count, count)


def test_the_lifetime_is_a_setting(harness: Harness) -> None:
    harness.add_key("model")
    again = harness.reopened(lease_seconds=60)
    (key,) = released(again).keys
    assert key.expires_at == again.clock() + timedelta(seconds=60)
    again.close()


# -- counting


def test_holders_are_told_apart_by_machine_image_and_key(harness: Harness) -> None:
    harness.add_key("model")
    released(harness)
    released(harness)
    assert holders(harness) == 1
    released(harness, workload=Workload(key=WorkloadKey.generate()))
    assert holders(harness) == 2
    first = live(harness)[0]
    assert holders(harness, beside=first.holder) == 1


def test_instance_and_holder_change_with_every_part_of_them() -> None:
    parts = {"tee": "sev-snp", "chip": "amd:01", "measurement": b"m" * 48}
    changed: list[dict[str, object]] = [{"tee": "tdx"}, {"chip": "amd:02"}, {"chip": None}, {"measurement": None}]
    found = {instance_of(**(parts | change)) for change in [{}, *changed]}  # type: ignore[arg-type]
    assert len(found) == 5
    assert holder_of(bytes(32), b"a") != holder_of(bytes(32), b"b") != holder_of(b"x" * 32, b"b")


# -- renewing


def test_mc_26_a_renewal_is_a_new_release_and_takes_the_place_of_the_lease(harness: Harness) -> None:
    harness.add_key("model")
    (old,) = released(harness).keys
    harness.clock.forward(hours=16)
    request = replace(Workload().request(challenge := harness.releases.challenge(), "model"), renews=(old.lease_id,))
    release = harness.releases.release(request)
    assert open_release(Workload(), challenge, request, release, harness) == {"model": MATERIAL}
    (new,) = release.keys
    assert new.expires_at == harness.clock() + timedelta(seconds=DAY)
    before, after = states(harness)
    assert before.end is not None
    assert (before.end.reason, before.end.at, before.end.log_seq) == (
        "superseded",
        harness.clock(),
        after.lease.log_seq,
    )
    assert after.lease.renewed_from == old.lease_id
    assert [lease.lease_id for lease in live(harness)] == [new.lease_id]
    assert harness.decisions()[-1]["keys"][0]["lease"]["renewed_from"] == old.lease_id  # type: ignore[index]


def test_asking_anew_with_the_same_key_takes_the_place_of_the_lease_too(harness: Harness) -> None:
    harness.add_key("model")
    (old,) = released(harness).keys
    released(harness)
    assert [one.word(harness.clock()) for one in states(harness)] == ["superseded", "live"]
    assert live(harness)[0].renewed_from == old.lease_id


def test_a_lease_of_another_key_stays_when_one_is_renewed(harness: Harness) -> None:
    harness.add_key("a")
    harness.add_key("b")
    released(harness, "a", "b")
    released(harness, "a")
    assert len(live(harness, "b")) == len(live(harness, "a")) == 1
    assert len(states(harness)) == 3


@pytest.mark.parametrize(("seconds", "renewed"), [(DAY - 0.001, True), (DAY, False)])
def test_mc_26_an_expired_lease_is_not_renewed(harness: Harness, *, seconds: float, renewed: bool) -> None:
    harness.add_key("model")
    (old,) = released(harness).keys
    harness.clock.forward(seconds=seconds)
    if renewed:
        released(harness, renews=(old.lease_id,))
        return
    assert refused(harness, renews=(old.lease_id,)).code == "lease-expired"
    released(harness)  # who still conforms asks anew


def test_a_lease_that_was_superseded_is_not_renewed_again(harness: Harness) -> None:
    harness.add_key("model")
    (old,) = released(harness).keys
    released(harness, renews=(old.lease_id,))
    assert refused(harness, renews=(old.lease_id,)).code == "lease-ended"


OTHER_CHIP = Workload(guest=replace(GUEST, chip=SimulatedChip.of(SnpProduct.GENOA, name="another")))


@pytest.mark.parametrize(
    "workload",
    [OTHER_CHIP, Workload(key=WorkloadKey.generate()), Workload().with_measurement(b"\x07" * 48)],
    ids=["another chip", "another recipient key", "another image"],
)
def test_mc_26_a_lease_is_renewed_by_its_holder_alone(harness: Harness, workload: Workload) -> None:
    both = policy_text().replace(b'values: ["', b'values: ["' + b"07" * 48 + b'", "')
    harness.add_key("model", policy=both)
    (old,) = released(harness).keys
    assert refused(harness, workload=workload, renews=(old.lease_id,)).code == "lease-of-another-holder"
    assert [lease.lease_id for lease in live(harness)] == [old.lease_id]
    released(harness, workload=workload)  # as a lease of its own it is given


def test_a_lease_id_that_nobody_has_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    assert refused(harness, renews=("0" * 32,)).code == "lease-unknown"


def test_a_lease_of_a_key_that_is_not_asked_for_is_refused(harness: Harness) -> None:
    harness.add_key("a")
    harness.add_key("b")
    (old,) = released(harness, "a").keys
    assert refused(harness, "b", renews=(old.lease_id,)).code == "lease-of-another-key"


def test_a_lease_of_another_tenant_is_as_unknown_as_none(harness: Harness) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=harness.clock())
    harness.add_key("model")
    harness.add_key("acme/model")
    (theirs,) = released(harness, "acme/model").keys
    found = refused(harness, renews=(theirs.lease_id,))
    assert found.code == "lease-unknown"
    assert found.message.replace(theirs.lease_id, "0" * 32) == refused(harness, renews=("0" * 32,)).message
    assert len(live(harness, "acme/model")) == 1
    released(harness)  # what is ours takes the place of nothing of theirs
    assert len(live(harness, "acme/model")) == len(live(harness)) == 1


def test_mc_19_a_renewal_is_judged_on_the_state_of_the_key_now(harness: Harness) -> None:
    harness.add_key("model")
    (old,) = released(harness).keys
    set_enabled(harness.services.store, KeyName(key_id="model"), enabled=False, at=harness.clock(), actor=ACTOR)
    assert refused(harness, renews=(old.lease_id,)).code == "key-disabled"
    assert [lease.lease_id for lease in live(harness)] == [old.lease_id]


# -- stopping


def stop(harness: Harness, lease: Lease, *, reason: str = "a test") -> None:
    one = LeaseStop(
        lease_id=lease.lease_id,
        name=lease.name,
        instance=lease.instance,
        reason=reason,
        at=harness.clock(),
        log_seq=1,
    )
    with harness.services.store.writing() as tx:
        tx.leases.add_stops([one])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_mc_26_a_stopped_lease_is_not_renewed_however_it_is_asked_for(
    harness: Harness, *, named: bool, same: bool
) -> None:
    harness.add_key("model")
    (old,) = released(harness).keys
    stop(harness, live(harness)[0])
    workload = Workload() if same else Workload(key=WorkloadKey.generate())
    if same or not named:
        renews = (old.lease_id,) if named else ()
        error = refused(harness, workload=workload, renews=renews)
        assert error.code == "lease-stopped"
        assert "a test" in str(harness.decisions()[-1]["reasons"])
    harness.clock.forward(seconds=DAY)
    assert refused(harness, workload=workload).code == "lease-stopped"  # nor when the lease has long ended


def test_a_stop_is_of_one_key_one_machine_and_one_image(harness: Harness) -> None:
    both = policy_text().replace(b'values: ["', b'values: ["' + b"07" * 48 + b'", "')
    harness.add_key("model", policy=both)
    harness.add_key("other")
    released(harness)
    stop(harness, live(harness)[0])
    released(harness, "other")
    released(harness, workload=OTHER_CHIP)
    released(harness, workload=Workload().with_measurement(b"\x07" * 48))


@pytest.mark.parametrize("stopped", ["masked", "told"])
def test_mc_26_a_stop_is_not_evaded_by_masking_the_chip_nor_by_telling_it(harness: Harness, stopped: str) -> None:
    told = Workload()
    masked = replace(
        told, guest=replace(told.guest, chip=replace(told.guest.chip, mask_chip_id=True)), key=WorkloadKey.generate()
    )
    both = policy_text(more='  masked_chip_id: {unchecked: "a test"}').replace(
        b'values: ["', b'values: ["' + b"07" * 48 + b'", "'
    )
    harness.add_key("model", policy=both)
    released(harness, workload=masked if stopped == "masked" else told)
    stop(harness, live(harness)[0])
    assert refused(harness, workload=told).code == "lease-stopped"
    assert refused(harness, workload=masked).code == "lease-stopped"
    # Another image is not concerned; another machine only where nobody said which it was.
    released(harness, workload=masked.with_measurement(b"\x07" * 48))
    if stopped == "told":
        released(harness, workload=OTHER_CHIP)
    else:
        assert refused(harness, workload=OTHER_CHIP).code == "lease-stopped"


def test_a_stop_that_is_taken_back_stands_no_more(harness: Harness) -> None:
    harness.add_key("model")
    (old,) = released(harness).keys
    stop(harness, live(harness)[0])
    with harness.services.store.writing() as tx:
        tx.leases.remove_stops([old.lease_id])
    released(harness, renews=(old.lease_id,))


# -- the wire, and damage


def test_a_request_names_its_leases_only_when_it_has_some() -> None:
    request = Workload().request(CHALLENGE, "model")
    assert "renews" not in request.to_json()
    named = replace(request, renews=("0a" * 16,))
    assert ReleaseRequest.from_json(json.loads(json.dumps(named.to_json()))).renews == ("0a" * 16,)


@pytest.mark.parametrize("renews", [[], None, ["x"], ["0A" * 16], ["0a" * 16] * 2, [7], ["0a" * 15], "0a" * 16])
def test_a_request_with_something_else_for_leases_is_refused(renews: object) -> None:
    document = Workload().request(CHALLENGE, "model").to_json()
    with pytest.raises(AttestError) as caught:
        ReleaseRequest.from_json({**document, "renews": renews})  # type: ignore[dict-item]
    assert caught.value.code == "wire-invalid"


@pytest.mark.parametrize(
    ("column", "value"),
    [("released_at", "then"), ("holder", "text"), ("measurement", "text"), ("expires_at", "never")],
)
def test_a_lease_that_was_altered_into_nonsense_is_found(harness: Harness, column: str, value: object) -> None:
    if harness.on_postgres:
        pytest.skip("PostgreSQL keeps text out of a column of another type")
    harness.add_key("model")
    released(harness)
    harness.unprotect("leases")
    harness.alter(f"UPDATE leases SET {column} = ?", value)  # noqa: S608  names of this test
    store = harness.services.store
    for reading, code in ((store.examining, "lease-record-invalid"), (store.reading, "state-forged")):
        with pytest.raises(IntegrityError) as caught, reading() as tx:
            list(tx.leases.pages(LeaseFilter(), at=harness.clock()))
        assert caught.value.code == code


@pytest.mark.parametrize("table", ["leases", "lease_claims", "lease_ends"])
def test_what_was_released_to_whom_is_never_rewritten(harness: Harness, table: str) -> None:
    harness.add_key("model")
    released(harness)
    released(harness)
    column = "claims" if table == "lease_claims" else "log_seq"
    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET {column} = {column}"):  # noqa: S608  as above
        with pytest.raises(Exception, match="append-only"):
            harness.alter(statement)


def test_expired_leases_leave_the_sum_however_many_are_granted_at_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kms.store.lease_counts._FORGET_EVERY", 4)
    harness.add_key("model")
    since = []
    for asked in (("model",), ("model", "model@1"), ("model", "model@1")):
        released(harness, *asked)
        since.append(harness.alter("SELECT live_since FROM lease_counts WHERE chip = ''")[0][0])
    assert (since[:2], holders(harness)) == ([0, 0], 1)
    assert since[2]  # the fifth lease, after the third


def test_leases_that_ended_cost_a_release_nothing(harness: Harness) -> None:
    if harness.on_postgres:
        pytest.skip("only SQLite counts the steps of a statement")
    harness.add_key("model")

    def steps() -> int:
        """Return how much SQLite does to find what the holder holds, and who holds the key."""
        counted = 0
        with harness.services.store.reading() as tx:
            holder = live(harness)[0].holder

            def count() -> None:
                nonlocal counted
                counted += 1

            driver: Any = tx.connection.connection.driver_connection  # Any: of the driver, which has no types
            driver.set_progress_handler(count, 1)
            assert len(tx.leases.held([MODEL], holder=holder, at=harness.clock())) == 1
            assert tx.leases.counts.holders(MODEL, at=harness.clock()) == 1
            driver.set_progress_handler(None, 1)
        return counted

    released(harness)
    released(harness)
    few = steps()
    for _ in range(30):
        released(harness)
    assert steps() <= few * 1.2


def test_an_expired_lease_leaves_the_live_ones_in_time(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kms.store.lease_counts._FORGET_EVERY", 1)
    harness.add_key("model")
    harness.add_key("other")
    for key_id in ("model", "other"):
        released(harness, key_id)
    assert count_of_live(harness) == 2
    harness.clock.forward(seconds=DAY + 1)
    assert count_of_live(harness) == 0
    released(harness)
    assert harness.alter("SELECT key_id FROM live_leases ORDER BY key_id") == [("model",), ("other",)]
    assert harness.alter("SELECT count(*) FROM live_leases WHERE key_id = 'model'") == [(1,)]
    assert count_of_live(harness) == 1


def count_of_live(harness: Harness) -> int:
    with harness.services.store.reading() as tx:
        return tx.leases.live_count(at=harness.clock())
