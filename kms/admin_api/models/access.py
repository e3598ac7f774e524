"""Bodies about roles, the log, and the settings in force."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from kms.admin_api.models.common import Identity, Moment, Tenant
from kms.api.models import Edge


class GrantModel(Edge):
    """That somebody has a role."""

    number: int
    identity: Identity
    tenant: Annotated[str, Field(description="A tenant, or * for all.", examples=["default"])]
    role: Annotated[str, Field(examples=["key-owner"])]
    granted_by: str
    granted_at: Moment
    revoked_by: str | None = None
    revoked_at: Moment | None = None


class GrantListModel(Edge):
    """Grants in the order in which they were given."""

    grants: list[GrantModel]


class RoleRequestModel(Edge):
    """A role to give."""

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
    """Whom the service takes the caller for."""

    identity: Identity
    grants: list[GrantModel]


# -- log and settings


class LogEntryModel(Edge):
    """One entry of the log."""

    entry: dict[str, Any]  # Any: each kind of entry has members of its own
    hash: Annotated[str, Field(description="Its leaf hash, hex.", pattern=r"^[0-9a-f]{64}$")]


class LogPageModel(Edge):
    """Some entries of the log."""

    entries: list[LogEntryModel]
    size: Annotated[int, Field(description="How many entries the log had.")]


class TenantLogEntryModel(Edge):
    """One entry, as far as it concerns a tenant."""

    entry: dict[str, Any]  # Any: each kind of entry has members of its own
    hash: Annotated[str, Field(description="The whole entry's leaf hash, hex.", pattern=r"^[0-9a-f]{64}$")]
    redacted: Annotated[bool, Field(description="Whether members, or others' keys among them, were left out.")]


class TenantLogPageModel(Edge):
    """Some entries that concern a tenant."""

    tenant: Tenant
    entries: list[TenantLogEntryModel]
    next: Annotated[int, Field(description="Ask for what is behind this number next.")]
    at_end: Annotated[bool, Field(description="Whether there is nothing more up to now.")]


class SettingsModel(Edge):
    """The settings in force. None of them is a secret."""

    settings: dict[str, Any]  # Any: as 'kms config show --json' has them
