"""What would happen with given evidence: told in full to an operator, and nothing happens."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from attest import Binding, Evidence
from attest.clock import system_clock
from attest.encoding import JsonValue
from attest.release import CONTEXT
from attest.release.wire import ROLE
from kms.auth.authorisation import GuardedStore
from kms.controls.admin import freeze
from kms.domain.freezes import target
from kms.domain.keys import Disclosure
from kms.domain.leases import LeaseFilter
from kms.domain.permissions import Role
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.keys.tenants import create_tenant
from kms.leases.admin import stop_renewals
from kms.release.dry_run import ReleaseTrial
from kms.release.service import ReleaseService
from kms.store import ReadTransaction
from kms.store.nonces import used_nonces
from tests.kms.admins import AdminClient, admin_client
from tests.kms.support import ACTOR, MODEL, Harness, Workload, live_leases, policy_text, write_endorsements
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def service(harness: Harness) -> Harness:
    harness.add_key("model")
    return harness


def evidence(service: Harness, workload: Workload | None = None, **changes: object) -> Evidence:
    """Evidence under a nonce that this service never issued."""
    asking = workload or Workload()
    public = asking.key.public if asking.public is None else asking.public
    bound = Binding(context=CONTEXT, role=ROLE, audience=service.audience, nonce=b"x" * 32, key=public)
    return asking.attest(replace(bound, **changes))  # type: ignore[arg-type]  # members of a binding


def tried(service: Harness, given: Evidence, *key_ids: str, **more: object) -> ReleaseTrial:
    """Try, and make sure that nothing happened."""
    before = service.entries()
    options = {"at": service.clock()} | more
    trial = service.releases.try_release(given, key_ids or ("model",), **options)  # type: ignore[arg-type]
    assert service.entries() == before
    with service.services.store.reading() as tx:
        assert list(tx.tables.rows(used_nonces)) == []
    return trial


def codes(trial: ReleaseTrial) -> list[str]:
    assert not trial.would_release
    reasons = trial.members()["reasons"]
    assert isinstance(reasons, list)
    return [reason["code"] for reason in reasons]  # type: ignore[index,call-overload,misc]  # objects


def test_what_would_be_released_is_told_and_stays_where_it_is(service: Harness) -> None:
    trial = tried(service, evidence(service))
    assert trial.would_release
    members = trial.members()
    assert (members["outcome"], members["reasons"]) == ("allow", [])
    assert trial.failed() == ()
    with service.services.store.reading() as tx:
        assert live_leases(tx, MODEL, at=service.clock()) == ()
    # What was tried answers no challenge: nothing is released on it.
    challenge = service.releases.challenge()
    request = replace(Workload().request(challenge, "model"), evidence=evidence(service))
    with pytest.raises(Exception, match="another nonce"):
        service.releases.release(request)


def test_every_check_is_told_whatever_the_key_discloses(service: Harness) -> None:
    then = ReleaseSettings(disclosure=Disclosure.NONE, lease_seconds=None)
    set_release_settings(service.services.store, MODEL, then, actor=ACTOR, at=service.clock())
    trial = tried(service, evidence(service, Workload().with_measurement(b"\x01" * 48)))
    assert codes(trial) == ["policy-not-met"]
    ((asked, check),) = trial.failed()
    assert (asked, check.id, check.got) == ("model", "policy.snp.measurement", "01" * 48)
    told = json.dumps(trial.members())
    assert "policy.snp.minimum_tcb" in told  # and what holds


def test_an_unknown_key_and_one_that_stands_back_are_told(service: Harness) -> None:
    assert codes(tried(service, evidence(service), "missing")) == ["key-unknown"]
    freeze(service.services.store, target("key", "model"), reason="x", actor=ACTOR, at=service.clock())
    assert codes(tried(service, evidence(service))) == ["key-frozen"]


def test_leases_and_stops_are_judged_as_they_are(service: Harness) -> None:
    assert codes(tried(service, evidence(service), renews=("0" * 32,))) == ["lease-unknown"]
    challenge = service.releases.challenge()
    service.releases.release(Workload().request(challenge, "model"))
    service.alter("DELETE FROM used_nonces")
    stop_renewals(service.services.store, LeaseFilter(), concerns=(), reason="x", actor=ACTOR, at=service.clock())
    assert codes(tried(service, evidence(service))) == ["lease-stopped"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"audience": "kms.test/other+00"}, "binding-audience-mismatch"),
        ({"context": "channel/v1"}, "binding-context-mismatch"),
        ({"role": "service"}, "binding-role-mismatch"),
        ({"key": b"\x00\x20" + bytes(5)}, "recipient-key-invalid"),
    ],
)
def test_evidence_that_could_not_be_used_is_told_why(service: Harness, changes: dict[str, object], code: str) -> None:
    trial = tried(service, evidence(service, None, **changes))
    assert codes(trial) == [code]
    assert trial.decision is None


def test_evidence_without_a_binding_would_release_nothing(service: Harness) -> None:
    whole = evidence(service)
    bare = Evidence(items=tuple(item for item in whole.items if item.name != "binding"))
    assert codes(tried(service, bare)) == ["binding-missing"]


def test_what_a_vendor_does_not_say_is_told(service: Harness) -> None:
    (service.folder / "endorsements" / "crl.der").unlink()
    service.services.endorsements.reload(at=service.clock())
    assert codes(tried(service, evidence(service))) == ["crl-missing"]


def test_another_moment_can_be_asked_about(service: Harness) -> None:
    ending = policy_text(name="ending").replace(b"    origin:", b'    expires: "2026-07-01T00:00:00Z"\n    origin:')
    service.add_key("ending", policy=ending)
    assert tried(service, evidence(service), "ending").would_release
    later = tried(service, evidence(service), "ending", at=service.clock() + timedelta(days=60))
    assert codes(later) == ["policy-not-met"]


def test_a_release_is_tried_at_the_command_line(service: Harness, shell: Shell, tmp_path: Path) -> None:
    if service.on_postgres:
        pytest.skip("the command is the same, and what it calls runs on both")
    service.clock.at = system_clock().replace(microsecond=0)
    write_endorsements(service.folder, at=service.clock.at)
    config = tmp_path / "try.toml"
    config.write_text(
        f'database = "{service.settings.database}"\nkek_file = "{service.folder / "kek"}"\n'
        f'origin = "{service.settings.origin}"\nendorsements = ["{service.folder / "endorsements"}"]\n'
        "allow_simulated = true\n"
    )
    for workload, code, words in (
        (Workload(), 0, "model: would be released"),
        (Workload().with_measurement(b"\x01" * 48), 1, "policy.snp.measurement (policy of model)"),
    ):
        file = tmp_path / "evidence.json"
        file.write_bytes(evidence(service, workload).to_json())
        command = ("releases", "try", "--evidence", str(file), "--key", "model", "--config", str(config))
        out, err = shell.run(*command, code=code)
        assert words in out
        assert "nothing was decided" in err
        document = json.loads(shell.run(*command, "--json", code=code)[0])
        assert (document["schema"], document["outcome"]) == ("kms.release-trial/1", "allow" if code == 0 else "deny")


def test_a_key_that_changes_meanwhile_is_tried_anew_and_not_told_of_two_moments(service: Harness) -> None:
    given = evidence(service)
    store, freezes = service.services.store, iter([target("tenant", "default")])

    class Between(GuardedStore):
        """Freezes between the first transaction of a trial and the second."""

        @contextmanager
        def reading(self) -> Iterator[ReadTransaction]:
            with super().reading() as tx:
                yield tx
            for one in freezes:
                freeze(store, one, reason="x", actor=ACTOR, at=service.clock())

    between = Between(store, demand=lambda tx: None)
    trial = ReleaseService(replace(service.services, store=between)).try_release(given, ("model",), at=service.clock())
    assert codes(trial) == ["tenant-frozen"]


# -- over the administration API


@pytest.fixture
def admin(service: Harness) -> Iterator[AdminClient]:
    create_tenant(service.services.store, "acme", actor=ACTOR, at=service.clock())
    service.add_key("acme/model")
    with admin_client(service) as client:
        client.give("operator", Role.OPERATOR, "default")
        client.give("everywhere", Role.OPERATOR)
        yield client


def ask(admin: AdminClient, who: str, *keys: str, given: Evidence | None = None) -> httpx2.Response:
    sent = json.loads((given or evidence(admin.harness)).to_json())
    before = admin.harness.entries()
    answer = admin.http.post("/v1/releases/try", json={"evidence": sent, "keys": list(keys)}, headers=admin.bearer(who))
    assert admin.harness.entries() == before
    return answer


def test_an_operator_tries_over_the_network_what_the_command_line_tells(admin: AdminClient) -> None:
    answer = ask(admin, "operator", "model")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"trial": tried(admin.harness, evidence(admin.harness)).members(), "failed": []}
    stranger = evidence(admin.harness, Workload().with_measurement(b"\x01" * 48))
    refused = ask(admin, "operator", "model", given=stranger).json()["trial"]
    assert [one["code"] for one in refused["reasons"]] == ["policy-not-met"]
    assert "01" * 48 in json.dumps(refused["keys"])


def test_an_operator_of_a_tenant_tries_keys_of_it_alone(admin: AdminClient) -> None:
    assert ask(admin, "everywhere", "model", "acme/model").json()["trial"]["outcome"] == "allow"
    told = set()
    for keys in (("acme/model",), ("model", "acme/model"), ("acme/none",), ("nowhere/none",)):
        answer = ask(admin, "operator", *keys)
        assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
        told.add(answer.json()["detail"].replace("nowhere", "acme"))
    assert len(told) == 1  # a tenant that there is not is told like one that is another's
    assert [one["code"] for one in ask(admin, "operator", "none").json()["trial"]["reasons"]] == ["key-unknown"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"evidence": {}, "keys": ["model"]}, (400, None)),
        ({"evidence": {}, "keys": []}, (422, "request-schema")),
        ({"evidence": {}, "keys": ["default/model"]}, (422, None)),
        ({"evidence": {}, "keys": ["model"], "renews": ["0" * 32]}, (403, "not-permitted")),
        ({"evidence": {}, "keys": ["model"], "lease": "0" * 32}, (422, "request-schema")),
        ({"keys": ["model"]}, (422, "request-schema")),
    ],
)
def test_what_could_not_be_asked_for_is_refused(
    admin: AdminClient, body: dict[str, JsonValue], refusal: tuple[int, str | None]
) -> None:
    answer = admin.http.post("/v1/releases/try", json=body, headers=admin.bearer("operator"))
    assert answer.status_code == refusal[0], answer.text
    assert refusal[1] in {None, answer.json()["code"]}
