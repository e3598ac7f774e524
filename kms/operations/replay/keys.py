"""Keys of the replay: state, versions, policies, settings, tags, schedules and destruction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from attest.encoding import JsonValue, rfc3339_text
from kms.domain.keys import DEFAULT_DISCLOSURE, KeyName, KeyRecord
from kms.domain.wires import NATIVE_ONLY, wires_text
from kms.keys.admin import KEY_CREATED, KEY_DISABLED, KEY_ENABLED, KEY_IMPORTED
from kms.keys.destruction import DESTROYED, DESTRUCTION_CANCELLED, DESTRUCTION_SCHEDULED
from kms.keys.release_settings import KEY_RELEASE_SET
from kms.keys.rotation import KEY_ROTATED, SCHEDULE_REMOVED, SCHEDULE_SET
from kms.keys.tags import KEY_TAGGED
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule, Subjects
from kms.quorum.key_policy import POLICY_CHANGED
from kms.store import ReadTransaction
from kms.store.tags import key_tags

_RELEASE = {True: "enabled", False: "disabled"}


class Keys(Noun):
    """Every key, and every version of it."""

    check = "keys"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            KEY_CREATED: self._created,
            KEY_IMPORTED: self._created,
            KEY_ENABLED: self._enabled,
            KEY_DISABLED: self._enabled,
            KEY_ROTATED: self._rotated,
            KEY_RELEASE_SET: self._release_set,
            KEY_TAGGED: lambda entry: self.change(entry.key(), entry, tags=entry.members.get("tags")),
            POLICY_CHANGED: lambda entry: self._of_versions(entry, policy=entry.text("policy_sha256")),
            SCHEDULE_SET: self._scheduled,
            SCHEDULE_REMOVED: self._unscheduled,
            DESTRUCTION_SCHEDULED: self._destruction,
            DESTRUCTION_CANCELLED: self._destruction,
            DESTROYED: self._destroyed,
        }

    def _created(self, entry: ReplayedEntry) -> None:
        key, version = entry.key(), entry.number("version")
        self.make(key, entry, release="enabled", purpose=entry.text("purpose"), current_version=version)
        self.make(key, entry, disclosure=str(DEFAULT_DISCLOSURE), lease_seconds=None, tags={})
        self.make(key, entry, via=entry.members.get("via", wires_text(NATIVE_ONLY)))
        self.make(key, entry, schedule=None, next_rotation=None)
        self._version(key, version, entry, **entry.known(algorithm="algorithm"))

    def _version(self, key: str, version: int, entry: ReplayedEntry, /, **known: JsonValue) -> None:
        one, policy = f"{key}@{version}", entry.text("policy_sha256")
        self.make(one, entry, release="enabled", policy=policy, material="kept", **known)
        self.make(one, entry, released_until=None, destroyed_at=None)

    def _enabled(self, entry: ReplayedEntry) -> None:
        one = entry.key() if "version" not in entry.members else f"{entry.key()}@{entry.number('version')}"
        self.change(one, entry, release=_RELEASE[entry.kind == KEY_ENABLED])

    def _rotated(self, entry: ReplayedEntry) -> None:
        key, version, before = entry.key(), entry.number("version"), f"{entry.key()}@{entry.number('previous')}"
        self.change(key, entry, current_version=version)
        self.change(before, entry, released_until=entry.text("previous_until"))
        algorithm = self.said(before, "algorithm")
        self._version(key, version, entry, **({} if algorithm is None else {"algorithm": algorithm}))
        self.forget(key, "next_rotation")
        self.change(key, entry, **entry.known(next_rotation="next_rotation"))

    def _release_set(self, entry: ReplayedEntry) -> None:
        self.change(entry.key(), entry, disclosure=entry.text("disclosure"))
        self.change(entry.key(), entry, **entry.known(lease_seconds="lease_seconds", via="via"))

    def _scheduled(self, entry: ReplayedEntry) -> None:
        schedule = _schedule(entry.number("every_seconds"), entry.number("overlap_seconds"))
        self.change(entry.key(), entry, schedule=schedule, next_rotation=entry.text("due_at"))

    def _unscheduled(self, entry: ReplayedEntry) -> None:
        self.change(entry.key(), entry, schedule=None, next_rotation=None)

    def _destruction(self, entry: ReplayedEntry) -> None:
        cancelled = entry.kind == DESTRUCTION_CANCELLED
        self._of_versions(entry, destroyed_at=None if cancelled else entry.text("destroy_at"))

    def _destroyed(self, entry: ReplayedEntry) -> None:
        self._of_versions(entry, material="destroyed")
        if self.said(entry.key(), "current_version") in entry.elements("versions"):
            self._unscheduled(entry)

    def _of_versions(self, entry: ReplayedEntry, **values: JsonValue) -> None:
        for version in entry.elements("versions"):
            self.change(f"{entry.key()}@{version}", entry, **values)

    def _stored(self, tx: ReadTransaction) -> Subjects:
        schedules = {one.name: one.members() for one in tx.schedules.all()}
        tags: dict[KeyName, dict[str, JsonValue]] = defaultdict(dict)
        for row in tx.tables.rows(key_tags):
            name = KeyName(tenant=str(row["tenant"]), key_id=str(row["key_id"]))
            tags[name][str(row["name"])] = str(row["value"])
        records = tx.keys.all()
        current = {one.name: one.version for one in records if one.is_current}
        for name, one in {record.name: record for record in records}.items():
            schedule = schedules.get(name, {})
            every, overlap = schedule.get("every_seconds"), schedule.get("overlap_seconds")
            yield (
                f"key {name}",
                {
                    "release": _RELEASE[one.enabled],
                    "purpose": str(one.purpose),
                    "current_version": current.get(name),
                    "disclosure": str(one.disclosure),
                    "lease_seconds": one.lease_seconds,
                    "via": wires_text(one.via),
                    "tags": dict(tags[name]),
                    "schedule": _schedule(every, overlap) if schedule else None,
                    "next_rotation": schedule.get("due_at"),
                },
            )
        yield from ((f"key {one.name}@{one.version}", _of_version(one)) for one in records)


def _schedule(every: JsonValue, overlap: JsonValue) -> str:
    return f"every {every} s, overlap {overlap} s"


def _of_version(one: KeyRecord) -> Mapping[str, JsonValue]:
    return {
        "release": _RELEASE[one.version_enabled],
        "algorithm": one.algorithm,
        "policy": one.policy_digest.hex(),
        "material": "kept" if one.wrapped.content else "destroyed",
        "released_until": None if one.overlap_until is None else rfc3339_text(one.overlap_until),
        "destroyed_at": None if one.destroy_at is None else rfc3339_text(one.destroy_at),
    }
