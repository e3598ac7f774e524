"""Key-encryption keys of a running service: made, found again, taking over from each other.

A rotation has three parts. Its beginning is one transaction: another key wraps from then on (``KekRotation``). Then
what others wrap is moved, a few rows a transaction, each only if it is still what was read; killed anywhere, it goes on
where it was. Its end is one transaction, when nothing is left. Releases go on throughout, since each row names its key.
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
    """A key-encryption key as this command sees it.

    Attributes:
        wrapped: number of rows under it, by table.
        problem: code of the error that using it here raises; None when it works.
        main: True if the settings name it first.
    """

    record: KekRecord
    wrapped: Mapping[str, int]
    problem: str | None
    main: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Outcome of one transaction: the number of rows under the new key, and a line for each row that does not open."""

    done: int
    problems: tuple[str, ...]


def create_kek(vault: Vault, definition: Definition, *, random: RandomBytes, actor: Actor, at: datetime) -> KekRecord:
    """Make the key of a definition, and add its record to the database. Nothing is wrapped under it yet.

    Raises:
        ConfigurationError: as ``create_backend`` and ``new_record``.
        KeyConflictError: ``kek-exists``: the database has a record of this very key.
        UnavailableError: the back-end does not answer, or the database is in use.
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
            definition.file.unlink()  # made a moment ago, and nothing is wrapped under it
        raise
    finally:
        backend.close()
    return record


def _require_new(known: SingleKek | None) -> None:
    if known is not None:
        raise KeyConflictError(
            f"the database knows this key-encryption key already: {known.id.hex()[:16]}",
            code="kek-exists",
            field=known.id.hex()[:16],
            hint="give the new one a name of its own",
        )


def kek_named(store: Store, text: str) -> KekRecord:
    """Return the key whose id begins like this.

    Raises:
        KeyConflictError: ``kek-not-found`` or ``kek-ambiguous``.
    """
    with store.reading() as tx:
        found = [record for record in tx.keks.all() if text and record.id.hex().startswith(text.lower())]
        if len(found) == 1:
            return found[0]
    if not found:
        raise KeyConflictError(
            f"the database knows no key-encryption key whose id begins with {text[:64]!r}",
            code="kek-not-found",
            field="kek",
            hint="'kms kek status' lists those there are",
        )
    raise KeyConflictError(
        f"{len(found)} key-encryption keys begin with {text!r}",
        code="kek-ambiguous",
        field="kek",
        hint="say more of it",
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
    """Check that every key that a rotation needs can be used here and now; return the number of rows that it moves.

    Raises:
        UnavailableError: the holder of a key does not answer, or the settings do not say where it is.
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
    """Move everything to the key that wraps now, ``batch`` rows a transaction.

    ``pause`` is called with the name of each step; an error that it raises ends the move there.

    Raises:
        KeyConflictError: ``kek-overtaken``: another key wraps now.
        UnavailableError: the holder of a key does not answer, or the database is in use. Do it again then.
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
            # The holder of the keys may be slow, so no transaction is open here.
            made = [(row, _rewrapped(vault.kek, kek, row, _context(table, row, origin))) for row in rows]
            pause("wrapped")
            with vault.store.writing() as tx:
                _require_wrapping(tx, target)
                done = sum(tx.wrapped_rows.rewrap(table, row, one) for row, one in made if isinstance(one, Wrapped))
                pause("written")
            pause("committed")
            yield Moved(done=done, problems=tuple(one for _, one in made if isinstance(one, str)))


def _rewrapped(ring: KekRing, kek: SingleKek, row: _Row, context: WrapContext) -> Wrapped | str:
    """Return the new wrapped form, which is bound to what the old one was bound to; or why there is none."""
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
    """End a rotation when nothing is left, with its log entry; return how many rows are left.

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
            f"another key-encryption key than {target.short_id} wraps now",
            code="kek-overtaken",
            field=target.short_id,
            hint="somebody began another rotation; 'kms kek status' shows which",
        )


def _blob(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
