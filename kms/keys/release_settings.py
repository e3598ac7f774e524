"""Release settings of a key: disclosure of refusals, lifetime of leases, and protocols. Each change is logged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.keys import Disclosure, KeyName, KeyRecord
from kms.domain.lease_grants import LONGEST_LEASE_SECONDS, SHORTEST_LEASE_SECONDS
from kms.domain.wires import NATIVE_ONLY, Wire, wires_text
from kms.keys.admin import name_members, require_key
from kms.store import Store

KEY_RELEASE_SET: Final = "key-release-set"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSettings:
    """Detail of a refusal of a key, lifetime of its leases (None is the service's default), and its protocols."""

    disclosure: Disclosure
    lease_seconds: int | None
    via: frozenset[Wire] = NATIVE_ONLY

    def members(self) -> dict[str, JsonValue]:
        """Return them for the log."""
        return {
            "disclosure": str(self.disclosure),
            "lease_seconds": self.lease_seconds,
            "via": wires_text(self.via),
        }

    @staticmethod
    def of(record: KeyRecord) -> ReleaseSettings:
        """Return those of a key."""
        return ReleaseSettings(disclosure=record.disclosure, lease_seconds=record.lease_seconds, via=record.via)


def set_release_settings(
    store: Store, name: KeyName, then: ReleaseSettings, *, actor: Actor, at: datetime
) -> ReleaseSettings:
    """Set them for every version of a key, but not for granted leases; return the previous settings.

    Raises:
        ConfigurationError: ``lease-seconds-invalid``.
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-state-unchanged``.
        UnavailableError: the database is in use.
    """
    _require_lifetime(then.lease_seconds)
    with store.writing() as tx:
        before = ReleaseSettings.of(require_key(tx, name))
        if before == then:
            problem = f"the key {str(name)!r} already has these release settings"
            raise KeyConflictError(problem, code="key-state-unchanged", field=str(name))
        tx.keys.set_release(name, disclosure=then.disclosure, lease_seconds=then.lease_seconds, via=then.via)
        body = {**name_members(name), **then.members(), "before": before.members(), "actor": actor.members()}
        tx.log.add(kind=KEY_RELEASE_SET, at=at, body=body)
    return before


def _require_lifetime(seconds: int | None) -> None:
    if seconds is not None and not SHORTEST_LEASE_SECONDS <= seconds <= LONGEST_LEASE_SECONDS:
        raise ConfigurationError(
            f"a lease of {seconds} s is too short or too long",
            code="lease-seconds-invalid",
            field="lease_seconds",
            expected=f"{SHORTEST_LEASE_SECONDS} to {LONGEST_LEASE_SECONDS} s",
            got=str(seconds),
        )
