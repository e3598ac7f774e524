"""Opening of the service's parts from its settings, and initialisation of a new service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.clock import Clock
from attest.encoding import JsonValue, rfc3339
from attest.errors import ConfigurationError, EvidenceError
from attest.release import VerifierKey, verifier_key
from attest.unfinished_file import tidy_unfinished
from kms.auth.grants import write_grant
from kms.config.external_files import open_endorsements, open_panel, read_anchors
from kms.config.insecure_switches import require_strict
from kms.config.settings import Settings
from kms.domain.actors import Actor, local_actor
from kms.domain.anchors import anchor_lines, anchors_digest
from kms.domain.errors import IntegrityError, damaged
from kms.domain.kek import RandomBytes
from kms.domain.kek_records import KekRecord, KekState
from kms.domain.keys import DEFAULT_TENANT, own_context
from kms.domain.lease_grants import LeaseIssuer
from kms.domain.permissions import EVERY_TENANT, Role
from kms.domain.rollback import read_guards
from kms.domain.secret import EXPORT, SecretBytes
from kms.domain.state_root import StateKeys
from kms.keys.vault import Vault
from kms.keys.wrapping.backend import SingleKek, WrappingBackend
from kms.keys.wrapping.backends import fresh_backend, identify, new_record, open_backend
from kms.keys.wrapping.definitions import read_directory
from kms.keys.wrapping.keyring import KekRing
from kms.log.publisher import Identity, LogPublisher
from kms.operations.continuity import RESTORED_AT, require_continuity
from kms.operations.guards.opening import open_local_guards, open_remote_guards
from kms.operations.guards.setting import mark_guards, prepare_guards
from kms.operations.guards.watch import GuardWatch, read_remote, require_current
from kms.operations.own_keys import CHALLENGE_MAC, IDENTITY, STATE, own_secret
from kms.operations.state import STATE_SECRET_BYTES, authenticate
from kms.quorum.anchors import require_approved
from kms.release.challenges import MAC_KEY_BYTES, ChallengeIssuer
from kms.release.passports import PassportVerifier
from kms.release.services import Services
from kms.release.verifiers import read_verifiers, verifier_lines
from kms.store import ReadTransaction, Store, WriteTransaction, create_database, locate, open_store

_SEED_BYTES: Final = 32
FACT_ORIGIN: Final = "origin"
INITIALISED: Final = "initialised"


def initialise(
    settings: Settings, *, clock: Clock, random: RandomBytes, administrator: Actor | None = None
) -> VerifierKey:
    """Create the key-encryption key, the database and the service's own keys. Existing ones are never overwritten.

    An interruption leaves no file with its final name, or all of them, or a complete database with an unnamed file of
    the key-encryption key; the next call finishes the latter and replaces other drafts. There is no administrator
    unless one is given (MC-31).

    Returns:
        The verifier key of the new service.

    Raises:
        ConfigurationError: ``kek-file-exists``, ``database-exists``, or one of them cannot be created.
    """
    at = clock()
    with fresh_backend(settings.kek, known=partial(_known_keks, settings), random=random) as fresh:
        public = None if fresh.known else _fill(settings, fresh.backend, administrator, random=random, at=at)
        _mark_guards(settings, fresh.backend)
    return _finish(settings, administrator, random=random, at=at) if public is None else public


def _fill(
    settings: Settings, backend: WrappingBackend, administrator: Actor | None, *, random: RandomBytes, at: datetime
) -> VerifierKey:
    """Create the database and the service's own keys in it, all or nothing."""
    record = new_record(backend, state=KekState.ACTIVE, random=random, at=at)
    kek = SingleKek(backend, kek_id=record.id, proof=record.proof)
    seed = SecretBytes(random(_SEED_BYTES))
    state = SecretBytes(random(STATE_SECRET_BYTES))
    own = {IDENTITY: seed, CHALLENGE_MAC: SecretBytes(random(MAC_KEY_BYTES)), STATE: state}
    wrapped = {named: kek.wrap(secret, context=own_context(settings.origin, *named)) for named, secret in own.items()}

    def fill(tx: WriteTransaction) -> None:
        prepare_guards(open_local_guards(settings))
        tx.begin_state(StateKeys(state))
        tx.facts.add(FACT_ORIGIN, settings.origin.encode())
        tx.keks.add(record)
        tx.tenants.add(DEFAULT_TENANT, at=at)
        for (name, algorithm), content in wrapped.items():
            tx.own_secrets.add(name, algorithm=algorithm, wrapped=content, at=at)
        body: dict[str, JsonValue] = {
            "identity": _identity(settings.origin, seed).public.text,
            "own_keys": [name for name, _ in own],
        }
        tx.log.add(kind=INITIALISED, at=at, body=body | {"kek": record.members()})
        if administrator is not None:
            _make_administrator(tx, administrator, at=at)

    create_database(settings.database, fill=fill, access=settings.database_access)
    return _identity(settings.origin, seed).public


def _mark_guards(settings: Settings, backend: WrappingBackend) -> None:
    with closing(open_store(settings.database, access=settings.database_access)) as store:
        kek = identify(backend, _keks(store))
        if kek is None:
            raise damaged("the database has no record of its key-encryption key", code="kek-unknown", field="keks")
        authenticate(store, kek, origin=settings.origin)
        mark_guards(open_local_guards(settings), store)


def _known_keks(settings: Settings) -> tuple[KekRecord, ...]:
    """Return the key-encryption keys recorded in the database; none if there is no database of a service."""
    try:
        store = open_store(settings.database, access=settings.database_access)
    except ConfigurationError as exc:
        if exc.code in {"database-missing", "database-not-initialised"}:
            return ()
        raise
    with closing(store):
        return _keks(store)


def _keks(store: Store) -> tuple[KekRecord, ...]:
    with store.reading() if store.is_authenticated else store.opening() as tx:
        return tx.keks.all()


def _finish(settings: Settings, administrator: Actor | None, *, random: RandomBytes, at: datetime) -> VerifierKey:
    """Check the database of an interrupted initialisation, and add the administrator if one is given."""
    place = locate(settings.database)
    if isinstance(place, Path):
        tidy_unfinished(place)
    vault = open_vault(settings, random=random)
    with closing(vault.store):
        public = open_identity(vault, settings).public
        if administrator is not None:
            with vault.store.writing() as tx:
                held = tx.grants.held_by(administrator)
                if not any(grant.counts and grant.role is Role.ADMINISTRATOR for grant in held):
                    _make_administrator(tx, administrator, at=at)
        return public


def _make_administrator(tx: WriteTransaction, identity: Actor, *, at: datetime) -> None:
    write_grant(tx, identity=identity, tenant=EVERY_TENANT, role=Role.ADMINISTRATOR, actor=local_actor(), at=at)


def open_vault(settings: Settings, *, random: RandomBytes, guarded: bool = True) -> Vault:
    """Open the database and the key-encryption key, and check that they belong together.

    If ``guarded``, the database is compared with the guards of this machine, which are advanced after each change.
    Unguarded access is for the examination and repair of a database that the guards reject.

    Raises:
        ConfigurationError: as ``open_backend`` and ``open_store``; ``kek-mismatch``, ``kek-retired`` or
            ``origin-mismatch``.
        UnavailableError: the database is in use, or the back-end of the key is unavailable.
        IntegrityError: ``state-rolled-back``; a guard that is missing is a ``ConfigurationError``.
    """
    guards = open_local_guards(settings) if guarded else ()
    with ExitStack() as opened:
        main = opened.enter_context(closing(open_backend(settings.kek, random=random)))
        store = opened.enter_context(closing(open_store(settings.database, access=settings.database_access)))
        with store.opening() as tx:
            _require_origin(tx, settings)  # again below, after the state is verified
        ring = KekRing(
            main, known=partial(_keks, store), others=partial(read_directory, settings.kek_directory), random=random
        )
        authenticate(store, ring, origin=settings.origin)
        with store.reading() as tx:
            _require_origin(tx, settings)
            tx.keks.all()
        require_current(store, read_guards(guards))
        store.committed = GuardWatch(store, guards).advance
        opened.pop_all()
        return Vault(store=store, kek=ring)


def open_identity(vault: Vault, settings: Settings) -> Identity:
    """Unwrap the service's signing key.

    Raises:
        ConfigurationError: ``database-not-initialised``.
        IntegrityError: ``wrapped-key-invalid``; ``identity-mismatch``: it is not the key in the log's first entry.
    """
    with vault.store.reading() as tx:
        identity = _identity(settings.origin, own_secret(tx, vault.kek, settings.origin, IDENTITY))
        require_continuity(tx, identity.public)
        return identity


def open_publisher(
    vault: Vault, settings: Settings, *, clock: Clock, report: Callable[[str], None]
) -> tuple[LogPublisher, Identity]:
    """Open the publisher of signed checkpoints, and the identity that signs them.

    Raises:
        ConfigurationError: ``database-not-initialised``, or the file of witnesses is missing or invalid.
        IntegrityError: ``wrapped-key-invalid``.
    """
    identity = open_identity(vault, settings)
    return _publisher(vault, settings, identity, clock, report), identity


def open_services(
    settings: Settings,
    *,
    clock: Clock,
    random: RandomBytes,
    report: Callable[[str], None] = lambda _: None,
    not_before: datetime | None = None,
) -> Services:
    """Open everything that a running service needs.

    Challenges issued before ``not_before`` are refused, because a service before this start may have been killed.

    Raises:
        ConfigurationError: a file of the settings is missing, invalid or of another service; ``production-relaxed``;
            or ``anchors-not-approved``.
        IntegrityError: one of the service's own keys cannot be unwrapped; or ``state-rolled-back``.
        UnavailableError: the database is in use.
    """
    require_strict(settings)
    vault = open_vault(settings, random=random)
    try:
        identity = open_identity(vault, settings)
        others = open_remote_guards(settings, vault.store, lambda: identity, clock=clock)
        answered = len(open_local_guards(settings))
        require_current(vault.store, read_remote(others, others=answered, report=report))
        anchors = read_anchors(settings)
        verifiers = () if settings.verifiers_file is None else read_verifiers(settings.verifiers_file)
        with vault.store.reading() as tx:
            # A Verifier whose results replace evidence is also a root of trust.
            require_approved(tx, anchors_digest((*anchor_lines(anchors), *verifier_lines(verifiers))))
        return Services(
            store=vault.store,
            kek=vault.kek,
            identity=identity,
            log=_publisher(vault, settings, identity, clock, report),
            challenges=_challenges(vault, settings, identity, random=random, not_before=not_before),
            leases=LeaseIssuer(lifetime_seconds=settings.lease_seconds, random=random),
            passports=PassportVerifier(verifiers, audience=identity.public.text),
            endorsements=open_endorsements(settings, clock=clock, random=random, report=report),
            anchors=anchors,
            clock=clock,
            allow_simulated=settings.allow_simulated,
        )
    except BaseException:
        vault.store.close()
        raise


def _challenges(
    vault: Vault, settings: Settings, identity: Identity, *, random: RandomBytes, not_before: datetime | None
) -> ChallengeIssuer:
    with vault.store.reading() as tx:
        moments = [one for one in (_restored_at(tx), not_before) if one is not None]
        return ChallengeIssuer(
            mac_key=own_secret(tx, vault.kek, settings.origin, CHALLENGE_MAC),
            audience=identity.public.text,
            lifetime_seconds=settings.challenge_seconds,
            simulated=settings.allow_simulated,
            random=random,
            not_before=max(moments, default=None),
        )


def _require_origin(tx: ReadTransaction, settings: Settings) -> None:
    origin = (tx.facts.find(FACT_ORIGIN) or b"").decode("utf-8", errors="replace")
    if origin != settings.origin:
        raise ConfigurationError(
            f"the database belongs to {origin!r}, not to {settings.origin!r}",
            code="origin-mismatch",
            field="origin",
            expected=origin,
            got=settings.origin,
            hint="the name of a service cannot change, because clients identify it by name and key",
        )


def _restored_at(tx: ReadTransaction) -> datetime | None:
    """Return the time at which the database was restored, or None. An unreadable time is damage, not None."""
    found = tx.facts.find(RESTORED_AT)
    try:
        return None if found is None else rfc3339(found.decode(), what=RESTORED_AT)
    except (UnicodeDecodeError, EvidenceError) as exc:
        raise IntegrityError(
            "the time of the database's restoration is unreadable",
            code="store-fact-invalid",
            field=RESTORED_AT,
            hint="the database was altered or damaged; restore it from a backup",
        ) from exc


def _identity(origin: str, seed: SecretBytes) -> Identity:
    key = seed.lend(EXPORT, Ed25519PrivateKey.from_private_bytes)
    return Identity(key=key, public=verifier_key(origin, key.public_key()))


def _publisher(
    vault: Vault, settings: Settings, identity: Identity, clock: Clock, report: Callable[[str], None]
) -> LogPublisher:
    panel = open_panel(settings, clock=clock, report=report)
    return LogPublisher(store=vault.store, signer=identity, panel=panel)
