"""``/v1/leases``: who holds what, whom a piece of news concerns, and whose renewals stop."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from fastapi import APIRouter, Request

from attest.encoding import hex_bytes
from attest.errors import ConfigurationError
from attest.release import KeyName
from kms.admin_api.bodies import read_body
from kms.admin_api.context import WithCaller
from kms.admin_api.models.controls import LeaseListModel, LeaseQueryModel, LeaseResumeModel, LeaseStopModel
from kms.api.schema import refusals, request_body
from kms.domain.leases import LeaseFilter
from kms.domain.permissions import Operation
from kms.leases.admin import resume_renewals, stop_renewals
from kms.leases.affected import Concern, lists_advisory, parse_minimum
from kms.leases.description import lease_members
from kms.leases.search import Affected, find_leases

__all__ = ["router"]

router = APIRouter(prefix="/v1/leases", tags=["leases"])
_CHANGE = refusals(400, 401, 403, 409, 413, 415, 422, 500, 503)


@router.post(
    "/query",
    operation_id="queryLeases",
    summary="Who holds what, and whom news concerns",
    openapi_extra=request_body(LeaseQueryModel),
    responses=refusals(400, 401, 403, 413, 415, 422, 500, 503),
)
async def query(request: Request, caller: WithCaller) -> LeaseListModel:
    """Find leases in the order in which they were granted; with concerns, those that one of them concerns."""
    asked = await read_body(request, LeaseQueryModel)
    store, at = caller.vault(Operation.RELEASES_READ, tenant=asked.tenant).store, caller.now()

    def look() -> LeaseListModel:
        with store.reading() as reader:
            mark = _mark(asked.after)
            every = find_leases(reader, _wanted(asked), concerns=_concerns(asked), at=at, after=mark)
            page = list(islice(every, asked.limit))
            more = next(every, None) is not None
        return _listed(page, at, more=more)

    return await caller.run(look)


@router.post(
    "/stop",
    operation_id="stopRenewals",
    summary="Renew them no more",
    openapi_extra=request_body(LeaseStopModel),
    responses=_CHANGE,
)
async def stop(request: Request, caller: WithCaller) -> LeaseListModel:
    """Refuse the renewal of every lease that is found, and the release of its key to that machine with that image."""
    asked = await read_body(request, LeaseStopModel)
    store, at = caller.vault(Operation.RENEWALS_STOP, tenant=asked.tenant).store, caller.now()

    def change() -> LeaseListModel:
        with store.reading():
            pass
        wanted, concerns = _wanted(asked), _concerns(asked)
        _require_narrow(asked, concerns)
        done = stop_renewals(store, wanted, concerns=concerns, reason=asked.reason, actor=caller.identity, at=at)
        return _listed(list(done), at, more=False)

    return await caller.run(change)


@router.post(
    "/resume",
    operation_id="resumeRenewals",
    summary="Let them be renewed again",
    openapi_extra=request_body(LeaseResumeModel),
    responses=_CHANGE,
)
async def resume(request: Request, caller: WithCaller) -> LeaseListModel:
    """Take stops back; for those who own the keys of every tenant."""
    asked = await read_body(request, LeaseResumeModel)
    store, at = caller.vault(Operation.RENEWALS_RESUME).store, caller.now()
    ids = tuple(dict.fromkeys(asked.lease_ids))
    await caller.run(lambda: resume_renewals(store, ids, reason=asked.reason, actor=caller.identity, at=at))
    return LeaseListModel(leases=[], next=None)


def _wanted(asked: LeaseQueryModel) -> LeaseFilter:
    if asked.key_id is not None and asked.tenant is None:
        raise _invalid("key_id", "a tenant beside a key id")
    name = None if asked.key_id is None else KeyName(tenant=asked.tenant or "", key_id=asked.key_id)
    digest, measurement = asked.policy_sha256, asked.measurement
    return LeaseFilter(
        tenant=asked.tenant,
        name=name,
        policy_digest=None if digest is None else bytes.fromhex(digest),
        measurement=None if measurement is None else hex_bytes(measurement, what="measurement"),
        chip=asked.chip,
        product=asked.product,
        live=None if asked.everything else True,
        stopped=asked.stopped,
    )


def _concerns(asked: LeaseQueryModel) -> tuple[Concern, ...]:
    return (*map(lists_advisory, asked.advisories), *map(parse_minimum, asked.tcb_below))


def _require_narrow(asked: LeaseQueryModel, concerns: tuple[Concern, ...]) -> None:
    """Refuse to stop everything by leaving everything out."""
    narrowed = (asked.tenant, asked.policy_sha256, asked.measurement, asked.chip, asked.product)
    if not concerns and all(one is None for one in narrowed):
        raise _invalid("body", "what concerns them: a tenant, key, policy, chip, advisory, …")


def _listed(page: list[Affected], at: datetime, *, more: bool) -> LeaseListModel:
    mark = f"{page[-1].state.lease.log_seq}:{page[-1].state.lease.lease_id}" if more else None
    return LeaseListModel(leases=[dict(lease_members(one, at=at)) for one in page], next=mark)


def _mark(text: str | None) -> tuple[int, str]:
    if text is None:
        return 0, ""
    seq, _, lease_id = text.partition(":")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 19 and lease_id):
        raise _invalid("after", "the mark that a page before ended with")
    return int(seq), lease_id


def _invalid(field: str, expected: str) -> ConfigurationError:
    return ConfigurationError(f"{field}: expected {expected}", code="request-schema", field=field, expected=expected)
