"""Units of work: a transaction whose attributes are the repositories, one per aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from sqlalchemy import Connection

from kms.domain.rollback import StatePosition
from kms.domain.state_root import StateKeys
from kms.store.audit_queries import AuditQueries
from kms.store.break_glass import BreakGlassReader, BreakGlassRepository
from kms.store.facts import FactReader, FactRepository
from kms.store.floors import FloorReader, FloorRepository
from kms.store.freezes import FreezeReader, FreezeRepository
from kms.store.grants import GrantReader, GrantRepository
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
from kms.store.wrapped_rows import WrappedRowReader, WrappedRowRepository

R_co = TypeVar("R_co", covariant=True)


class _Part(Generic[R_co]):
    """A repository as an attribute of a transaction, made when it is first used."""

    def __init__(self, kind: Callable[[Connection, State], R_co]) -> None:
        self._kind = kind

    def __set_name__(self, owner: type[ReadTransaction], name: str) -> None:
        self._name = name

    def __get__(self, transaction: ReadTransaction, owner: type[ReadTransaction]) -> R_co:
        made = self._kind(transaction.connection, transaction.state)
        transaction.__dict__[self._name] = made  # found before this descriptor from now on
        return made


class ReadTransaction:
    """Repositories for reading one state of the database."""

    def __init__(self, connection: Connection, state: State) -> None:
        self.connection = connection
        self.state = state

    audit = _Part(AuditQueries)
    break_glass = _Part(BreakGlassReader)
    facts = _Part(FactReader)
    floors = _Part(FloorReader)
    freezes = _Part(FreezeReader)
    grants = _Part(GrantReader)
    keks = _Part(KekReader)
    keys = _Part(KeyReader)
    leases = _Part(LeaseReader)
    limits = _Part(LimitReader)
    log = _Part(LogReader)
    nonces = _Part(NonceReader)
    own_secrets = _Part(OwnSecretReader)
    policies = _Part(PolicyReader)
    prompt_keys = _Part(PromptKeyReader)
    proposals = _Part(ProposalReader)
    quorum = _Part(QuorumReader)
    references = _Part(ReferenceReader)
    schedules = _Part(ScheduleReader)
    tables = _Part(TableReader)
    tags = _Part(TagReader)
    tenants = _Part(TenantReader)
    wrapped_rows = _Part(WrappedRowReader)

    @property
    def position(self) -> StatePosition:
        """How far the database has come, for rollback guards.

        Raises:
            IntegrityError: ``state-forged`` or ``state-rolled-back``.
        """
        now = self.state.root
        return StatePosition(counter=now.counter, log_size=now.log.size, log_root=now.log.root)


class WriteTransaction(ReadTransaction):
    """Repositories for reading and writing, all or nothing."""

    break_glass = _Part(BreakGlassRepository)
    facts = _Part(FactRepository)
    floors = _Part(FloorRepository)
    freezes = _Part(FreezeRepository)
    grants = _Part(GrantRepository)
    keks = _Part(KekRepository)
    keys = _Part(KeyRepository)
    leases = _Part(LeaseRepository)
    limits = _Part(LimitRepository)
    log = _Part(LogRepository)
    nonces = _Part(NonceRepository)
    own_secrets = _Part(OwnSecretRepository)
    policies = _Part(PolicyRepository)
    prompt_keys = _Part(PromptKeyRepository)
    proposals = _Part(ProposalRepository)
    quorum = _Part(QuorumRepository)
    references = _Part(ReferenceRepository)
    schedules = _Part(ScheduleRepository)
    tables = _Part(TableRepository)
    tags = _Part(TagRepository)
    tenants = _Part(TenantRepository)
    wrapped_rows = _Part(WrappedRowRepository)

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
        """Begin the authenticated state of a database that has none."""
        self.open_state(keys)
        self.state.begin()

    def open_state(self, keys: StateKeys) -> None:
        """Verify the state of a database that is made in this transaction."""
        self.state.open_with(StateAuthority(keys))

    def begin_log(self) -> None:
        """Take the log of a database that has no state yet as it is."""
        self.state.adopt_log(self.log.stored_edge())

    def settle(self) -> None:
        """Write the root of the state that the transaction leaves; the last statement before its end."""
        self.state.settle(self.log.edge())
