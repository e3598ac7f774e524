"""``/v1/leases``: who holds what, whom a piece of news concerns, and whose renewals stop."""

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
from kms.domain.leases import LeaseFilter
from kms.domain.permissions import Operation
from kms.keys.admin import require_key
from kms.leases.admin import resume_renewals, stop_renewals
from kms.leases.affected import Concern, conforming_to, lists_advisory, parse_minimum
from kms.leases.description import lease_members
from kms.leases.search import Affected, find_leases
from kms.references.resolution import load_guard
from kms.store import ReadTransaction

router = APIRouter(route_class=AdminRoute, prefix="/v1/leases", tags=["leases"])


@router.post("/query", summary="Who holds what, and whom news concerns", responses=changes(404, 409))
def query_leases(caller: WithCaller, asked: Annotated[LeaseQueryModel, body(LeaseQueryModel)]) -> LeaseListModel:
    """Find leases in the order in which they were granted; with concerns, those that one of them concerns."""
    caller.require(Operation.RELEASES_READ, tenant=asked.tenant)
    at, wanted, mark = caller.now(), _wanted(asked), _mark(asked.after)
    with caller.vault.store.reading() as reader:
        _require_known(reader, wanted)
        every = find_leases(reader, wanted, concerns=_concerns(reader, asked, at), at=at, after=mark)
        page = list(islice(every, asked.limit))
        more = next(every, None) is not None
    return _listed(page, at, more=more)


@router.post("/stop", operation_id="stopRenewals", summary="Renew them no more", responses=changes(404, 409))
def stop(caller: WithCaller, asked: Annotated[LeaseStopModel, body(LeaseStopModel)]) -> LeaseListModel:
    """Refuse the renewal of every lease that is found, and the release of its key to that machine with that image."""
    caller.require(Operation.RENEWALS_STOP, tenant=asked.tenant)
    at, wanted, store = caller.now(), _wanted(asked), caller.vault.store
    with store.reading() as reader:
        _require_known(reader, wanted)
        concerns = _concerns(reader, asked, at)
    _require_narrow(asked, concerns)
    done = stop_renewals(store, wanted, concerns=concerns, reason=asked.reason, actor=caller.identity, at=at)
    return _listed(list(done), at, more=False)


@router.post("/resume", operation_id="resumeRenewals", summary="Let them be renewed again", responses=changes(409))
def resume(caller: WithCaller, asked: Annotated[LeaseResumeModel, body(LeaseResumeModel)]) -> LeaseListModel:
    """Take stops back; for those who own the keys of every tenant."""
    caller.require(Operation.RENEWALS_RESUME)
    ids = tuple(dict.fromkeys(asked.lease_ids))
    resume_renewals(caller.vault.store, ids, reason=asked.reason, actor=caller.identity, at=caller.now())
    return LeaseListModel(leases=[], next=None)


def _require_known(reader: ReadTransaction, wanted: LeaseFilter) -> None:
    """Refuse a key and a tenant that do not exist: an empty list would be taken for "nobody is concerned"."""
    if wanted.name is not None:
        require_key(reader, wanted.name)
    if wanted.tenant is not None and wanted.tenant not in reader.tenants.all():
        raise KeyConflictError(
            f"there is no tenant {wanted.tenant!r}", code="tenant-unknown", field="tenant", hint="'kms tenant list'"
        )


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
        released_from=None if asked.since is None else rfc3339(asked.since, what="since"),
        released_until=None if asked.until is None else rfc3339(asked.until, what="until"),
        live=None if asked.everything else True,
        stopped=asked.stopped,
    )


def _concerns(reader: ReadTransaction, asked: LeaseQueryModel, at: datetime) -> tuple[Concern, ...]:
    named = (*map(lists_advisory, asked.advisories), *map(parse_minimum, asked.tcb_below))
    if asked.policy is None:
        return named
    return (*named, conforming_to(load_guard(reader, asked.policy.encode())[0], at=at))


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
