"""``/v1/leases``: holders of keys, leases affected by an advisory or another policy, and stops of renewals."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Annotated

from fastapi import APIRouter

from attest.encoding import hex_bytes, rfc3339
from attest.errors import ConfigurationError
from attest.release import KeyName
from kms.admin_api.context import WithCaller
from kms.admin_api.models.controls import LeaseListModel, LeaseQueryModel, LeaseResumeModel, LeaseStopModel
from kms.admin_api.routes import AdminRoute, body, changes
from kms.domain.errors import KeyConflictError
from kms.domain.floors import read_floor
from kms.domain.leases import LeaseFilter
from kms.domain.permissions import Operation
from kms.keys.admin import require_key
from kms.leases.admin import resume_renewals, stop_renewals
from kms.leases.affected import Concern, conforming_to, lists_advisory, parse_minimum
from kms.leases.search import Affected, find_leases
from kms.references.resolution import load_guard
from kms.store import ReadTransaction

router = APIRouter(route_class=AdminRoute, prefix="/v1/leases", tags=["leases"])


@router.post("/query", summary="Find leases", responses=changes(404, 409))
def query_leases(caller: WithCaller, request: Annotated[LeaseQueryModel, body(LeaseQueryModel)]) -> LeaseListModel:
    """Find leases, oldest first. With advisories, levels or policies, only leases that at least one of them affects."""
    caller.require(Operation.RELEASES_READ, tenant=request.tenant)
    at, wanted, mark = caller.now(), _wanted(request), _mark(request.after)
    with caller.vault.store.reading() as reader:
        _require_known(reader, wanted)
        every = find_leases(reader, wanted, concerns=_concerns(reader, request, at), at=at, after=mark)
        page = list(islice(every, request.limit))
        more = next(every, None) is not None
    return _listed(page, at, more=more)


@router.post("/stop", operation_id="stopRenewals", summary="Stop the renewal of leases", responses=changes(404, 409))
def stop(caller: WithCaller, request: Annotated[LeaseStopModel, body(LeaseStopModel)]) -> LeaseListModel:
    """Stop the renewal of every lease found, and the release of its key to the same machine with the same image."""
    caller.require(Operation.RENEWALS_STOP, tenant=request.tenant)
    at, wanted, store = caller.now(), _wanted(request), caller.vault.store
    with store.reading() as reader:
        _require_known(reader, wanted)
        concerns = _concerns(reader, request, at)
    _require_narrow(request, concerns)
    done = stop_renewals(store, wanted, concerns=concerns, reason=request.reason, actor=caller.identity, at=at)
    return _listed(list(done), at, more=False)


@router.post("/resume", operation_id="resumeRenewals", summary="Allow renewals again", responses=changes(409))
def resume(caller: WithCaller, request: Annotated[LeaseResumeModel, body(LeaseResumeModel)]) -> LeaseListModel:
    """Remove stops. For key owners of all tenants."""
    caller.require(Operation.RENEWALS_RESUME)
    ids = tuple(dict.fromkeys(request.lease_ids))
    resume_renewals(caller.vault.store, ids, reason=request.reason, actor=caller.identity, at=caller.now())
    return LeaseListModel(leases=[], next=None)


def _require_known(reader: ReadTransaction, wanted: LeaseFilter) -> None:
    """Refuse a key or tenant that does not exist: an empty list would look like "no lease is affected"."""
    if wanted.name is not None:
        require_key(reader, wanted.name)
    if wanted.tenant is not None and wanted.tenant not in reader.tenants.all():
        raise KeyConflictError(
            f"there is no tenant {wanted.tenant!r}", code="tenant-unknown", field="tenant", hint="'kms tenant list'"
        )


def _wanted(request: LeaseQueryModel) -> LeaseFilter:
    if request.key_id is not None and request.tenant is None:
        raise _invalid("key_id", "a tenant together with a key id")
    name = None if request.key_id is None else KeyName(tenant=request.tenant or "", key_id=request.key_id)
    digest, measurement = request.policy_sha256, request.measurement
    return LeaseFilter(
        tenant=request.tenant,
        name=name,
        policy_digest=None if digest is None else bytes.fromhex(digest),
        measurement=None if measurement is None else hex_bytes(measurement, what="measurement"),
        chip=request.chip,
        product=request.product,
        released_from=None if request.since is None else rfc3339(request.since, what="since"),
        released_until=None if request.until is None else rfc3339(request.until, what="until"),
        live=None if request.everything else True,
        stopped=request.stopped,
    )


def _concerns(reader: ReadTransaction, request: LeaseQueryModel, at: datetime) -> tuple[Concern, ...]:
    named = (*map(lists_advisory, request.advisories), *map(parse_minimum, request.tcb_below))
    if request.floor is not None:
        floor = read_floor(request.floor).whole_policy
        if floor is None:
            raise _invalid("floor", "at least one entry")
        named = (*named, conforming_to(floor, at=at))
    if request.policy is None:
        return named
    return (*named, conforming_to(load_guard(reader, request.policy.encode())[0], at=at))


def _require_narrow(request: LeaseQueryModel, concerns: tuple[Concern, ...]) -> None:
    """Refuse a stop without conditions, which would affect all leases."""
    narrowed = (request.tenant, request.policy_sha256, request.measurement, request.chip, request.product)
    if not concerns and all(one is None for one in narrowed):
        raise _invalid("body", "a condition: a tenant, key, policy, chip, advisory, …")


def _listed(page: list[Affected], at: datetime, *, more: bool) -> LeaseListModel:
    mark = f"{page[-1].state.lease.log_seq}:{page[-1].state.lease.lease_id}" if more else None
    return LeaseListModel(leases=[one.members(at=at) for one in page], next=mark)


def _mark(text: str | None) -> tuple[int, str]:
    if text is None:
        return 0, ""
    seq, _, lease_id = text.partition(":")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 19 and lease_id):
        raise _invalid("after", "the mark 'next' of the previous page")
    return int(seq), lease_id


def _invalid(field: str, expected: str) -> ConfigurationError:
    return ConfigurationError(f"{field}: expected {expected}", code="request-schema", field=field, expected=expected)
