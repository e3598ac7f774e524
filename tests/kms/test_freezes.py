"""Freezes: they stop what they name from the next request on, and one person does not undo them."""

from dataclasses import dataclass, replace
from datetime import datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest import Endorsements, TrustAnchors, verify
from attest.errors import ConfigurationError
from attest_simulator.azure import SimulatedAzureVm, SimulatedTdxHost
from attest_simulator.nvidia import SimulatedBoard
from kms.controls.admin import freeze
from kms.domain.actors import Actor, Means
from kms.domain.decide import ReleaseOutcome, decide
from kms.domain.devices import PRODUCT_NAMES, is_product, products_of
from kms.domain.errors import IntegrityError, KeyConflictError, KmsError, QuorumRequiredError, ReleaseDeniedError
from kms.domain.freezes import MAX_REASON_CHARACTERS, Scope, require_reason, target
from kms.domain.people import ChangeKind, QuorumRule
from kms.keys.vault import Vault
from kms.quorum.admin import QuorumService, change_now, thaw_mode
from kms.quorum.changes import Thaw
from tests.kms.stores import examined_unauthenticated, write_genuine
from tests.kms.support import AT, CHIP, TD, Harness, TdWorkload, Workload, tdx_policy_text, write_intel_collateral
from tests.kms.test_azure_release import SNP, AzureWorkload
from tests.kms.test_decide import BINDING, DEMAND, RESULT, state
from tests.kms.test_gpu_release import GpuWorkload

ALICE = Actor(name="alice", means=Means.LOCAL)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stop(harness: Harness, scope: str, name: str | None = None) -> None:
    freeze(harness.services.store, target(scope, name), reason="a test", actor=ALICE, at=harness.clock())


def go_on(harness: Harness, scope: str, name: str | None = None, *, alone: bool = True) -> None:
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    service = QuorumService(vault=vault, audience=harness.audience, alone=alone)
    change_now(service, Thaw(target=target(scope, name), reason="done"), actor=ALICE, at=harness.clock())


def release(harness: Harness, *key_ids: str, workload: Workload | None = None) -> None:
    challenge = harness.releases.challenge()
    harness.releases.release((workload or Workload()).request(challenge, *(key_ids or ("model",))))


def refusal(harness: Harness, *key_ids: str, workload: Workload | None = None) -> str:
    with pytest.raises(ReleaseDeniedError) as caught:
        release(harness, *key_ids, workload=workload)
    return caught.value.code


@pytest.mark.parametrize(
    ("scope", "name", "code"),
    [
        ("key", "model", "key-frozen"),
        ("tenant", "default", "tenant-frozen"),
        ("product", "genoa", "product-frozen"),
        ("product", "SEV-SNP", "product-frozen"),
        ("all", None, "service-frozen"),
    ],
)
def test_what_is_frozen_is_refused_at_the_next_request_until_it_is_thawed(
    harness: Harness, scope: str, name: str | None, code: str
) -> None:
    harness.add_key("model")
    release(harness)
    stop(harness, scope, name)
    assert refusal(harness) == code
    reasons: object = harness.decisions()[-1]["reasons"]
    assert isinstance(reasons, list)
    assert [(one["code"], one["key_id"]) for one in reasons] == [(code, "model")]
    go_on(harness, scope, name)
    release(harness)
    kinds = [entry["kind"] for entry in harness.entries()]
    assert (kinds.count("frozen"), kinds.count("thawed")) == (1, 1)
    frozen = next(entry for entry in harness.entries() if entry["kind"] == "frozen")
    assert (frozen["reason"], frozen["actor"]) == ("a test", {"name": "alice", "means": "local"})


def test_a_freeze_counts_at_every_replica(harness: Harness) -> None:
    harness.add_key("model")
    other = harness.reopened()
    release(other)
    stop(harness, "key", "model")
    assert refusal(other) == "key-frozen"
    other.close()


def test_a_freeze_stops_nothing_else(harness: Harness) -> None:
    for key_id in ("model", "other"):
        harness.add_key(key_id)
    write_intel_collateral(harness.folder)
    harness.services.endorsements.reload(at=AT)
    harness.add_key("td", policy=tdx_policy_text())
    stop(harness, "key", "model")
    stop(harness, "product", "milan")
    stop(harness, "product", "tdx")
    release(harness, "other")
    assert refusal(harness, "td", workload=TdWorkload()) == "product-frozen"
    assert refusal(harness, "model", "other") == "key-frozen"


@dataclass
class Interrupting:
    """A provider of endorsements during whose first answer everything is frozen."""

    harness: Harness
    asked: int = 0

    def current(self, *, at: datetime) -> Endorsements:
        if not self.asked:
            stop(self.harness, "all")
        self.asked += 1
        return self.harness.services.endorsements.current(at=at)


def test_mc_19_a_freeze_that_comes_while_a_release_is_being_decided_stops_it(harness: Harness) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    provider = Interrupting(harness)
    services = replace(harness.services, endorsements=provider)  # type: ignore[arg-type]  # freezes, then does as the provider
    with pytest.raises(ReleaseDeniedError) as caught:
        replace(harness, services=services).releases.release(request)
    assert caught.value.code == "service-frozen"
    assert provider.asked == 2, "it was decided anew on the state of the moment"


def test_one_person_thaws_only_where_the_setting_says_so(harness: Harness) -> None:
    harness.add_key("model")
    stop(harness, "key", "model")
    with pytest.raises(QuorumRequiredError) as caught:
        go_on(harness, "key", "model", alone=False)
    assert caught.value.code == "quorum-required"
    assert refusal(harness) == "key-frozen"
    assert not harness.settings.allow_thaw_by_one


def ruled(harness: Harness, *kinds: ChangeKind) -> None:
    """Put rules of one person into force, or none."""
    key = Ed25519PrivateKey.from_private_bytes(b"a" * 32).public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with harness.services.store.writing() as tx:
        now = tx.quorum.current()
        then = now if now.people else now.with_person("alice", pem)
        rules = tuple(QuorumRule(kind=kind, threshold=1, people=("alice",)) for kind in kinds)
        tx.quorum.add(replace(then, version=now.version + 1, rules=rules), at=harness.clock())


def mode(harness: Harness, *, alone: bool = True) -> str:
    with harness.services.store.reading() as tx:
        return thaw_mode(tx, alone=alone)


def test_the_setting_is_no_way_around_a_quorum_that_is_or_was_there(harness: Harness) -> None:
    harness.add_key("model")
    assert (mode(harness), mode(harness, alone=False)) == ("one", "none")
    ruled(harness)
    assert mode(harness) == "one", "people without a rule are no quorum"
    for kinds, then in (((ChangeKind.QUORUM, ChangeKind.THAW), "quorum"), ((ChangeKind.QUORUM,), "none"), ((), "none")):
        stop(harness, "key", "model")
        ruled(harness, *kinds)
        assert mode(harness) == then
        with pytest.raises(QuorumRequiredError):
            go_on(harness, "key", "model", alone=True)
        assert refusal(harness) == "key-frozen"
        with harness.services.store.writing() as tx:
            tx.freezes.remove(target("key", "model"))


def test_a_freeze_that_one_person_ends_is_ended_loudly(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.add_key("model")
    stop(harness, "all")
    with pytest.raises(QuorumRequiredError):
        go_on(harness, "all", alone=False)
    go_on(harness, "all", alone=True)
    assert harness.entries()[-1]["by_one"] is True
    assert "FREEZE LIFTED BY ONE: all, by alice" in caplog.text
    release(harness)


def test_a_freeze_that_is_there_and_one_that_is_not_are_told(harness: Harness) -> None:
    harness.add_key("model")
    stop(harness, "key", "model")
    with pytest.raises(KeyConflictError) as caught:
        stop(harness, "key", "model")
    assert caught.value.code == "already-frozen"
    with pytest.raises(KeyConflictError) as caught:
        go_on(harness, "tenant", "default")
    assert caught.value.code == "not-frozen"


@pytest.mark.parametrize(
    ("scope", "name", "code"), [("key", "none", "key-unknown"), ("tenant", "none", "tenant-unknown")]
)
def test_a_name_that_nothing_has_is_refused(harness: Harness, scope: str, name: str, code: str) -> None:
    harness.add_key("model")
    with pytest.raises(KmsError) as caught:
        stop(harness, scope, name)
    assert caught.value.code == code
    assert [entry["kind"] for entry in harness.entries()].count("frozen") == 0


@pytest.mark.parametrize(
    ("scope", "name"),
    [("product", "milann"), ("product", "fmspc:00"), ("product", ""), ("all", "x"), ("chip", "x"), ("key", None)],
)
def test_what_no_evidence_can_be_is_not_frozen(scope: str, name: str | None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        target(scope, name)
    assert caught.value.code == "freeze-target-invalid"
    for bad in ("Up", "a/b/c", "/a", "default/a"):
        with pytest.raises(ConfigurationError):
            target("key", bad)


def test_a_reason_is_one_line_of_bounded_length() -> None:
    assert require_reason("x" * MAX_REASON_CHARACTERS)
    for bad in ("", "  ", "a\nb", "x" * (MAX_REASON_CHARACTERS + 1), "\x1b[2J"):
        with pytest.raises(ConfigurationError) as caught:
            require_reason(bad)
        assert caught.value.code == "reason-invalid"


def test_a_freeze_that_somebody_took_out_or_put_in_is_found(harness: Harness) -> None:
    harness.add_key("model")
    stop(harness, "key", "model")
    stop(harness, "all")

    def problems() -> tuple[str, ...]:
        return examined_unauthenticated(harness)["freezes"].problems

    assert problems() == ()
    harness.alter("UPDATE freezes SET scope = 'tenant', name = 'default' WHERE scope = 'all'")
    assert problems() == (
        "freeze of tenant default: in the database, but not created by an entry of the log",
        "freeze of all: missing in the database, created by entry 4 of the log",
    )


def test_a_freeze_that_cannot_be_read_stops_everything(harness: Harness) -> None:
    harness.add_key("model")
    stop(harness, "product", "tdx")
    write_genuine(harness, "freezes", scope="nothing")
    with pytest.raises(IntegrityError) as caught:
        release(harness)
    assert caught.value.code == "freeze-record-invalid"


# -- what a product is


BOARD = SimulatedBoard.of("unit", gpus=1, switches=0)
AZURE_TD = SimulatedAzureVm.of(SimulatedTdxHost.of(TD.platform), name="VM 1")
FMSPC = f"fmspc:{TD.platform.sgx.fmspc.hex()}"
INTEL = TD.platform.collateral("tdx", at=AT).endorsements()


@pytest.mark.parametrize(
    ("workload", "pool", "products"),
    [
        (Workload(), CHIP.endorsements(at=AT), {"sev-snp", "genoa"}),
        (TdWorkload(), INTEL, {"tdx", FMSPC}),
        (AzureWorkload(), SNP.endorsements(at=AT), {"azure-snp", "sev-snp", "genoa"}),
        (AzureWorkload(vm=AZURE_TD), AZURE_TD.endorsements(at=AT), {"azure-tdx", "tdx", FMSPC}),
        (
            GpuWorkload(board=BOARD),
            CHIP.endorsements(at=AT).merged(BOARD.endorsements(at=AT)),
            {"sev-snp", "genoa", "nvidia-gpu", "hopper"},
        ),
    ],
    ids=["snp", "tdx", "azure-snp", "azure-tdx", "gpu"],
)
def test_evidence_is_of_every_product_in_it(workload: Workload, pool: Endorsements, products: set[str]) -> None:
    evidence = workload.attest(BINDING)
    verified = verify(evidence, endorsements=pool, anchors=TrustAnchors.simulation(), at=AT)
    assert products_of(verified) == products
    assert all(map(is_product, products))


@pytest.mark.parametrize(
    ("frozen", "verdict"),
    [("genoa", ReleaseOutcome.DENY), ("milan", ReleaseOutcome.ALLOW), ("tdx", ReleaseOutcome.ALLOW)],
)
def test_the_decision_refuses_evidence_of_a_frozen_product_and_no_other(frozen: str, verdict: ReleaseOutcome) -> None:
    keys = {"a": state(frozen_products=frozenset({frozen, "hopper"}))}
    decision = decide(requested=("a",), keys=keys, results={"a": RESULT}, demand=DEMAND, at=AT)
    assert decision.outcome is verdict
    assert [reason.code for reason in decision.reasons] == ["product-frozen"] * (verdict is ReleaseOutcome.DENY)


def test_every_name_of_a_product_can_be_frozen() -> None:
    for name in (*PRODUCT_NAMES, "fmspc:00806f050000"):
        assert target("product", name.upper() if name in PRODUCT_NAMES else name).scope is Scope.PRODUCT
