"""`kms config check`, and the profile that refuses to start with anything relaxed."""

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from attest.clock import system_clock
from attest.errors import ConfigurationError
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import simulated_crl
from attest_simulator.intel import SimulatedPlatform
from kms.auth.grants import give_role
from kms.auth.names import jwt_identity
from kms.cli.config_check import ConfigFinding, check_settings
from kms.config.external_files import open_endorsements
from kms.config.insecure_switches import SWITCHES, relaxed_switches, require_strict
from kms.domain.permissions import Role
from kms.operations.services import open_services
from kms.release.endorsement_dates import dated
from tests.kms.admins import LOGIN, ROOT
from tests.kms.oidc import ISSUER
from tests.kms.pki import NOW, authority
from tests.kms.postgres import Server
from tests.kms.support import AT, FakeClock, FakeRandom, Harness, settings_for, write_intel_collateral
from tests.kms.test_cli import Shell, shell
from tests.kms.test_passports import issuer_of

__all__ = ["shell"]

STRICT: dict[str, Any] = {"allow_simulated": False, "profile": "production"}
ALWAYS = (
    "settings-file",
    "profile",
    "database",
    "key-encryption-key",
    "rollback-guard",
    "clock",
    "endorsements",
    "anchors",
    "witnesses",
    "tls",
    "administration",
    "callers",
    "verifiers",
    "kbs",
    "maa",
    "skr",
)


def checked(harness: Harness, *, config: Path | None = None, **changes: Any) -> list[ConfigFinding]:  # noqa: ANN401  settings
    settings = settings_for(harness.folder, **({"database": harness.settings.database} | changes))
    random = FakeRandom("check")
    return list(check_settings(settings, config=config, clock=harness.clock, random=random, warn_days=14))


def about(findings: list[ConfigFinding], check: str, outcome: str) -> list[str]:
    return [one.text for one in findings if (one.check, one.outcome) == (check, outcome)]


def failed(findings: list[ConfigFinding]) -> set[str]:
    return {one.check for one in findings if one.outcome == "failed"}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_service_that_would_start_passes_every_check(harness: Harness) -> None:
    findings = checked(harness)
    assert tuple(dict.fromkeys(one.check for one in findings)) == ALWAYS
    assert not failed(findings)
    assert about(findings, "database", "ok") == ["reachable; the log has 1 entries"]


@pytest.mark.parametrize("name", ["kek", "database"])
def test_what_is_missing_fails_and_the_other_checks_go_on(harness: Harness, name: str) -> None:
    missing: dict[str, dict[str, Any]] = {
        "kek": {"kek_file": harness.folder / "none"},
        "database": {"database": str(harness.folder / "none")},
    }
    findings = checked(harness, **missing[name])
    assert {"key-encryption-key"} <= failed(findings) <= {"key-encryption-key", "database", "clock", "rollback-guard"}
    assert tuple(dict.fromkeys(one.check for one in findings)) == ALWAYS


def test_a_database_of_another_schema_and_of_another_key_fails(harness: Harness, tmp_path: Path) -> None:
    other = Harness.make(tmp_path, seed="other", database=str(tmp_path / "b.db"), kek_file=tmp_path / "b.kek")
    other.close()
    findings = checked(harness, kek_file=tmp_path / "b.kek")
    assert failed(findings) == {"key-encryption-key", "rollback-guard"}
    with closing(sqlite3.connect(harness.settings.database)) as database:
        database.execute("UPDATE alembic_version SET version_num = '0001'")
        database.commit()
    findings = checked(harness)
    assert "[database-needs-migration]" in about(findings, "database", "failed")[0]


def test_settings_that_others_may_write_fail(harness: Harness, tmp_path: Path) -> None:
    config = tmp_path / "kms.toml"
    config.touch(mode=0o644)
    assert not failed(checked(harness, config=config))
    for mode in (0o664, 0o646):
        config.chmod(mode)
        assert failed(checked(harness, config=config)) == {"settings-file"}
    assert failed(checked(harness, config=tmp_path / "none")) == {"settings-file"}


@pytest.mark.parametrize(
    ("content", "code"), [("", "issuers-invalid"), (None, "issuers-invalid"), ("jwks", "the key set of")]
)
def test_issuers_of_callers_that_could_not_be_asked_fail(harness: Harness, content: str | None, code: str) -> None:
    path = harness.folder / "callers.toml"
    changes: dict[str, Any] = {"callers": "identified", "callers_issuers_file": path}
    path.write_text(LOGIN.table(harness.folder))
    assert about(checked(harness, **changes), "callers", "ok") == ["token issuers: 1"]
    if content == "jwks":
        (harness.folder / "login.jwks").write_text("{}")
    elif content is None:
        path.unlink()
    else:
        path.write_text(content)
    findings = checked(harness, **changes)
    assert "callers" in failed(findings)
    assert code in about(findings, "callers", "failed")[0]


def test_verifiers_that_could_not_be_trusted_fail(harness: Harness) -> None:
    (harness.folder / "v.jwks").write_bytes(issuer_of().jwks(AT))
    path = harness.folder / "verifiers.toml"
    path.write_text('[[verifier]]\nissuer = "https://v.test"\nkeys = "v.jwks"\n')
    assert about(checked(harness, verifiers_file=path), "verifiers", "ok") == ["1 with 1 keys"]
    (harness.folder / "v.jwks").write_text("{}")
    assert failed(checked(harness, verifiers_file=path)) == {"verifiers"}


def test_a_cache_that_could_keep_nothing_fails_and_stops_the_start(harness: Harness) -> None:
    (harness.folder / "file").touch()
    assert not failed(checked(harness, fetch=True, cache_directory=harness.folder / "new" / "below"))
    for path in (harness.folder / "file", harness.folder / "file" / "below"):
        findings = checked(harness, fetch=True, cache_directory=path)
        assert failed(findings) == {"endorsements"}
        assert "[endorsement-cache-unusable]" in about(findings, "endorsements", "failed")[0]
        settings = settings_for(harness.folder, fetch=True, cache_directory=path)
        with pytest.raises(ConfigurationError) as caught:
            open_services(settings, clock=harness.clock, random=harness.random)
        assert caught.value.code == "endorsement-cache-unusable"


def test_ends_of_endorsements_are_warned_of_before_and_fail_from_their_moment_on(harness: Harness) -> None:
    (harness.folder / "endorsements" / "crl.der").write_bytes(simulated_crl(SnpProduct.GENOA, at=AT))
    ends = dated(harness.services.endorsements.current(at=AT))[0].ends
    for before, outcome in (
        (timedelta(days=14, seconds=1), "ok"),
        (timedelta(days=14), "warning"),
        (timedelta(seconds=1), "warning"),
        (timedelta(0), "failed"),
    ):
        harness.clock.at = ends - before
        findings = checked(harness)
        found = about(findings, "endorsements", outcome)
        assert any("crl" in one or "that expire" in one for one in found), (before, findings)
        assert bool(about(findings, "endorsements", "warning")) == (outcome == "warning")
        assert (failed(findings) == {"endorsements"}) == (outcome == "failed")
    # Where vendors are asked, an end in the files keeps nothing from starting.
    assert not failed(checked(harness, fetch=True))


def test_intels_collateral_has_ends_too_and_of_two_issues_the_later_one_counts(harness: Harness) -> None:
    platform = SimulatedPlatform.of()
    write_intel_collateral(harness.folder, platform)
    settings = settings_for(harness.folder)
    desk = open_endorsements(settings, clock=harness.clock, random=harness.random, report=lambda _: None)
    first = {(one.kind, one.name): one.ends for one in dated(desk.current(at=AT))}
    assert {kind for kind, _ in first} == {"crl", "tcb-info", "qe-identity", "certificate"}
    later = AT + timedelta(days=31)  # everything is current from the first of a month
    newer = platform.collateral("tdx", at=later).to_json()
    (harness.folder / "endorsements" / "newer.json").write_bytes(newer)
    desk.reload(at=later)
    second = {(one.kind, one.name): one.ends for one in dated(desk.current(at=later))}
    assert second.keys() == first.keys()
    moved = {kind for (kind, name), ends in second.items() if ends > first[kind, name]}
    assert moved >= {"crl", "tcb-info", "qe-identity"}


def test_a_clock_behind_the_log_fails(harness: Harness) -> None:
    harness.clock.forward(seconds=-60)
    assert not failed(checked(harness))
    harness.clock.forward(seconds=-1)
    findings = checked(harness)
    assert "[clock-went-back]" in about(findings, "clock", "failed")[0]


@pytest.mark.parametrize("setting", ["anchors_file", "witnesses_file"])
def test_files_of_anchors_and_witnesses_are_read(harness: Harness, tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").write_text("nonsense", encoding="utf-8")
    check = setting.removesuffix("_file")
    assert failed(checked(harness, **{setting: tmp_path / "file"})) == {check}
    assert failed(checked(harness, **{setting: tmp_path / "none"})) == {check}


def test_more_connections_than_the_server_has_are_warned_of(postgres: Server, tmp_path: Path) -> None:
    made = Harness.make(tmp_path, database=postgres.fresh())
    assert about(checked(made, workers=6, database_connections=10), "database", "warning") == []
    assert about(checked(made, workers=7, database_connections=10), "database", "warning") != []
    made.close()


def test_mc_42_every_relaxed_switch_is_named_and_refused_in_production(harness: Harness) -> None:
    url = "postgresql://kms@db.example/kms?sslmode="
    on: dict[str, dict[str, Any]] = {
        "allow_simulated": {"allow_simulated": True},
        "allow_thaw_by_one": {"allow_thaw_by_one": True, "allow_simulated": False, "endorsements": ()},
        "allow_no_rollback_guard": {
            "allow_no_rollback_guard": True,
            "allow_simulated": False,
            "endorsements": (),
        },
        "unsigned_bundles": {"endorsements": (harness.folder,), "allow_simulated": False},
        "no_fsck": {"fsck_every_seconds": 0, "allow_simulated": False, "endorsements": ()},
        "plain_http": {"host": "192.0.2.1", "allow_simulated": False, "endorsements": ()},
        "database_tls": {"database": f"{url}require", "allow_simulated": False, "endorsements": ()},
    }
    assert set(on) == set(SWITCHES)
    for name, changes in on.items():
        settings = settings_for(harness.folder, **changes)
        assert name in relaxed_switches(settings)
        strict = settings_for(harness.folder, **(changes | {"profile": "production"}))
        if name == "unsigned_bundles":  # there is nothing to refuse: unsigned bundles are passed over then
            assert relaxed_switches(strict) == {}
            continue
        with pytest.raises(ConfigurationError) as caught:
            require_strict(strict)
        assert (caught.value.code, caught.value.got) == ("production-relaxed", name)
        with pytest.raises(ConfigurationError, match=name):
            open_services(strict, clock=FakeClock(), random=FakeRandom())
    for sound in (
        f"{url}verify-full",
        "postgresql://kms@db.example/kms",
        "postgresql://kms@127.0.0.1/kms?sslmode=disable",
    ):
        require_strict(settings_for(harness.folder, **(STRICT | {"database": sound})))


def test_mc_42_production_takes_no_bundle_that_nobody_signed(harness: Harness) -> None:
    from attest.endorsements.bundle import build_bundle
    from attest.endorsements.bundle_records import BundleEntry

    (harness.folder / "endorsements" / "crl.der").unlink()
    crl = simulated_crl(SnpProduct.GENOA, at=AT)
    bundle = build_bundle(
        [BundleEntry(kind="amd-crl", source="test", data=crl)], created=AT, expires=AT + timedelta(days=1)
    )
    (harness.folder / "endorsements" / "bundle").write_bytes(bundle.to_bytes())
    each: tuple[tuple[dict[str, Any], bool], ...] = (({"allow_simulated": False}, True), (STRICT, False))
    for changes, current in each:
        settings = settings_for(harness.folder, **changes)
        desk = open_endorsements(settings, clock=harness.clock, random=harness.random, report=lambda _: None)
        assert any(crl.is_current(AT) for crl in desk.current(at=AT).crls) is current


def test_config_check_prints_a_table_or_json_and_its_code_says_whether_it_would_start(shell: Shell) -> None:
    shell.init("--allow-simulated")
    out, _ = shell.with_config("config", "check")
    assert "profile              warning  allow_simulated: SIMULATED" in out
    assert 'hint: profile = "production" refuses this' in out
    _, err = shell.with_config("config", "check", "--strict", code=1)
    assert "[configuration-unsound]" in err
    out, err = shell.with_config("config", "check", "--json", "--profile", "production", code=1)
    document = json.loads(out)
    assert (document["schema"], document["sound"]) == ("kms.config-check/1", False)
    failures = [one for one in document["checks"] if one["outcome"] == "failed"]
    assert [one["check"] for one in failures] == ["profile"]
    shell.with_config("config", "check", "--profile", "strange", code=2)
    (shell.config.parent / "kek").chmod(0o644)
    out, err = shell.with_config("config", "check", code=1)
    assert "key-encryption-key   failed" in out
    assert system_clock().isoformat()[:10] in out


def test_mc_42_serve_in_production_refuses_to_start_with_simulation(shell: Shell) -> None:
    shell.init("--allow-simulated")
    _, err = shell.with_config("serve", "--port", "0", "--profile", "production", code=2)
    assert "allow_simulated" in err
    assert "[production-relaxed]" in err


def test_what_administrators_need_is_looked_at(harness: Harness) -> None:
    authority("servers").issue("kms", server=True).write(harness.folder, "admin")
    authority("administrators").write(harness.folder, "client-ca")
    issuers = harness.folder / "issuers.toml"
    issuers.write_text(LOGIN.table(harness.folder), encoding="utf-8")
    named: dict[str, Any] = {
        "admin_port": 0,
        "admin_certificate_file": harness.folder / "admin.crt",
        "admin_key_file": harness.folder / "admin.key",
        "admin_client_ca_file": harness.folder / "client-ca.crt",
        "admin_issuers_file": issuers,
    }

    def said(outcome: str, **changes: Any) -> str:  # noqa: ANN401  settings
        harness.clock.at = NOW  # when these certificates count
        texts = about(checked(harness, **changes), "administration", outcome)
        harness.clock.at = AT
        return "; ".join(texts)

    assert "[no-administrator]" in said("failed", **named)
    store, root = harness.services.store, jwt_identity(ISSUER, "root")
    give_role(store, identity=root, tenant="*", role=Role.ADMINISTRATOR, actor=ROOT, at=AT)
    assert said("failed", **named) == ""
    assert "token issuers: 1" in said("ok", **named)
    for name in ("admin_certificate_file", "admin_key_file", "admin_client_ca_file", "admin_issuers_file"):
        assert "absent" in said("failed", **(named | {name: harness.folder / "absent"})), name
    assert said("ok") == "no listener is configured"
