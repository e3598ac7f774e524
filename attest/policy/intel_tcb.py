"""Demands of a policy on the TCB of an Intel platform: the keys that ``tdx`` and ``sgx`` share, and their rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from attest.encoding import JsonValue, rfc3339, rfc3339_text
from attest.evidence.intel.status import TcbStatus
from attest.policy.decoder import (
    Demand,
    Section,
    choice,
    demand,
    hex_list,
    hex_of,
    integer,
    key,
    list_of,
    moment,
    named_bits,
    record_of,
    refuse,
    table_of,
    text,
)
from attest.policy.rules import Rule, RuleMaker, Test, is_, one_of

_TCB = "tcb"
"""The relaxation under which there are no claims about the TCB."""
ALLOWED_STATUSES = tuple(str(status) for status in TcbStatus if status is not TcbStatus.REVOKED)
"""``Revoked`` is a failed verification: no policy can allow it."""
ADVISORY_ID = re.compile(r"INTEL-SA-[0-9]{5}")
_PLATFORM_SWITCHES = ("dynamic_platform", "cached_keys", "smt_enabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedAdvisory:
    """A tolerated advisory: the reason, and the last moment, which is included. No tolerance is without an end."""

    reason: str = field(metadata=key(text))
    expires: datetime = field(metadata=key(moment))


def _advisories(value: JsonValue, path: str) -> Mapping[str, AcceptedAdvisory]:
    accepted = table_of(record_of(AcceptedAdvisory))(value, path)
    for name in accepted:
        if not ADVISORY_ID.fullmatch(name):
            raise refuse(f"{path}.{name}", "an advisory such as INTEL-SA-00837", name, at_key=True)
    return accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbDemands:
    """Demands on the platform's TCB, for TDX and SGX alike; None: no demand. See docs/policy.md for each key."""

    tcb_status: Demand[tuple[str, ...]] = field(
        default=Demand((str(TcbStatus.UP_TO_DATE),)), metadata=key(demand(list_of(choice(ALLOWED_STATUSES))))
    )
    accepted_advisories: Demand[Mapping[str, AcceptedAdvisory]] = field(
        default=Demand(MappingProxyType({})), metadata=key(demand(_advisories))
    )
    minimum_tcb_date: Demand[datetime] | None = field(default=None, metadata=key(demand(moment)))
    minimum_tcb_evaluation_data_number: int | None = field(default=None, metadata=key(integer(1, 2**31)))
    fmspcs: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(6)))
    ppids: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(16)))
    denied_ppids: tuple[bytes, ...] = field(default=(), metadata=key(list_of(hex_of(16))))
    platform: Mapping[str, Demand[bool]]


def decode_tcb(section: Section) -> TcbDemands:
    """Read the keys of a policy that TDX and SGX share."""
    return section.record(TcbDemands, platform=named_bits(section, "platform", _PLATFORM_SWITCHES, strict={}))


# -- rules


def tcb_rules(make: RuleMaker, tcb: TcbDemands) -> Iterator[Rule]:
    """Make the rules for the platform's TCB: Intel's status and the policy's own bounds."""
    yield from tcb_status_rule(make, tcb.tcb_status)
    yield from make.rule(
        "accepted_advisories",
        tcb.accepted_advisories,
        _only_accepted,
        category="hardware",
        claim="advisory_ids",
        expected=_advisories_text,
        tolerated_by=_TCB,
    )
    yield from make.rule(
        "minimum_tcb_date",
        tcb.minimum_tcb_date,
        not_before,
        category="hardware",
        claim="tcb_date",
        expected=lambda first: f"{rfc3339_text(first)} or later",
        tolerated_by=_TCB,
    )
    for name in ("tcb_evaluation_data_number", "qe_identity_evaluation_data_number"):
        least = tcb.minimum_tcb_evaluation_data_number
        yield from make.minimum(f"minimum_{name}", least, category="hardware", claim=name, tolerated_by=_TCB)
    yield from make.rule("fmspc", tcb.fmspcs, one_of, category="hardware")
    yield from make.rule("ppid", tcb.ppids, one_of, category="instance-identity")
    yield from make.denial("denied_ppids", tcb.denied_ppids, claim="ppid")
    for name, switch in tcb.platform.items():
        yield from make.rule(f"platform.{name}", switch, is_, category="hardware")


def tcb_status_rule(
    make: RuleMaker, statuses: Demand[tuple[str, ...]] | None, *, name: str = "tcb_status"
) -> Iterator[Rule]:
    """Make the rule for the statuses of the platform's TCB that are accepted."""
    return make.rule(name, statuses, one_of, category="hardware", tolerated_by=_TCB)


def not_before(first: datetime) -> Test:
    """Test that a date, given as text, is this one or a later one."""
    return lambda value, _at: rfc3339(value, what="tcb_date") >= first


def _only_accepted(accepted: Mapping[str, AcceptedAdvisory]) -> Test:
    """Test that every advisory is accepted, and its acceptance not over; the last moment is included."""

    def holds(advisories: tuple[str, ...], at: datetime) -> bool:
        return all(name in accepted and at <= accepted[name].expires for name in advisories)

    return holds


def _advisories_text(accepted: Mapping[str, AcceptedAdvisory]) -> str:
    if not accepted:
        return "no advisory"
    return "no advisory but " + "; ".join(
        f"{name} until {rfc3339_text(entry.expires)}: {entry.reason}" for name, entry in accepted.items()
    )
