"""What travels, as the OpenAPI document describes it. Strict, frozen, closed; they are not the domain types."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from attest.release.names import KEY_ID_PATTERN, KEY_REFERENCE_PATTERN, TENANT_PATTERN
from attest.release.wire import MAX_KEYS

__all__ = [
    "ApprovalModel",
    "BreakGlassListModel",
    "ChangeModel",
    "ChangeRequestModel",
    "ConfirmModel",
    "DestroyModel",
    "DestructionModel",
    "Digest",
    "FreezeListModel",
    "FreezeRequestModel",
    "GivenReferencesModel",
    "GrantListModel",
    "GrantModel",
    "KeyId",
    "KeyListModel",
    "KeyModel",
    "KeyRequestModel",
    "KeyStateModel",
    "LeaseListModel",
    "LeaseQueryModel",
    "LeaseResumeModel",
    "LeaseStopModel",
    "LimitsModel",
    "LogEntryModel",
    "LogPageModel",
    "PolicyListModel",
    "PolicyModel",
    "PolicySummaryModel",
    "ProposalListModel",
    "ProposalModel",
    "QuorumModel",
    "ReasonModel",
    "ReferenceListModel",
    "ReferenceModel",
    "ReferencesAddedModel",
    "ReferencesRequestModel",
    "ReleaseSettingsModel",
    "RoleRequestModel",
    "RotateModel",
    "ScheduleModel",
    "SettingsModel",
    "TagListModel",
    "TagsModel",
    "Tenant",
    "TenantListModel",
    "TenantRequestModel",
    "TrialModel",
    "TrialRequestModel",
    "VersionModel",
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


# -- the life of a key, tenants


Seconds = Annotated[int, Field(ge=0, le=100 * 366 * 86400, description="Seconds.")]
Reason = Annotated[str, Field(max_length=4096, description="Why; kept for ever in the log.")]
KeyVersion = Annotated[int | None, Field(ge=1, le=999_999_999, description="One version; all of them without it.")]


class RotateModel(_Edge):
    """A new version of a key, made by the service or by its owner."""

    overlap_seconds: Annotated[Seconds | None, Field(description="Without it: a week.")] = None
    wrapped: Annotated[
        str | None,
        Field(max_length=16384, description="What 'kms key wrap' wrote; without it the service makes the version."),
    ] = None


class ScheduleModel(_Edge):
    """How often the service rotates a key by itself."""

    every_seconds: Annotated[Seconds | None, Field(description="Without it: never.")] = None
    overlap_seconds: Annotated[Seconds | None, Field(description="Without it: a week, or less.")] = None


class DestroyModel(_Edge):
    """What is to be destroyed, and when."""

    version: KeyVersion = None
    after_seconds: Annotated[Seconds | None, Field(description="Without it: destroy_delay_seconds.")] = None
    dry_run: Annotated[bool, Field(description="Only say what would be done.")] = False


class DestructionModel(_Edge):
    """What is or would be destroyed."""

    versions: list[int]
    destroy_at: Moment
    done: Annotated[bool, Field(description="Whether it was scheduled.")]


class VersionModel(_Edge):
    """A version of a key, or all of them."""

    version: KeyVersion = None


class TagsModel(_Edge):
    """Tags to put on a key, and names of those to take away."""

    put: dict[str, str] = {}
    remove: list[str] = []


class TagListModel(_Edge):
    """All tags of a key."""

    tags: dict[str, str]


class ReleaseSettingsModel(_Edge):
    """How a key is released."""

    disclosure: Annotated[str, Field(max_length=40, description="none, codes, checks or full.")]
    lease_seconds: Seconds | None


class TenantRequestModel(_Edge):
    """A tenant to make."""

    tenant: Tenant


class TenantListModel(_Edge):
    """Every tenant, and since when there is it."""

    tenants: dict[str, Moment]


# -- brakes, leases, changes


class FreezeRequestModel(_Edge):
    """What to stop, at once."""

    scope: Annotated[str, Field(max_length=40, description="key, tenant, product or all.", examples=["key"])]
    name: Annotated[str | None, Field(max_length=256, description="Which; nothing for all.")] = None
    reason: Reason


class FreezeListModel(_Edge):
    """What is frozen."""

    freezes: list[dict[str, Any]]  # Any: as 'kms freeze list --json' has it


class BreakGlassListModel(_Edge):
    """Every relaxation that was ever opened, and how it stands."""

    break_glass: list[dict[str, Any]]  # Any: as 'kms break-glass list --json' has it


class LimitsModel(_Edge):
    """The limits of a key, and what was used of them."""

    limits: dict[str, Any]  # Any: as a change of limits gives them
    releases: Annotated[dict[str, int], Field(description="For each budget, how many were made.")]
    holders: Annotated[int, Field(description="How many hold a live lease, where that is limited.")]


class QuorumModel(_Edge):
    """Who can sign, and what each kind of change takes."""

    quorum: dict[str, Any]  # Any: as a change of the quorum gives it
    sha256: Digest


class LeaseListModel(_Edge):
    """Who holds what."""

    leases: list[dict[str, Any]]  # Any: as 'kms releases list --json' has it
    next: Annotated[str | None, Field(description="Where to go on, when there are more.")]


class LeaseQueryModel(_Edge):
    """Which leases; all conditions hold, and of the concerns one suffices."""

    tenant: Annotated[Tenant | None, Field(description="Without it: of every tenant.")] = None
    key_id: KeyId | None = None
    policy_sha256: Digest | None = None
    measurement: Annotated[str | None, Field(max_length=256)] = None
    chip: Annotated[str | None, Field(max_length=256)] = None
    product: Annotated[str | None, Field(max_length=64)] = None
    stopped: Annotated[bool, Field(description="Only those whose renewal is stopped.")] = False
    everything: Annotated[bool, Field(description="Those that expired or ended, too.")] = False
    advisories: Annotated[list[str], Field(max_length=64, examples=[["INTEL-SA-01192"]])] = []
    tcb_below: Annotated[list[str], Field(max_length=64, examples=[["Genoa:snp=27"]])] = []
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    after: Annotated[str | None, Field(max_length=80)] = None


class LeaseStopModel(LeaseQueryModel):
    """Leases that are not to be renewed."""

    reason: Reason


class LeaseResumeModel(_Edge):
    """Leases that may be renewed again."""

    lease_ids: Annotated[list[str], Field(min_length=1, max_length=1000)]
    reason: Reason


class TrialRequestModel(_Edge):
    """What a workload would send, without a challenge."""

    evidence: Annotated[
        dict[str, Any] | list[Any],  # Any: a collection of RFC 9999, which its own strict parser reads
        Field(description="Evidence envelope, with a binding for this service under whatever nonce."),
    ]
    keys: Annotated[
        list[Annotated[str, Field(pattern=KEY_REFERENCE_PATTERN)]],
        Field(
            description="Keys as a workload would ask for them: KEY, TENANT/KEY, or with @VERSION.",
            min_length=1,
            max_length=MAX_KEYS,
            examples=[["my-model"]],
        ),
    ]


class TrialModel(_Edge):
    """What a release would come to; nothing was decided, used up, leased or logged."""

    trial: dict[str, Any]  # Any: as 'kms releases try --json' has it


class ChangeRequestModel(_Edge):
    """A change for which several people may have to sign, as a proposal writes it down."""

    action: Annotated[str, Field(max_length=64, examples=["key-policy-set"])]
    arguments: dict[str, Any]  # Any: each action has its own
    reason: Reason
    propose: Annotated[bool, Field(description="Write it down for others to sign, instead of making it.")] = False
    person: Annotated[str | None, Field(max_length=128, description="Which registered person proposes it.")] = None
    hours: Annotated[int, Field(ge=1, le=720, description="How long the proposal stands.")] = 72


class ChangeModel(_Edge):
    """What came of it."""

    done: Annotated[str | None, Field(description="What was done.")] = None
    proposal: Annotated[Digest | None, Field(description="What was written down.")] = None


class ProposalModel(_Edge):
    """A proposal and how it stands."""

    digest: Digest
    document: Annotated[dict[str, Any], Field(description="What is signed, as canonical JSON.")]  # Any: a proposal
    state: str
    signed: list[str]
    missing: list[str]


class ProposalListModel(_Edge):
    """Every proposal."""

    proposals: list[ProposalModel]


class ApprovalModel(_Edge):
    """A signature over a proposal, as 'kms proposal sign' writes it."""

    approval: Annotated[str, Field(max_length=16384, description="The file's text.")]


class ReasonModel(_Edge):
    """Why."""

    reason: Reason
