"""The log for a tenant's auditor: everything of the tenant, and nothing of another, looked for in every byte."""

import ast
import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.release import KeyName
from kms.controls.admin import freeze
from kms.domain.aliases import Alias, kbs_address
from kms.domain.durations import parse_duration
from kms.domain.floors import no_floor
from kms.domain.freezes import target
from kms.domain.keys import KeyRecord, KeyReference
from kms.domain.leases import LeaseFilter
from kms.domain.limits import NO_LIMITS
from kms.domain.people import ChangeKind
from kms.domain.permissions import EVERY_TENANT, Role
from kms.domain.vault_keys import VaultKeySettings
from kms.keys.admin import require_key, set_enabled
from kms.keys.aliases import add_alias, remove_alias
from kms.keys.destruction import restore_key, schedule_destruction
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.keys.rotation import Rotator, remove_schedule, rotate_key, set_schedule
from kms.keys.tags import change_tags
from kms.keys.tenants import create_tenant
from kms.keys.vault_keys import set_vault_key_in
from kms.leases.admin import resume_renewals, stop_renewals
from kms.log.tenant_view import RULES, Owners, seen_by
from kms.quorum.admin import change_now, withdraw
from kms.quorum.break_glass import BreakGlassOpen, close_glass
from kms.quorum.changes import Thaw
from kms.quorum.floors import FloorRaise
from kms.quorum.key_limits import KeyLimitsSet
from kms.quorum.key_policy import KeyPolicySet
from tests.kms.admins import ROOT, AdminClient, admin_client
from tests.kms.process import REPOSITORY
from tests.kms.support import Harness, Workload, policy_text
from tests.kms.test_quorum import Board, rule

OURS, THEIRS = "redco", "blueco"
OTHER_IMAGE = {OURS: bytes(47) + b"\x05", THEIRS: bytes(47) + b"\x07"}
Document = dict[str, Any]
NOBODY = Owners(leases=lambda ids: {}, relaxation=lambda number: None, proposal=lambda digest: None)


@dataclass
class World:
    """Two tenants to whom everything has happened that the log has entries for, apart and together."""

    harness: Harness
    admin: AdminClient
    board: Board
    leases: dict[str, set[str]] = field(default_factory=lambda: {OURS: set(), THEIRS: set()})

    def key(self, tenant: str, key_id: str = "model") -> KeyName:
        return KeyName(tenant=tenant, key_id=f"{key_id}-of-{tenant}")

    def ask(self, *asked: KeyName | str, renews: tuple[str, ...] = (), workload: Workload | None = None) -> list[str]:
        """Ask for keys; the ids of the leases, or nothing when it was refused."""
        releases, workload = self.harness.releases, workload or Workload()
        request = workload.request(releases.challenge(), *map(str, asked))
        try:
            release = releases.release(replace(request, renews=renews))
        except AttestError:
            return []
        granted: Any = json.loads(release.entry)["keys"]
        for row in granted:
            self.leases.setdefault(row["tenant"], set()).add(row["lease"]["id"])
        return [row["lease"]["id"] for row in granted]

    def freeze(self, scope: str, name: str | None, reason: str) -> None:
        at = self.harness.clock()
        freeze(self.harness.services.store, target(scope, name), reason=reason, actor=ROOT, at=at)

    def make_tenants(self) -> None:
        store, at = self.harness.services.store, self.harness.clock()
        for tenant in (OURS, THEIRS):
            create_tenant(store, tenant, actor=ROOT, at=at)
            self.harness.add_key(str(self.key(tenant)), policy=policy_text(name=f"policy-of-{tenant}"))
            picky = policy_text(name=f"picky-of-{tenant}", measurement=OTHER_IMAGE[tenant])
            self.harness.add_key(str(self.key(tenant, "picky")), policy=picky)
        self.harness.add_key("model")

    def live(self, tenant: str) -> None:
        """Do with a tenant's key everything that is done to keys."""
        store, at, name = self.harness.services.store, self.harness.clock(), self.key(tenant)
        for enabled in (False, True):
            set_enabled(store, name, enabled=enabled, actor=ROOT, at=at)
        change_tags(store, name, put={"team": tenant}, remove=(), actor=ROOT, at=at)
        set_schedule(store, name, every=timedelta(days=30), overlap=timedelta(days=1), actor=ROOT, at=at)
        remove_schedule(store, name, actor=ROOT, at=at)
        alias = Alias(address=kbs_address(f"of-{tenant}/model-key/1"), key=name)
        add_alias(store, alias, actor=ROOT, at=at)
        remove_alias(store, alias.address, actor=ROOT, at=at)
        with store.writing() as tx:
            in_vault = VaultKeySettings(policy=b"{}", address="https://v1.localhost/keys/k")
            set_vault_key_in(tx, name, in_vault, actor=ROOT, at=at)
        rotator = Rotator(store=store, kek=self.harness.services.kek, random=self.harness.random)
        rotate_key(rotator, name, overlap=timedelta(days=1), actor=ROOT, at=at)
        old, week = KeyReference(name=name, version=1), parse_duration("7d")
        schedule_destruction(store, old, after=week, minimum=week, actor=ROOT, at=at)
        restore_key(store, old, actor=ROOT, at=at)
        settings = ReleaseSettings(disclosure=ReleaseSettings.of(self.record(name)).disclosure, lease_seconds=600)
        set_release_settings(store, name, settings, actor=ROOT, at=at)
        change_now(self.board.desk, KeyLimitsSet(name=name, limits=replace(NO_LIMITS, version=1)), actor=ROOT, at=at)
        policy = policy_text(name=f"policy-of-{tenant}").replace(b"version: 1", b"version: 2")
        change_now(self.board.desk, KeyPolicySet(name=name, policy=policy, references=()), actor=ROOT, at=at)
        self.admin.give(f"owner-of-{tenant}", Role.KEY_OWNER, tenant)

    def record(self, name: KeyName) -> KeyRecord:
        with self.harness.services.store.reading() as tx:
            return require_key(tx, name)

    def decide(self) -> None:
        ours, theirs = self.key(OURS), self.key(THEIRS)
        held = {tenant: self.ask(self.key(tenant)) for tenant in (OURS, THEIRS)}
        self.ask(ours, theirs)
        self.ask("model", ours)
        for tenant, other in ((OURS, THEIRS), (THEIRS, OURS)):
            self.ask(self.key(tenant), self.key(other, "picky"))
            self.ask(self.key(tenant), f"{other}/unheard-of-{other}")
            self.ask(self.key(tenant), renews=tuple(held[other]))
            self.ask(self.key(tenant), self.key(other), renews=("unknown-lease",))
        self.ask(ours, theirs, workload=Workload(audience="kms.test/other+00"))
        self.ask(ours, workload=Workload(audience="kms.test/other+00"))

    def stop(self) -> None:
        store, at = self.harness.services.store, self.harness.clock()
        reason = f"{OURS} and {THEIRS} share a machine"
        stopped = stop_renewals(store, LeaseFilter(), concerns=(), reason=reason, actor=ROOT, at=at)
        for tenant in (OURS, THEIRS):
            self.ask(self.key(tenant))  # refused: the text is the reason, which names both
        self.ask(self.key(OURS), self.key(THEIRS))
        ids = tuple(dict.fromkeys(one.state.lease.lease_id for one in stopped))
        resume_renewals(store, ids, reason=reason, actor=ROOT, at=at)

    def brake(self) -> None:
        self.freeze("product", "milan", f"{OURS} and {THEIRS} have them")
        for scope in (EVERY_TENANT, OURS, THEIRS):
            raised = FloorRaise(floor=replace(no_floor(scope), version=1))
            change_now(self.board.desk, raised, actor=ROOT, at=self.harness.clock())
        for tenant in (OURS, THEIRS):
            self.freeze("tenant", tenant, f"of {tenant}")
            self.freeze("key", str(self.key(tenant)), f"of {tenant}")
        until = self.harness.clock() + timedelta(hours=1)
        for tenant, other in ((OURS, THEIRS), (THEIRS, OURS)):
            lifting = BreakGlassOpen(
                name=self.key(tenant), lifts=target("tenant", other), policy=None, reason=f"for {other}", until=until
            )
            self.board.agreed(lifting)
            self.board.agreed(replace(lifting, lifts=target("tenant", tenant), reason=f"for {tenant}"))
            self.ask(self.key(tenant))
            self.ask(self.key(tenant), self.key(other))
        for tenant in (OURS, THEIRS):
            for scope, name in (("key", str(self.key(tenant))), ("tenant", tenant)):
                self.board.agreed(Thaw(target=target(scope, name), reason=f"of {tenant}"))
            self.ask(self.key(tenant))
        for number, tenant in enumerate((OURS, OURS, THEIRS, THEIRS), start=1):
            at = self.harness.clock()
            close_glass(self.harness.services.store, number, reason=f"of {tenant}", actor=ROOT, at=at)
        self.freeze("all", None, f"{OURS} and {THEIRS}")
        self.ask(self.key(OURS), self.key(THEIRS))
        self.board.agreed(Thaw(target=target("all", None), reason=f"{OURS} and {THEIRS}"))
        for tenant in (OURS, THEIRS):
            made = self.board.propose(KeyLimitsSet(name=self.key(tenant), limits=replace(NO_LIMITS, version=2)))
            withdraw(self.board.desk, made.digest, reason=f"of {tenant}", actor=ROOT, at=self.harness.clock())

    # -- what is asked of it

    def pages(self, tenant: str, who: str, limit: int = 200) -> Iterator[bytes]:
        """Yield every page as it came over the wire, its headers too."""
        after = 0
        while True:
            query = f"/v1/log/tenants/{tenant}/entries?after={after}&limit={limit}"
            answer = self.admin.http.get(query, headers=self.admin.bearer(who))
            assert answer.status_code == 200, answer.text
            yield answer.content + repr(answer.headers.raw).encode()
            page = answer.json()
            assert len(page["entries"]) <= limit
            assert page["at_end"] or page["next"] > after
            after = page["next"]
            if page["at_end"]:
                return

    def seen(self, tenant: str, limit: int = 200) -> list[Document]:
        pages = self.pages(tenant, f"auditor-of-{tenant}", limit)
        return [one for page in pages for one in json.loads(page.partition(b"[(b'")[0])["entries"]]

    def words(self, tenant: str) -> set[str]:
        """Everything that stands for a tenant in the log: names, digests of policies, leases, what was measured."""
        with self.harness.services.store.reading() as tx:
            digests = {record.policy_digest.hex() for record in tx.keys.all(tenant)}
        logged = {
            str(entry["policy_sha256"])
            for entry in self.harness.entries()
            if entry.get("tenant") == tenant and entry.get("policy_sha256")
        }
        return {tenant, OTHER_IMAGE[tenant].hex(), *digests, *logged, *self.leases[tenant]}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    harness = Harness.make(tmp_path_factory.mktemp("tenant-log"))
    with admin_client(harness) as admin:
        board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.BREAK_GLASS), rule(ChangeKind.THAW))
        made = World(harness=harness, admin=admin, board=board)
        made.make_tenants()
        for tenant in (OURS, THEIRS):
            made.live(tenant)
            admin.give(f"auditor-of-{tenant}", Role.AUDITOR, tenant)
        admin.give("auditor-of-all", Role.AUDITOR)
        made.decide()
        made.stop()
        made.brake()
        yield made
    harness.close()


def kinds(entries: list[Document]) -> set[str]:
    return {str(one["entry"]["kind"]) for one in entries}


# -- nothing of another tenant, in any byte


@pytest.mark.parametrize(("tenant", "other"), [(OURS, THEIRS), (THEIRS, OURS)])
@pytest.mark.parametrize("who", ["auditor-of-{}", "auditor-of-all"])
def test_no_byte_of_any_page_is_of_the_other_tenant(world: World, tenant: str, other: str, who: str) -> None:
    words = world.words(other)
    assert len(words) > 6
    everything = json.dumps(world.harness.entries())
    assert all(word in everything for word in words), "else this looks for nothing"
    for limit in (200, 3):
        got = b"".join(world.pages(tenant, who.format(tenant), limit)).decode()
        assert [word for word in words if word in got] == []
        assert tenant in got


@pytest.mark.parametrize("tenant", [OURS, THEIRS])
def test_everything_that_happened_to_the_tenant_is_there(world: World, tenant: str) -> None:
    seen = world.seen(tenant)
    there = kinds(seen)
    expected = set(RULES) - {"key-created", "key-destroyed", "grant-revoked", "prompt-key-published"}
    assert there == expected - {"references-added"}
    numbers = {one["entry"]["seq"] for one in seen}
    named = {entry["seq"] for entry in world.harness.entries() if entry.get("tenant") == tenant}
    assert named <= numbers


def test_an_entry_that_is_shown_whole_is_the_one_in_the_log_and_has_its_hash(world: World) -> None:
    with world.harness.services.store.reading() as tx:
        logged = {entry.seq: entry for entry in tx.log.entries()}
    seen = world.seen(OURS)
    for one in seen:
        entry = logged[one["entry"]["seq"]]
        assert one["hash"] == entry.leaf_hash.hex()
        assert (one["entry"] == entry.document()) is not one["redacted"]
    assert {one["redacted"] for one in seen} == {True, False}


def test_pages_of_any_length_give_the_same(world: World) -> None:
    whole = world.seen(OURS)
    assert world.seen(OURS, 1) == whole
    assert world.seen(OURS, 7) == whole


def test_a_request_looks_at_so_many_entries_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = world.seen(OURS)
    monkeypatch.setattr("kms.admin_api.tenant_log.MAX_LOOKED_AT", 2)
    assert world.seen(OURS) == whole
    first = world.admin.http.get(f"/v1/log/tenants/{OURS}/entries", headers=world.admin.bearer("auditor-of-all"))
    assert first.json() == {"tenant": OURS, "entries": [], "next": 2, "at_end": False}


def test_the_auditor_of_one_tenant_is_refused_the_others_and_the_whole_log(world: World) -> None:
    headers = world.admin.bearer(f"auditor-of-{OURS}")
    for path in (f"tenants/{THEIRS}/entries", "tenants/default/entries", "tenants/none/entries", "entries", "tail"):
        answer = world.admin.http.get(f"/v1/log/{path}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
    assert world.admin.http.get("/v1/log/tenants/*/entries", headers=headers).status_code == 422


def test_a_tenant_without_entries_has_an_empty_page(world: World) -> None:
    answer = world.admin.http.get("/v1/log/tenants/none/entries", headers=world.admin.bearer("auditor-of-all")).json()
    assert (answer["entries"], answer["at_end"]) == ([], True)


# -- decisions


def decisions(world: World, tenant: str = OURS) -> list[Document]:
    return [one for one in world.seen(tenant) if one["entry"]["kind"] == "decision"]


def test_of_a_decision_on_keys_of_several_the_tenants_part_is_shown(world: World) -> None:
    mixed = [one["entry"] for one in decisions(world) if one["redacted"]]
    allowed = next(one for one in mixed if one["outcome"] == "allow")
    assert allowed["requested"] == [str(world.key(OURS))]
    (row,) = allowed["keys"]
    assert (row["tenant"], row["appraisal"]["status"]) == (OURS, "affirming")
    assert row["lease"]["id"] in world.leases[OURS]
    for one in mixed:
        assert not {"nonce_sha256", "binding_sha256", "failed_checks", "caller", "passport"} & set(one)
        assert {row["tenant"] for row in one["keys"]} <= {OURS}
        assert all(row["text"] is None for row in one["reasons"] if row["key_id"] is None)


def test_what_stands_against_the_other_key_is_not_told(world: World) -> None:
    """Refused for the other tenant's policy alone: the outcome is told, and no reason."""
    silent = [one["entry"] for one in decisions(world) if one["entry"]["outcome"] == "deny" and one["redacted"]]
    assert any(one["reasons"] == [] for one in silent)
    picky = next(
        one["entry"] for one in decisions(world) if one["redacted"] and "picky" in "".join(one["entry"]["requested"])
    )
    assert {row["code"] for row in picky["reasons"]} == {"policy-not-met"}


def test_a_reason_that_was_written_for_several_tenants_is_not_told(world: World) -> None:
    stopped = [row for one in decisions(world) for row in one["entry"]["reasons"] if row["code"] == "lease-stopped"]
    assert stopped
    assert {row["text"] for row in stopped} == {None}
    (entry, *_) = [one for one in world.seen(OURS) if one["entry"]["kind"] == "renewals-stopped"]
    assert entry["redacted"] is True
    assert set(entry["entry"]["leases"]) <= world.leases[OURS]
    assert "reason" not in entry["entry"]


def test_break_glass_for_the_tenants_key_is_shown_even_when_it_lifts_anothers_freeze(world: World) -> None:
    opened = [one for one in world.seen(OURS) if one["entry"]["kind"] == "break-glass-opened"]
    assert [one["redacted"] for one in opened] == [True, False]
    assert all(one["entry"]["break_glass"] is True for one in opened)
    glass = [row for one in decisions(world) for row in one["entry"].get("break_glass_open", [])]
    assert {row["relaxation"] for row in glass} == {None, f"thaw tenant {OURS}"}


# -- closed: what no rule shows is not shown

SERVICE_WIDE = {
    "initialised",
    "restored",
    "settings-changed",
    "anchors-changed",
    "anchors-approved",
    "quorum-changed",
    "kek-created",
    "kek-rotated",
    "kek-retired",
    "import-key-created",
    "rollback-guard-made",
    "rollback-accepted",
    "state-begun",
    "kbs-document-set",
    "kbs-attested",
    "maa-attested",
    "kbs-token-key-created",
}
"""Kinds that concern no tenant: reviewed, and hidden."""


@pytest.mark.parametrize("kind", ["key-lent", "", None, 7, ["decision"], *sorted(SERVICE_WIDE)])
def test_an_unknown_kind_is_shown_to_nobody(kind: JsonValue) -> None:
    document: Document = {"seq": 1, "kind": kind, "tenant": OURS, "requested": [f"{OURS}/model"], "leases": ["a"]}
    owners = Owners(
        leases=lambda ids: dict.fromkeys(ids, OURS), relaxation=lambda number: OURS, proposal=lambda digest: OURS
    )
    assert seen_by(document, tenant=OURS, owners=owners) is None


def logged_kinds() -> set[str]:
    """The kinds of all entries that the source writes."""
    found = set()
    for path in sorted((REPOSITORY / "kms").rglob("*.py")):
        if "migrations" in path.parts:
            continue
        module = importlib.import_module(".".join(path.relative_to(REPOSITORY).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            given = (
                [one.value for one in node.keywords if one.arg == "kind"]
                if name in {"prepare", "add", "add_key"}
                else []
            )
            given += node.args[:2] if name in {"log", "_log"} else []
            for one in given:
                value = one.value if isinstance(one, ast.Constant) else getattr(module, getattr(one, "id", ""), None)
                found |= {value} if isinstance(value, str) and re.fullmatch("[a-z-]+", value) else set()
    return found


def test_every_kind_that_is_written_was_thought_of() -> None:
    logged = logged_kinds()
    assert len(logged) > 30
    assert logged - set(RULES) - SERVICE_WIDE == set()
    assert not set(RULES) & SERVICE_WIDE


MIXED: Document = {
    "schema": "kms.log/1",
    "seq": 9,
    "time": "2026-06-01T12:00:00Z",
    "kind": "decision",
    "at": "2026-06-01T12:00:00Z",
    "nonce_sha256": "00",
    "evidence_sha384": "11",
    "requested": [f"{OURS}/model", f"{THEIRS}/model"],
    "keys": [{"tenant": OURS, "key_id": "model"}, {"tenant": THEIRS, "key_id": "model"}],
    "reasons": [
        {"code": "x", "key_id": f"{THEIRS}/model", "text": THEIRS},
        {"code": "y", "key_id": None, "text": THEIRS},
    ],
    "failed_checks": [{"id": "a", "got": THEIRS}],
    "caller": {"name": THEIRS},
    "passport": {"issuer": THEIRS},
    "break_glass_open": [{"key": f"{THEIRS}/model", "number": 1, "relaxation": f"thaw tenant {THEIRS}", "until": "x"}],
    "something_new": THEIRS,
}


def test_a_decision_that_mixes_tenants_shows_no_member_that_is_new() -> None:
    shown = seen_by(MIXED, tenant=OURS, owners=NOBODY)
    assert shown is not None
    assert shown.redacted
    assert THEIRS not in json.dumps(shown.document)
    assert "something_new" not in shown.document


@pytest.mark.parametrize("name", ["requested", "keys", "reasons", "break_glass_open"])
@pytest.mark.parametrize(
    "value",
    [
        THEIRS,
        {"omitted_bytes": 1, "sha256": THEIRS},
        [THEIRS],
        [[THEIRS]],
        [{"tenant": [OURS, THEIRS], "key_id": THEIRS, "key": [THEIRS], "text": THEIRS}],
        [
            {
                "tenant": THEIRS,
                "key": f"{OURS}/model",
                "relaxation": f"thaw key {THEIRS}/model",
                "key_id": 5,
                "code": "z",
            }
        ],
        [{"key": f"{OURS}/model", "relaxation": {"scope": THEIRS}, "key_id": f"{THEIRS}/x", "text": THEIRS}],
        [f"{OURS}/model", f"{OURS}/model@{THEIRS}", None, 7],
        None,
        5,
    ],
)
def test_members_of_another_shape_show_nothing_of_the_other(name: str, value: JsonValue) -> None:
    shown = seen_by({**MIXED, name: value}, tenant=OURS, owners=NOBODY)
    assert shown is None or (shown.redacted and THEIRS not in json.dumps(shown.document))


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("key-created", {}),
        ("key-created", {"tenant": {"omitted_bytes": 9, "sha256": "x"}}),
        ("key-created", {"tenant": THEIRS}),
        ("grant-added", {"tenant": "*"}),
        ("frozen", {"scope": "all", "name": ""}),
        ("frozen", {"scope": "product", "name": OURS}),
        ("frozen", {"scope": "tenant", "name": [OURS]}),
        ("frozen", {"scope": "key", "name": f"{THEIRS}/{OURS}"}),
        ("frozen", {"scope": "key", "name": "model"}),
        ("frozen", {"scope": "galaxy", "name": OURS}),
        ("thawed", {"name": OURS}),
        ("references-added", {"in_force_for": [f"{OURS}/a", f"{THEIRS}/a"], "blocked": []}),
        ("references-added", {"in_force_for": [f"{OURS}/a"], "blocked": [f"{THEIRS}/a"]}),
        ("references-added", {"in_force_for": [f"{OURS}/a"]}),
        ("references-added", {"in_force_for": [], "blocked": []}),
        ("references-added", {"in_force_for": [f"{OURS}/a", 7], "blocked": []}),
        ("renewals-stopped", {"leases": []}),
        ("renewals-stopped", {"leases": ["unknown"]}),
        ("renewals-stopped", {"leases": {"omitted_bytes": 9}}),
        ("renewals-resumed", {"leases": [7]}),
        ("break-glass-closed", {"number": 1}),
        ("break-glass-closed", {"number": "1"}),
        ("break-glass-closed", {}),
        ("proposal-created", {"proposal": "unknown"}),
        ("proposal-executed", {}),
        ("decision", {"requested": []}),
        ("decision", {"requested": [f"{THEIRS}/{OURS}"]}),
        ("decision", {"requested": [OURS]}),
        ("decision", {}),
    ],
)
def test_what_is_not_known_to_be_the_tenants_is_not_shown(kind: str, members: Document) -> None:
    assert seen_by({"seq": 1, "kind": kind, **members}, tenant=OURS, owners=NOBODY) is None


def test_a_document_for_the_tenants_keys_alone_is_shown() -> None:
    document: Document = {"kind": "references-added", "in_force_for": [f"{OURS}/a"], "blocked": [f"{OURS}/a"]}
    shown = seen_by(document, tenant=OURS, owners=NOBODY)
    assert shown is not None
    assert (shown.document, shown.redacted) == (document, False)


def test_the_page_about_the_log_names_what_is_shown_to_whom() -> None:
    page = (REPOSITORY / "docs" / "log.md").read_text()
    table = page.partition("## For a tenant's auditor")[2].partition("\n## ")[0]
    assert set(RULES) <= set(re.findall(r"`([a-z-]+)`", table))
