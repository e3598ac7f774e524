"""Key-encryption keys of a running service: creation, lookup and rotation.

A rotation has three parts. It starts with one transaction that makes another key active (``KekRotation``). Then the
existing secrets are rewrapped, a few rows per transaction, each only if it has not changed since it was read; an
interrupted rotation can be continued. It ends with one transaction, when no rows are left. Releases continue
throughout, since each row names its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Table

from attest.encoding import JsonValue
from attest.errors import AttestError
from kms.domain.actors import Actor
from kms.domain.errors import IntegrityError, KeyConflictError
from kms.domain.kek import RandomBytes
from kms.domain.kek_records import KekRecord, KekState
from kms.domain.keys import WrapContext, Wrapped, own_context
from kms.keys.vault import Vault
from kms.keys.wrapping.backend import SingleKek
from kms.keys.wrapping.backends import create_backend, identify, new_record
from kms.keys.wrapping.definitions import Definition, FileDefinition
from kms.keys.wrapping.keyring import KekRing
from kms.quorum.keks import KEK_ROTATED, find_kek
from kms.store import ReadTransaction, Store, WriteTransaction
from kms.store.wrapped_rows import WRAPPED_TABLES

KEK_CREATED: Final = "kek-created"
BATCH_ROWS: Final = 64
_Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class KekStatus:
    """Status of a key-encryption key on this machine.

    Attributes:
        wrapped: number of rows under it, by table.
        problem: code of the error of its use here; None if it is usable.
        main: True if it is first in the settings.
    """

    record: KekRecord
    wrapped: Mapping[str, int]
    problem: str | None
    main: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Outcome of one transaction: the number of rewrapped rows, and a line for each row that cannot be unwrapped."""

    done: int
    problems: tuple[str, ...]


def create_kek(vault: Vault, definition: Definition, *, random: RandomBytes, actor: Actor, at: datetime) -> KekRecord:
    """Create the key of a definition, and add its record to the database, without wrapping anything under it.

    Raises:
        ConfigurationError: as ``create_backend`` and ``new_record``.
        KeyConflictError: ``kek-exists``: the database has a record of the same key.
        UnavailableError: the back-end is unavailable, or the database is in use.
    """
    backend = create_backend(definition, random=random)
    try:
        with vault.store.reading() as tx:
            known = identify(backend, tx.keks.all())
        _require_new(known)
        record = new_record(backend, state=KekState.READY, random=random, at=at)
        body: dict[str, JsonValue] = {"kek": record.members(), "actor": actor.members()}
        with vault.store.writing() as tx:
            tx.keks.add(record)
            tx.log.add(kind=KEK_CREATED, at=at, body=body)
    except BaseException:
        if isinstance(definition, FileDefinition):
            definition.file.unlink()  # just created, and nothing is wrapped under it
        raise
    finally:
        backend.close()
    return record


def _require_new(known: SingleKek | None) -> None:
    if known is not None:
        raise KeyConflictError(
            f"this key-encryption key is already registered in the database: {known.id.hex()[:16]}",
            code="kek-exists",
            field=known.id.hex()[:16],
            hint="use a different name for the new key",
        )


def kek_named(store: Store, text: str) -> KekRecord:
    """Return the key whose id has this prefix.

    Raises:
        KeyConflictError: ``kek-not-found`` or ``kek-ambiguous``.
    """
    with store.reading() as tx:
        found = [record for record in tx.keks.all() if text and record.id.hex().startswith(text.lower())]
        if len(found) == 1:
            return found[0]
    if not found:
        raise KeyConflictError(
            f"the database has no key-encryption key whose id starts with {text[:64]!r}",
            code="kek-not-found",
            field="kek",
            hint="'kms kek status' lists all of them",
        )
    raise KeyConflictError(
        f"{len(found)} key-encryption keys start with {text!r}",
        code="kek-ambiguous",
        field="kek",
        hint="give a longer prefix",
    )


def status(vault: Vault) -> tuple[KekStatus, ...]:
    """Return the status of each key: the number of rows under it, and the problem of using it here, if any."""
    with vault.store.reading() as tx:
        records, under = tx.keks.all(), tx.wrapped_rows.counts()
    return tuple(
        KekStatus(
            record=record,
            wrapped=under.get(record.id, {}),
            problem=_problem(vault.kek, record),
            main=record.id == vault.kek.main_id,
        )
        for record in records
    )


def _problem(ring: KekRing, record: KekRecord) -> str | None:
    if record.state is KekState.RETIRED:
        return None
    try:
        ring.named(record.id).require_same()
    except AttestError as exc:
        return exc.code
    return None


def require_ready(vault: Vault, target: KekRecord) -> int:
    """Check that every key that a rotation needs is usable here; return the number of rows to rewrap.

    Raises:
        UnavailableError: the back-end of a key is unavailable, or the settings do not locate it.
    """
    vault.kek.named(target.id).require_same()
    with vault.store.reading() as tx:
        under = tx.wrapped_rows.counts()
    others = {kek_id: tables for kek_id, tables in under.items() if kek_id != target.id}
    for kek_id in others:
        vault.kek.named(kek_id).require_same()
    return sum(sum(tables.values()) for tables in others.values())


def move(
    vault: Vault,
    target: KekRecord,
    *,
    origin: str,
    batch: int = BATCH_ROWS,
    pause: Callable[[str], None] = lambda _: None,
) -> Iterator[Moved]:
    """Rewrap everything under the active key, ``batch`` rows per transaction.

    ``pause`` is called with the name of each step; an error that it raises stops the work there.

    Raises:
        KeyConflictError: ``kek-overtaken``: another key is active now.
        UnavailableError: the back-end of a key is unavailable, or the database is in use. Repeat the call later.
    """
    kek = vault.kek.named(target.id)
    for table in WRAPPED_TABLES:
        after: Sequence[object] | None = None
        while True:
            with vault.store.reading() as tx:
                rows = tx.wrapped_rows.elsewhere(table, than=target.id, after=after, limit=batch)
            if not rows:
                break
            after = [rows[-1][column.name] for column in table.primary_key.columns]
            pause("read")
            # The back-end may be slow, so no transaction is open here.
            made = [(row, _rewrapped(vault.kek, kek, row, _context(table, row, origin))) for row in rows]
            pause("wrapped")
            with vault.store.writing() as tx:
                _require_wrapping(tx, target)
                done = sum(tx.wrapped_rows.rewrap(table, row, one) for row, one in made if isinstance(one, Wrapped))
                pause("written")
            pause("committed")
            yield Moved(done=done, problems=tuple(one for _, one in made if isinstance(one, str)))


def _rewrapped(ring: KekRing, kek: SingleKek, row: _Row, context: WrapContext) -> Wrapped | str:
    """Return the new wrapped form, bound to the same context as the old one, or the reason why there is none."""
    old = Wrapped(kek_id=_blob(row["kek_id"]), content=_blob(row["wrapped"]))
    try:
        secret = ring.unwrap(old, context=context)
    except IntegrityError as exc:
        return f"{exc.message} [{exc.code}]"
    return kek.wrap(secret, context=context)


def _context(table: Table, row: _Row, origin: str) -> WrapContext:
    if table.name == "secrets":
        return own_context(origin, str(row["name"]), str(row["algorithm"]))
    version = row["version"]
    return WrapContext(
        tenant=str(row["tenant"]),
        key_id=str(row["key_id"]),
        version=version if isinstance(version, int) else 0,
        purpose=str(row["purpose"]),
        algorithm=str(row["algorithm"]),
        policy_digest=_blob(row["policy_digest"]),
    )


def finish(vault: Vault, target: KekRecord, *, actor: Actor, at: datetime) -> int:
    """End a rotation with its log entry if no rows are left; return the number of rows left.

    Raises:
        KeyConflictError: ``kek-overtaken``.
        UnavailableError: the database is in use.
    """
    with vault.store.writing() as tx:
        _require_wrapping(tx, target)
        under = tx.wrapped_rows.counts()
        left = sum(sum(tables.values()) for kek_id, tables in under.items() if kek_id != target.id)
        if left == 0 and find_kek(tx, target.id).state is KekState.ENTERING:
            tx.keks.set_state(target.id, KekState.ACTIVE)
            total = sum(under.get(target.id, {}).values())
            body: dict[str, JsonValue] = {"phase": "end", "kek": target.members(), "wrapped": total}
            tx.log.add(kind=KEK_ROTATED, at=at, body={**body, "actor": actor.members()})
    return left


def _require_wrapping(tx: ReadTransaction | WriteTransaction, target: KekRecord) -> None:
    if not find_kek(tx, target.id).wraps:
        raise KeyConflictError(
            f"the active key-encryption key is no longer {target.short_id}",
            code="kek-overtaken",
            field=target.short_id,
            hint="another rotation was started; 'kms kek status' shows the active key",
        )


def _blob(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
