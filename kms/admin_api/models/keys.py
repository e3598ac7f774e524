"""Keys, what guards them, how they live, and the tenants that they are in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from kms.admin_api.models.common import Digest, KeyId, KeyVersion, Moment, Seconds, Tenant
from kms.api.models import Edge


class KeyStateModel(Edge):
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
    policy_sha256: Digest
    disclosure: Annotated[str, Field(description="How much a refused workload is told.")]
    lease_seconds: int | None
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
    """A rotation that the service makes by itself."""

    every_seconds: int
    overlap_seconds: int
    due_at: Moment


class KeyModel(KeyStateModel):
    """A key with the policy that guards it."""

    policy: Annotated[str, Field(description="The policy document.")]
    references: Annotated[list[ReferenceModel], Field(description="Documents of reference values in force for it.")]
    floors: Annotated[
        list[dict[str, Any]],  # Any: scope, version, digest and reasons
        Field(description="Floors of the service and the tenant that count besides the policy."),
    ]
    obstacle: Annotated[str | None, Field(description="Why it is released to nobody now.")] = None
    versions: Annotated[list[KeyStateModel], Field(description="Every version, the oldest first.")]
    schedule: Annotated[ScheduleStateModel | None, Field(description="How it is rotated by itself, if it is.")] = None
    tags: dict[str, str]


class GivenReferencesModel(Edge):
    """A document of reference values, with what proves who signed it."""

    document: Annotated[str, Field(max_length=1024 * 1024)]
    signatures: Annotated[list[str], Field(max_length=16)]
    keys: Annotated[list[str], Field(max_length=16, description="Public keys, PEM.")]


class KeyRequestModel(Edge):
    """A key to make. Its material is drawn by the service and leaves it for conforming workloads alone."""

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
        Literal["model-key", "prompt-key"] | None, Field(description="Without it: that of the algorithm.")
    ] = None
    algorithm: Annotated[str | None, Field(max_length=64, description="Without it: the usual one for the purpose.")] = (
        None
    )


class KeyImportModel(KeyRequestModel):
    """A key that its owner made and sealed to the service's import key, as 'kms key wrap' writes it."""

    wrapped: Annotated[str, Field(max_length=16384, description="The file's text. Never the key itself.")]


class PolicySummaryModel(Edge):
    """A policy that guards keys of a tenant."""

    sha256: Digest
    name: str
    version: int
    keys: Annotated[list[str], Field(description="Which keys of the tenant.")]
    obstacle: str | None = None


class PolicyListModel(Edge):
    """The policies that guard the keys of a tenant."""

    policies: list[PolicySummaryModel]


class PolicyModel(Edge):
    """A policy document."""

    sha256: Digest
    document: str


class ReferenceListModel(Edge):
    """Every version of every document of reference values that was taken in."""

    references: list[dict[str, Any]]  # Any: as 'kms references list --json' has it


class ReferencesRequestModel(GivenReferencesModel):
    """A document of reference values to put into force."""


class ReferencesAddedModel(Edge):
    """What it did."""

    name: str
    version: int
    sha256: Digest
    new: Annotated[bool, Field(description="Whether it was not there before.")]
    keys: Annotated[list[str], Field(description="For which keys it is in force.")]
    blocked: Annotated[dict[str, str], Field(description="Keys that are released to nobody now, and why.")]


# -- the life of a key


class RotateModel(Edge):
    """A new version of a key, made by the service or by its owner."""

    overlap_seconds: Annotated[Seconds | None, Field(description="Without it: a week.")] = None
    wrapped: Annotated[
        str | None,
        Field(max_length=16384, description="What 'kms key wrap' wrote; without it the service makes the version."),
    ] = None


class ScheduleModel(Edge):
    """How often the service rotates a key by itself."""

    every_seconds: Annotated[Seconds | None, Field(description="Without it: never.")] = None
    overlap_seconds: Annotated[Seconds | None, Field(description="Without it: a week, or less.")] = None


class DestroyModel(Edge):
    """What is to be destroyed, and when."""

    version: KeyVersion = None
    after_seconds: Annotated[Seconds | None, Field(description="Without it: destroy_delay_seconds.")] = None
    dry_run: Annotated[bool, Field(description="Only say what would be done.")] = False


class DestructionModel(Edge):
    """What is or would be destroyed."""

    versions: list[int]
    destroy_at: Moment
    done: Annotated[bool, Field(description="Whether it was scheduled.")]


class VersionModel(Edge):
    """A version of a key, or all of them."""

    version: KeyVersion = None


class RestoredModel(KeyModel):
    """A key whose destruction was cancelled."""

    restored: Annotated[list[int], Field(description="Versions that are no longer to be destroyed.")]


class FailureModel(Edge):
    """Something that could not be done; the rest was."""

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
    """Tags to put on a key, and names of those to take away."""

    put: dict[str, str] = {}  # noqa: RUF012  each gets a copy
    remove: list[str] = []  # noqa: RUF012  each gets a copy


class TagListModel(Edge):
    """All tags of a key."""

    tags: dict[str, str]


class ReleaseSettingsModel(Edge):
    """How a key is released."""

    disclosure: Annotated[str, Field(max_length=40, description="none, codes, checks or full.")]
    lease_seconds: Seconds | None


class TenantRequestModel(Edge):
    """A tenant to make."""

    tenant: Tenant


class TenantListModel(Edge):
    """Every tenant, and since when there is it."""

    tenants: dict[str, Moment]
