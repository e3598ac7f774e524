"""Permissions: one table and a pure function over it. Operations absent from the table are refused."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kms.domain.actors import Actor

EVERY_TENANT: Final = "*"


class Role(enum.StrEnum):
    """A role of an identity for a tenant or for the service."""

    KEY_OWNER = "key-owner"
    """Creates, disables and destroys keys."""
    POLICY_OWNER = "policy-owner"
    """Sets the policies that workloads must meet."""
    AUDITOR = "auditor"
    """Reads everything and changes nothing."""
    OPERATOR = "operator"
    """Operates the service: reads state, freezes, raises floors. Cannot release keys or relax anything."""
    ADMINISTRATOR = "administrator"
    """Grants and revokes roles, and nothing else."""
    WORKLOAD = "workload"
    """Requests keys, where the service authenticates its callers. Attestation is required as well."""


class Operation(enum.StrEnum):
    """An operation of the administration API, or of the release plane for identified callers."""

    KEYS_READ = "keys.read"
    KEYS_CREATE = "keys.create"
    KEYS_ENABLE = "keys.enable"
    KEYS_DISABLE = "keys.disable"
    KEYS_CHANGE = "keys.change"
    KEYS_DESTROY = "keys.destroy"
    LIMITS_CHANGE = "limits.change"
    TENANTS_READ = "tenants.read"
    TENANTS_CREATE = "tenants.create"
    POLICIES_READ = "policies.read"
    POLICIES_CHANGE = "policies.change"
    REFERENCES_READ = "references.read"
    REFERENCES_CHANGE = "references.change"
    RELEASES_READ = "releases.read"
    RELEASES_TRY = "releases.try"
    RENEWALS_STOP = "renewals.stop"
    RENEWALS_RESUME = "renewals.resume"
    FREEZES_READ = "freezes.read"
    FREEZE = "freezes.add"
    THAW = "freezes.end"
    FLOORS_READ = "floors.read"
    FLOORS_RAISE = "floors.raise"
    FLOORS_LOWER = "floors.lower"
    BREAK_GLASS = "break-glass.open"
    GLASS_READ = "break-glass.read"
    GLASS_CLOSE = "break-glass.close"
    ANCHORS_READ = "anchors.read"
    ANCHORS_CHANGE = "anchors.change"
    QUORUM_CHANGE = "quorum.change"
    PROPOSALS_READ = "proposals.read"
    LOG_READ = "log.read"
    TENANT_LOG_READ = "tenant-log.read"
    GRANTS_READ = "grants.read"
    GRANTS_CHANGE = "grants.change"
    SETTINGS_READ = "settings.read"
    KEYS_RELEASE = "keys.release"


_READERS: Final = frozenset({Role.KEY_OWNER, Role.POLICY_OWNER, Role.AUDITOR, Role.OPERATOR})

PERMISSIONS: Final[Mapping[Operation, frozenset[Role]]] = {
    Operation.KEYS_READ: _READERS,
    Operation.KEYS_CREATE: frozenset({Role.KEY_OWNER}),
    Operation.KEYS_ENABLE: frozenset({Role.KEY_OWNER}),
    Operation.KEYS_DISABLE: frozenset({Role.KEY_OWNER, Role.OPERATOR}),
    Operation.KEYS_CHANGE: frozenset({Role.KEY_OWNER}),
    Operation.KEYS_DESTROY: frozenset({Role.KEY_OWNER}),
    Operation.LIMITS_CHANGE: frozenset({Role.KEY_OWNER, Role.POLICY_OWNER}),
    Operation.TENANTS_READ: _READERS | {Role.ADMINISTRATOR},
    Operation.TENANTS_CREATE: frozenset({Role.ADMINISTRATOR}),
    Operation.POLICIES_READ: _READERS,
    Operation.POLICIES_CHANGE: frozenset({Role.POLICY_OWNER}),
    Operation.REFERENCES_READ: _READERS,
    Operation.REFERENCES_CHANGE: frozenset({Role.POLICY_OWNER}),
    Operation.RELEASES_READ: frozenset({Role.KEY_OWNER, Role.AUDITOR, Role.OPERATOR}),
    Operation.RELEASES_TRY: _READERS,
    Operation.RENEWALS_STOP: frozenset({Role.KEY_OWNER, Role.OPERATOR}),
    Operation.RENEWALS_RESUME: frozenset({Role.KEY_OWNER}),
    Operation.FREEZES_READ: _READERS,
    Operation.FREEZE: frozenset({Role.KEY_OWNER, Role.OPERATOR}),
    Operation.THAW: frozenset({Role.KEY_OWNER, Role.OPERATOR}),
    Operation.FLOORS_READ: _READERS,
    Operation.FLOORS_RAISE: frozenset({Role.POLICY_OWNER, Role.OPERATOR}),
    Operation.FLOORS_LOWER: frozenset({Role.POLICY_OWNER}),
    Operation.BREAK_GLASS: frozenset({Role.KEY_OWNER}),
    Operation.GLASS_READ: _READERS,
    Operation.GLASS_CLOSE: frozenset({Role.KEY_OWNER, Role.OPERATOR}),
    Operation.ANCHORS_READ: _READERS | {Role.ADMINISTRATOR},
    Operation.ANCHORS_CHANGE: frozenset({Role.POLICY_OWNER}),
    Operation.QUORUM_CHANGE: frozenset({Role.ADMINISTRATOR}),
    Operation.PROPOSALS_READ: _READERS | {Role.ADMINISTRATOR},
    Operation.LOG_READ: frozenset({Role.AUDITOR}),
    Operation.TENANT_LOG_READ: frozenset({Role.AUDITOR}),
    Operation.GRANTS_READ: frozenset({Role.ADMINISTRATOR, Role.AUDITOR}),
    Operation.GRANTS_CHANGE: frozenset({Role.ADMINISTRATOR}),
    Operation.SETTINGS_READ: frozenset({Role.ADMINISTRATOR, Role.AUDITOR, Role.OPERATOR}),
    Operation.KEYS_RELEASE: frozenset({Role.WORKLOAD}),
}
"""The roles that allow each operation. An absent operation is refused to every role."""

SERVICE_WIDE: Final = frozenset(
    {
        Operation.REFERENCES_READ,
        Operation.REFERENCES_CHANGE,
        Operation.LOG_READ,
        Operation.GRANTS_READ,
        Operation.GRANTS_CHANGE,
        Operation.SETTINGS_READ,
        Operation.TENANTS_READ,
        Operation.TENANTS_CREATE,
        Operation.FREEZES_READ,
        Operation.GLASS_READ,
        Operation.RENEWALS_RESUME,
        Operation.ANCHORS_READ,
        Operation.ANCHORS_CHANGE,
        Operation.QUORUM_CHANGE,
        Operation.PROPOSALS_READ,
    }
)
"""Operations that concern all tenants: a document of reference values affects every key whose policy names it, and the
log is shared. They need a grant for every tenant."""

SERVICE_ROLES: Final = frozenset({Role.ADMINISTRATOR})
"""Roles that can be granted for every tenant only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role granted to an identity.

    Attributes:
        number: from 1, in the order of granting; never reused.
        tenant: its scope; ``*`` for every tenant and for service-wide operations.
    """

    number: int
    identity: Actor
    tenant: str
    role: Role
    granted_by: Actor
    granted_at: datetime
    revoked_by: Actor | None = None
    revoked_at: datetime | None = None

    @property
    def counts(self) -> bool:
        """True if it was not revoked."""
        return self.revoked_at is None and self.revoked_by is None


def may(identity: Actor, *, grants: Iterable[Grant], operation: Operation, tenant: str | None) -> Grant | None:
    """Return the grant that allows an operation, or None if there is none.

    Identities are equal if means and name are. ``tenant`` is None for a service-wide operation.
    """
    roles = PERMISSIONS.get(operation, frozenset())
    where = {EVERY_TENANT} if tenant is None or operation in SERVICE_WIDE else {EVERY_TENANT, tenant}
    return next(
        (
            grant
            for grant in grants
            if grant.counts and grant.identity == identity and grant.role in roles and grant.tenant in where
        ),
        None,
    )
