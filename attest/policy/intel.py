"""Demands of a policy on TDX and SGX Attesters: the keys of ``tdx`` and ``sgx``, and their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import cast

from attest.encoding import JsonValue
from attest.evidence.claims import ClaimType
from attest.evidence.intel.claims import sgx_claim, tdx_claim
from attest.evidence.intel.status import TcbStatus
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.sgx.structure import ATTRIBUTE_BITS
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS
from attest.policy.decoder import (
    OFF,
    STRICT_OFF,
    Demand,
    Section,
    choice,
    demand,
    hex_list,
    integer,
    key,
    list_of,
    must_be,
    named_bits,
    stated,
    table_of,
)
from attest.policy.eventlog import TDX_LOG, EventLogDemands, decode_event_log, event_log_rules
from attest.policy.intel_tcb import ALLOWED_STATUSES, TcbDemands, decode_tcb, tcb_rules, tcb_status_rule
from attest.policy.references import ReferenceValues, names_in
from attest.policy.rules import Rule, RuleMaker, Test, is_, one_of

_TDX, _SGX = RuleMaker("tdx", tdx_claim), RuleMaker("sgx", sgx_claim)
_MRENCLAVE_BYTES = 32
_MODULE_VERSIONS = tuple(str(version) for version in range(256))
_STRICT_TD_ATTRIBUTES = {"debug": False, "sept_ve_disable": True, "migratable": False}
_STRICT_ENCLAVE_ATTRIBUTES = {"debug": False}


_DIGESTS = key(hex_list(48))
BOOT_REGISTERS = ("rtmr1", "rtmr2")
"""Registers in which boot loader, kernel, command line and initial RAM disk are measured (intel-tdx-sgx.md 19)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxDemands:
    """Demands on a TDX Attester; None: no demand. See docs/policy.md for each key."""

    mr_td: Demand[tuple[str, ...]]
    tcb: TcbDemands
    rtmrs: Mapping[str, Demand[tuple[str, ...]] | None]
    td_attributes: Mapping[str, Demand[bool]]
    unnamed_attributes: Demand[bool] = field(default=OFF, metadata=STRICT_OFF)
    unknown_xfam: Demand[bool] = field(default=OFF, metadata=STRICT_OFF)
    service_td: Demand[bool] | None
    mr_service_td: Demand[tuple[bytes, ...]] | None
    mr_seam: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_DIGESTS)
    mr_config_id: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_DIGESTS)
    mr_owner: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_DIGESTS)
    mr_owner_config: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_DIGESTS)
    minimum_tdx_module_svn: Demand[Mapping[str, int]] | None = field(
        default=None, metadata=key(demand(table_of(integer(0, 255), keys=_MODULE_VERSIONS)))
    )
    tcb_status_current: Demand[tuple[str, ...]] | None = field(
        default=None, metadata=key(demand(list_of(choice(ALLOWED_STATUSES))))
    )
    event_log: EventLogDemands | None = field(default=None, metadata=key(partial(decode_event_log, key=TDX_LOG)))

    @property
    def judges_boot(self) -> bool:
        """True if it judges the booted software, or relaxes that: by a register, or by the boot loader's events."""
        registers = any(self.rtmrs[name] is not None for name in BOOT_REGISTERS)
        return registers or (self.event_log is not None and self.event_log.lists_loader_events)


@dataclass(frozen=True, slots=True, kw_only=True)
class SgxDemands:
    """Demands on an SGX Attester; None: no demand. See docs/policy.md for each key."""

    mr_enclave: Demand[tuple[str, ...]]
    tcb: TcbDemands
    attributes: Mapping[str, Demand[bool]]
    mr_signer: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(32)))
    isv_prod_id: Demand[tuple[int, ...]] | None = field(default=None, metadata=key(demand(list_of(integer(0, 0xFFFF)))))
    minimum_isv_svn: int | None = field(default=None, metadata=key(integer(0, 0xFFFF)))
    config_id: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(64)))


# -- reading


def decode_tdx(value: JsonValue, path: str, references: Mapping[str, ReferenceValues]) -> TdxDemands:
    """Read the key ``tdx`` of a policy."""
    section = Section(value, path)
    named = demand(list_of(names_in(references)))
    mr_service_td = section.stated("mr_service_td", hex_list(48))
    demands = section.record(
        TdxDemands,
        {"mr_td": named},
        tcb=decode_tcb(section),
        rtmrs={f"rtmr{i}": section.stated(f"rtmr{i}", named) for i in range(4)},
        td_attributes=named_bits(section, "td_attributes", dict(TD_ATTRIBUTE_BITS), strict=_STRICT_TD_ATTRIBUTES),
        service_td=section.optional("service_td", must_be(strict=False), default=_no_service_td(mr_service_td)),
        mr_service_td=mr_service_td,
    )
    section.finish()
    return demands


def decode_sgx(value: JsonValue, path: str, references: Mapping[str, ReferenceValues]) -> SgxDemands:
    """Read the key ``sgx`` of a policy."""
    section = Section(value, path)
    demands = section.record(
        SgxDemands,
        {"mr_enclave": demand(list_of(names_in(references, size=_MRENCLAVE_BYTES)))},
        tcb=decode_tcb(section),
        attributes=named_bits(section, "attributes", dict(ATTRIBUTE_BITS), strict=_STRICT_ENCLAVE_ATTRIBUTES),
    )
    section.finish()
    return demands


def _no_service_td(mr_service_td: Demand[tuple[bytes, ...]] | None) -> Demand[bool] | None:
    """Demand that none is bound, unless the policy names those that may be."""
    return OFF if stated(mr_service_td) is None else None


# -- rules


def tdx_rules(tdx: TdxDemands, references: Mapping[str, ReferenceValues]) -> tuple[Rule, ...]:
    """Return the rules of a policy document for a TDX Attester."""
    return (
        *_td_measurements(tdx, references),
        *_td_state(tdx),
        *tcb_rules(_TDX, tdx.tcb),
        *tcb_status_rule(_TDX, tdx.tcb_status_current, name="tcb_status_current"),
        *(() if tdx.event_log is None else event_log_rules(tdx.event_log, key=TDX_LOG)),
    )


def sgx_rules(sgx: SgxDemands, references: Mapping[str, ReferenceValues]) -> tuple[Rule, ...]:
    """Return the rules of a policy document for an SGX Attester."""
    return (*_enclave_rules(sgx, references), *tcb_rules(_SGX, sgx.tcb))


def _td_measurements(tdx: TdxDemands, references: Mapping[str, ReferenceValues]) -> Iterator[Rule]:
    """Make the rules for the TD's initial content and its later measurements."""
    for name, names in (("mr_td", tdx.mr_td), *tdx.rtmrs.items()):
        yield from _TDX.reference(name, names, references, claim=name)
    for name, values, category in (
        ("mr_service_td", tdx.mr_service_td, "executables"),
        ("mr_seam", tdx.mr_seam, "hardware"),
        ("mr_config_id", tdx.mr_config_id, "configuration"),
        ("mr_owner", tdx.mr_owner, "configuration"),
        ("mr_owner_config", tdx.mr_owner_config, "configuration"),
    ):
        yield from _TDX.rule(name, values, one_of, category=category)


def _td_state(tdx: TdxDemands) -> Iterator[Rule]:
    """Make the rules for the TD's configuration and module."""
    for bit, switch in tdx.td_attributes.items():
        yield from _TDX.rule(f"td_attributes.{bit}", switch, is_, category="configuration")
    yield from _under_debug(tdx.td_attributes["debug"])
    yield from _TDX.rule(
        "unnamed_attributes",
        tdx.unnamed_attributes,
        lambda _: one_of([0]),
        category="configuration",
        claim="td_attributes.unnamed",
        expected=lambda _: "no bit without a known name",
    )
    yield from _TDX.rule(
        "unknown_xfam",
        tdx.unknown_xfam,
        lambda _: is_(True),
        category="configuration",
        claim="xfam_known",
        expected=lambda _: "bits that a TD of today may set",
    )
    yield from _TDX.rule("service_td", tdx.service_td, is_, category="executables", claim="service_td_bound")
    yield from _TDX.rule(
        "minimum_tdx_module_svn",
        tdx.minimum_tdx_module_svn,
        _covers_module,
        category="hardware",
        claim=_TDX_MODULE,
        expected=lambda minimums: "; ".join(f"version {v} with SVN at least {svn}" for v, svn in minimums.items()),
    )


def _under_debug(debug: Demand[bool]) -> Iterator[Rule]:
    return _TDX.rule("under_debug", debug, is_, category="configuration", claim="td_attributes.under_debug")


def _covers_module(minimums: Mapping[str, int]) -> Test:
    """Test that a TDX module's SVN reaches the minimum of its own version; each version counts its own SVNs."""

    def holds(module: Mapping[str, int], _at: datetime) -> bool:
        minimum = minimums.get(str(module["version"]))
        return minimum is not None and module["SVN"] >= minimum

    return holds


def _module(verified: VerifiedIntelQuote) -> dict[str, int]:
    version, svn = (tdx_claim(f"tdx_module.{name}").get(verified) for name in ("major_version", "svn"))
    return {"version": cast("int", version), "SVN": cast("int", svn)}  # both claims are integers of every TD report


_TDX_MODULE = replace(tdx_claim("tdx_module.svn"), name="tdx_module", type=ClaimType.TCB, get=_module)


def _enclave_rules(sgx: SgxDemands, references: Mapping[str, ReferenceValues]) -> Iterator[Rule]:
    """Make the rules for the enclave's identity and attributes."""
    yield from _SGX.reference("mr_enclave", sgx.mr_enclave, references, claim="mr_enclave")
    for name, values in (
        ("mr_signer", sgx.mr_signer),
        ("isv_prod_id", sgx.isv_prod_id),
        ("config_id", sgx.config_id),
    ):
        yield from _SGX.rule(name, values, one_of, category="executables")
    yield from _SGX.minimum("minimum_isv_svn", sgx.minimum_isv_svn, category="executables", claim="isv_svn")
    for bit, switch in sgx.attributes.items():
        yield from _SGX.rule(f"attributes.{bit}", switch, is_, category="configuration")


_SOUND: Demand[tuple[str, ...]] = Demand((str(TcbStatus.UP_TO_DATE), str(TcbStatus.SW_HARDENING_NEEDED)))

BASELINE_TDX_RULES: tuple[Rule, ...] = (
    *_under_debug(OFF),
    *_TDX.rule("service_td", OFF, is_, category="configuration", claim="service_td_bound"),
    *tcb_status_rule(_TDX, _SOUND),
)
BASELINE_SGX_RULES: tuple[Rule, ...] = (
    *_SGX.rule("attributes.debug", OFF, is_, category="configuration"),
    *tcb_status_rule(_SGX, _SOUND),
)
"""Demands that no policy should relax. No production policy."""
