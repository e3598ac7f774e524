"""Bodies of roles, the log, and the effective settings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from kms.admin_api.models.common import Identity, Moment, Tenant
from kms.api.models import Edge


class GrantModel(Edge):
    """A grant of a role to an identity."""

    number: int
    identity: Identity
    tenant: Annotated[str, Field(description="A tenant, or * for all.", examples=["default"])]
    role: Annotated[str, Field(examples=["key-owner"])]
    granted_by: str
    granted_at: Moment
    revoked_by: str | None = None
    revoked_at: Moment | None = None


class GrantListModel(Edge):
    """Grants, oldest first."""

    grants: list[GrantModel]


class RoleRequestModel(Edge):
    """A role to grant."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"identity": "jwt:https://login.example/realm|alice", "role": "key-owner", "tenant": "default"}
            ]
        }
    )

    identity: Identity
    role: Annotated[str, Field(max_length=40, examples=["key-owner"])]
    tenant: Annotated[str, Field(max_length=64, description="A tenant, or * for all.", examples=["default"])]


class WhoAmIModel(Edge):
    """Identity and roles of the caller."""

    identity: Identity
    grants: list[GrantModel]


# -- log and settings


class LogEntryModel(Edge):
    """One entry of the log."""

    entry: dict[str, Any]  # Any: each kind of entry has members of its own
    hash: Annotated[str, Field(description="Leaf hash, hex.", pattern=r"^[0-9a-f]{64}$")]


class LogPageModel(Edge):
    """Some entries of the log."""

    entries: list[LogEntryModel]
    size: Annotated[int, Field(description="Number of entries in the log.")]


class TenantLogEntryModel(Edge):
    """The part of one entry that concerns a tenant."""

    entry: dict[str, Any]  # Any: each kind of entry has members of its own
    hash: Annotated[str, Field(description="Leaf hash of the complete entry, hex.", pattern=r"^[0-9a-f]{64}$")]
    redacted: Annotated[bool, Field(description="True if members, or keys of other tenants in them, were left out.")]


class TenantLogPageModel(Edge):
    """Some entries that concern a tenant."""

    tenant: Tenant
    entries: list[TenantLogEntryModel]
    next: Annotated[int, Field(description="Value of 'after' for the next request.")]
    at_end: Annotated[bool, Field(description="True if there are no more entries at present.")]


class SettingsModel(Edge):
    """Effective settings. No setting is a secret."""

    settings: dict[str, Any]  # Any: as 'kms config show --json' has them
