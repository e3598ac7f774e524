"""One noun of the replay: the state that results from the log, by subject, and its comparison with the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, NoReturn, TypeAlias

from attest.encoding import JsonValue
from kms.domain.canonical_json import canonical_json
from kms.domain.keys import DEFAULT_TENANT, KeyName
from kms.domain.log_entries import LogEntry
from kms.store import ReadTransaction

_SHOWN_CHARACTERS: Final = 200


class ReplayedEntry:
    """An entry of the log with typed access to its members.

    A member that is missing, of another type, or replaced by its digest raises ``ValueError``.
    """

    def __init__(self, entry: LogEntry) -> None:
        """Parse an entry.

        Raises:
            LogBrokenError: ``log-entry-invalid``.
        """
        self.seq = entry.seq
        self.members: Mapping[str, JsonValue] = entry.document()
        self.kind = str(self.members.get("kind"))

    def text(self, name: str, *, of: str | None = None) -> str:
        """Return a text; ``of`` is the member that contains it."""
        holder = self.members if of is None else self.members.get(of)
        value = holder.get(name) if isinstance(holder, Mapping) else None
        return value if isinstance(value, str) else self._lacks(name)

    def number(self, name: str) -> int:
        """Return a number."""
        value = self.members.get(name)
        return value if isinstance(value, int) else self._lacks(name)

    def elements(self, name: str) -> list[JsonValue]:
        """Return the elements of a list."""
        value = self.members.get(name)
        return value if isinstance(value, list) else self._lacks(name)

    def key(self) -> str:
        """Return the subject of the key named in the entry."""
        tenant = str(self.members.get("tenant", DEFAULT_TENANT))
        return f"key {KeyName(tenant=tenant, key_id=self.text('key_id'))}"

    def known(self, **members: str) -> dict[str, JsonValue]:
        """Return these members by the names of the arguments, without those missing in older entries."""
        return {name: self.members[member] for name, member in members.items() if member in self.members}

    def _lacks(self, name: str) -> NoReturn:
        raise ValueError(f"the member {name!r} is missing, or only its digest is present")


Rule: TypeAlias = Callable[[ReplayedEntry], None]
Subjects: TypeAlias = Iterator[tuple[str, Mapping[str, JsonValue]]]
"""Subjects with their values."""


class _Said(NamedTuple):
    value: JsonValue
    seq: int


@dataclass(slots=True)
class _Subject:
    since: int
    said: dict[str, _Said] = field(default_factory=dict)


class Noun(ABC):
    """State of one noun. Its memory grows with the state, and not with the log.

    Attributes:
        check: the check of ``kms fsck`` that lists the differences.
        rules: for each kind of entry that affects the noun, the changes that it makes.
        incomplete: True if an older log does not record the creation of all subjects.
    """

    check: ClassVar[str]

    def __init__(self) -> None:
        self.incomplete = False
        self.rules = self._rules()
        self._subjects: dict[str, _Subject] = {}
        self._endings: dict[str, int] = {}

    @abstractmethod
    def _rules(self) -> Mapping[str, Rule]:
        """Return, for each kind of entry that affects the noun, the changes that it makes."""

    @abstractmethod
    def _stored(self, tx: ReadTransaction) -> Subjects:
        """Iterate over the subjects of the database."""

    def make(self, subject: str, entry: ReplayedEntry, /, **values: JsonValue) -> None:
        """Record that an entry created a subject, or changed its values."""
        one = self._subjects.setdefault(subject, _Subject(entry.seq))
        one.said |= {name: _Said(value, entry.seq) for name, value in values.items()}

    def change(self, subject: str, entry: ReplayedEntry, /, **values: JsonValue) -> None:
        """Record that an entry changed the values of a subject.

        Raises:
            ValueError: no entry created it.
        """
        if subject not in self._subjects:
            raise ValueError(f"no earlier entry created {subject}")
        self.make(subject, entry, **values)

    def forget(self, subject: str, *names: str) -> None:
        """Record that an older entry does not state these values."""
        for name in names:
            self._subjects[subject].said.pop(name, None)

    def end(self, subject: str, entry: ReplayedEntry) -> None:
        """Record that a subject ended.

        Raises:
            ValueError: no entry created it.
        """
        if self._subjects.pop(subject, None) is None:
            raise ValueError(f"no earlier entry created {subject}")
        self._endings[subject] = entry.seq

    def said(self, subject: str, name: str) -> JsonValue:
        """Return a value according to the log, or None."""
        one = self._subjects.get(subject)
        return None if one is None or name not in one.said else one.said[name].value

    def differences(self, tx: ReadTransaction, looked_at: list[str]) -> Iterator[str]:
        """Yield a line for each difference of the database; ``looked_at`` collects the subjects.

        Raises:
            IntegrityError: a row is unreadable.
        """
        missing = dict.fromkeys(self._subjects)
        for subject, values in self._stored(tx):
            looked_at.append(subject)
            missing.pop(subject, None)
            yield from self._compared(subject, values)
        for subject in missing:
            yield f"{subject}: missing in the database, created by entry {self._subjects[subject].since} of the log"

    def _compared(self, subject: str, values: Mapping[str, JsonValue]) -> Iterator[str]:
        logged = self._subjects.get(subject)
        if logged is None:
            if subject in self._endings:
                yield f"{subject}: in the database, but ended by entry {self._endings[subject]} of the log"
            elif not self.incomplete:
                yield f"{subject}: in the database, but not created by an entry of the log"
            return
        for name, said in logged.said.items():
            stored = values.get(name)
            if stored != said.value:
                yield (
                    f"{subject}: {name.replace('_', ' ')} {_shown(stored)} in the database, "
                    f"{_shown(said.value)} since entry {said.seq} of the log"
                )


def _shown(value: JsonValue) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else canonical_json(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
