"""Freezes, break-glass, limits, leases, trials, and changes that take several people."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from attest.release import KEY_REFERENCE_PATTERN, MAX_KEYS
from kms.admin_api.models.common import Digest, KeyId, Moment, Reason, Tenant
from kms.admin_api.models.keys import GivenReferencesModel
from kms.api.models import Edge
from kms.quorum.admin import ThawMode


class FreezeRequestModel(Edge):
    """Target to freeze immediately."""

    scope: Annotated[str, Field(max_length=40, description="key, tenant, product or all.", examples=["key"])]
    name: Annotated[str | None, Field(max_length=256, description="Name of the target; absent for 'all'.")] = None
    reason: Reason
    dry_run: Annotated[bool, Field(description="Return who could lift the freeze, and freeze nothing.")] = False


class FreezeListModel(Edge):
    """Freezes in force."""

    freezes: list[dict[str, Any]]  # Any: as 'kms freeze list --json' has it
    thaw: Annotated[ThawMode, Field(description="Power to lift a freeze: quorum, one (by a setting), or none.")]


class BreakGlassListModel(Edge):
    """Every relaxation, past and present, and its state."""

    break_glass: list[dict[str, Any]]  # Any: as 'kms break-glass list --json' has it


class FloorListModel(Edge):
    """Floors of the service and of tenants."""

    floors: list[dict[str, Any]]  # Any: as a change of a floor gives them, each with its digest


class LimitsModel(Edge):
    """Limits of a key and their use so far."""

    limits: dict[str, Any]  # Any: as a change of limits gives them
    releases: Annotated[dict[str, int], Field(description="Number of releases so far, for each budget.")]
    holders: Annotated[int, Field(description="Number of holders with a live lease, if that is limited.")]


class LimitsTrialModel(Edge):
    """Limits that are not yet in force."""

    limits: dict[str, Any]  # Any: as a change of limits gives them


class AnchorsModel(Edge):
    """Configured trust anchors."""

    anchors: Annotated[list[str], Field(description="One line per root and per key of an accepted Verifier.")]
    sha256: Digest
    approved: Annotated[bool, Field(description="True if these anchors are approved.")]
    rule: Annotated[bool, Field(description="True if a rule requires approval.")]


class QuorumModel(Edge):
    """Registered people, and the signatures that each kind of change requires."""

    quorum: dict[str, Any]  # Any: as a change of the quorum gives it
    sha256: Digest


class LeaseListModel(Edge):
    """Leases found by a query."""

    leases: list[dict[str, Any]]  # Any: as 'kms releases list --json' has it
    next: Annotated[str | None, Field(description="Mark for the next page; null if there are no more.")]


class LeaseQueryModel(Edge):
    """Query of leases. All conditions must hold, but of advisories, levels, policies and floors only one."""

    tenant: Annotated[Tenant | None, Field(description="Default: every tenant.")] = None
    key_id: KeyId | None = None
    policy_sha256: Digest | None = None
    measurement: Annotated[str | None, Field(max_length=256)] = None
    chip: Annotated[str | None, Field(max_length=256)] = None
    product: Annotated[str | None, Field(max_length=64)] = None
    since: Annotated[Moment | None, Field(description="Released at this time or later.")] = None
    until: Annotated[Moment | None, Field(description="Released at this time or earlier.")] = None
    stopped: Annotated[bool, Field(description="Only leases whose renewal is stopped.")] = False
    everything: Annotated[bool, Field(description="Include expired and ended leases.")] = False
    advisories: Annotated[list[str], Field(max_length=64, examples=[["INTEL-SA-01192"]])] = []  # noqa: RUF012  each gets a copy
    tcb_below: Annotated[list[str], Field(max_length=64, examples=[["Genoa:snp=27"]])] = []  # noqa: RUF012  each gets a copy
    policy: Annotated[
        str | None,
        Field(max_length=1024 * 1024, description="A policy document; affects leases that do not meet it."),
    ] = None
    floor: Annotated[
        dict[str, Any] | None,  # Any: as a change of a floor gives it
        Field(description="A floor; affects leases that do not meet every entry of it."),
    ] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    after: Annotated[str | None, Field(max_length=80)] = None


class LeaseStopModel(LeaseQueryModel):
    """Leases whose renewal is to be stopped."""

    reason: Reason


class LeaseResumeModel(Edge):
    """Leases whose renewal is to be allowed again."""

    lease_ids: Annotated[list[str], Field(min_length=1, max_length=1000)]
    reason: Reason


class TrialRequestModel(Edge):
    """A release request of a workload, without a challenge."""

    evidence: Annotated[
        dict[str, Any] | list[Any],  # Any: a collection of RFC 9999, which its own strict parser reads
        Field(description="Evidence envelope with a binding for this service and any nonce."),
    ]
    keys: Annotated[
        list[Annotated[str, Field(pattern=KEY_REFERENCE_PATTERN)]],
        Field(
            description="Keys as in a release request: KEY, TENANT/KEY, or with @VERSION.",
            min_length=1,
            max_length=MAX_KEYS,
            examples=[["my-model"]],
        ),
    ]

    at: Annotated[Moment | None, Field(description="Time of the appraisal. Default: now.")] = None
    renews: Annotated[
        list[str], Field(max_length=MAX_KEYS, description="Leases to renew; accepted only on the service's machine.")
    ] = []  # noqa: RUF012  each gets a copy


class RecordedEvidenceModel(Edge):
    """Recorded evidence and its file name."""

    name: Annotated[str, Field(max_length=4096)]
    evidence: dict[str, Any] | list[Any]  # Any: a collection of RFC 9999, which its own strict parser reads


class PolicyTrialRequestModel(Edge):
    """A new policy for a key."""

    policy: Annotated[str, Field(max_length=1024 * 1024, description="The policy document, YAML or JSON.")]
    references: Annotated[list[GivenReferencesModel], Field(max_length=16)] = []  # noqa: RUF012  each gets a copy
    evidence: Annotated[
        list[RecordedEvidenceModel], Field(max_length=64, description="Evidence to appraise with both policies.")
    ] = []  # noqa: RUF012  each gets a copy
    at: Annotated[Moment | None, Field(description="Time of the appraisal. Default: now.")] = None


class PolicyTrialModel(Edge):
    """Effect of a new policy."""

    policy: str
    policy_version: int
    policy_sha256: Digest
    effect: Annotated[str | None, Field(description="looser, stricter or changed; null if both accept the same.")]
    changes: list[dict[str, Any]]  # Any: as 'kms key policy set --json' has them
    evidence: list[dict[str, Any]]  # Any: as above


class TrialModel(Edge):
    """Outcome that a release would have; nothing was decided, used up, leased or logged."""

    trial: dict[str, Any]  # Any: as 'kms releases try --json' has it
    failed: Annotated[
        list[dict[str, Any]],  # Any: the members of a check
        Field(description="Failed checks, each with the key whose policy makes it."),
    ]


class ChangeRequestModel(Edge):
    """A change that may require several signatures, in the form of a proposal."""

    action: Annotated[str, Field(max_length=64, examples=["key-policy-set"])]
    arguments: dict[str, Any]  # Any: each action has its own
    reason: Reason
    propose: Annotated[bool, Field(description="Propose the change for others to sign, instead of making it.")] = False
    person: Annotated[str | None, Field(max_length=128, description="Registered person who proposes it.")] = None
    hours: Annotated[int, Field(ge=1, le=720, description="Hours until the proposal expires.")] = 72


class ChangeModel(Edge):
    """Outcome of a change."""

    done: Annotated[str | None, Field(description="Change that was made.")] = None
    proposal: Annotated[Digest | None, Field(description="Digest of the proposal.")] = None
    serial: Annotated[int | None, Field(description="Number of the proposal.")] = None


class ProposalModel(Edge):
    """A proposal and its state."""

    digest: Digest
    document: Annotated[
        dict[str, Any], Field(description="The document that is signed, as canonical JSON.")
    ]  # Any: a proposal
    state: str
    signed: list[str]
    missing: list[str]


class ExecutedModel(ProposalModel):
    """A proposal that was executed."""

    done: Annotated[str, Field(description="Change that was made.")]


class ProposalListModel(Edge):
    """All proposals."""

    proposals: list[ProposalModel]


class ApprovalModel(Edge):
    """A signature over a proposal, as written by 'kms proposal sign'."""

    approval: Annotated[str, Field(max_length=16384, description="Content of the file.")]


class ReasonModel(Edge):
    """Why."""

    reason: Reason
