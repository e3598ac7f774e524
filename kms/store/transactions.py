"""Units of work: a transaction whose attributes are the repositories, one per aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar, overload

from sqlalchemy import Connection

from kms.domain.rollback import StatePosition
from kms.domain.state_root import StateKeys
from kms.store.aliases import AliasReader, AliasRepository
from kms.store.audit_queries import AuditQueries
from kms.store.break_glass import BreakGlassReader, BreakGlassRepository
from kms.store.facts import FactReader, FactRepository
from kms.store.floors import FloorReader, FloorRepository
from kms.store.freezes import FreezeReader, FreezeRepository
from kms.store.grants import GrantReader, GrantRepository
from kms.store.kbs_documents import KbsDocumentReader, KbsDocumentRepository
from kms.store.keks import KekReader, KekRepository
from kms.store.keys import KeyReader, KeyRepository
from kms.store.leases import LeaseReader, LeaseRepository
from kms.store.limits import LimitReader, LimitRepository
from kms.store.log import LogReader, LogRepository
from kms.store.nonces import NonceReader, NonceRepository
from kms.store.own_secrets import OwnSecretReader, OwnSecretRepository
from kms.store.policies import PolicyReader, PolicyRepository
from kms.store.prompt_keys import PromptKeyReader, PromptKeyRepository
from kms.store.quorum import ProposalReader, ProposalRepository, QuorumReader, QuorumRepository
from kms.store.references import ReferenceReader, ReferenceRepository
from kms.store.schedules import ScheduleReader, ScheduleRepository
from kms.store.state import State, StateAuthority
from kms.store.tables import TableReader, TableRepository
from kms.store.tags import TagReader, TagRepository
from kms.store.tenants import TenantReader, TenantRepository
from kms.store.vault_keys import VaultKeyReader, VaultKeyRepository
from kms.store.wrapped_rows import WrappedRowReader, WrappedRowRepository

R = TypeVar("R")
W = TypeVar("W")


class _Part(Generic[R, W]):
    """A repository as an attribute of a transaction, made when it is first used: for reading, or for writing too."""

    def __init__(self, reader: Callable[[Connection, State], R], writer: Callable[[Connection, State], W]) -> None:
        self._reader = reader
        self._writer = writer

    def __set_name__(self, owner: type[ReadTransaction], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, transaction: WriteTransaction, owner: type[ReadTransaction]) -> W: ...
    @overload
    def __get__(self, transaction: ReadTransaction, owner: type[ReadTransaction]) -> R: ...
    def __get__(self, transaction: ReadTransaction, owner: type[ReadTransaction]) -> R | W:
        kind = self._writer if isinstance(transaction, WriteTransaction) else self._reader
        made = kind(transaction.connection, transaction.state)
        transaction.__dict__[self._name] = made  # found before this descriptor from now on
        return made


class ReadTransaction:
    """Repositories for reading one state of the database."""

    def __init__(self, connection: Connection, state: State) -> None:
        self.connection = connection
        self.state = state

    aliases = _Part(AliasReader, AliasRepository)
    audit = _Part(AuditQueries, AuditQueries)
    break_glass = _Part(BreakGlassReader, BreakGlassRepository)
    facts = _Part(FactReader, FactRepository)
    floors = _Part(FloorReader, FloorRepository)
    freezes = _Part(FreezeReader, FreezeRepository)
    grants = _Part(GrantReader, GrantRepository)
    kbs_documents = _Part(KbsDocumentReader, KbsDocumentRepository)
    keks = _Part(KekReader, KekRepository)
    keys = _Part(KeyReader, KeyRepository)
    leases = _Part(LeaseReader, LeaseRepository)
    limits = _Part(LimitReader, LimitRepository)
    log = _Part(LogReader, LogRepository)
    nonces = _Part(NonceReader, NonceRepository)
    own_secrets = _Part(OwnSecretReader, OwnSecretRepository)
    policies = _Part(PolicyReader, PolicyRepository)
    prompt_keys = _Part(PromptKeyReader, PromptKeyRepository)
    proposals = _Part(ProposalReader, ProposalRepository)
    quorum = _Part(QuorumReader, QuorumRepository)
    references = _Part(ReferenceReader, ReferenceRepository)
    schedules = _Part(ScheduleReader, ScheduleRepository)
    tables = _Part(TableReader, TableRepository)
    tags = _Part(TagReader, TagRepository)
    tenants = _Part(TenantReader, TenantRepository)
    vault_keys = _Part(VaultKeyReader, VaultKeyRepository)
    wrapped_rows = _Part(WrappedRowReader, WrappedRowRepository)

    @property
    def position(self) -> StatePosition:
        """Position of the database, for rollback guards.

        Raises:
            IntegrityError: ``state-forged`` or ``state-rolled-back``.
        """
        now = self.state.root
        return StatePosition(counter=now.counter, log_size=now.log.size, log_root=now.log.root)


class WriteTransaction(ReadTransaction):
    """Repositories for reading and writing, all or nothing."""

    @contextmanager
    def part(self) -> Iterator[None]:
        """Open a block that is rolled back if it raises."""
        state, log = self.state.mark(), self.log.mark()
        try:
            with self.connection.begin_nested():
                yield
        except BaseException:
            self.state.restore(state)
            self.log.restore(log)
            raise

    def begin_state(self, keys: StateKeys) -> None:
        """Create the authenticated state of a database that has none."""
        self.open_state(keys)
        self.state.begin()

    def open_state(self, keys: StateKeys) -> None:
        """Verify the state of a database that is made in this transaction."""
        self.state.open_with(StateAuthority(keys))

    def begin_log(self) -> None:
        """Accept the log of a database without state unverified."""
        self.state.adopt_log(self.log.stored_edge())

    def settle(self) -> None:
        """Write the root of the state after this transaction; its last statement."""
        self.state.settle(self.log.edge())
