"""Tenants and grants of the replay."""

from __future__ import annotations

from collections.abc import Mapping

from kms.auth.grants import GRANT_ADDED, GRANT_REVOKED, grant_members
from kms.domain.keys import DEFAULT_TENANT
from kms.keys.tenants import TENANT_CREATED
from kms.operations.replay.noun import Noun, Rule, Subjects
from kms.operations.services import INITIALISED
from kms.store import ReadTransaction


class Tenants(Noun):
    """Tenants; a new service has one."""

    check = "tenants"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            INITIALISED: lambda entry: self.make(f"tenant {DEFAULT_TENANT}", entry),
            TENANT_CREATED: lambda entry: self.make(f"tenant {entry.text('tenant')}", entry),
        }

    def _stored(self, tx: ReadTransaction) -> Subjects:
        return ((f"tenant {name}", {}) for name in tx.tenants.all())


class Grants(Noun):
    """Grants in force."""

    check = "grants"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            GRANT_ADDED: lambda entry: self.make(
                f"grant {entry.number('grant')}",
                entry,
                **{name: entry.text(name) for name in ("identity", "tenant", "role")},
            ),
            GRANT_REVOKED: lambda entry: self.end(f"grant {entry.number('grant')}", entry),
        }

    def _stored(self, tx: ReadTransaction) -> Subjects:
        return ((f"grant {one.number}", grant_members(one)) for one in tx.grants.all() if one.counts)
