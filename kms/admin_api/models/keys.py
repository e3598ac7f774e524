"""Keys, their policies and lifecycle, and tenants."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from kms.admin_api.models.common import Digest, KeyId, KeyVersion, Moment, Seconds, Tenant
from kms.api.models import Edge

MAX_WRAPPED_CHARACTERS: Final = 128 * 1024
"""Room for the largest padded secret, sealed, in base64."""


class KeyStateModel(Edge):
    """Present state of a version of a key, without its material."""

    tenant: Tenant
    key_id: KeyId
    version: Annotated[int, Field(ge=1)]
    purpose: str
    algorithm: str
    state: Annotated[
        str, Field(description="current, overlap, retired, destroying or destroyed.", examples=["current"])
    ]
    enabled: bool
    policy_sha256: Digest
    disclosure: Annotated[str, Field(description="Detail that a refused workload receives.")]
    lease_seconds: int | None
    via: Annotated[list[str], Field(description="Protocols through which it may be released: native, kbs, skr.")]
    created_at: Moment
    overlap_until: Moment | None = None
    destroy_at: Moment | None = None


class KeyListModel(Edge):
    """Every version of every key of a tenant, or of all tenants."""

    keys: list[KeyStateModel]


class ReferenceModel(Edge):
    """A document of reference values."""

    name: str
    version: int
    sha256: Digest


class ScheduleStateModel(Edge):
    """Automatic rotation by the running service."""

    every_seconds: int
    overlap_seconds: int
    due_at: Moment


class KeyModel(KeyStateModel):
    """A key with the policy that guards it."""

    policy: Annotated[str, Field(description="The policy document.")]
    references: Annotated[list[ReferenceModel], Field(description="Documents of reference values in force for it.")]
    floors: Annotated[
        list[dict[str, Any]],  # Any: scope, version, digest and reasons
        Field(description="Floors of the service and the tenant that apply in addition to the policy."),
    ]
    obstacle: Annotated[str | None, Field(description="Reason why it is not released at present.")] = None
    versions: Annotated[list[KeyStateModel], Field(description="Every version, oldest first.")]
    schedule: Annotated[ScheduleStateModel | None, Field(description="Schedule of automatic rotation, if any.")] = None
    tags: dict[str, str]


class GivenReferencesModel(Edge):
    """A document of reference values with its signatures."""

    document: Annotated[str, Field(max_length=1024 * 1024)]
    signatures: Annotated[list[str], Field(max_length=16)]
    keys: Annotated[list[str], Field(max_length=16, description="Public keys, PEM.")]


class KeyRequestModel(Edge):
    """A key to create. The service generates its material, which only conforming workloads receive."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"tenant": "default", "key_id": "my-model", "policy": "schema: attest.policy/1\nname: …\n"}]
        }
    )

    tenant: Tenant
    key_id: KeyId
    policy: Annotated[str, Field(max_length=1024 * 1024, description="The policy document, YAML or JSON.")]
    references: Annotated[list[GivenReferencesModel], Field(max_length=16)] = []  # noqa: RUF012  each gets a copy
    purpose: Annotated[
        Literal["model-key", "prompt-key", "secret"] | None,
        Field(description="Default: the purpose of the algorithm. A secret is never generated, only imported."),
    ] = None
    algorithm: Annotated[str | None, Field(max_length=64, description="Default: the usual one for the purpose.")] = None


class KeyImportModel(KeyRequestModel):
    """An owner's key or secret, sealed to the import key of the service, as written by 'kms key wrap'."""

    wrapped: Annotated[
        str, Field(max_length=MAX_WRAPPED_CHARACTERS, description="Content of the file, never the plaintext key.")
    ]


class PolicySummaryModel(Edge):
    """A policy that guards keys of a tenant."""

    sha256: Digest
    name: str
    version: int
    keys: Annotated[list[str], Field(description="Keys of the tenant that it guards.")]
    obstacle: str | None = None


class PolicyListModel(Edge):
    """The policies that guard the keys of a tenant."""

    policies: list[PolicySummaryModel]


class PolicyModel(Edge):
    """A policy document."""

    sha256: Digest
    document: str


class ReferenceListModel(Edge):
    """Every version of every accepted document of reference values."""

    references: list[dict[str, Any]]  # Any: as 'kms references list --json' has it


class ReferencesRequestModel(GivenReferencesModel):
    """A document of reference values to put into force."""


class ReferencesAddedModel(Edge):
    """Result of adding a document."""

    name: str
    version: int
    sha256: Digest
    new: Annotated[bool, Field(description="False if it was in force already.")]
    keys: Annotated[list[str], Field(description="Keys for which it is in force.")]
    blocked: Annotated[dict[str, str], Field(description="Keys that are not released at present, with reasons.")]


# -- lifecycle of a key


class RotateModel(Edge):
    """A new version of a key, created by the service or by its owner."""

    overlap_seconds: Annotated[Seconds | None, Field(description="Default: a week.")] = None
    wrapped: Annotated[
        str | None,
        Field(
            max_length=MAX_WRAPPED_CHARACTERS,
            description="Output of 'kms key wrap'; if absent, the service generates the version.",
        ),
    ] = None


class ScheduleModel(Edge):
    """Schedule of automatic rotation."""

    every_seconds: Annotated[Seconds | None, Field(description="If absent, the schedule is removed.")] = None
    overlap_seconds: Annotated[Seconds | None, Field(description="Default: a week, or less.")] = None


class DestroyModel(Edge):
    """A key or version to destroy, and when."""

    version: KeyVersion = None
    after_seconds: Annotated[Seconds | None, Field(description="Default: destroy_delay_seconds.")] = None
    dry_run: Annotated[bool, Field(description="Return what would be done, and change nothing.")] = False


class DestructionModel(Edge):
    """Versions that are or would be destroyed."""

    versions: list[int]
    destroy_at: Moment
    done: Annotated[bool, Field(description="True if the destruction was scheduled.")]


class VersionModel(Edge):
    """A version of a key, or all of them."""

    version: KeyVersion = None


class RestoredModel(KeyModel):
    """A key whose destruction was cancelled."""

    restored: Annotated[list[int], Field(description="Versions whose destruction was cancelled.")]


class FailureModel(Edge):
    """One operation that failed; the others were made."""

    what: Annotated[str, Field(description="A key, or a version of one.")]
    detail: str
    code: str


class RotatedModel(Edge):
    """The rotations that were made."""

    keys: Annotated[list[KeyStateModel], Field(description="The new versions.")]
    failed: list[FailureModel]


class DestroyedModel(Edge):
    """The versions that were destroyed."""

    destroyed: list[str]
    failed: list[FailureModel]


class TagsModel(Edge):
    """Tags to set on a key, and names of tags to remove."""

    put: dict[str, str] = {}  # noqa: RUF012  each gets a copy
    remove: list[str] = []  # noqa: RUF012  each gets a copy


class TagListModel(Edge):
    """All tags of a key."""

    tags: dict[str, str]


class ReleaseSettingsModel(Edge):
    """Release settings of a key."""

    disclosure: Annotated[str, Field(max_length=40, description="none, codes, checks or full.")]
    lease_seconds: Seconds | None
    via: Annotated[
        list[str] | None,
        Field(max_length=8, description="Protocols through which it may be released; without them, as before."),
    ] = None


class AliasNameModel(Edge):
    """The address of an alias."""

    address: Annotated[str, Field(max_length=512, description="kbs:///REPOSITORY/TYPE/TAG or https://VAULT/keys/NAME.")]


class AliasModel(AliasNameModel):
    """An address that leads to a key."""

    tenant: Tenant
    key_id: KeyId


class AddedAliasModel(AliasModel):
    """An added alias.

    Attributes:
        note: the reason why this service does not serve the address, or null.
    """

    note: str | None


class AliasListModel(Edge):
    """Every alias."""

    aliases: list[AliasModel]


class TenantRequestModel(Edge):
    """A tenant to create."""

    tenant: Tenant


class TenantListModel(Edge):
    """All tenants, with creation times."""

    tenants: dict[str, Moment]
