"""Tenants and grants of the replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attest.encoding import JsonValue
from kms.auth.grants import GRANT_ADDED, GRANT_REVOKED, grant_members
from kms.domain.keys import DEFAULT_TENANT
from kms.keys.tenants import TENANT_CREATED
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule
from kms.operations.services import INITIALISED
from kms.store import ReadTransaction


class Tenants(Noun):
    """Every tenant; a new service has one."""

    check = "tenants"

    def rules(self) -> Mapping[str, Rule]:
        """Return them."""
        return {
            INITIALISED: lambda entry: self.make(f"tenant {DEFAULT_TENANT}", entry),
            TENANT_CREATED: lambda entry: self.make(f"tenant {entry.text('tenant')}", entry),
        }

    def stored(self, tx: ReadTransaction) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
        """Iterate over the tenants."""
        return ((f"tenant {name}", {}) for name in tx.tenants.all())


class Grants(Noun):
    """The grants that count."""

    check = "grants"

    def rules(self) -> Mapping[str, Rule]:
        """Return them."""
        return {
            GRANT_ADDED: self._added,
            GRANT_REVOKED: lambda entry: self.end(f"grant {entry.number('grant')}", entry),
        }

    def _added(self, entry: ReplayedEntry) -> None:
        said = {name: entry.text(name) for name in ("identity", "tenant", "role")}
        self.make(f"grant {entry.number('grant')}", entry, **said)

    def stored(self, tx: ReadTransaction) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
        """Iterate over the grants that count."""
        return ((f"grant {one.number}", grant_members(one)) for one in tx.grants.all() if one.counts)
