"""``/v1/releases/try`` and ``…/try`` of a key: dry runs, which change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter

from attest import Check, Evidence, parse_envelope
from attest.encoding import rfc3339
from attest.release import KeyReference
from kms.admin_api.context import Caller, WithCaller, WithKey
from kms.admin_api.models.common import KEY_PATH
from kms.admin_api.models.controls import (
    LimitsModel,
    LimitsTrialModel,
    PolicyTrialModel,
    PolicyTrialRequestModel,
    TrialModel,
    TrialRequestModel,
)
from kms.admin_api.references import stored_documents
from kms.admin_api.routes import AdminRoute, body, changes
from kms.admin_api.rules import limits_model
from kms.domain.actors import Means
from kms.domain.errors import ForbiddenError
from kms.domain.limits import read_limits
from kms.domain.permissions import Operation
from kms.keys.policy_trials import difference_members, try_evidence
from kms.quorum.key_limits import KeyLimitsSet
from kms.quorum.key_policy import KeyPolicySet
from kms.release.service import ReleaseService

router = APIRouter(route_class=AdminRoute, tags=["releases"])


@router.post("/v1/releases/try", summary="Try a release", responses=changes())
def try_release(caller: WithCaller, request: Annotated[TrialRequestModel, body(TrialRequestModel)]) -> TrialModel:
    """Appraise evidence as for a release, return every reason and check, and change nothing.

    The caller needs permission to see the tenant of each key. Leases are accepted only on the service's machine, so
    that the state of a lease is disclosed only to its holder.
    """
    references = tuple(dict.fromkeys(map(KeyReference.parse, request.keys)))
    for tenant in sorted({one.name.tenant for one in references}):
        caller.require(Operation.RELEASES_TRY, tenant=tenant)
    if request.renews and caller.identity.means is not Means.LOCAL:
        raise ForbiddenError(
            "a trial accepts leases only on the service's machine", code="not-permitted", field="renews"
        )
    evidence, at = _evidence(request.evidence), caller.now() if request.at is None else rfc3339(request.at, what="at")
    services = replace(caller.context.services.releases(), store=caller.vault.store)
    releases = ReleaseService(services)
    trial = releases.try_release(evidence, tuple(map(str, references)), renews=tuple(request.renews), at=at)
    return TrialModel(trial=trial.members(), failed=[_failed(key, check) for key, check in trial.failed()])


@router.post(f"{KEY_PATH}/policy/try", summary="Try a policy", responses=changes(404, 409))
def try_policy(
    caller: WithCaller, name: WithKey, request: Annotated[PolicyTrialRequestModel, body(PolicyTrialRequestModel)]
) -> PolicyTrialModel:
    """Compare a policy with the present one of a key, and appraise recorded evidence with both."""
    caller.require(Operation.POLICIES_READ, key=name)
    documents = stored_documents(request.references)
    change = KeyPolicySet(name=name, policy=request.policy.encode(), references=documents)
    with caller.vault.store.reading() as reader:
        change.state(reader)
        difference = change.difference(reader)
    return PolicyTrialModel.model_validate(
        {
            "policy": change.identity.name,
            "policy_version": change.identity.version,
            "policy_sha256": change.identity.digest.hex(),
            **difference_members(difference),
            "evidence": _tried(caller, change, request) if request.evidence else [],
        }
    )


@router.post(f"{KEY_PATH}/limits/try", summary="Try limits", responses=changes(404, 409))
def try_limits(
    caller: WithCaller, name: WithKey, request: Annotated[LimitsTrialModel, body(LimitsTrialModel)]
) -> LimitsModel:
    """Return the use so far of limits that are not yet in force; they would be the next version."""
    caller.require(Operation.KEYS_READ, key=name)
    change = KeyLimitsSet(name=name, limits=read_limits(request.limits))
    with caller.vault.store.reading() as reader:
        change.state(reader)
        return limits_model(reader, name, change.limits, at=caller.now())


def _tried(caller: Caller, change: KeyPolicySet, request: PolicyTrialRequestModel) -> list[dict[str, object]]:
    at = caller.now() if request.at is None else rfc3339(request.at, what="at")
    services = caller.context.services.releases()
    with caller.vault.store.reading() as reader:
        policies = change.policies(reader)
    judge = partial(
        try_evidence,
        policies=policies,
        endorsements=services.endorsements.current(at=at),
        anchors=services.anchors,
        at=at,
    )
    trials = [judge(one.name, _evidence(one.evidence)) for one in request.evidence]
    return [{"evidence": one.name, "before": one.before, "after": one.after, "changed": one.changed} for one in trials]


def _evidence(document: object) -> Evidence:
    return parse_envelope(json.dumps(document).encode())


def _failed(key: str | None, check: Check) -> dict[str, object]:
    return {"key": key, "id": check.id, "expected": check.expected, "got": check.got}
