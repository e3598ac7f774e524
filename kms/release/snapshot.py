"""Snapshot for a decision: keys, policies, reference values and controls, as one transaction sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from attest import Policy, Unchecked
from attest.evidence import NO_TOLERANCES, AcceptedValue, DeviceTolerances, GpuTolerances
from kms.auth.authorisation import within_reach
from kms.controls.break_glass import BreakGlassService
from kms.controls.floors import floor_state, floors_of
from kms.domain.break_glass import BreakGlass, counting_freezes, policy_in_force
from kms.domain.decide import KeyState, OpenBreakGlass, ReferenceState, ReleaseObstacle
from kms.domain.freezes import Freeze, Scope, freezing, frozen_products
from kms.domain.key_states import version_obstacles
from kms.domain.keys import Disclosure, KeyRecord, KeyReference
from kms.domain.permissions import EVERY_TENANT
from kms.references.resolution import Guard, find_guard
from kms.release.exchange import Exchange
from kms.store import ReadTransaction

_FROZEN: Final = {Scope.KEY: "key-frozen", Scope.TENANT: "tenant-frozen", Scope.ALL: "service-frozen"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The requested keys, their policies and the reference values in force, as one transaction saw them.

    All mappings except ``floors`` are by requested key.

    Attributes:
        states: their states, as input of the decision.
        policies: their policies; a policy without usable reference values is absent.
        floors: the policies of the floors in force, by their digests.
        noted: the entries of the authenticated state that it was read from.
    """

    records: Mapping[str, KeyRecord]
    states: Mapping[str, KeyState]
    policies: Mapping[str, Policy]
    floors: Mapping[bytes, Policy]
    noted: Mapping[bytes, bytes | None] = field(repr=False)

    @property
    def disclosures(self) -> Mapping[str, Disclosure]:
        """Disclosure setting of each key."""
        return {asked: record.disclosure for asked, record in self.records.items()}


def take_snapshot(tx: ReadTransaction, exchange: Exchange, relaxations: BreakGlassService) -> Snapshot:
    """Read the state of the requested keys; a key that the caller must not request does not exist.

    Raises:
        IntegrityError: a stored key, policy, freeze or relaxation was altered.
        UnavailableError: the key-encryption key's back-end does not answer.
    """
    with tx.state.noting() as noted:
        return _taken(tx, exchange, relaxations, noted)


def _taken(
    tx: ReadTransaction, exchange: Exchange, relaxations: BreakGlassService, noted: Mapping[bytes, bytes | None]
) -> Snapshot:
    at = exchange.at
    requested = map(KeyReference.parse, exchange.request.key_ids)
    within = dict.fromkeys(within_reach(tx, requested, caller=exchange.caller))
    records = {str(one): record for one in within if (record := tx.keys.find(one)) is not None}
    freezes = tx.freezes.all()
    opened = relaxations.open_for(tx, {record.name for record in records.values()}, at=at)
    floors = floors_of(tx, (record.name.tenant for record in records.values()))
    counting = {one.scope: found for one in floors if (found := floor_state(one, at=at)) is not None}
    states: dict[str, KeyState] = {}
    policies: dict[str, Policy] = {}
    for asked, record in records.items():
        relaxed = opened.get(record.name, ())
        guard = find_guard(tx, policy_in_force(record.policy_digest, relaxed))
        state = _state(asked, record, guard, relaxed, counting_freezes(freezes, relaxed), at=at)
        scopes = (EVERY_TENANT, record.name.tenant)
        states[asked] = replace(state, floors=tuple(counting[one] for one in scopes if one in counting))
        if guard.policy is not None:
            policies[asked] = guard.policy
    judging = (one.policy(at) for one in floors)
    return Snapshot(
        records=records,
        states=states,
        policies=policies,
        floors={policy.digest: policy for policy in judging if policy is not None},
        noted=noted,
    )


def _state(
    asked: str,
    record: KeyRecord,
    guard: Guard,
    relaxations: tuple[BreakGlass, ...],
    freezes: tuple[Freeze, ...],
    *,
    at: datetime,
) -> KeyState:
    return KeyState(
        asked=asked,
        name=record.name,
        version=record.version,
        purpose=str(record.purpose),
        policy_digest=policy_in_force(record.policy_digest, relaxations),
        enabled=record.enabled,
        reference_digest=None if guard.policy is None else guard.policy.reference_digest,
        references=tuple(
            ReferenceState(name=one.name, version=one.version, digest=one.digest) for one in guard.documents
        ),
        obstacles=tuple(_obstacles(record, guard, freezes, at=at)),
        frozen_products=frozen_products(freezes),
        break_glass=tuple(
            OpenBreakGlass(number=one.number, relaxation=one.relaxation, until=one.until) for one in relaxations
        ),
        via=record.via,
    )


def _obstacles(
    record: KeyRecord, guard: Guard, freezes: tuple[Freeze, ...], *, at: datetime
) -> Iterator[ReleaseObstacle]:
    """List the reasons against any release of a key now, as the transaction sees it."""
    if guard.problem is not None:
        text = f"the policy of the key {str(record.name)!r} is unusable at present: {guard.problem.message}"
        yield ReleaseObstacle(code="references-unusable", text=text)
    yield from version_obstacles(record, at=at)
    for one in freezing(freezes, key=record.name):
        yield ReleaseObstacle(code=_FROZEN[one.target.scope], text=f"{one.target} is frozen")


def relaxed_by_all(policies: Mapping[str, Policy]) -> tuple[Unchecked, ...]:
    """Return the checks that every policy leaves out, since the strictest of them governs verification."""
    each = [policy.unchecked for policy in policies.values()]
    if not each:
        return ()
    names = set.intersection(*({entry.check for entry in entries} for entries in each))
    return tuple(entry for entry in each[0] if entry.check in names)


def tolerated_by_all(policies: Mapping[str, Policy]) -> DeviceTolerances:
    """Return the tolerances that every policy grants, since the strictest of them governs."""
    return DeviceTolerances(
        gpus=_common([policy.gpu_tolerances for policy in policies.values()]),
        switches=_common([policy.switch_tolerances for policy in policies.values()]),
        spls=_named_by_all([policy.accepted_spls for policy in policies.values()]),
    )


def _named_by_all(each: list[tuple[AcceptedValue, ...]]) -> tuple[AcceptedValue, ...]:
    if not each:
        return ()
    values = set.intersection(*({entry.value for entry in given} for given in each))
    return tuple(entry for entry in each[0] if entry.value in values)


def _common(each: list[GpuTolerances]) -> GpuTolerances:
    if not each:
        return NO_TOLERANCES
    indices = set.intersection(*({entry.index for entry in given.waived_measurements} for given in each))
    held = all(given.held_rim_signers is not None for given in each)
    return GpuTolerances(
        waived_measurements=tuple(entry for entry in each[0].waived_measurements if entry.index in indices),
        accepted_opaque=_named_by_all([given.accepted_opaque for given in each]),
        held_rim_signers=each[0].held_rim_signers if held else None,
    )
