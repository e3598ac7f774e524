"""`kms config check`: everything that the settings name is looked at, as a start would, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from attest.clock import Clock
from attest.encoding import rfc3339_text
from attest.errors import AttestError
from kms.admin_api.listener import admin_tls, require_administrator
from kms.auth.issuers import BearerIssuer, read_issuers
from kms.auth.keysets import parse_key_set, read_key_set
from kms.config.callers import read_callers
from kms.config.external_files import open_endorsements, read_anchors, read_panel
from kms.config.file_ownership import require_guarded
from kms.config.insecure_switches import relaxed_switches, require_strict
from kms.config.listener_tls import open_tls, weigh_channel
from kms.config.settings import Settings
from kms.domain.kek import RandomBytes
from kms.operations.services import open_identity, open_vault
from kms.release.endorsement_dates import dated
from kms.release.verifiers import read_verifiers
from kms.store import open_store

FindingOutcome = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFinding:
    """What one check found.

    Attributes:
        check: its name; several findings may have the same.
        outcome: a warning does not keep the service from starting.
        text: for people.
        hint: what to do, or nothing.
    """

    check: str
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
    """Look at everything that the settings name, one check after the other; one that fails does not stop the next.

    Args:
        settings: validated.
        config: the file that they come from, if any.
        clock: tells the time.
        random: what opens the key-encryption key may need some.
        warn_days: an end that is as near as this is warned of.
    """
    looking = _Looking(
        settings=settings, config=config, clock=clock, random=random, warn_before=timedelta(days=warn_days)
    )
    checks: tuple[tuple[str, Callable[[_Looking], Iterable[ConfigFinding]]], ...] = (
        ("settings-file", _settings_file),
        ("profile", _profile),
        ("database", _database),
        ("key-encryption-key", _kek),
        ("clock", _clock),
        ("endorsements", _endorsements),
        ("anchors", _anchors),
        ("witnesses", _witnesses),
        ("tls", _tls),
        ("administration", _administration),
        ("callers", _callers),
        ("verifiers", _verifiers),
    )
    for name, look in checks:
        try:
            yield from look(looking)
        except AttestError as exc:
            yield ConfigFinding(check=name, outcome="failed", text=f"{exc.message} [{exc.code}]", hint=exc.hint)


def _found(check: str, outcome: FindingOutcome, text: str, hint: str | None = None) -> ConfigFinding:
    return ConfigFinding(check=check, outcome=outcome, text=text, hint=hint)


def _settings_file(looking: _Looking) -> Iterator[ConfigFinding]:
    """See who may write the settings and what they name: he decides what is released."""
    found = partial(_found, "settings-file")
    if looking.config is None:
        yield found("ok", "no file; flags, environment and defaults")
    elif not looking.config.exists():
        yield found("failed", f"there is no file {looking.config}")
    count = require_guarded(looking.settings, looking.config)
    if looking.config is not None:
        yield found("ok", f"{looking.config}; of {count} files with what is believed, others may write none")


def _profile(looking: _Looking) -> Iterator[ConfigFinding]:
    found = partial(_found, "profile")
    require_strict(looking.settings)
    for one in relaxed_switches(looking.settings):
        yield found("warning", f"{one.name}: {one.text}", 'profile = "production" refuses this')
    yield found("ok", looking.settings.profile)


def _database(looking: _Looking) -> Iterator[ConfigFinding]:
    """See that the database answers and has this version's schema."""
    settings, found = looking.settings, partial(_found, "database")
    with ExitStack() as stack:
        store = open_store(settings.database, access=settings.database_access)
        stack.callback(store.close)
        with store.reading() as reader:
            size, most = reader.log.size(), reader.audit.max_connections()
    yield found("ok", f"answers; {size} entries in the log")
    wanted = settings.workers * settings.database_connections
    if most is not None and wanted > most:
        text = f"{settings.workers} workers with {settings.database_connections} connections are more than the {most}"
        yield found("warning", f"{text} that the server allows", "raise max_connections, or lower one of the settings")


def _kek(looking: _Looking) -> Iterator[ConfigFinding]:
    """See that the key-encryption key is the database's and opens the service's own key."""
    vault = open_vault(looking.settings, random=looking.random)
    try:
        identity = open_identity(vault, looking.settings)
    finally:
        vault.store.close()
    yield _found("key-encryption-key", "ok", f"opens the keys of {identity.public.text}")


def _clock(looking: _Looking) -> Iterator[ConfigFinding]:
    """See that the clock is not behind the newest entry of the log."""
    settings, now = looking.settings, looking.clock()
    store = open_store(settings.database, access=settings.database_access)
    try:
        with store.writing() as writer:
            writer.log.require_time(now)
    finally:
        store.close()
    yield _found("clock", "ok", rfc3339_text(now.replace(microsecond=0)))


def _endorsements(looking: _Looking) -> Iterator[ConfigFinding]:
    settings, now, found = looking.settings, looking.clock(), partial(_found, "endorsements")
    warnings: list[str] = []
    desk = open_endorsements(settings, clock=looking.clock, random=looking.random, report=warnings.append)
    for line in warnings:
        yield found("warning", line.removeprefix("warning: endorsements: "))
    ends = dated(desk.current(at=now))
    for one in ends:
        if one.ends <= now:
            text = f"{one.kind} {one.name} ended {_date(one.ends)}"
            yield found("warning" if settings.fetch else "failed", text, "put a newer one in its place and send SIGHUP")
        elif one.ends - now <= looking.warn_before:
            text = f"{one.kind} {one.name} ends {_date(one.ends)}"
            yield found("warning", text, "put a newer one in its place and send SIGHUP")
    if not settings.endorsements and not settings.fetch:
        text = "neither endorsements nor fetch is set; only evidence that brings its own can be verified"
        yield found("warning", text, "'attest endorsements fetch' makes a bundle")
    yield found("ok", f"{len(ends)} with an end" + (f"; the soonest {_date(ends[0].ends)}" if ends else ""))


def _anchors(looking: _Looking) -> Iterator[ConfigFinding]:
    anchors = read_anchors(looking.settings)
    changed = "" if looking.settings.anchors_file is None else f", changed by {looking.settings.anchors_file}"
    yield _found("anchors", "ok", f"{len(anchors.anchors)} roots{changed}")


def _witnesses(looking: _Looking) -> Iterator[ConfigFinding]:
    panel = read_panel(looking.settings)
    text = ", ".join(one.key.name for one in panel) if panel else "none is asked"
    yield _found("witnesses", "ok", text)


def _tls(looking: _Looking) -> Iterator[ConfigFinding]:
    """See that certificate and key could be served, and how others reach the service without them."""
    settings, now, found = looking.settings, looking.clock(), partial(_found, "tls")
    said: list[str] = []
    weigh_channel(settings, report=said.append)
    for line in said:
        yield found("warning", line.removeprefix("WARNING: "), "set tls_certificate_file and tls_key_file")
    tls = open_tls(settings, at=now, report=lambda _: None)
    if tls is None:
        yield found("ok", "plain HTTP")
        return
    ends = tls.material.not_after
    if ends - now <= looking.warn_before:
        yield found("warning", f"the certificate ends {_date(ends)}", "put a newer one in its place and send SIGHUP")
    yield found("ok", f"counts until {_date(ends)}; SPKI SHA-256 {tls.material.spki_sha256.hex()}")


def _administration(looking: _Looking) -> Iterator[ConfigFinding]:
    """See that administrators could be served, and that there is one; issuers on the network are not asked."""
    settings, now, found = looking.settings, looking.clock(), partial(_found, "administration")
    if settings.admin_port is None:
        yield found("ok", "no listener is configured")
        return
    said: list[str] = []
    tls = admin_tls(settings, at=now, report=said.append)
    for line in said:
        yield found("warning", line.removeprefix("warning: "), "put a newer one in its place and send SIGHUP")
    issuers = () if settings.admin_issuers_file is None else read_issuers(settings.admin_issuers_file)
    yield from _key_sets("administration", issuers)
    store = open_store(settings.database, access=settings.database_access)
    try:
        require_administrator(store)
    finally:
        store.close()
    yield found("ok", f"certificate counts until {_date(tls.material.not_after)}; issuers of tokens: {len(issuers)}")


def _callers(looking: _Looking) -> Iterator[ConfigFinding]:
    """See that those who ask for keys could be known, where that is wanted; issuers on the network are not asked."""
    issuers, found = read_callers(looking.settings), partial(_found, "callers")
    yield from _key_sets("callers", issuers)
    yield found("ok", f"issuers of tokens: {len(issuers)}" if issuers else "anybody may ask")


def _key_sets(check: str, issuers: Iterable[BearerIssuer]) -> Iterator[ConfigFinding]:
    """See that the key sets that lie in files have keys."""
    for one in issuers:
        if one.jwks_file is None:
            continue
        try:
            parse_key_set(read_key_set(one), one)
        except (OSError, AttestError) as exc:
            problem = exc.message if isinstance(exc, AttestError) else str(exc)
            yield _found(check, "failed", f"the key set of {one.issuer} cannot be used: {problem}")


def _verifiers(looking: _Looking) -> Iterator[ConfigFinding]:
    file, found = looking.settings.verifiers_file, partial(_found, "verifiers")
    verifiers = () if file is None else read_verifiers(file)
    keys = sum(len(one.keys) for one in verifiers)
    yield found("ok", f"{len(verifiers)} with {keys} keys" if verifiers else "no passport is taken")


def _date(moment: datetime) -> str:
    return rfc3339_text(moment.replace(microsecond=0))
