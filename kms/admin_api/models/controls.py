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
    """What to stop, at once."""

    scope: Annotated[str, Field(max_length=40, description="key, tenant, product or all.", examples=["key"])]
    name: Annotated[str | None, Field(max_length=256, description="Which; nothing for all.")] = None
    reason: Reason
    dry_run: Annotated[bool, Field(description="Say who could thaw it, and stop nothing.")] = False


class FreezeListModel(Edge):
    """What is frozen."""

    freezes: list[dict[str, Any]]  # Any: as 'kms freeze list --json' has it
    thaw: Annotated[ThawMode, Field(description="Who can thaw: a quorum, one person by a setting, or nobody.")]


class BreakGlassListModel(Edge):
    """Every relaxation that was ever opened, and how it stands."""

    break_glass: list[dict[str, Any]]  # Any: as 'kms break-glass list --json' has it


class FloorListModel(Edge):
    """The floor of the service, and those of tenants."""

    floors: list[dict[str, Any]]  # Any: as a change of a floor gives them, each with its digest


class LimitsModel(Edge):
    """The limits of a key, and what was used of them."""

    limits: dict[str, Any]  # Any: as a change of limits gives them
    releases: Annotated[dict[str, int], Field(description="For each budget, how many were made.")]
    holders: Annotated[int, Field(description="How many hold a live lease, where that is limited.")]


class LimitsTrialModel(Edge):
    """Limits that are not in force yet."""

    limits: dict[str, Any]  # Any: as a change of limits gives them


class AnchorsModel(Edge):
    """The trust anchors of the settings."""

    anchors: Annotated[list[str], Field(description="A root each, and each key of a Verifier whose word is taken.")]
    sha256: Digest
    approved: Annotated[bool, Field(description="Whether they are those that were approved.")]
    rule: Annotated[bool, Field(description="Whether a rule demands that they are.")]


class QuorumModel(Edge):
    """Who can sign, and what each kind of change takes."""

    quorum: dict[str, Any]  # Any: as a change of the quorum gives it
    sha256: Digest


class LeaseListModel(Edge):
    """Who holds what."""

    leases: list[dict[str, Any]]  # Any: as 'kms releases list --json' has it
    next: Annotated[str | None, Field(description="Where to go on, when there are more.")]


class LeaseQueryModel(Edge):
    """Which leases; all conditions hold, and of the concerns one suffices."""

    tenant: Annotated[Tenant | None, Field(description="Without it: of every tenant.")] = None
    key_id: KeyId | None = None
    policy_sha256: Digest | None = None
    measurement: Annotated[str | None, Field(max_length=256)] = None
    chip: Annotated[str | None, Field(max_length=256)] = None
    product: Annotated[str | None, Field(max_length=64)] = None
    since: Annotated[Moment | None, Field(description="Released at this moment or later.")] = None
    until: Annotated[Moment | None, Field(description="Released at this moment or earlier.")] = None
    stopped: Annotated[bool, Field(description="Only those whose renewal is stopped.")] = False
    everything: Annotated[bool, Field(description="Those that expired or ended, too.")] = False
    advisories: Annotated[list[str], Field(max_length=64, examples=[["INTEL-SA-01192"]])] = []  # noqa: RUF012  each gets a copy
    tcb_below: Annotated[list[str], Field(max_length=64, examples=[["Genoa:snp=27"]])] = []  # noqa: RUF012  each gets a copy
    policy: Annotated[
        str | None,
        Field(max_length=1024 * 1024, description="A policy document; a concern of those that do not meet it."),
    ] = None
    floor: Annotated[
        dict[str, Any] | None,  # Any: as a change of a floor gives it
        Field(description="A floor; a concern of those that do not meet every entry of it."),
    ] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    after: Annotated[str | None, Field(max_length=80)] = None


class LeaseStopModel(LeaseQueryModel):
    """Leases that are not to be renewed."""

    reason: Reason


class LeaseResumeModel(Edge):
    """Leases that may be renewed again."""

    lease_ids: Annotated[list[str], Field(min_length=1, max_length=1000)]
    reason: Reason


class TrialRequestModel(Edge):
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

    at: Annotated[Moment | None, Field(description="Judge for this moment and not for now.")] = None
    renews: Annotated[
        list[str], Field(max_length=MAX_KEYS, description="Leases that would be named; on the service's machine alone.")
    ] = []  # noqa: RUF012  each gets a copy


class RecordedEvidenceModel(Edge):
    """Evidence that was recorded, by the name of its file."""

    name: Annotated[str, Field(max_length=4096)]
    evidence: dict[str, Any] | list[Any]  # Any: a collection of RFC 9999, which its own strict parser reads


class PolicyTrialRequestModel(Edge):
    """Another policy for a key."""

    policy: Annotated[str, Field(max_length=1024 * 1024, description="The policy document, YAML or JSON.")]
    references: Annotated[list[GivenReferencesModel], Field(max_length=16)] = []  # noqa: RUF012  each gets a copy
    evidence: Annotated[
        list[RecordedEvidenceModel], Field(max_length=64, description="To be judged by both policies.")
    ] = []  # noqa: RUF012  each gets a copy
    at: Annotated[Moment | None, Field(description="Judge for this moment and not for now.")] = None


class PolicyTrialModel(Edge):
    """What another policy would change."""

    policy: str
    policy_version: int
    policy_sha256: Digest
    effect: Annotated[str | None, Field(description="looser, stricter or changed; null where both accept the same.")]
    changes: list[dict[str, Any]]  # Any: as 'kms key policy set --json' has them
    evidence: list[dict[str, Any]]  # Any: likewise


class TrialModel(Edge):
    """What a release would come to; nothing was decided, used up, leased or logged."""

    trial: dict[str, Any]  # Any: as 'kms releases try --json' has it
    failed: Annotated[
        list[dict[str, Any]],  # Any: the members of a check
        Field(description="The checks that stand against it, each with the key whose policy makes it."),
    ]


class ChangeRequestModel(Edge):
    """A change for which several people may have to sign, as a proposal writes it down."""

    action: Annotated[str, Field(max_length=64, examples=["key-policy-set"])]
    arguments: dict[str, Any]  # Any: each action has its own
    reason: Reason
    propose: Annotated[bool, Field(description="Write it down for others to sign, instead of making it.")] = False
    person: Annotated[str | None, Field(max_length=128, description="Which registered person proposes it.")] = None
    hours: Annotated[int, Field(ge=1, le=720, description="How long the proposal stands.")] = 72


class ChangeModel(Edge):
    """What came of it."""

    done: Annotated[str | None, Field(description="What was done.")] = None
    proposal: Annotated[Digest | None, Field(description="What was written down.")] = None
    serial: Annotated[int | None, Field(description="Its number.")] = None


class ProposalModel(Edge):
    """A proposal and how it stands."""

    digest: Digest
    document: Annotated[dict[str, Any], Field(description="What is signed, as canonical JSON.")]  # Any: a proposal
    state: str
    signed: list[str]
    missing: list[str]


class ExecutedModel(ProposalModel):
    """A proposal that was executed."""

    done: Annotated[str, Field(description="What was done.")]


class ProposalListModel(Edge):
    """Every proposal."""

    proposals: list[ProposalModel]


class ApprovalModel(Edge):
    """A signature over a proposal, as 'kms proposal sign' writes it."""

    approval: Annotated[str, Field(max_length=16384, description="The file's text.")]


class ReasonModel(Edge):
    """Why."""

    reason: Reason
