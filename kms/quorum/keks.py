"""Rotation and retirement of key-encryption keys, as changes that the rule for ``kek`` governs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue
from kms.domain.errors import KeyConflictError
from kms.domain.kek_records import KekRecord, KekState
from kms.domain.people import ChangeKind
from kms.quorum.change_context import Changing, ProposedChange
from kms.store import ReadTransaction

KEK_ROTATED: Final = "kek-rotated"
KEK_RETIRED: Final = "kek-retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class _KekChange(ProposedChange):
    kek_id: bytes

    kind = ChangeKind.KEK

    def arguments(self) -> dict[str, JsonValue]:
        """Return the key's id."""
        return {"kek": self.kek_id.hex()}


class KekRotation(_KekChange):
    """The start of a rotation: ``kek_id`` wraps new secrets, and existing secrets can be rewrapped under it."""

    __slots__ = ()

    action = "kek-rotate"

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the key that wraps now.

        Raises:
            KeyConflictError: ``kek-not-found``, ``kek-is-retired``, or ``kek-state-unchanged``: it is active.
        """
        record = find_kek(tx, self.kek_id)
        if record.wraps:
            hint = "'kms kek rotate' rewraps the keys that are still under another one"
            raise _conflict(record, "is already active", code="kek-state-unchanged", hint=hint)
        if record.state is KekState.RETIRED:
            raise _conflict(record, "is retired", code="kek-is-retired", hint="create another with 'kms kek create'")
        return {"wraps": [one.id.hex() for one in tx.keks.all() if one.wraps]}

    def apply(self, changing: Changing) -> str:
        """Make it the wrapping key, and log the start."""
        tx = changing.tx
        before = [one for one in tx.keks.all() if one.wraps]
        for one in before:
            tx.keks.set_state(one.id, KekState.LEAVING)
        tx.keks.set_state(self.kek_id, KekState.ENTERING)
        record = find_kek(tx, self.kek_id)
        under = tx.wrapped_rows.counts()
        waiting = sum(sum(tables.values()) for kek_id, tables in under.items() if kek_id != self.kek_id)
        moved: dict[str, JsonValue] = {"phase": "begin", "kek": record.members(), "to_rewrap": waiting}
        changing.log(KEK_ROTATED, {**moved, "before": [dict(one.members()) for one in before]})
        return f"{record.short_id} is active; {waiting} keys remain to be rewrapped: 'kms kek rotate {record.short_id}'"


class KekRetirement(_KekChange):
    """The end of a key under which nothing is wrapped."""

    __slots__ = ()

    action = "kek-retire"

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on its state; nothing may be wrapped under it.

        Raises:
            KeyConflictError: ``kek-not-found``, ``kek-in-use`` or ``kek-state-unchanged``.
        """
        record = find_kek(tx, self.kek_id)
        if record.state is KekState.RETIRED:
            raise _conflict(record, "is already retired", code="kek-state-unchanged")
        left = sum(tx.wrapped_rows.counts().get(record.id, {}).values())
        if record.wraps or left:
            raise KeyConflictError(
                f"the key-encryption key {record.short_id} is still in use",
                code="kek-in-use",
                field=record.short_id,
                expected="a key that is not active and wraps nothing",
                got=f"state {record.state}, {left} wrapped keys",
                hint="first rewrap everything under another key with 'kms kek rotate'",
            )
        return {"state": str(record.state)}

    def apply(self, changing: Changing) -> str:
        """Retire it."""
        record = find_kek(changing.tx, self.kek_id)
        changing.tx.keks.set_state(record.id, KekState.RETIRED)
        changing.log(KEK_RETIRED, {"kek": record.members()})
        return f"{record.short_id} is retired; only earlier backups need it"


def _conflict(record: KekRecord, problem: str, *, code: str, hint: str | None = None) -> KeyConflictError:
    text = f"the key-encryption key {record.short_id} {problem}"
    return KeyConflictError(text, code=code, field=record.short_id, hint=hint)


def find_kek(tx: ReadTransaction, kek_id: bytes) -> KekRecord:
    """Return the record of a key-encryption key.

    Raises:
        KeyConflictError: ``kek-not-found``.
    """
    for record in tx.keks.all():
        if record.id == kek_id:
            return record
    raise KeyConflictError(
        f"the database has no key-encryption key {kek_id.hex()[:16]!r}",
        code="kek-not-found",
        field="kek",
        hint="'kms kek status' lists all of them",
    )
