"""Examination of the database: damage that would make a release fail, and traces of a foreign writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from attest.errors import AttestError
from kms.auth.grants import differences
from kms.config.configuration import examine_configuration
from kms.controls.admin import logged_freezes
from kms.domain.errors import IntegrityError, UnavailableError
from kms.domain.kek import KeyEncryptionKey
from kms.domain.kek_records import KekState
from kms.domain.keys import KeyRecord, Wrapped
from kms.domain.log_verification import LogState, verify_log
from kms.domain.material import public_half
from kms.keys.publication import publication_problems
from kms.keys.release_settings import setting_problems
from kms.keys.vault import Vault
from kms.leases.audit import lease_problems
from kms.operations.services import OWN_KEYS, own_context
from kms.quorum.audit import differences as quorum_differences
from kms.quorum.break_glass import differences as glass_differences
from kms.quorum.key_limits import differences as limit_differences
from kms.references.intake import list_documents
from kms.references.resolution import find_guard
from kms.store import ReadTransaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckFinding:
    """The finding of one check.

    Attributes:
        check: name of the check.
        looked_at: number of things that it read.
        problems: damage, a line each.
        warning: an observation that is no damage, or None.
    """

    check: str
    looked_at: int
    problems: tuple[str, ...]
    warning: str | None = None


class _Seen(NamedTuple):
    number: int
    problems: Iterable[str] = ()
    warning: str | None = None


def examine(vault: Vault, *, origin: str, noted: Sequence[LogState | bytes]) -> Iterator[FsckFinding]:
    """Run every check, in one transaction; damage does not stop the next check.

    ``noted`` are states of the log, or hashes of entries, that were noted elsewhere.

    Raises:
        UnavailableError: the database is in use, or away.
    """
    checks: tuple[tuple[str, Callable[[ReadTransaction], _Seen]], ...] = (
        ("schema", _schema),
        ("storage", _storage),
        ("foreign-keys", _foreign_keys),
        ("log", partial(_log, noted=noted)),
        ("own-keys", partial(_own_keys, kek=vault.kek, origin=origin)),
        ("keys", partial(_keys, kek=vault.kek)),
        ("prompt-keys", _prompt_keys),
        ("policies", _policies),
        ("references", _references),
        ("configuration", _configuration),
        ("grants", _grants),
        ("freezes", _freezes),
        ("leases", _leases),
        ("keks", _keks),
        ("quorum", _quorum),
        ("limits", _limits),
        ("break-glass", _break_glass),
    )
    with vault.store.reading() as tx:
        for name, check in checks:
            yield _found(name, check, tx)


def _found(name: str, check: Callable[[ReadTransaction], _Seen], tx: ReadTransaction) -> FsckFinding:
    """Turn a refusal into a finding as well; only a database that does not answer ends the examination."""
    try:
        seen = check(tx)
        return FsckFinding(check=name, looked_at=seen.number, problems=tuple(seen.problems), warning=seen.warning)
    except UnavailableError:
        raise
    except AttestError as exc:
        return FsckFinding(check=name, looked_at=0, problems=(_line(exc),))


def _schema(tx: ReadTransaction) -> _Seen:
    problems = (*tx.audit.schema_differences(), *tx.audit.unprotected())
    return _Seen(1, problems)


def _storage(tx: ReadTransaction) -> _Seen:
    problems, warning = tx.audit.storage_problems(), tx.audit.weak_durability()
    return _Seen(1, problems, warning)


def _foreign_keys(tx: ReadTransaction) -> _Seen:
    counts = tx.audit.loose_rows()
    problems = tuple(f"{name}: {number} rows refer to nothing" for name, number in counts.items() if number)
    return _Seen(len(counts), problems)


def _log(tx: ReadTransaction, *, noted: Sequence[LogState | bytes]) -> _Seen:
    """Check every entry, and that the stored tree is theirs."""
    return _Seen(verify_log(tx.log, noted=noted).size)


def _own_keys(tx: ReadTransaction, *, kek: KeyEncryptionKey, origin: str) -> _Seen:
    """Open the service's own keys; one that is missing does not open either."""

    def opens(name: str) -> None:
        algorithm, wrapped = tx.own_secrets.find(name) or ("", Wrapped(kek_id=bytes(32), content=b""))
        kek.unwrap(wrapped, context=own_context(origin, name, algorithm))

    expected = dict.fromkeys(name for name, _ in OWN_KEYS)
    return _each(expected | dict.fromkeys(tx.own_secrets.names()), opens)


def _keys(tx: ReadTransaction, *, kek: KeyEncryptionKey) -> _Seen:
    """Open every version of every key, and load the policy that guards it."""
    records, tenants = tx.keys.all(), tx.tenants.all()
    opened = _each(records, lambda record: _open_key(record, kek, tx))
    stray = [f"the key {one.name} is of no tenant there is" for one in records if one.name.tenant not in tenants]
    lost = {one.name for one in records} - {one.name for one in records if one.is_current}
    lost_keys = [f"the key {name} has no current version" for name in sorted(lost)]
    tx.schedules.all()  # each has to be one that can be read
    guards = {str(one.name): find_guard(tx, one.policy_digest).problem for one in records if one.is_current}
    blocked = [f"{name} is released to nobody: {problem.message}" for name, problem in guards.items() if problem]
    unlike = setting_problems(records, (entry.document() for entry in tx.log.entries()))
    problems = (*opened.problems, *dict.fromkeys(stray), *lost_keys, *unlike)
    return _Seen(len(records), problems, "; ".join(blocked) or None)


def _open_key(record: KeyRecord, kek: KeyEncryptionKey, tx: ReadTransaction) -> None:
    """Open a version, unless it was destroyed, and compare its public half with the one that is published."""
    if record.is_destroyed:
        return
    material = kek.unwrap(record.wrapped, context=record.context)
    if public_half(material, algorithm=record.algorithm) != tx.prompt_keys.public_half(record):
        raise IntegrityError(
            f"the published half of {record.name}@{record.version} is not that of the key",
            code="key-record-invalid",
            field=str(record.name),
            hint="the database was altered or damaged; restore it from a backup",
        )


def _prompt_keys(tx: ReadTransaction) -> _Seen:
    """Compare every published key with the entry of the log that published it."""
    number = sum(1 for _ in tx.prompt_keys.all())
    return _Seen(number, publication_problems(tx))


def _policies(tx: ReadTransaction) -> _Seen:
    """Load every policy, also those that guard no key any more, and compare it with its digest."""
    return _each(tx.policies.digests(), lambda digest: find_guard(tx, digest))


def _references(tx: ReadTransaction) -> _Seen:
    """Verify every signature over every document."""
    return _Seen(len(list_documents(tx)))


def _grants(tx: ReadTransaction) -> _Seen:
    """Compare the grants with those that the log says were given and revoked."""
    found = tuple(tx.grants.all())
    return _Seen(len(found), differences(found, tx.log.entries()))


def _freezes(tx: ReadTransaction) -> _Seen:
    """Compare the freezes with those that the log says were made and not lifted."""
    there = {one.target for one in tx.freezes.all()}
    logged = logged_freezes(entry.document() for entry in tx.log.entries())
    lost = [f"{one} was frozen and not thawed, and is not frozen" for one in sorted(map(str, logged - there))]
    stray = [f"{one} is frozen, and the log does not say so" for one in sorted(map(str, there - logged))]
    return _Seen(len(there), (*lost, *stray))


def _leases(tx: ReadTransaction) -> _Seen:
    """Compare every lease with the entry of the log that granted it, and the claims with their digests."""
    seen: list[str] = []
    problems = tuple(lease_problems(tx, seen))
    return _Seen(len(seen), problems)


def _configuration(tx: ReadTransaction) -> _Seen:
    """Compare what is remembered of the settings with the log."""
    return _Seen(examine_configuration(tx))


def _keks(tx: ReadTransaction) -> _Seen:
    """Read what is known of key-encryption keys: exactly one wraps, and under a retired one nothing is left."""
    records, under = tx.keks.all(), tx.wrapped_rows.counts()
    wrapping = sum(record.wraps for record in records)
    problems = [] if wrapping == 1 else [f"{wrapping} key-encryption keys wrap what is new, and one should"]
    retired = [record for record in records if record.state is KekState.RETIRED and under.get(record.id)]
    problems += [f"{record.short_id} is retired, and something is wrapped under it" for record in retired]
    return _Seen(len(records), problems)


def _quorum(tx: ReadTransaction) -> _Seen:
    """Compare people, rules and proposals with what the log says of them, and verify the approvals."""
    found = len(tx.quorum.versions()) + tx.proposals.count()
    return _Seen(found, quorum_differences(tx))


def _break_glass(tx: ReadTransaction) -> _Seen:
    """Compare relaxations with those that the log says were opened and closed."""
    found = tx.break_glass.all()
    return _Seen(len(found), glass_differences(found, tx.log.entries()))


def _limits(tx: ReadTransaction) -> _Seen:
    """Compare the limits of keys with those that the log says were set."""
    found = tx.limits.all()
    return _Seen(len(found), limit_differences(found, tx.log.entries()))


def _each(things: Iterable[T], look: Callable[[T], object]) -> _Seen:
    problems: list[str] = []
    number = 0
    for thing in things:
        number += 1
        try:
            look(thing)
        except IntegrityError as exc:
            problems.append(_line(exc))
    return _Seen(number, problems)


def _line(error: AttestError) -> str:
    return f"{error.message} [{error.code}]"
