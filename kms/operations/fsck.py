"""Examination of the database: damage that would make a release fail, and traces of other writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from attest.errors import AttestError
from kms.domain.errors import IntegrityError, UnavailableError, damaged
from kms.domain.kek import KeyEncryptionKey
from kms.domain.kek_records import KekState
from kms.domain.keys import KeyRecord, Wrapped, own_context
from kms.domain.lease_claims import read_claims
from kms.domain.log_verification import LogState, verify_log
from kms.domain.material import public_half
from kms.domain.rollback import Remembered, RollbackGuard, StatePosition
from kms.keys.vault import Vault
from kms.operations.guards.setting import read_memories
from kms.operations.guards.watch import require_current_in
from kms.operations.own_keys import OWN_KEYS
from kms.operations.replay import REPLAY, Difference, LoggedState
from kms.operations.state import state_problems
from kms.references.intake import list_documents
from kms.references.resolution import find_guard
from kms.store import ReadTransaction
from kms.store.failures import FAILED

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckFinding:
    """Result of one check.

    Attributes:
        problems: damage, a line each.
        warning: an observation without damage, or None.
    """

    check: str
    looked_at: int
    problems: tuple[str, ...]
    warning: str | None = None


class _Seen(NamedTuple):
    number: int
    problems: Iterable[str] = ()
    warning: str | None = None


def examine(
    vault: Vault, *, origin: str, noted: Sequence[LogState | bytes], guards: Sequence[RollbackGuard] = ()
) -> Iterator[FsckFinding]:
    """Run every check, in two transactions; damage does not stop the next check.

    ``noted`` are states of the log, or hashes of entries, that were noted elsewhere; ``guards`` are those of this
    machine.

    Raises:
        UnavailableError: the database is in use, or away.
    """

    def state(tx: ReadTransaction) -> Iterator[FsckFinding]:
        yield _found("state", lambda tx: _Seen(tx.state.root.counter, state_problems(tx)), tx)
        yield _found("rollback-guard", partial(_guards, remembered=read_memories(guards)), tx)

    yield from _examined(vault.store.reading(), state)
    # The check of the state counts the differing rows, and these checks name them.
    look = partial(findings, kek=vault.kek, origin=origin, noted=noted)
    yield from _examined(vault.store.examining(), look)


def _examined(
    transaction: AbstractContextManager[ReadTransaction], look: Callable[[ReadTransaction], Iterator[FsckFinding]]
) -> Iterator[FsckFinding]:
    """Run checks in a transaction, whose begin or end can fail on a damaged database."""
    try:
        with transaction as tx:
            yield from look(tx)
    except IntegrityError as exc:
        yield FsckFinding(check="transaction", looked_at=0, problems=(_line(exc),))


def findings(
    tx: ReadTransaction, *, kek: KeyEncryptionKey, origin: str, noted: Sequence[LogState | bytes] = ()
) -> Iterator[FsckFinding]:
    """Run every check except that of the authenticated state, which a database of an older version lacks."""
    own: dict[str, Callable[[ReadTransaction], _Seen]] = {
        "schema": lambda tx: _Seen(1, (*tx.audit.schema_differences(), *tx.audit.unprotected())),
        "storage": lambda tx: _Seen(1, tx.audit.storage_problems(), tx.audit.weak_durability()),
        "foreign-keys": _foreign_keys,
        "log": lambda tx: _Seen(verify_log(tx.log, noted=noted).size),
        "own-keys": partial(_own_keys, kek=kek, origin=origin),
        "keys": partial(_keys, kek=kek),
        # including those that no longer guard a key
        "policies": lambda tx: _each(tx.policies.digests(), lambda digest: find_guard(tx, digest)),
        "references": lambda tx: _Seen(len(list_documents(tx))),
        "leases": _claims,
        "keks": _keks,
    }
    state, replayed = LoggedState(), list[Difference]()
    yield from (_found(name, own[name], tx) for name in _BEFORE_REPLAY)
    yield _found(REPLAY, partial(_replay, state=state, found=replayed), tx)
    for name in _AFTER_REPLAY:
        lines = tuple(one.line for one in replayed if one.check == name)
        seen = _found(name, own.get(name, lambda _: _Seen(0)), tx)
        looked_at = seen.looked_at or state.looked_at.get(name, 0)
        yield replace(seen, looked_at=looked_at, problems=tuple(dict.fromkeys((*seen.problems, *lines))))


_BEFORE_REPLAY: Final = ("schema", "storage", "foreign-keys", "log")
_AFTER_REPLAY: Final = (
    *("own-keys", "tenants", "keys", "prompt-keys", "policies", "references", "configuration", "grants", "freezes"),
    *("leases", "keks", "quorum", "limits", "floors", "break-glass"),
)


def _found(name: str, check: Callable[[ReadTransaction], _Seen], tx: ReadTransaction) -> FsckFinding:
    """Return a refusal as a finding; only an unavailable database ends the examination."""
    try:
        with tx.audit.part():
            seen = check(tx)
            problems = tuple(seen.problems)
        return FsckFinding(check=name, looked_at=seen.number, problems=problems, warning=seen.warning)
    except AttestError as exc:
        if isinstance(exc, UnavailableError) and exc.code != FAILED:
            raise
        return FsckFinding(check=name, looked_at=0, problems=(_line(exc),))


def _foreign_keys(tx: ReadTransaction) -> _Seen:
    counts = tx.audit.loose_rows()
    problems = tuple(f"{name}: {number} rows refer to missing rows" for name, number in counts.items() if number)
    return _Seen(len(counts), problems)


def _replay(tx: ReadTransaction, *, state: LoggedState, found: list[Difference]) -> _Seen:
    """Replay the log, and compare the database with the resulting state; ``found`` is called with the differences."""
    found += chain(state.advance_to_end(tx), state.differences(tx))
    return _Seen(state.seq, tuple(one.line for one in found if one.check == REPLAY))


def _own_keys(tx: ReadTransaction, *, kek: KeyEncryptionKey, origin: str) -> _Seen:
    """Unwrap the service's own keys; a missing key is a finding, too."""

    def opens(name: str) -> None:
        algorithm, wrapped = tx.own_secrets.find(name) or ("", Wrapped(kek_id=bytes(32), content=b""))
        kek.unwrap(wrapped, context=own_context(origin, name, algorithm))

    own = OWN_KEYS if tx.state.has_keys else OWN_KEYS[:-1]  # an older version has no state key
    expected = dict.fromkeys(name for name, _ in own)
    return _each(expected | dict.fromkeys(tx.own_secrets.names()), opens)


def _keys(tx: ReadTransaction, *, kek: KeyEncryptionKey) -> _Seen:
    """Unwrap every version of every key, and load its policy."""
    records, tenants = tx.keys.all(), tx.tenants.all()
    opened = _each(records, lambda record: _open_key(record, kek, tx))
    stray = [f"the tenant of the key {one.name} does not exist" for one in records if one.name.tenant not in tenants]
    lost = {one.name for one in records} - {one.name for one in records if one.is_current}
    lost_keys = [f"the key {name} has no current version" for name in sorted(lost)]
    tx.schedules.all()  # raises if one is unreadable
    guards = {str(one.name): find_guard(tx, one.policy_digest).problem for one in records if one.is_current}
    blocked = [f"{name} is not released: {problem.message}" for name, problem in guards.items() if problem]
    problems = (*opened.problems, *dict.fromkeys(stray), *lost_keys)
    return _Seen(len(records), problems, "; ".join(blocked) or None)


def _open_key(record: KeyRecord, kek: KeyEncryptionKey, tx: ReadTransaction) -> None:
    """Unwrap a version, unless it was destroyed, and compare its public half with the published one."""
    if record.is_destroyed:
        return
    material = kek.unwrap(record.wrapped, context=record.context)
    if public_half(material, algorithm=record.algorithm) != tx.prompt_keys.public_half(record):
        raise IntegrityError(
            f"the published half of {record.name}@{record.version} does not match the key",
            code="key-record-invalid",
            field=str(record.name),
            hint="the database was altered or damaged; restore it from a backup",
        )


def _claims(tx: ReadTransaction) -> _Seen:
    """Read all claims of leases; claims that differ from their digest are returned empty."""

    def look(digest: bytes) -> None:
        content = tx.leases.claims(digest)
        if not content:
            problem = f"the claims {digest.hex()} do not match their digest"
            raise damaged(problem, code="lease-claims-invalid", field="lease_claims")
        read_claims(content)

    return _Seen(0, _each(tx.leases.claims_digests(), look).problems)


def _keks(tx: ReadTransaction) -> _Seen:
    """Check the records of key-encryption keys: exactly one is active, and a retired one wraps nothing."""
    records, under = tx.keks.all(), tx.wrapped_rows.counts()
    wrapping = sum(record.wraps for record in records)
    problems = [] if wrapping == 1 else [f"{wrapping} key-encryption keys are active, expected 1"]
    retired = [record for record in records if record.state is KekState.RETIRED and under.get(record.id)]
    problems += [f"{record.short_id} is retired, but secrets are wrapped under it" for record in retired]
    return _Seen(len(records), problems)


def _guards(tx: ReadTransaction, *, remembered: Mapping[str, StatePosition | None]) -> _Seen:
    """Compare the database with the position in every guard of this machine."""
    known = {name: Remembered(guard=name, position=one) for name, one in remembered.items() if one is not None}
    silent = [f"{name} is missing, empty or unreadable" for name in remembered if name not in known]
    behind = _each(known.values(), lambda one: require_current_in(tx, [one]))
    return _Seen(len(remembered), (*silent, *behind.problems))


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
