"""State that results from the log, entry by entry, and its comparison with the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from attest.errors import AttestError
from kms.domain.errors import UnavailableError
from kms.domain.log_decisions import DECISION
from kms.domain.log_entries import LogEntry
from kms.domain.log_tree import Frontier, root
from kms.operations.replay.access import Grants, Tenants
from kms.operations.replay.controls import BreakGlassRelaxations, Floors, Freezes, Limits
from kms.operations.replay.foreign import Aliases, KbsDocuments, VaultKeys
from kms.operations.replay.keys import Keys
from kms.operations.replay.leases import LeasePages, RenewalStops
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule
from kms.operations.replay.quorum import PeopleAndRules, Proposals
from kms.operations.replay.service import Facts, Keks, OwnKeys, PublishedKeys, ReferenceDocuments
from kms.store import ReadTransaction

REPLAY: Final = "replay"
_PAGE_ENTRIES: Final = 2000
_DECISION: Final = f'"kind":"{DECISION}"'.encode()
_LEASE: Final = b'"lease":{'
_OMITTED: Final = b'"omitted_bytes":'
"""Text of decisions that grant nothing. JSON is canonical, so that most decisions need no parsing."""


class Difference(NamedTuple):
    """A difference between the database and the log; ``check`` is the check of ``kms fsck`` that lists it."""

    check: str
    line: str


class LoggedState:
    """State that results from the log up to the entry ``seq``.

    Its memory grows with the number of keys, grants, proposals and so on, about two kilobytes for a key with one
    version, but not with the number of decisions and leases.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.looked_at: dict[str, int] = {}
        self._leases = LeasePages()
        self._tree = Frontier()
        self._nouns: tuple[Noun, ...] = (
            *(OwnKeys(), Tenants(), Keys(), PublishedKeys(), ReferenceDocuments(), Facts(), Grants(), Freezes()),
            *(RenewalStops(), Keks(), PeopleAndRules(), Proposals(), Limits(), Floors(), BreakGlassRelaxations()),
            *(Aliases(), KbsDocuments(), VaultKeys()),
        )
        self._rules: dict[str, list[Rule]] = {DECISION: [self._leases.note]}
        for noun in self._nouns:
            for kind, rule in noun.rules.items():
                self._rules.setdefault(kind, []).append(rule)

    @property
    def kinds(self) -> frozenset[str]:
        """The known kinds of entries."""
        return frozenset(self._rules)

    def advance(self, tx: ReadTransaction, *, limit: int) -> Iterator[Difference]:
        """Replay the next entries, up to a limit; yield entries that cannot be replayed, and differences of leases.

        Raises:
            LogBrokenError: ``log-entry-invalid``: a row is not bytes.
            UnavailableError: the database is unavailable.
        """
        before = self.seq
        for entry in tx.log.entries(after=before, limit=limit):
            yield from self._replay(entry)
        if self.seq > before:
            yield from _read(LeasePages.check, self._leases.compared(tx, until=self.seq))

    def advance_to_end(self, tx: ReadTransaction) -> Iterator[Difference]:
        """Replay all remaining entries, page by page.

        Raises:
            LogBrokenError: as ``advance``.
            UnavailableError: as ``advance``.
        """
        while self.seq < tx.log.size():
            yield from self.advance(tx, limit=_PAGE_ENTRIES)

    def _replay(self, entry: LogEntry) -> Iterator[Difference]:
        if entry.seq != self.seq + 1:
            yield Difference(REPLAY, f"entry {self.seq + 1} of the log is missing")
        self.seq = entry.seq
        self._tree.add(entry.leaf_hash)
        if _DECISION in entry.raw and _LEASE not in entry.raw and _OMITTED not in entry.raw:
            return
        try:
            replayed = ReplayedEntry(entry)
            rules = self._rules.get(replayed.kind)
            if rules is None:
                raise ValueError("this version does not know its kind")  # noqa: TRY301  one line for every problem
            for rule in rules:
                rule(replayed)
        except (ValueError, KeyError, AttestError) as exc:
            yield Difference(REPLAY, f"entry {entry.seq} of the log cannot be replayed: {exc}")

    def differences(self, tx: ReadTransaction) -> Iterator[Difference]:
        """Compare the state with the database, which ends with the entry ``seq``.

        Raises:
            UnavailableError: the database is unavailable.
        """
        size = tx.log.size()
        if size < self.seq:
            yield Difference(REPLAY, f"the log has {size} entries, but had {self.seq} before")
            return
        yield from _read(REPLAY, self._tree_differences(tx))
        yield from _read(LeasePages.check, self._leases.finished(tx))
        self.looked_at = {LeasePages.check: self._leases.looked_at}
        for noun in self._nouns:
            subjects: list[str] = []
            yield from _read(noun.check, noun.differences(tx, subjects))
            self.looked_at[noun.check] = self.looked_at.get(noun.check, 0) + len(subjects)

    def _tree_differences(self, tx: ReadTransaction) -> Iterator[str]:
        found = self._tree.root() if self._tree.size == self.seq else None
        if found is not None and root(self.seq, tx.log.nodes) != found:
            yield "the stored tree of the log does not match its entries [log-hash-mismatch]"
        if tx.state.has_keys and (self.seq, found) != tx.state.root.log[:2]:
            yield "the log does not end at the last entry that the service wrote [state-forged]"


def _read(check: str, lines: Iterable[str]) -> Iterator[Difference]:
    """Turn an unreadable row into a line, after which the check ends."""
    try:
        for line in lines:
            yield Difference(check, line)
    except UnavailableError:
        raise
    except AttestError as exc:
        yield Difference(check, f"{exc.message} [{exc.code}]")
    except (ValueError, TypeError, KeyError, OverflowError) as exc:
        yield Difference(check, f"a row is unreadable: {exc}")
