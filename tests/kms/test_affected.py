"""Who holds what, whom a piece of news concerns, and whose renewals stop."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from attest import load_policy
from attest.clock import system_clock
from attest.encoding import cbor_bytes
from attest.errors import ConfigurationError
from attest.evidence import StatedClaims, StatedItem
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.release import KeyName, WorkloadKey
from attest_simulator import SimulatedChip
from attest_simulator.nvidia import SimulatedBoard
from kms.domain.errors import IntegrityError, KeyConflictError, ReleaseDeniedError
from kms.domain.lease_claims import KeptClaims, read_claims
from kms.domain.leases import LeaseFilter
from kms.keys.tenants import create_tenant
from kms.leases.admin import resume_renewals, stop_renewals
from kms.leases.affected import Concern, below, conforming_to, lists_advisory, parse_minimum
from kms.leases.search import Affected, find_leases
from tests.kms.support import (
    ACTOR,
    AT,
    CHIP,
    GUEST,
    Harness,
    TdWorkload,
    Workload,
    policy_text,
    tdx_policy_text,
    write_endorsements,
    write_intel_collateral,
)
from tests.kms.test_cli import Shell, shell
from tests.kms.test_gpu_release import GpuWorkload, gpu_policy, prepared

__all__ = ["shell"]

EVERYTHING = LeaseFilter(live=None)
NEW_TCB = SnpTcbVersion(bootloader=11, tee=0, snp=29, microcode=90)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def release(harness: Harness, *key_ids: str, workload: Workload | None = None) -> str:
    """Release, and return the id of the first lease."""
    asked = (workload or Workload()).request(harness.releases.challenge(), *(key_ids or ("model",)))
    return harness.releases.release(asked).keys[0].lease_id


def found(harness: Harness, wanted: LeaseFilter = EVERYTHING, concerns: Sequence[Concern] = ()) -> list[Affected]:
    with harness.services.store.reading() as tx:
        return list(find_leases(tx, wanted, concerns=concerns, at=harness.clock()))


def ids(harness: Harness, wanted: LeaseFilter = EVERYTHING, *concerns: Concern) -> list[str]:
    return [one.state.lease.lease_id for one in found(harness, wanted, concerns)]


def another(name: str = "another", **changes: object) -> Workload:
    chip = replace(SimulatedChip.of(SnpProduct.GENOA, name=name), **changes)  # type: ignore[arg-type]
    return Workload(guest=replace(GUEST, chip=chip), key=WorkloadKey.generate())


# -- by what was released, to whom, when


def test_leases_are_found_by_every_fact_of_them(harness: Harness) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=harness.clock())
    for name in ("model", "other", "acme/model"):
        harness.add_key(name, policy=policy_text(name=name.replace("/", "-")))
    ours = release(harness)
    harness.clock.forward(minutes=1)
    other = release(harness, "other", workload=another())
    theirs = release(harness, "acme/model")
    (lease,) = [one.state.lease for one in found(harness) if one.state.lease.lease_id == other]
    assert ids(harness) == [ours, other, theirs]
    assert ids(harness, LeaseFilter(tenant="acme")) == [theirs]
    assert ids(harness, LeaseFilter(name=KeyName(key_id="model"))) == [ours]
    assert ids(harness, LeaseFilter(policy_digest=lease.policy_digest)) == [other]
    assert ids(harness, LeaseFilter(chip=f"amd:{CHIP.hwid.hex()}")) == [ours, theirs]
    assert ids(harness, LeaseFilter(chip=lease.chip, tenant="acme")) == []
    assert ids(harness, LeaseFilter(measurement=GUEST.measurement)) == [ours, other, theirs]
    assert ids(harness, LeaseFilter(measurement=bytes(48))) == []
    assert ids(harness, LeaseFilter(product="genoa")) == ids(harness, LeaseFilter(product="sev-snp")) == ids(harness)
    assert ids(harness, LeaseFilter(product="Milan")) == []
    assert ids(harness, LeaseFilter(released_from=harness.clock())) == [other, theirs]
    assert ids(harness, LeaseFilter(released_until=AT)) == [ours]
    assert ids(harness, LeaseFilter(lease_ids=(theirs,))) == [theirs]


def test_leases_that_count_and_leases_that_do_not_are_told_apart(harness: Harness) -> None:
    harness.add_key("model")
    old = release(harness)
    new = release(harness)
    assert (ids(harness, LeaseFilter()), ids(harness, LeaseFilter(live=False))) == ([new], [old])
    harness.clock.forward(days=1)
    assert (ids(harness, LeaseFilter()), ids(harness, LeaseFilter(live=False))) == ([], [old, new])


def test_pages_follow_each_other_without_a_gap(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        harness.add_key(name)
    release(harness, "a", "b", "c")
    release(harness, "b")
    whole = ids(harness)
    assert len(whole) == 4
    monkeypatch.setattr("kms.store.leases._PAGE_ROWS", 2)
    assert ids(harness) == whole
    with harness.services.store.reading() as tx:
        for number, one in enumerate(found(harness)):
            after = one.state.lease.log_seq, one.state.lease.lease_id
            rest = find_leases(tx, EVERYTHING, concerns=(), at=harness.clock(), after=after)
            assert [each.state.lease.lease_id for each in rest] == whole[number + 1 :]


# -- by what concerns them


def test_mc_26_a_tcb_below_a_level_is_found(harness: Harness) -> None:
    harness.add_key("model")
    old = release(harness)
    new = release(harness, workload=another(current_tcb=NEW_TCB, reported_tcb=NEW_TCB, committed_tcb=NEW_TCB))
    level = CHIP.reported_tcb.snp
    assert level < NEW_TCB.snp
    assert ids(harness, EVERYTHING, below("Genoa", "snp", level)) == []
    assert ids(harness, EVERYTHING, below("Genoa", "snp", level + 1)) == [old]
    assert ids(harness, EVERYTHING, parse_minimum(f"genoa:snp={NEW_TCB.snp + 1}")) == [old, new]
    assert ids(harness, EVERYTHING, below("sev-snp", "snp", level + 1)) == [old]
    assert ids(harness, EVERYTHING, below("Milan", "snp", 255)) == []
    (one,) = found(harness, EVERYTHING, [below("Genoa", "snp", level + 1)])
    assert one.why == (f"snp {level} is below {level + 1}",)


def test_a_level_that_nothing_states_concerns(harness: Harness) -> None:
    harness.add_key("model")
    release(harness)
    (one,) = found(harness, EVERYTHING, [below("Genoa", "fmc", 1)])
    assert one.why == ("fmc: not stated",)


@pytest.mark.parametrize("text", ["", "Genoa", "Genoa:snp", "Genoa:snp=", "Genoa:snp=-1", "Genoa:snp=07", ":snp=1"])
def test_something_else_than_a_level_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_minimum(text)
    assert caught.value.code == "tcb-minimum-invalid"


def test_mc_26_an_advisory_is_found_where_intel_lists_it(harness: Harness) -> None:
    write_intel_collateral(harness.folder)
    harness.services.endorsements.reload(at=harness.clock())
    harness.add_key("model", policy=tdx_policy_text())
    harness.add_key("other")
    release(harness, workload=TdWorkload())
    release(harness, "other")  # AMD's reports name no advisories
    concern = lists_advisory("INTEL-SA-00002")
    assert ids(harness, EVERYTHING, concern) == []
    lease = found(harness)[0].state.lease
    with harness.services.store.reading() as tx:
        kept = read_claims(tx.leases.claims(lease.claims_digest) or b"")
    stated = kept.items[0].verified.values
    assert stated["advisory_ids"] == ()
    listed = {**stated, "advisory_ids": ("INTEL-SA-00001", "INTEL-SA-00002")}
    concerned = replace(kept, items=(replace(kept.items[0], verified=StatedClaims(values=listed)),))
    assert list(concern(lease, concerned)) == ["INTEL-SA-00002: listed for this platform's TCB"]
    assert list(lists_advisory("INTEL-SA-00003")(lease, concerned)) == []
    values = StatedClaims(values={"tdx.advisory_ids": listed["advisory_ids"]})
    within_azure = replace(concerned, items=(StatedItem(name="cpu", kind="azure-tdx", verified=values),))
    assert list(concern(lease, within_azure)) == ["INTEL-SA-00002: listed for this platform's TCB"]


def test_a_tcb_that_was_never_evaluated_is_concerned_by_every_advisory(harness: Harness) -> None:
    harness.add_key("model")
    release(harness)
    (one,) = found(harness)
    item = StatedItem(name="cpu", kind="tdx", verified=StatedClaims(values={"mr_td": bytes(48)}))
    lease = replace(one.state.lease, tee="tdx")
    why = lists_advisory("INTEL-SA-00001")(lease, KeptClaims(items=(item,), bound=True))
    assert list(why) == ["INTEL-SA-00001: the TCB was not evaluated"]


@pytest.mark.parametrize("text", ["INTEL-SA-1", "AMD-SB-3023", "intel-sa-00001", ""])
def test_something_else_than_an_advisory_of_intel_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        lists_advisory(text)
    assert caught.value.code == "advisory-invalid"


def test_mc_26_a_stricter_policy_finds_those_who_would_not_meet_it(harness: Harness) -> None:
    harness.add_key("model")
    old = release(harness)
    release(harness, workload=another(current_tcb=NEW_TCB, reported_tcb=NEW_TCB, committed_tcb=NEW_TCB))
    same = conforming_to(load_policy(policy_text()), at=harness.clock())
    assert ids(harness, EVERYTHING, same) == []
    strict = load_policy(policy_text().replace(b"snp: 26", b"snp: 28"))
    (one,) = found(harness, EVERYTHING, [conforming_to(strict, at=harness.clock())])
    assert one.state.lease.lease_id == old
    assert [line.split(":")[0] for line in one.why] == ["policy.snp.minimum_tcb"]
    real = load_policy(policy_text().replace(b'simulated: {unchecked: "a test on the simulator"}\n', b""))
    assert [one.why for one in found(harness, EVERYTHING, [conforming_to(real, at=harness.clock())])] == [
        ("policy.not_simulated: got SIMULATED: the simulator's root",)
    ] * 2


def test_a_reference_value_that_has_ended_concerns_who_rests_on_it(harness: Harness) -> None:
    ending = policy_text().replace(b"    origin:", b'    expires: "2026-07-01T00:00:00Z"\n    origin:')
    harness.add_key("model", policy=ending)
    lease = release(harness)
    for at, concerned in ((datetime(2026, 7, 1, tzinfo=UTC), []), (datetime(2026, 7, 2, tzinfo=UTC), [lease])):
        assert ids(harness, EVERYTHING, conforming_to(load_policy(ending), at=at)) == concerned


def test_a_trust_domain_conforms_by_its_kept_claims(harness: Harness) -> None:
    write_intel_collateral(harness.folder)
    harness.services.endorsements.reload(at=harness.clock())
    harness.add_key("model", policy=tdx_policy_text())
    lease = release(harness, workload=TdWorkload())
    assert ids(harness, EVERYTHING, conforming_to(load_policy(tdx_policy_text()), at=harness.clock())) == []
    newer = load_policy(tdx_policy_text(more='  minimum_tcb_date: "2027-01-01T00:00:00Z"'))
    assert ids(harness, EVERYTHING, conforming_to(newer, at=harness.clock())) == [lease]
    snp = conforming_to(load_policy(policy_text()), at=harness.clock())
    assert ids(harness, EVERYTHING, snp) == [lease]


def test_a_machine_with_gpus_conforms_by_its_kept_claims(harness: Harness) -> None:
    board = SimulatedBoard.of("unit", gpus=2, switches=0)
    prepared(harness, board, gpu_policy(2))
    lease = release(harness, workload=GpuWorkload(board=board))
    assert found(harness)[0].state.lease.gpus == 2
    assert ids(harness, EVERYTHING, conforming_to(load_policy(gpu_policy(2)), at=harness.clock())) == []
    for stricter in (gpu_policy(1), gpu_policy(2).replace(b'at_least: "570.86"', b'at_least: "999.1"')):
        assert ids(harness, EVERYTHING, conforming_to(load_policy(stricter), at=harness.clock())) == [lease]


def test_what_the_kept_claims_do_not_tell_concerns_and_says_so(harness: Harness) -> None:
    write_intel_collateral(harness.folder)
    harness.services.endorsements.reload(at=harness.clock())
    harness.add_key("model", policy=tdx_policy_text())
    lease = release(harness, workload=TdWorkload())
    logged = load_policy(tdx_policy_text(more="  event_log: {secure_boot: true}"))
    (one,) = found(harness, EVERYTHING, [conforming_to(logged, at=harness.clock())])
    assert one.state.lease.lease_id == lease
    assert all("not in the stored claims" in line for line in one.why)


# -- stopping


def stopped(harness: Harness, *concerns: Concern, wanted: LeaseFilter | None = None) -> list[str]:
    done = stop_renewals(
        harness.services.store,
        wanted or LeaseFilter(),
        concerns=concerns,
        reason="a test",
        actor=ACTOR,
        at=harness.clock(),
    )
    return [one.state.lease.lease_id for one in done]


def refusal(harness: Harness, workload: Workload | None = None, renews: tuple[str, ...] = ()) -> str:
    asked = (workload or Workload()).request(harness.releases.challenge(), "model")
    with pytest.raises(ReleaseDeniedError) as caught:
        harness.releases.release(replace(asked, renews=renews))
    return caught.value.code


def test_mc_26_after_a_tcb_event_renewals_of_the_old_level_stop(harness: Harness) -> None:
    harness.add_key("model")
    patched = another(current_tcb=NEW_TCB, reported_tcb=NEW_TCB, committed_tcb=NEW_TCB)
    old, new = release(harness), release(harness, workload=patched)
    assert stopped(harness, below("Genoa", "snp", NEW_TCB.snp)) == [old]
    entry = harness.entries()[-1]
    assert (entry["kind"], entry["leases"], entry["reason"]) == ("renewals-stopped", [old], "a test")
    assert entry["actor"] == ACTOR.members()
    assert refusal(harness, renews=(old,)) == "lease-stopped"
    assert refusal(harness, Workload(key=WorkloadKey.generate())) == "lease-stopped"
    assert release(harness, workload=patched) != new
    assert [one.state.word(harness.clock()) for one in found(harness)] == ["stopped", "superseded", "live"]
    assert ids(harness, LeaseFilter(stopped=True)) == [old]
    assert stopped(harness, below("Genoa", "snp", NEW_TCB.snp)) == []  # once is enough


def test_a_renewal_between_the_look_and_the_stop_escapes_nothing(harness: Harness) -> None:
    harness.add_key("model")
    release(harness)
    concern = below("Genoa", "snp", 255)
    looked = ids(harness, LeaseFilter(), concern)
    renewed = release(harness)
    assert looked != stopped(harness, concern) == [renewed]


def test_a_stop_is_taken_back_by_its_lease(harness: Harness) -> None:
    harness.add_key("model")
    lease = release(harness)
    stopped(harness)
    resume_renewals(harness.services.store, [lease], reason="patched", actor=ACTOR, at=harness.clock())
    entry = harness.entries()[-1]
    assert (entry["kind"], entry["leases"], entry["actor"]) == ("renewals-resumed", [lease], ACTOR.members())
    release(harness)
    for wrong in (lease, "0" * 32):
        with pytest.raises(KeyConflictError) as caught:
            resume_renewals(harness.services.store, [wrong], reason="x", actor=ACTOR, at=harness.clock())
        assert caught.value.code == "lease-not-stopped"


@pytest.mark.parametrize("reason", ["", " ", "a\nb", "x" * 2000])
def test_a_stop_without_a_reason_is_refused(harness: Harness, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        stop_renewals(
            harness.services.store, LeaseFilter(), concerns=(), reason=reason, actor=ACTOR, at=harness.clock()
        )
    assert caught.value.code == "reason-invalid"


def test_many_leases_are_stopped_with_several_entries(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kms.leases.admin._IDS_IN_ENTRY", 2)
    for name in ("a", "b", "c"):
        harness.add_key(name)
    release(harness, "a", "b", "c")
    assert len(stopped(harness)) == 3
    assert [len(one["leases"]) for one in harness.entries() if one["kind"] == "renewals-stopped"] == [2, 1]  # type: ignore[arg-type]


# -- damage


@pytest.mark.parametrize("content", [b"", b"{}", cbor_bytes({"schema": "kms.claims/1"}), cbor_bytes({"schema": "x"})])
def test_claims_that_were_altered_are_found(content: bytes) -> None:
    with pytest.raises(IntegrityError) as caught:
        read_claims(content)
    assert caught.value.code == "lease-claims-invalid"


# -- at the command line


@pytest.fixture
def at_shell(harness: Harness, shell: Shell) -> Callable[..., tuple[str, str]]:
    """Run ``kms releases`` on the harness's database; what the commands call runs on both kinds of it."""
    if harness.on_postgres:
        pytest.skip("the commands are the same, and what they call runs on both")
    harness.clock.at = system_clock().replace(microsecond=0)
    write_endorsements(harness.folder, at=harness.clock.at)
    harness.services.endorsements.reload(at=harness.clock.at)
    harness.add_key("model")
    where = ("--database", harness.settings.database, "--kek-file", str(harness.folder / "kek"))

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        return shell.run("releases", *arguments, *where, "--origin", harness.settings.origin, code=code)

    return run


def test_leases_are_listed_at_the_command_line(harness: Harness, at_shell: Callable[..., tuple[str, str]]) -> None:
    lease = release(harness)
    assert at_shell("list")[0].startswith(f"{lease}  model@1  live")
    (listed,) = json.loads(at_shell("list", "--json", "--key", "model")[0])["leases"]
    assert (listed["lease_id"], listed["state"], listed["chip"]) == (lease, "live", f"amd:{CHIP.hwid.hex()}")
    assert at_shell("list", "--chip", "amd:00")[1] == "note: no lease matches\n"
    assert "[key-unknown]" in at_shell("list", "--key", "modell", code=1)[1]
    assert "[key-unknown]" in at_shell("affected", "--key", "modell", code=1)[1]
    assert "[tenant-unknown]" in at_shell("list", "--tenant", "nobody", code=1)[1]
    assert "--chip: expected" in at_shell("list", "--chip", "AMD:00", code=2)[1]
    assert "--since: expected" in at_shell("list", "--since", "yesterday", code=2)[1]
    assert at_shell("list", "--measurement", "zz", code=2)[1].startswith("error: ")
    assert "[key-id-invalid]" in at_shell("list", "--key", "Model", code=2)[1]
    release(harness)
    first = json.loads(at_shell("list", "--all", "--limit", "1", "--json")[0])
    second = json.loads(at_shell("list", "--all", "--after", first["next"], "--json")[0])
    assert [one["state"] for one in first["leases"] + second["leases"]] == ["superseded", "live"]
    assert second["next"] is None
    assert "continue with --after" in at_shell("list", "--all", "--limit", "1")[1]
    assert "expected the mark" in at_shell("list", "--after", "x", code=2)[1]


def test_renewals_are_stopped_at_the_command_line(
    harness: Harness, shell: Shell, at_shell: Callable[..., tuple[str, str]]
) -> None:
    release(harness)
    assert "give a condition" in at_shell("affected", code=2)[1]
    assert "is below 255" in at_shell("affected", "--tcb-below", "Genoa:snp=255")[0]
    strict = shell.folder / "strict.yaml"
    strict.write_bytes(policy_text().replace(b"snp: 26", b"snp: 200"))
    assert "policy.snp.minimum_tcb" in at_shell("affected", "--policy", str(strict))[0]
    assert at_shell("affected", "--policy", str(shell.policy))[0] == ""
    stop = ("affected", "--tcb-below", "Genoa:snp=255", "--stop-renewals")
    assert "requires --reason" in at_shell(*stop, code=2)[1]
    assert "require --stop-renewals" in at_shell("affected", "--chip", "x", "--yes", code=2)[1]
    assert "omit --after" in at_shell(*stop, "--reason", "x", "--after", "1:x", code=2)[1]
    assert "nothing was stopped" in at_shell(*stop, "--reason", "AMD-SB-3023")[1]
    release(harness)
    assert "renewal stopped for 1 lease;" in at_shell(*stop, "--reason", "AMD-SB-3023", "--yes")[1]
    assert refusal(harness) == "lease-stopped"
    (listed,) = json.loads(at_shell("list", "--json", "--stopped")[0])["leases"]
    assert (listed["state"], listed["stop_reason"]) == ("stopped", "AMD-SB-3023")
    assert "renewal allowed again for 1 lease;" in at_shell("resume", listed["lease_id"], "--reason", "mended")[0]
    release(harness)
