"""Checks of ``kms config check``: everything that the settings name, as at start. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

from attest.clock import Clock
from attest.encoding import rfc3339_text
from attest.errors import AttestError
from attest.policy import decode_policy, read_document
from kms.admin_api.listener import admin_tls, require_administrator
from kms.auth.issuers import BearerIssuer
from kms.auth.keysets import parse_key_set, read_key_set
from kms.config.callers import read_administrators, read_callers
from kms.config.external_files import open_endorsements, read_anchors, read_panel
from kms.config.file_ownership import require_guarded
from kms.config.insecure_switches import relaxed_switches, require_strict
from kms.config.kbs import read_kbs_settings
from kms.config.listener_tls import open_tls, weigh_channel
from kms.config.maa import read_maa_settings
from kms.config.settings import Settings
from kms.config.skr import Authority, Vault, is_below, read_skr_settings
from kms.config.skr_signer import open_signer
from kms.domain.kek import RandomBytes
from kms.operations.guards.examination import examine_guards, guards_beside_database
from kms.operations.services import open_identity, open_vault
from kms.references.resolution import named_by
from kms.release.endorsement_dates import dated
from kms.release.verifiers import read_verifiers
from kms.store import Store, open_store

FindingOutcome = Literal["ok", "warning", "failed"]
_RENEW: Final = "replace the file with a newer one and send SIGHUP"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFinding:
    """A finding of a check, which may have several; a warning does not prevent a start."""

    check: str
    outcome: FindingOutcome
    text: str
    hint: str | None = None


class _Found(NamedTuple):
    outcome: FindingOutcome
    text: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looking:
    settings: Settings
    config: Path | None
    clock: Clock
    random: RandomBytes
    warn_before: timedelta


def check_settings(
    settings: Settings, *, config: Path | None, clock: Clock, random: RandomBytes, warn_days: int
) -> Iterator[ConfigFinding]:
    """Check everything that the settings and their file ``config`` name; a failed check does not stop the next.

    An expiry within ``warn_days`` is a warning.
    """
    looking = _Looking(
        settings=settings, config=config, clock=clock, random=random, warn_before=timedelta(days=warn_days)
    )
    checks: tuple[tuple[str, Callable[[_Looking], Iterable[_Found]]], ...] = (
        ("settings-file", _settings_file),
        ("profile", _profile),
        ("database", _database),
        ("key-encryption-key", _kek),
        ("rollback-guard", _guards),
        ("clock", _clock),
        ("endorsements", _endorsements),
        ("anchors", _anchors),
        ("witnesses", _witnesses),
        ("tls", _tls),
        ("administration", _administration),
        ("callers", _callers),
        ("verifiers", _verifiers),
        ("kbs", _kbs),
        ("maa", _maa),
        ("skr", _skr),
    )
    for name, look in checks:
        try:
            for found in look(looking):
                yield ConfigFinding(check=name, outcome=found.outcome, text=found.text, hint=found.hint)
        except AttestError as exc:
            yield ConfigFinding(check=name, outcome="failed", text=f"{exc.message} [{exc.code}]", hint=exc.hint)


def _settings_file(looking: _Looking) -> Iterator[_Found]:
    """Check the owners of the settings and of the files they name: write access to these controls what is released."""
    if looking.config is None:
        yield _Found("ok", "no settings file; flags, environment and defaults apply")
    elif not looking.config.exists():
        yield _Found("failed", f"there is no file {looking.config}")
    count = require_guarded(looking.settings, looking.config)
    if looking.config is not None:
        yield _Found("ok", f"{looking.config}; other users cannot write any of the {count} trusted files")


def _profile(looking: _Looking) -> Iterator[_Found]:
    require_strict(looking.settings)
    for name, text in relaxed_switches(looking.settings).items():
        yield _Found("warning", f"{name}: {text}", 'profile = "production" refuses this')
    yield _Found("ok", looking.settings.profile)


def _database(looking: _Looking) -> Iterator[_Found]:
    """Check that the database responds and has the schema of this version."""
    settings = looking.settings
    with closing(_store(settings)) as store, store.opening() as reader:
        size, most = reader.log.size(), reader.audit.max_connections()
    yield _Found("ok", f"reachable; the log has {size} entries")
    wanted = settings.workers * settings.database_connections
    if most is not None and wanted > most:
        text = f"{settings.workers} workers with {settings.database_connections} connections exceed the {most}"
        yield _Found("warning", f"{text} that the server allows", "raise max_connections, or lower one of the settings")


def _kek(looking: _Looking) -> Iterator[_Found]:
    """Check that the key-encryption key belongs to the database and unwraps the service's own key."""
    vault = open_vault(looking.settings, random=looking.random, guarded=False)
    with closing(vault.store):
        identity = open_identity(vault, looking.settings)
    yield _Found("ok", f"unwraps the keys of {identity.public.text}")


def _guards(looking: _Looking) -> Iterator[_Found]:
    """Compare the database with every rollback guard, including those on other machines."""
    settings = looking.settings
    vault = open_vault(settings, random=looking.random, guarded=False)
    with closing(vault.store):
        identity = partial(open_identity, vault, settings)
        found = tuple(examine_guards(settings, vault.store, identity, clock=looking.clock))
    for one in found:
        if one.problem is not None:
            yield _Found("failed", one.problem)
    for name in guards_beside_database(settings):
        text = f"{name} is on the same disk as the database, so one snapshot contains both"
        yield _Found("warning", text, "set rollback_guard to a file on another disk")
    names = ", ".join(one.guard for one in found if one.problem is None)
    if names or not found:
        yield _Found("ok", names or "no guard is configured")


def _clock(looking: _Looking) -> Iterator[_Found]:
    """Check that the clock is not behind the newest entry of the log."""
    settings, now = looking.settings, looking.clock()
    with closing(_store(settings)) as store, store.opening() as reader:
        reader.log.require_time(now)
    yield _Found("ok", rfc3339_text(now.replace(microsecond=0)))


def _endorsements(looking: _Looking) -> Iterator[_Found]:
    settings, now = looking.settings, looking.clock()
    warnings: list[str] = []
    provider = open_endorsements(settings, clock=looking.clock, random=looking.random, report=warnings.append)
    for line in warnings:
        yield _Found("warning", line.removeprefix("warning: endorsements: "))
    ends = dated(provider.current(at=now))
    for one in ends:
        if one.ends <= now:
            text = f"{one.kind} {one.name} expired on {_date(one.ends)}"
            yield _Found("warning" if settings.fetch else "failed", text, _RENEW)
        elif one.ends - now <= looking.warn_before:
            text = f"{one.kind} {one.name} expires on {_date(one.ends)}"
            yield _Found("warning", text, _RENEW)
    if not settings.endorsements and not settings.fetch:
        text = "neither endorsements nor fetch is set; evidence must carry its own endorsements"
        yield _Found("warning", text, "create a bundle with 'attest endorsements fetch'")
    yield _Found("ok", f"{len(ends)} that expire" + (f", the first on {_date(ends[0].ends)}" if ends else ""))


def _anchors(looking: _Looking) -> Iterator[_Found]:
    anchors = read_anchors(looking.settings)
    changed = "" if looking.settings.anchors_file is None else f", changed by {looking.settings.anchors_file}"
    yield _Found("ok", f"{len(anchors.anchors)} roots{changed}")


def _witnesses(looking: _Looking) -> Iterator[_Found]:
    panel = read_panel(looking.settings)
    text = ", ".join(one.key.name for one in panel) if panel else "no witness is configured"
    yield _Found("ok", text)


def _tls(looking: _Looking) -> Iterator[_Found]:
    """Check the TLS certificate and key, or how the service listens without them."""
    settings, now = looking.settings, looking.clock()
    lines: list[str] = []
    weigh_channel(settings, report=lines.append)
    for line in lines:
        yield _Found("warning", line.removeprefix("WARNING: "), "set tls_certificate_file and tls_key_file")
    tls = open_tls(settings, at=now, report=lambda _: None)
    if tls is None:
        yield _Found("ok", "plain HTTP")
        return
    ends = tls.material.not_after
    if ends - now <= looking.warn_before:
        yield _Found("warning", f"the certificate expires on {_date(ends)}", _RENEW)
    yield _Found("ok", f"valid until {_date(ends)}; SPKI SHA-256 {tls.material.spki_sha256.hex()}")


def _administration(looking: _Looking) -> Iterator[_Found]:
    """Check the administration listener and that there is an administrator; no issuer on the network is contacted."""
    settings, now = looking.settings, looking.clock()
    if settings.admin_port is None:
        yield _Found("ok", "no listener is configured")
        return
    lines: list[str] = []
    tls = admin_tls(settings, at=now, report=lines.append)
    for line in lines:
        yield _Found("warning", line.removeprefix("warning: "), _RENEW)
    issuers = read_administrators(settings)
    yield from _key_sets(issuers)
    vault = open_vault(settings, random=looking.random)
    with closing(vault.store):
        require_administrator(vault.store)
    yield _Found("ok", f"certificate valid until {_date(tls.material.not_after)}; token issuers: {len(issuers)}")


def _callers(looking: _Looking) -> Iterator[_Found]:
    """Check that callers can be identified, if the settings require it; no issuer on the network is contacted."""
    issuers = read_callers(looking.settings)
    yield from _key_sets(issuers)
    yield _Found("ok", f"token issuers: {len(issuers)}" if issuers else "callers are not authenticated")


def _key_sets(issuers: Iterable[BearerIssuer]) -> Iterator[_Found]:
    """Check that key sets in files contain keys."""
    for one in issuers:
        if one.jwks_file is None:
            continue
        try:
            parse_key_set(read_key_set(one), one)
        except (OSError, AttestError) as exc:
            problem = exc.message if isinstance(exc, AttestError) else str(exc)
            yield _Found("failed", f"the key set of {one.issuer} cannot be used: {problem}")


def _verifiers(looking: _Looking) -> Iterator[_Found]:
    file = looking.settings.verifiers_file
    verifiers = () if file is None else read_verifiers(file)
    keys = sum(len(one.keys) for one in verifiers)
    yield _Found("ok", f"{len(verifiers)} with {keys} keys" if verifiers else "no passport is accepted")


def _kbs(looking: _Looking) -> Iterator[_Found]:
    """Check the file of the Key Broker Service, and that uploaded resources would have a usable policy."""
    file = looking.settings.kbs_file
    if file is None:
        yield _Found("ok", "the protocol of a Key Broker Service is not served")
        return
    found = read_kbs_settings(file)
    if found.policy is not None:
        read_document(found.policy)
    roles = ", ".join(one.role for one in found.roles) or "none"
    yield _Found("ok", f"guests are served; {len(found.administrators)} signers of administrators, roles: {roles}")


def _maa(looking: _Looking) -> Iterator[_Found]:
    """Check the file of the verifier with MAA's claims, with its key, its certificates and its policy."""
    file = looking.settings.maa_file
    if file is None:
        yield _Found("ok", "tokens with MAA's claims are not issued")
        return
    found = read_maa_settings(file)
    now, ends = looking.clock(), min(one.not_valid_after_utc for one in found.chain)
    if ends - now <= looking.warn_before:
        verb = "expired" if ends < now else "expires"
        hint = "make a new certificate for the key, and restart the service: clients may refuse tokens under an old one"
        yield _Found("warning", f"a certificate of tokens {verb} on {_date(ends)}", hint)
    yield _Found(
        "ok",
        f"tokens are issued as {found.issuer}, under the policy {found.policy.name}; certificates until {_date(ends)}",
    )


def _skr(looking: _Looking) -> Iterator[_Found]:
    """Check the file of the vaults, their certificates, and that keys made in them would have a usable policy."""
    file = looking.settings.skr_file
    if file is None:
        yield _Found("ok", "no vault is served")
        return
    found = read_skr_settings(file, maa_file=looking.settings.maa_file)
    for vault in found.vaults:
        yield from _vault(looking, vault, found.authorities)
    authorities = ", ".join(one.url for one in found.authorities) or "none"
    yield _Found("ok", f"vaults: {', '.join(one.host for one in found.vaults)}; authorities: {authorities}")


def _vault(looking: _Looking, vault: Vault, authorities: tuple[Authority, ...]) -> Iterator[_Found]:
    """Check a vault: certificate, tenant, the address of its challenge, and the authorities in its policy."""
    now, ends = looking.clock(), open_signer(vault, at=looking.clock()).not_after
    if ends - now <= looking.warn_before:
        yield _Found("warning", f"{vault.certificate} expires on {_date(ends)}", "replace it, and restart the service")
    with closing(_store(looking.settings)) as store, store.opening() as reader:
        if not reader.tenants.exists(vault.tenant):
            yield _Found(
                "warning", f"{vault.host}: there is no tenant {vault.tenant}", f"kms tenant create {vault.tenant}"
            )
    if not is_below(vault.host, vault.resource):
        text = f"{vault.host} is not below resource, {vault.resource}: clients refuse the challenge"
        yield _Found("warning", text, "name the vault's own address or a domain above it, with the same port")
    if vault.policy is None:
        return
    named_by(vault.policy, name=str(vault.policy_file))
    accepted = decode_policy(read_document(vault.policy), incomplete=True).verifiers
    if not {one.issuer for one in accepted} & {one.url for one in authorities}:
        text = f"{vault.policy_file} names none of the authorities among its verifiers: no key is released"
        yield _Found("warning", text, "issuer in the policy and url in the file are both the iss of the tokens")


def _store(settings: Settings) -> Store:
    return open_store(settings.database, access=settings.database_access)


def _date(moment: datetime) -> str:
    return rfc3339_text(moment.replace(microsecond=0))
