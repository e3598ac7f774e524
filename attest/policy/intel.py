"""What a policy can demand of TDX and SGX Attesters: the keys of ``tdx`` and ``sgx``, and their rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, cast

from attest.encoding import JsonValue, rfc3339, rfc3339_text
from attest.evidence.claims import Claim, ClaimType
from attest.evidence.intel.claims import sgx_claim, tdx_claim
from attest.evidence.intel.status import TcbStatus
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.sgx.structure import ATTRIBUTE_BITS
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS
from attest.policy.decode import (
    Decoder,
    Demand,
    RelaxedDemand,
    Section,
    choice,
    demand,
    hex_of,
    integer,
    list_of,
    moment,
    refuse,
    table_of,
    text,
)
from attest.policy.eventlog import TDX_LOG, EventLogDemands, decode_event_log, event_log_rules
from attest.policy.references import ReferenceValues, names_in
from attest.policy.rules import (
    Rule,
    Test,
    at_least,
    is_,
    must_be,
    named_bits,
    none_of,
    one_of,
    reference_rule,
    rule_for,
)

__all__ = [
    "BASELINE_SGX_RULES",
    "BASELINE_TDX_RULES",
    "AcceptedAdvisory",
    "SgxDemands",
    "TcbDemands",
    "TdxDemands",
    "decode_sgx",
    "decode_tdx",
    "sgx_rules",
    "tdx_rules",
]

_MRENCLAVE_BYTES = 32
_TCB = "tcb"
"""The relaxation under which there are no claims about the TCB."""
_ALLOWED_STATUSES = tuple(str(status) for status in TcbStatus if status is not TcbStatus.REVOKED)
"""``Revoked`` is a failed verification: no policy can allow it."""
_ADVISORY_ID = re.compile(r"INTEL-SA-[0-9]{5}")
_MODULE_VERSIONS = tuple(str(version) for version in range(256))
_PLATFORM_SWITCHES = ("dynamic_platform", "cached_keys", "smt_enabled")
_STRICT_TD_ATTRIBUTES = {"debug": Demand(False), "sept_ve_disable": Demand(True), "migratable": Demand(False)}  # noqa: FBT003
_STRICT_ENCLAVE_ATTRIBUTES = {"debug": Demand(False)}  # noqa: FBT003


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedAdvisory:
    """Why an advisory is tolerated, and until when; the last moment is included. None is tolerated for ever."""

    reason: str
    expires: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbDemands:
    """What is demanded of the platform's TCB, for TDX and SGX alike.

    Attributes:
        tcb_status: statuses that are accepted.
        accepted_advisories: advisory id to why it is tolerated; every other one refuses.
        minimum_tcb_date: least date of the TCB level that the platform reaches, or None.
        minimum_tcb_evaluation_data_number: least number of both TCB info and QE identity, or None.
        fmspcs: platform families that are accepted, 6 bytes each.
        ppids: machines that are accepted, 16 bytes each.
        denied_ppids: machines that are refused.
        platform: ``dynamic_platform``, ``cached_keys``, ``smt_enabled`` as the PCK certificate must say.
    """

    tcb_status: Demand[tuple[str, ...]]
    accepted_advisories: Demand[Mapping[str, AcceptedAdvisory]]
    minimum_tcb_date: Demand[datetime] | None
    minimum_tcb_evaluation_data_number: int | None
    fmspcs: Demand[tuple[bytes, ...]] | None
    ppids: Demand[tuple[bytes, ...]] | None
    denied_ppids: tuple[bytes, ...]
    platform: Mapping[str, Demand[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxDemands:
    """What is demanded of a TDX Attester; None where nothing is. See docs/policy.md for each key."""

    mr_td: Demand[tuple[str, ...]]
    tcb: TcbDemands
    rtmrs: Mapping[str, Demand[tuple[str, ...]] | None]
    td_attributes: Mapping[str, Demand[bool]]
    unnamed_attributes: Demand[bool]
    unknown_xfam: Demand[bool]
    service_td: Demand[bool] | None
    mr_service_td: Demand[tuple[bytes, ...]] | None = None
    mr_seam: Demand[tuple[bytes, ...]] | None = None
    mr_config_id: Demand[tuple[bytes, ...]] | None = None
    mr_owner: Demand[tuple[bytes, ...]] | None = None
    mr_owner_config: Demand[tuple[bytes, ...]] | None = None
    minimum_tdx_module_svn: Demand[Mapping[str, int]] | None = None
    event_log: EventLogDemands | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SgxDemands:
    """What is demanded of an SGX Attester; None where nothing is. See docs/policy.md for each key."""

    mr_enclave: Demand[tuple[str, ...]]
    tcb: TcbDemands
    attributes: Mapping[str, Demand[bool]]
    mr_signer: Demand[tuple[bytes, ...]] | None = None
    isv_prod_id: Demand[tuple[int, ...]] | None = None
    minimum_isv_svn: int | None = None
    config_id: Demand[tuple[bytes, ...]] | None = None


# -- reading


def decode_tdx(value: JsonValue, path: str, references: Mapping[str, ReferenceValues]) -> TdxDemands:
    """Read the key ``tdx`` of a policy.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    section = Section(value, path)
    named = demand(list_of(names_in(references)))
    digests = demand(list_of(hex_of(48)))
    mr_service_td: Demand[tuple[bytes, ...]] | None = _optional(section, "mr_service_td", digests)
    demands = TdxDemands(
        mr_td=section.required("mr_td", named),
        tcb=_tcb(section),
        rtmrs={f"rtmr{i}": _optional(section, f"rtmr{i}", named) for i in range(4)},
        td_attributes=named_bits(section, "td_attributes", TD_ATTRIBUTE_BITS, strict=_STRICT_TD_ATTRIBUTES),
        unnamed_attributes=section.optional("unnamed_attributes", must_be(False), default=Demand(False)),  # noqa: FBT003
        unknown_xfam=section.optional("unknown_xfam", must_be(False), default=Demand(False)),  # noqa: FBT003
        service_td=section.optional("service_td", must_be(False), default=_no_service_td(mr_service_td)),  # noqa: FBT003
        mr_service_td=mr_service_td,
        mr_seam=_optional(section, "mr_seam", digests),
        mr_config_id=_optional(section, "mr_config_id", digests),
        mr_owner=_optional(section, "mr_owner", digests),
        mr_owner_config=_optional(section, "mr_owner_config", digests),
        minimum_tdx_module_svn=_optional(
            section, "minimum_tdx_module_svn", demand(table_of(integer(0, 255), keys=_MODULE_VERSIONS))
        ),
        event_log=_optional(section, "event_log", partial(decode_event_log, key=TDX_LOG)),
    )
    section.finish()
    return demands


def decode_sgx(value: JsonValue, path: str, references: Mapping[str, ReferenceValues]) -> SgxDemands:
    """Read the key ``sgx`` of a policy.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    section = Section(value, path)
    demands = SgxDemands(
        mr_enclave=section.required("mr_enclave", demand(list_of(names_in(references, size=_MRENCLAVE_BYTES)))),
        tcb=_tcb(section),
        attributes=named_bits(section, "attributes", ATTRIBUTE_BITS, strict=_STRICT_ENCLAVE_ATTRIBUTES),
        mr_signer=_optional(section, "mr_signer", demand(list_of(hex_of(32)))),
        isv_prod_id=_optional(section, "isv_prod_id", demand(list_of(integer(0, 0xFFFF)))),
        minimum_isv_svn=section.optional("minimum_isv_svn", integer(0, 0xFFFF), default=None),
        config_id=_optional(section, "config_id", demand(list_of(hex_of(64)))),
    )
    section.finish()
    return demands


def _optional(section: Section, name: str, decoder: Decoder[Any]) -> Any:  # noqa: ANN401  the decoder's type, or None
    return section.optional(name, decoder, default=None)


def _no_service_td(mr_service_td: Demand[tuple[bytes, ...]] | None) -> Demand[bool] | None:
    """Demand that none is bound, unless the policy says which ones may be."""
    if mr_service_td is None or isinstance(mr_service_td.value, RelaxedDemand):
        return Demand(False)  # noqa: FBT003
    return None


_NO_ADVISORIES: Mapping[str, AcceptedAdvisory] = {}


def _tcb(section: Section) -> TcbDemands:
    up_to_date: Demand[tuple[str, ...]] = Demand((str(TcbStatus.UP_TO_DATE),))
    nothing: Demand[Mapping[str, AcceptedAdvisory]] = Demand(_NO_ADVISORIES)
    platform = tuple((name, 0) for name in _PLATFORM_SWITCHES)
    return TcbDemands(
        tcb_status=section.optional("tcb_status", demand(list_of(choice(_ALLOWED_STATUSES))), default=up_to_date),
        accepted_advisories=section.optional("accepted_advisories", demand(_advisories), default=nothing),
        minimum_tcb_date=_optional(section, "minimum_tcb_date", demand(moment)),
        minimum_tcb_evaluation_data_number=section.optional(
            "minimum_tcb_evaluation_data_number", integer(1, 2**31), default=None
        ),
        fmspcs=_optional(section, "fmspcs", demand(list_of(hex_of(6)))),
        ppids=_optional(section, "ppids", demand(list_of(hex_of(16)))),
        denied_ppids=section.optional("denied_ppids", list_of(hex_of(16)), default=()),
        platform=named_bits(section, "platform", platform, strict={}),
    )


def _advisories(value: JsonValue, path: str) -> Mapping[str, AcceptedAdvisory]:
    accepted = table_of(_advisory)(value, path)
    for name in accepted:
        if not _ADVISORY_ID.fullmatch(name):
            raise refuse(f"{path}.{name}", "an advisory such as INTEL-SA-00837", name, at_key=True)
    return accepted


def _advisory(value: JsonValue, path: str) -> AcceptedAdvisory:
    section = Section(value, path)
    found = AcceptedAdvisory(reason=section.required("reason", text), expires=section.required("expires", moment))
    section.finish()
    return found


# -- rules


def tdx_rules(tdx: TdxDemands, references: Mapping[str, ReferenceValues]) -> tuple[Rule, ...]:
    """Return the rules of a policy document for a TDX Attester."""
    return (
        *_td_measurements(tdx, references),
        *_td_state(tdx),
        *_tcb_rules(tdx.tcb, "tdx", tdx_claim),
        *(() if tdx.event_log is None else event_log_rules(tdx.event_log, key=TDX_LOG)),
    )


def sgx_rules(sgx: SgxDemands, references: Mapping[str, ReferenceValues]) -> tuple[Rule, ...]:
    """Return the rules of a policy document for an SGX Attester."""
    return (*_enclave_rules(sgx, references), *_tcb_rules(sgx.tcb, "sgx", sgx_claim))


def _td_measurements(tdx: TdxDemands, references: Mapping[str, ReferenceValues]) -> Iterator[Rule]:
    """Ask what the TD was built from and what it measured since."""
    for name, names in (("mr_td", tdx.mr_td), *tdx.rtmrs.items()):
        yield from reference_rule(f"policy.tdx.{name}", names, references, tdx_claim(name))
    for name, values, category in (
        ("mr_service_td", tdx.mr_service_td, "executables"),
        ("mr_seam", tdx.mr_seam, "hardware"),
        ("mr_config_id", tdx.mr_config_id, "configuration"),
        ("mr_owner", tdx.mr_owner, "configuration"),
        ("mr_owner_config", tdx.mr_owner_config, "configuration"),
    ):
        yield from rule_for(f"policy.tdx.{name}", values, one_of, category=category, claim=tdx_claim(name))


def _td_state(tdx: TdxDemands) -> Iterator[Rule]:
    """Ask how the TD was configured, and by which module."""
    for bit, switch in tdx.td_attributes.items():
        claim = tdx_claim(f"td_attributes.{bit}")
        yield from rule_for(f"policy.tdx.td_attributes.{bit}", switch, is_, category="configuration", claim=claim)
    debug = tdx.td_attributes["debug"]
    under_debug = tdx_claim("td_attributes.under_debug")
    yield from rule_for("policy.tdx.under_debug", debug, is_, category="configuration", claim=under_debug)
    yield from rule_for(
        "policy.tdx.unnamed_attributes",
        tdx.unnamed_attributes,
        lambda _: one_of([0]),
        category="configuration",
        claim=tdx_claim("td_attributes.unnamed"),
        expected=lambda _: "no bit that has no name here",
    )
    yield from rule_for(
        "policy.tdx.unknown_xfam",
        tdx.unknown_xfam,
        lambda _: is_(True),
        category="configuration",
        claim=tdx_claim("xfam_known"),
        expected=lambda _: "bits that a TD of today may set",
    )
    bound = tdx_claim("service_td_bound")
    yield from rule_for("policy.tdx.service_td", tdx.service_td, is_, category="executables", claim=bound)
    yield from rule_for(
        "policy.tdx.minimum_tdx_module_svn",
        tdx.minimum_tdx_module_svn,
        _covers_module,
        category="hardware",
        claim=_TDX_MODULE,
        expected=lambda minimums: "; ".join(f"version {v} with SVN at least {svn}" for v, svn in minimums.items()),
    )


def _covers_module(minimums: Mapping[str, int]) -> Test:
    """Test that a TDX module's SVN reaches the minimum of its own version; each version counts its own SVNs."""

    def holds(module: Mapping[str, int], _at: datetime) -> bool:
        minimum = minimums.get(str(module["version"]))
        return minimum is not None and module["SVN"] >= minimum

    return holds


def _module(verified: VerifiedIntelQuote) -> dict[str, int]:
    version, svn = (tdx_claim(f"tdx_module.{name}").get(verified) for name in ("major_version", "svn"))
    return {"version": cast("int", version), "SVN": cast("int", svn)}  # both claims are integers of every TD report


_TDX_MODULE = Claim(
    name="tdx_module",
    type=ClaimType.TCB,
    origin=tdx_claim("tdx_module.svn").origin,
    clause=tdx_claim("tdx_module.svn").clause,
    get=_module,
)


def _enclave_rules(sgx: SgxDemands, references: Mapping[str, ReferenceValues]) -> Iterator[Rule]:
    """Ask which enclave it is and how it runs."""
    yield from reference_rule("policy.sgx.mr_enclave", sgx.mr_enclave, references, sgx_claim("mr_enclave"))
    for name, values in (
        ("mr_signer", sgx.mr_signer),
        ("isv_prod_id", sgx.isv_prod_id),
        ("config_id", sgx.config_id),
    ):
        yield from rule_for(f"policy.sgx.{name}", values, one_of, category="executables", claim=sgx_claim(name))
    least = sgx.minimum_isv_svn
    yield from _minimum("policy.sgx.minimum_isv_svn", least, sgx_claim("isv_svn"), category="executables")
    for bit, switch in sgx.attributes.items():
        claim = sgx_claim(f"attributes.{bit}")
        yield from rule_for(f"policy.sgx.attributes.{bit}", switch, is_, category="configuration", claim=claim)


def _tcb_rules(tcb: TcbDemands, kind: str, claim: Callable[[str], Claim]) -> Iterator[Rule]:
    """Ask about the platform's TCB, as Intel judges it and as the policy does."""
    yield from _status(kind, tcb.tcb_status, claim)
    yield from rule_for(
        f"policy.{kind}.accepted_advisories",
        tcb.accepted_advisories,
        _only_accepted,
        category="hardware",
        claim=claim("advisory_ids"),
        expected=_advisories_text,
        tolerated_by=_TCB,
    )
    yield from rule_for(
        f"policy.{kind}.minimum_tcb_date",
        tcb.minimum_tcb_date,
        _not_before,
        category="hardware",
        claim=claim("tcb_date"),
        expected=lambda first: f"{rfc3339_text(first)} or later",
        tolerated_by=_TCB,
    )
    for name in ("tcb_evaluation_data_number", "qe_identity_evaluation_data_number"):
        minimum = tcb.minimum_tcb_evaluation_data_number
        yield from _minimum(f"policy.{kind}.minimum_{name}", minimum, claim(name), tolerated_by=_TCB)
    for name, values, category in (("fmspc", tcb.fmspcs, "hardware"), ("ppid", tcb.ppids, "instance-identity")):
        yield from rule_for(f"policy.{kind}.{name}", values, one_of, category=category, claim=claim(name))
    if tcb.denied_ppids:
        denied = Demand(tcb.denied_ppids)
        yield from rule_for(
            f"policy.{kind}.denied_ppids",
            denied,
            none_of,
            category="instance-identity",
            claim=claim("ppid"),
            expected=lambda values: "none of " + ", ".join(value.hex() for value in values),
        )
    for name, switch in tcb.platform.items():
        switched = claim(f"platform.{name}")
        yield from rule_for(f"policy.{kind}.platform.{name}", switch, is_, category="hardware", claim=switched)


def _status(kind: str, statuses: Demand[tuple[str, ...]], claim: Callable[[str], Claim]) -> Iterator[Rule]:
    return rule_for(
        f"policy.{kind}.tcb_status",
        statuses,
        one_of,
        category="hardware",
        claim=claim("tcb_status"),
        tolerated_by=_TCB,
    )


def _minimum(
    rule_id: str, minimum: int | None, claim: Claim, *, category: str = "hardware", tolerated_by: str | None = None
) -> Iterator[Rule]:
    return rule_for(
        rule_id,
        None if minimum is None else Demand(minimum),
        at_least,
        category=category,
        claim=claim,
        expected=lambda least: f"at least {least}",
        tolerated_by=tolerated_by,
    )


def _not_before(first: datetime) -> Test:
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


def _off(rule_id: str, claim: Claim) -> Iterator[Rule]:
    return rule_for(rule_id, Demand(False), is_, category="configuration", claim=claim)  # noqa: FBT003


_SOUND: Demand[tuple[str, ...]] = Demand((str(TcbStatus.UP_TO_DATE), str(TcbStatus.SW_HARDENING_NEEDED)))

BASELINE_TDX_RULES: tuple[Rule, ...] = (
    *_off("policy.tdx.under_debug", tdx_claim("td_attributes.under_debug")),
    *_off("policy.tdx.service_td", tdx_claim("service_td_bound")),
    *_status("tdx", _SOUND, tdx_claim),
)
BASELINE_SGX_RULES: tuple[Rule, ...] = (
    *_off("policy.sgx.attributes.debug", sgx_claim("attributes.debug")),
    *_status("sgx", _SOUND, sgx_claim),
)
"""What nobody sensible wants relaxed. No production policy."""
