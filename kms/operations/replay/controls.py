"""Freezes, limits and break-glass of the replay."""

from __future__ import annotations

from collections.abc import Mapping

from attest.encoding import rfc3339_text
from kms.controls.admin import FROZEN, THAWED
from kms.domain.canonical_json import canonical_digest
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule, Subjects
from kms.quorum.break_glass import GLASS_CLOSED, GLASS_OPENED
from kms.quorum.floors import FLOOR_CHANGED
from kms.quorum.key_limits import LIMITS_CHANGED
from kms.store import ReadTransaction


class Freezes(Noun):
    """The freezes in force."""

    check = "freezes"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            FROZEN: self._frozen,
            THAWED: lambda entry: self.end(_freeze(entry.text("scope"), entry.text("name")), entry),
        }

    def _frozen(self, entry: ReplayedEntry) -> None:
        said = entry.known(reason="reason", actor="actor", frozen_at="frozen_at")
        self.make(_freeze(entry.text("scope"), entry.text("name")), entry, **said)

    def _stored(self, tx: ReadTransaction) -> Subjects:
        return ((_freeze(one.target.scope, one.target.name), one.members()) for one in tx.freezes.all())


def _freeze(scope: str, name: str) -> str:
    return f"freeze of {scope} {name}".rstrip()


class Limits(Noun):
    """Every version of the limits of every key."""

    check = "limits"

    def _rules(self) -> Mapping[str, Rule]:
        return {LIMITS_CHANGED: lambda entry: self.make(_limits(entry.key(), entry.text("limits_sha256")), entry)}

    def _stored(self, tx: ReadTransaction) -> Subjects:
        digests = ((name, canonical_digest(limits.members())) for name, limits in tx.limits.all())
        return ((_limits(f"key {name}", digest), {}) for name, digest in digests)


def _limits(key: str, digest: str) -> str:
    return f"limits of {key} with the digest {digest}"


class Floors(Noun):
    """Every version of every floor."""

    check = "floors"

    def _rules(self) -> Mapping[str, Rule]:
        return {FLOOR_CHANGED: self._changed}

    def _changed(self, entry: ReplayedEntry) -> None:
        scope, version = entry.text("scope"), entry.number("version")
        self.make(f"version {version} of the floor of {scope}", entry, digest=entry.text("floor_sha256"))

    def _stored(self, tx: ReadTransaction) -> Subjects:
        return (
            (f"version {one.version} of the floor of {one.scope}", {"digest": one.digest}) for one in tx.floors.all()
        )


class BreakGlassRelaxations(Noun):
    """Every relaxation, past and present."""

    check = "break-glass"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            GLASS_OPENED: self._opened,
            GLASS_CLOSED: lambda entry: self.change(_glass(entry.number("number")), entry, state="closed"),
        }

    def _opened(self, entry: ReplayedEntry) -> None:
        said = entry.known(opened_at="opened_at")
        self.make(_glass(entry.number("number")), entry, digest=entry.text("sha256"), state="not closed", **said)

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for one, closed in tx.break_glass.all():
            yield (
                _glass(one.number),
                {
                    "digest": canonical_digest(one.members()),
                    "opened_at": rfc3339_text(one.opened_at),
                    "state": "not closed" if closed is None else "closed",
                },
            )


def _glass(number: int) -> str:
    return f"break-glass {number}"
