"""What a refused workload is told: as much as the key discloses, and where that is nothing, nothing at all."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from attest.checks import Check, Outcome
from attest.errors import AttestError, ConfigurationError
from kms.domain.decide import DenialReason, ReleaseDecision
from kms.domain.disclosure import denial, hides
from kms.domain.errors import KeyConflictError, KeyUnknownError
from kms.domain.keys import Disclosure, KeyName
from kms.keys.admin import find_key, set_enabled
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.keys.vault import Vault
from kms.operations.fsck import examine
from tests.kms.stores import write_genuine
from tests.kms.support import ACTOR, AT, GUEST, Harness, Workload, policy_text
from tests.kms.test_api import challenge_of, client_of
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]

STRANGER = Workload().with_measurement(b"\x01" * 48)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def web(harness: Harness) -> Iterator[TestClient]:
    with client_of(harness) as made:
        yield made


def disclose(harness: Harness, key_id: str, level: str, lease_seconds: int | None = None) -> None:
    then = ReleaseSettings(disclosure=Disclosure(level), lease_seconds=lease_seconds)
    set_release_settings(harness.services.store, KeyName.parse(key_id), then, actor=ACTOR, at=harness.clock())


def answer(web: TestClient, workload: Workload, *asked: str, renews: tuple[str, ...] = ()) -> tuple[int, bytes]:
    request = replace(workload.request(challenge_of(web), *asked), renews=renews)
    return sent(web, request.to_json())


def sent(web: TestClient, body: object) -> tuple[int, bytes]:
    """Send a request, and return status and body without the number that every request has of its own."""
    found = web.post("/v1/releases", json=body)
    return found.status_code, re.sub(rb'"request_id":"[0-9a-f]{32}"', b'"request_id":"x"', found.content)


def hidden(found: tuple[int, bytes], name: str) -> tuple[int, bytes]:
    """An answer with the key's name taken out, which the workload knows anyway."""
    return found[0], found[1].replace(name.encode(), b"KEY")


# -- the levels


@pytest.mark.parametrize("level", ["codes", "checks", "full"])
def test_mc_38_a_refusal_tells_what_the_key_discloses_and_the_log_all_of_it(
    harness: Harness, web: TestClient, level: str
) -> None:
    harness.add_key("model")
    if level != "checks":  # which is what a new key has
        disclose(harness, "model", level)
    status, content = answer(web, STRANGER, "model")
    document = json.loads(content)
    assert (status, document["code"], document["field"]) == (403, "policy-not-met", "model")
    for value in ("01" * 48, GUEST.measurement.hex()):
        assert (value in content.decode()) is (level == "full")
    checks = document.get("failed_checks", [])
    assert [check["id"] for check in checks] == ([] if level == "codes" else ["policy.snp.measurement"])
    assert {"got", "expected"} <= set(checks[0] if checks else {}) if level == "full" else True
    logged = harness.decisions()[-1]
    assert [check["got"] for check in logged["failed_checks"]] == ["01" * 48]  # type: ignore[attr-defined]


def test_the_words_of_an_operator_are_told_with_full_disclosure_alone(harness: Harness) -> None:
    reason = DenialReason(code="lease-stopped", key_id="a", text="stopped because of incident 4711")
    decision = ReleaseDecision(keys=(), recipient=None, reasons=(reason,), at=AT)
    for level in Disclosure:
        error = denial(decision, requested=("a",), levels={"a": level})
        assert ("4711" in error.message) is (level is Disclosure.FULL)


def test_the_most_reserved_key_of_a_request_decides() -> None:
    check = Check(id="policy.x", outcome=Outcome.FAIL, expected="e", got="g", clause="c")
    reasons = (DenialReason(code="policy-not-met", key_id="b", text="x", checks=(check,)),)
    decision = ReleaseDecision(keys=(), recipient=None, reasons=reasons, at=AT)
    levels = {"a": Disclosure.CODES, "b": Disclosure.FULL, "c": Disclosure.NONE}
    assert denial(decision, requested=("b",), levels=levels).checks == (check,)
    error = denial(decision, requested=("b", "a"), levels=levels)
    assert (error.message, error.checks) == ("the release is refused: policy-not-met", ())
    assert hides(("a", "b"), levels) is None
    assert [hides(asked, levels) for asked in (("b", "c"), ("b", "x", "c"), ("x",))] == ["c", "x", "x"]
    assert isinstance(denial(decision, requested=("a", "c"), levels=levels), KeyUnknownError)


# -- nothing at all


def test_mc_21_a_key_that_discloses_nothing_answers_as_if_there_were_none(harness: Harness, web: TestClient) -> None:
    for name in ("refused", "disabled", "open", "stopped"):
        harness.add_key(name)
        disclose(harness, name, "none")
    set_enabled(harness.services.store, KeyName(key_id="disabled"), enabled=False, actor=ACTOR, at=harness.clock())
    unknown = hidden(answer(web, STRANGER, "missing"), "missing")
    assert unknown[0] == 404
    assert json.loads(unknown[1])["code"] == "key-unknown"
    for workload, name in ((STRANGER, "refused"), (Workload(), "disabled"), (STRANGER, "refused@1")):
        assert hidden(answer(web, workload, name), name) == unknown
    for workload, name in ((STRANGER, "refused@9"), (STRANGER, "nobody/refused"), (Workload(), "missing")):
        assert hidden(answer(web, workload, name), name) == unknown
    assert hidden(answer(web, Workload(), "open", renews=("0" * 32,)), "open") == unknown
    assert answer(web, Workload(), "open")[0] == 200
    codes = [{reason["code"] for reason in one["reasons"]} for one in harness.decisions()]  # type: ignore[attr-defined]
    assert codes[1:3] == [{"policy-not-met"}, {"key-disabled"}]


def test_mc_21_beside_an_open_key_it_answers_the_same(harness: Harness, web: TestClient) -> None:
    harness.add_key("model")
    harness.add_key("secret", policy=policy_text(name="secret"))
    disclose(harness, "model", "full")
    disclose(harness, "secret", "none")
    strict = policy_text(name="strict").replace(b"snp: 26", b"snp: 200")
    harness.add_key("strict", policy=strict)
    disclose(harness, "strict", "none")
    told_of = {
        hidden(answer(web, workload, *asked), asked[-1])
        for workload in (Workload(), STRANGER)
        for asked in (("model", "missing"), ("model", "strict"))
    }
    assert len(told_of) == 1
    assert len({hidden(answer(web, STRANGER, "model", one), one) for one in ("missing", "secret")}) == 1


def test_mc_21_what_a_policy_relaxes_does_not_show_that_there_is_a_key(harness: Harness, web: TestClient) -> None:
    """A policy that asks for no revocation list decides where an unknown key leads to 503."""
    relaxed = 'unchecked: {revocation: "no list in this test"}'
    harness.add_key("secret", policy=policy_text(name="relaxed", more=relaxed))
    (harness.folder / "endorsements" / "crl.der").unlink()
    harness.services.endorsements.reload(at=harness.clock())
    disclose(harness, "secret", "none")
    before = len(harness.decisions())
    told_of = []
    for name in ("missing", "secret"):
        request = STRANGER.request(challenge_of(web), name).to_json()
        told_of += [sent(web, request) for _ in range(2)]  # and again: neither answer uses the challenge up
    assert told_of[0][0] == 503
    assert all(one == told_of[0] for one in told_of)
    assert len(harness.decisions()) == before
    assert answer(web, Workload(), "secret")[0] == 200
    disclose(harness, "secret", "checks")
    assert answer(web, STRANGER, "secret")[0] == 403


@pytest.mark.parametrize("workload", [Workload(nonce=b"\x01" * 32), Workload(context="channel/v1")])
def test_mc_21_who_proves_nothing_learns_nothing_of_any_key(
    harness: Harness, web: TestClient, workload: Workload
) -> None:
    for name in Disclosure:
        harness.add_key(str(name))
        if name is not Disclosure.CHECKS:
            disclose(harness, str(name), name)
    found = [answer(web, workload, name) for name in ("missing", *Disclosure)]
    nonce = re.compile(rb"[0-9a-f]{64}")  # of the challenge, which is another one each time
    assert len({(status, nonce.sub(b"NONCE", content)) for status, content in found}) == 1


# -- the settings


def test_a_change_is_logged_with_what_was_before_and_who_did_it(harness: Harness) -> None:
    harness.add_key("model")
    disclose(harness, "model", "none", lease_seconds=60)
    entry = harness.entries()[-1]
    assert (entry["kind"], entry["key_id"], entry["disclosure"]) == ("key-release-set", "model", "none")
    before = {"disclosure": "checks", "lease_seconds": None, "via": "native"}
    assert (entry["before"], entry["actor"]) == (before, ACTOR.members())
    with pytest.raises(KeyConflictError) as caught:
        disclose(harness, "model", "none", lease_seconds=60)
    assert caught.value.code == "key-state-unchanged"
    with pytest.raises(KeyUnknownError):
        disclose(harness, "missing", "none")


@pytest.mark.parametrize(("seconds", "fits"), [(4, False), (5, True), (366 * 86_400, True), (366 * 86_400 + 1, False)])
def test_a_lease_is_neither_too_short_nor_too_long(harness: Harness, seconds: int, *, fits: bool) -> None:
    harness.add_key("model")
    if fits:
        disclose(harness, "model", "checks", lease_seconds=seconds)
        (key,) = harness.releases.release(Workload().request(harness.releases.challenge(), "model")).keys
        assert (key.expires_at - harness.clock()).total_seconds() == seconds
        return
    with pytest.raises(ConfigurationError) as caught:
        disclose(harness, "model", "checks", lease_seconds=seconds)
    assert caught.value.code == "lease-seconds-invalid"


@pytest.mark.parametrize("change", ["disclosure = 'full'", "lease_seconds = 60"])
def test_settings_that_somebody_wrote_into_the_database_are_found(harness: Harness, change: str) -> None:
    harness.add_key("model")
    disclose(harness, "model", "none")
    vault = Vault(store=harness.services.store, kek=harness.services.kek)

    def problems() -> tuple[str, ...]:
        found = {one.check: one for one in examine(vault, origin=harness.settings.origin, noted=())}
        return found["keys"].problems

    assert problems() == ()
    harness.alter(f"UPDATE keys SET {change}")  # noqa: S608  names of this test
    (problem,) = problems()
    assert problem.startswith("key model: " + change.partition(" =")[0].replace("_", " "))


def test_a_level_that_there_is_not_is_damage(harness: Harness) -> None:
    harness.add_key("model")
    write_genuine(harness, "keys", disclosure="some")
    with pytest.raises(AttestError) as caught:
        find_key(harness.services.store, KeyName(key_id="model"))
    assert caught.value.code == "key-record-invalid"


def test_settings_at_the_command_line(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    settings = ("key", "release-settings", "model")
    assert shell.with_config(*settings)[0] == "model: disclosure checks, lease as in the settings, via native\n"
    changed = shell.with_config(*settings, "--disclosure", "none", "--lease-seconds", "3600")[0]
    assert changed == "model: disclosure none, lease 3600 s, via native\n"
    assert "default" not in shell.with_config(*settings)[0]
    shell.with_config(*settings, "--lease-seconds", "default")
    assert "[lease-seconds-invalid]" in shell.with_config(*settings, "--lease-seconds", "4", code=2)[1]
    assert "expected a number" in shell.with_config(*settings, "--lease-seconds", "-5", code=2)[1]
    assert json.loads(shell.with_config("key", "show", "model", "--json")[0])["disclosure"] == "none"
    shell.with_config("fsck")
