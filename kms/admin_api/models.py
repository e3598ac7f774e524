"""What travels, as the OpenAPI document describes it. Strict, frozen, closed; they are not the domain types."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from attest.release.names import KEY_ID_PATTERN, TENANT_PATTERN

__all__ = [
    "ConfirmModel",
    "Digest",
    "GivenReferencesModel",
    "GrantListModel",
    "GrantModel",
    "KeyId",
    "KeyListModel",
    "KeyModel",
    "KeyRequestModel",
    "KeyStateModel",
    "LogEntryModel",
    "LogPageModel",
    "PolicyListModel",
    "PolicyModel",
    "PolicySummaryModel",
    "ReferenceListModel",
    "ReferenceModel",
    "ReferencesAddedModel",
    "ReferencesRequestModel",
    "RoleRequestModel",
    "SettingsModel",
    "Tenant",
    "WhoAmIModel",
]

Tenant = Annotated[str, Field(pattern=TENANT_PATTERN, examples=["default"])]
KeyId = Annotated[str, Field(pattern=KEY_ID_PATTERN, examples=["my-model"])]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256, hex.")]
Moment = Annotated[str, Field(description="RFC 3339, UTC.", examples=["2026-06-01T12:00:00Z"])]
Identity = Annotated[
    str,
    Field(
        max_length=520,
        description="jwt:ISSUER|SUBJECT, mtls:sha256:…, mtls:uri:… or mtls:subject:….",
        examples=["jwt:https://login.example/realm|alice"],
    ),
]


class _Edge(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ConfirmModel(_Edge):
    """Nothing more is said; that it is JSON keeps a browser's forms out."""


# -- who


class GrantModel(_Edge):
    """That somebody has a role."""

    number: int
    identity: Identity
    tenant: Annotated[str, Field(description="A tenant, or * for all.", examples=["default"])]
    role: Annotated[str, Field(examples=["key-owner"])]
    granted_by: str
    granted_at: Moment
    revoked_by: str | None = None
    revoked_at: Moment | None = None


class GrantListModel(_Edge):
    """Grants in the order in which they were given."""

    grants: list[GrantModel]


class RoleRequestModel(_Edge):
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


class WhoAmIModel(_Edge):
    """Whom the service takes the caller for."""

    identity: Identity
    grants: list[GrantModel]


# -- keys and what guards them


class KeyStateModel(_Edge):
    """A key as it is now; never its material."""

    tenant: Tenant
    key_id: KeyId
    version: Annotated[int, Field(ge=1)]
    purpose: str
    algorithm: str
    state: Annotated[
        str, Field(description="current, overlap, retired, destroying or destroyed.", examples=["current"])
    ]
    enabled: bool
    disclosure: Annotated[str, Field(description="How much a refused workload is told.")]
    lease_seconds: int | None
    policy_sha256: Digest
    created_at: Moment
    overlap_until: Moment | None = None
    destroy_at: Moment | None = None


class KeyListModel(_Edge):
    """Every version of every key of a tenant."""

    keys: list[KeyStateModel]


class ReferenceModel(_Edge):
    """A document of reference values."""

    name: str
    version: int
    sha256: Digest


class KeyModel(KeyStateModel):
    """A key with the policy that guards it."""

    policy: Annotated[str, Field(description="The policy document.")]
    references: Annotated[list[ReferenceModel], Field(description="Documents of reference values in force for it.")]
    obstacle: Annotated[str | None, Field(description="Why it is released to nobody now.")] = None


class GivenReferencesModel(_Edge):
    """A document of reference values, with what proves who signed it."""

    document: Annotated[str, Field(max_length=1024 * 1024)]
    signatures: Annotated[list[str], Field(max_length=16)]
    keys: Annotated[list[str], Field(max_length=16, description="Public keys, PEM.")]


class KeyRequestModel(_Edge):
    """A key to make. Its material is drawn by the service and leaves it for conforming workloads alone."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"tenant": "default", "key_id": "my-model", "policy": "schema: attest.policy/1\nname: …\n"}]
        }
    )

    tenant: Tenant
    key_id: KeyId
    policy: Annotated[str, Field(max_length=1024 * 1024, description="The policy document, YAML or JSON.")]
    references: Annotated[list[GivenReferencesModel], Field(max_length=16)] = []


class PolicySummaryModel(_Edge):
    """A policy that guards keys of a tenant."""

    sha256: Digest
    name: str
    version: int
    keys: Annotated[list[str], Field(description="Which keys of the tenant.")]
    obstacle: str | None = None


class PolicyListModel(_Edge):
    """The policies that guard the keys of a tenant."""

    policies: list[PolicySummaryModel]


class PolicyModel(_Edge):
    """A policy document."""

    sha256: Digest
    document: str


class ReferenceListModel(_Edge):
    """Every version of every document of reference values that was taken in."""

    references: list[dict[str, Any]]  # Any: as 'kms references list --json' has it


class ReferencesRequestModel(GivenReferencesModel):
    """A document of reference values to put into force."""


class ReferencesAddedModel(_Edge):
    """What it did."""

    name: str
    version: int
    sha256: Digest
    new: Annotated[bool, Field(description="Whether it was not there before.")]
    keys: Annotated[list[str], Field(description="For which keys it is in force.")]
    blocked: Annotated[dict[str, str], Field(description="Keys that are released to nobody now, and why.")]


# -- log and settings


class LogEntryModel(_Edge):
    """One entry of the log."""

    entry: dict[str, Any]  # Any: each kind of entry has members of its own
    hash: Annotated[str, Field(description="Its leaf hash, hex.", pattern=r"^[0-9a-f]{64}$")]


class LogPageModel(_Edge):
    """Some entries of the log."""

    entries: list[LogEntryModel]
    size: Annotated[int, Field(description="How many entries the log had.")]


class SettingsModel(_Edge):
    """The settings in force. None of them is a secret."""

    settings: dict[str, Any]  # Any: as 'kms config show --json' has them
