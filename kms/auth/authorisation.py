"""Authorisation by the present grants, in the same transaction as the operation (MC-19)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NoReturn, TypeVar

from attest.errors import ConfigurationError
from attest.release import KeyName, KeyReference
from kms.auth.names import identity_text
from kms.domain.actors import Actor, Means
from kms.domain.errors import ForbiddenError, UnavailableError
from kms.domain.permissions import Operation, may
from kms.domain.state_root import StateKeys
from kms.keys.admin import unknown_key
from kms.store import ReadTransaction, Store, WriteTransaction

T = TypeVar("T")

Demand = Callable[[ReadTransaction], None]
"""Raises unless the transaction contains a permission for the operation."""


def require(
    tx: ReadTransaction, identity: Actor, operation: Operation, *, tenant: str | None, key: KeyName | None = None
) -> None:
    """Refuse an operation that no grant allows.

    A user of the service's machine needs no grant, because they can read the key-encryption key. A caller without
    permission to see the keys of a tenant gets the same response for its keys as for unknown ones (MC-21).
    A ``tenant`` of None is the whole service.

    Raises:
        KeyUnknownError: ``key-unknown``.
        ForbiddenError: ``not-permitted``.
    """
    if identity.means is Means.LOCAL:
        return
    grants = tx.grants.held_by(identity)
    if may(identity, grants=grants, operation=operation, tenant=tenant) is not None:
        return
    if key is not None and may(identity, grants=grants, operation=Operation.KEYS_READ, tenant=tenant) is None:
        raise unknown_key(key)
    raise _forbidden(identity, operation, "the whole service" if tenant is None else f"the tenant {tenant!r}")


def require_anywhere(tx: ReadTransaction, *, identity: Actor, operation: Operation) -> None:
    """Refuse an operation that no grant allows for any tenant.

    Raises:
        ForbiddenError: ``not-permitted``.
    """
    if identity.means is Means.LOCAL:
        return
    grants = tx.grants.held_by(identity)
    if not any(may(identity, grants=grants, operation=operation, tenant=one.tenant) is not None for one in grants):
        raise _forbidden(identity, operation, "any tenant")


def _forbidden(identity: Actor, operation: Operation, where: str) -> ForbiddenError:
    return ForbiddenError(
        f"{identity_text(identity)} is not permitted: {operation} for {where}",
        code="not-permitted",
        field=str(operation),
        expected=f"a role that allows {operation}",
        hint="an administrator can grant one; GET /v1/whoami lists your roles",
    )


def within_reach(
    tx: ReadTransaction, requested: Iterable[KeyReference], *, caller: Actor | None
) -> tuple[KeyReference, ...]:
    """Return the keys that a caller may request (MC-21); to the caller, the others do not exist.

    A caller of None may request all keys, because the service does not identify callers.
    """
    if caller is None:
        return tuple(requested)
    grants = tx.grants.held_by(caller)
    return tuple(
        one
        for one in requested
        if may(caller, grants=grants, operation=Operation.KEYS_RELEASE, tenant=one.name.tenant) is not None
    )


class GuardedStore(Store):
    """Store that checks a demand first in every transaction, against the present grants. Its opener closes it."""

    def __init__(self, store: Store, *, demand: Demand) -> None:
        """Wrap a store."""
        self._store = store
        self._demand = demand

    @contextmanager
    def reading(self) -> Iterator[ReadTransaction]:
        """Open a reading transaction, in which the demand holds."""
        with opened(self._store.reading()) as tx:
            self._demand(tx)
            yield tx

    @contextmanager
    def writing(self) -> Iterator[WriteTransaction]:
        """Open the writing transaction, in which the demand holds; when it does not, nothing is written."""
        with opened(self._store.writing()) as tx:
            self._demand(tx)
            yield tx

    def opening(self) -> NoReturn:
        """Refuse: unverified rows do not grant permissions."""
        raise TypeError("a guarded store verifies what it reads")

    examining = opening

    def authenticate(self, keys: StateKeys) -> NoReturn:
        """Refuse: the store is open already."""
        del keys
        raise TypeError("a guarded store is open already")

    @property
    def is_authenticated(self) -> bool:
        """True if the keys of the state are known."""
        return self._store.is_authenticated

    def write(self, work: Callable[[WriteTransaction], T]) -> T:
        """Do work in a writing transaction that other requests may share, if the demand holds in it."""

        def demanded(tx: WriteTransaction) -> T:
            self._demand(tx)
            return work(tx)

        return self._store.write(demanded)

    @property
    def waiting(self) -> int:
        """Number of pieces of work that wait to be written."""
        return self._store.waiting

    def close(self) -> None:
        """Do nothing: another owner closes the database."""


@contextmanager
def opened(transaction: AbstractContextManager[T]) -> Iterator[T]:
    """Enter a transaction; a damaged database is not an error of the caller."""
    with ExitStack() as stack:
        try:
            entered = stack.enter_context(transaction)
        except ConfigurationError as exc:
            raise UnavailableError(exc.message, code=exc.code, field=exc.field, hint=exc.hint) from exc
        yield entered
