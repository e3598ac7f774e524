"""Findings in the sections of one body.

Those in ``dstack`` are in ``lint_dstack``, those in ``sample`` in ``lint_sample``, those in ``gpu``, ``nvswitch`` and
``devices`` in ``lint_devices``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar

from attest.evidence.azure.claims import RESETTABLE_PCRS
from attest.evidence.intel.status import TcbStatus
from attest.evidence.snp.tcb import SnpProduct
from attest.policy.authoring.lint_devices import device_findings
from attest.policy.authoring.lint_dstack import dstack_findings
from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.authoring.lint_identity import identity_findings
from attest.policy.authoring.lint_sample import sample_findings
from attest.policy.authoring.lint_tcbs import tcb_findings
from attest.policy.azure import PCR_KEYS, AzureDemands
from attest.policy.decoder import Demand, RelaxedDemand, stated
from attest.policy.intel import BOOT_REGISTERS, SgxDemands, TdxDemands
from attest.policy.intel_tcb import TcbDemands
from attest.policy.model import PolicyBody
from attest.policy.snp import SnpDemands

_T = TypeVar("_T")
_BROKEN = "Milan"
_OUT_OF_DATE = frozenset({str(TcbStatus.OUT_OF_DATE), str(TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED)})
_ALL_STATUSES = frozenset(str(status) for status in TcbStatus if status is not TcbStatus.REVOKED)
_ALL_VMPLS = frozenset(range(4))
_PLAUSIBLE_EVALUATION = 255
"""Intel counts its evaluations; in eight years it came to about 20."""
_OF_THE_SYSTEM = frozenset({4, 8, 9, 11})
"""Registers in which the boot loader and the kernel are measured (azure-cvm.md 5)."""
_NEVER_ZERO = {
    "snp": ("chip_ids",),
    "tdx": ("mr_seam",),
    "sgx": ("mr_signer",),
    "gpu": ("fwids", "device_identities"),
    "nvswitch": ("fwids", "device_identities"),
}
_DENIED = {
    "snp": (("chip_ids", "denied_chip_ids"),),
    "gpu": (("device_identities", "denied_device_identities"),),
    "nvswitch": (("device_identities", "denied_device_identities"),),
}


def section_findings(
    body: PolicyBody, path: str, context: LintContext, *, identified: frozenset[str]
) -> Iterator[LintFinding]:
    """Return the findings in the sections of one body.

    ``identified`` are the kinds of CPU whose software an outer body demands.
    """
    start = f"{path}." if path else ""
    for name in _NEVER_ZERO:
        section = getattr(body, name)
        if section is not None:
            yield from _lists(section, name, f"{start}{name}")
    if body.azure is not None:
        yield from _azure(body.azure, f"{start}azure", context)
    if body.snp is not None:
        yield from _snp(body.snp, f"{start}snp", context)
    if body.tdx is not None:
        yield from _tdx(body.tdx, f"{start}tdx", context, boot=body.azure is None)
    if body.dstack is not None:
        yield from dstack_findings(body.dstack, f"{start}dstack", context)
    if body.sgx is not None:
        yield from _sgx(body.sgx, f"{start}sgx", context)
    if body.sample is not None:
        yield from sample_findings(f"{start}sample", context)
    yield from device_findings(body, start, context)
    yield from identity_findings(body, start, context, identified)


def _stated(demand: Demand[tuple[_T, ...]] | None) -> tuple[_T, ...]:
    """Return the values of a list that is demanded; nothing for one that is relaxed or not there."""
    return stated(demand) or ()


# -- lists


def _lists(section: object, kind: str, path: str) -> Iterator[LintFinding]:
    for name in _NEVER_ZERO[kind]:
        yield from _zeros(_stated(getattr(section, name)), f"{path}.{name}")
    for name, denied in _DENIED.get(kind, ()):
        yield from _refused(_stated(getattr(section, name)), getattr(section, denied), path, (name, denied))


def _zeros(values: tuple[object, ...], path: str) -> Iterator[LintFinding]:
    for index, value in enumerate(values):
        if isinstance(value, bytes) and not any(value):
            yield LintFinding(
                rule="value-of-zeros",
                severity=Severity.ERROR,
                path=f"{path}[{index}]",
                why="a value of zeros never occurs here",
                remedy="put the value of your machine here, or remove it",
            )


def _refused(
    allowed: tuple[object, ...], denied: tuple[object, ...], path: str, names: tuple[str, str]
) -> Iterator[LintFinding]:
    both = [index for index, value in enumerate(allowed) if value in denied]
    for index in both:
        yield LintFinding(
            rule="allowed-and-denied",
            severity=Severity.ERROR if len(both) == len(allowed) else Severity.WARNING,
            path=f"{path}.{names[0]}[{index}]",
            why=f"{names[1]} refuses it" + (", as all the others" if len(both) == len(allowed) else ""),
            remedy=f"remove it from {names[0]} or from {names[1]}",
        )


# -- SEV-SNP


def _snp(snp: SnpDemands, path: str, context: LintContext) -> Iterator[LintFinding]:
    products = _stated(snp.products)
    yield from _products(products, path, context)
    yield from tcb_findings(snp, products, path)
    yield from _requesters(snp, path)
    for name in ("id_key_digests", "author_key_digests"):
        yield from _no_key(_stated(getattr(snp, name)), f"{path}.{name}")


def _requesters(snp: SnpDemands, path: str) -> Iterator[LintFinding]:
    if frozenset(_stated(snp.vmpl)) == _ALL_VMPLS:
        yield LintFinding(
            rule="over-broad",
            severity=Severity.WARNING,
            path=f"{path}.vmpl",
            why=(
                "every privilege level may request a report, so software that a paravisor "
                "confines can attest as the guest"
            ),
            remedy="name the level of the kernel that you measured, usually 0",
        )
    if _stated(snp.csp_ids) and set(_stated(snp.signing_key)) == {"vcek"}:
        yield LintFinding(
            rule="contradictory",
            severity=Severity.ERROR,
            path=f"{path}.csp_ids",
            why="only a VLEK names a cloud provider, and signing_key accepts the VCEK alone",
            remedy="add vlek to signing_key, or remove csp_ids",
        )


def _products(products: tuple[object, ...], path: str, context: LintContext) -> Iterator[LintFinding]:
    if _BROKEN in products:
        acknowledged = _BROKEN in context.policy.description
        yield LintFinding(
            rule="product-known-broken",
            severity=context.in_production(Severity.WARNING if acknowledged else Severity.ERROR),
            path=f"{path}.products",
            why="software can extract the report keys of Milan (2026): reports of any firmware can be forged",
            remedy="remove Milan"
            if acknowledged
            else "remove Milan; or state in the description why Milan is accepted",
        )
    if set(products) == set(map(str, SnpProduct)):
        yield LintFinding(
            rule="over-broad",
            severity=context.in_production(Severity.WARNING),
            path=f"{path}.products",
            why="every product line is accepted",
            remedy="name those that you have",
        )


def _no_key(values: tuple[object, ...], path: str) -> Iterator[LintFinding]:
    for index, value in enumerate(values):
        if isinstance(value, bytes) and not any(value):
            yield LintFinding(
                rule="over-broad",
                severity=Severity.WARNING,
                path=f"{path}[{index}]",
                why="every guest without a key signature has zeros here",
                remedy="put the digest of a key here, or remove the demand",
            )


# -- Azure


def _azure(azure: AzureDemands, path: str, context: LintContext) -> Iterator[LintFinding]:
    demanded = {index for index, key in enumerate(PCR_KEYS) if _stated(azure.pcrs[key])}
    yield from _resettable(demanded, path)
    loader = context.judges_loader(azure.event_log)
    if not (demanded or loader) or demanded & _OF_THE_SYSTEM or (loader and _starts_signed_loaders(azure)):
        return
    yield LintFinding(
        rule="boot-not-demanded",
        severity=context.in_production(Severity.WARNING),
        path=path,
        why="any boot loader is accepted, and the boot loader measures the events that event_log lists"
        if loader
        else "these registers measure the firmware and its settings; any kernel that it boots is accepted",
        remedy="demand Secure Boot (secure_boot), or pcr4"
        if loader
        else "demand pcr4 (boot loader or unified kernel), and pcr8, pcr9, pcr11 as your image extends them; "
        "or the boot loader's events under event_log",
    )


def _resettable(demanded: set[int], path: str) -> Iterator[LintFinding]:
    for index in sorted(demanded.intersection(RESETTABLE_PCRS)):
        yield LintFinding(
            rule="self-chosen-claim",
            severity=Severity.WARNING,
            path=f"{path}.pcr{index}",
            why="the guest can reset this register, so the guest chooses its value",
            remedy="demand the registers that its firmware and boot loader extend: 4, 7, 8, 9, 11",
        )


def _starts_signed_loaders(azure: AzureDemands) -> bool:
    """Return True if the policy demands Secure Boot, as the paravisor states it or as the log shows it."""
    demands = azure.vm_configuration["secure_boot"], None if azure.event_log is None else azure.event_log.secure_boot
    return any(wanted is not None and wanted.value is True for wanted in demands)


# -- Intel


def _tdx(tdx: TdxDemands, path: str, context: LintContext, *, boot: bool) -> Iterator[LintFinding]:
    yield from _tcb(tdx.tcb, path, context)
    yield from _service_td(tdx, path)
    if not boot:
        return
    if not _boot_is_measured(tdx, context):
        yield LintFinding(
            rule="boot-not-demanded",
            severity=context.in_production(Severity.WARNING),
            path=path,
            why="MRTD measures the firmware alone; any kernel that it boots is accepted",
            remedy="demand rtmr1 and rtmr2, or the boot loader's events under event_log",
        )
    if not (_stated(tdx.rtmrs["rtmr0"]) or context.judges_firmware(tdx.event_log)):
        yield LintFinding(
            rule="acpi-tables-not-demanded",
            severity=context.in_production(Severity.WARNING),
            path=path,
            why="the host chooses the ACPI tables, whose code the guest's kernel runs; only RTMR0 measures them",
            remedy="demand rtmr0, or boot_variables and other_firmware_events under event_log",
        )


def _service_td(tdx: TdxDemands, path: str) -> Iterator[LintFinding]:
    none_is_bound = tdx.service_td is not None and tdx.service_td.value is False
    if none_is_bound and any(value != bytes(48) for value in _stated(tdx.mr_service_td)):
        yield LintFinding(
            rule="contradictory",
            severity=Severity.ERROR,
            path=f"{path}.mr_service_td",
            why="service_td demands that no service TD is bound",
            remedy=(
                "remove service_td: mr_service_td names the only service TDs that may be bound, and they must be bound"
            ),
        )


def _boot_is_measured(tdx: TdxDemands, context: LintContext) -> bool:
    registers = any(_stated(tdx.rtmrs[name]) for name in BOOT_REGISTERS)
    return registers or context.judges_loader(tdx.event_log)


def _sgx(sgx: SgxDemands, path: str, context: LintContext) -> Iterator[LintFinding]:
    yield from _tcb(sgx.tcb, path, context)
    if _stated(sgx.mr_enclave) or not _stated(sgx.mr_signer):
        return
    for name, missing, why in (
        ("isv_prod_id", not _stated(sgx.isv_prod_id), "every enclave of the signer is accepted, for any purpose"),
        ("minimum_isv_svn", sgx.minimum_isv_svn is None, "every enclave of the signer is accepted, of any age"),
    ):
        if missing:
            yield LintFinding(
                rule="over-broad",
                severity=context.in_production(Severity.WARNING),
                path=f"{path}.mr_signer",
                why=why,
                remedy=f"add {name}",
            )


def _tcb(tcb: TcbDemands, path: str, context: LintContext) -> Iterator[LintFinding]:
    statuses = _stated(tcb.tcb_status)
    yield from _statuses(frozenset(statuses), f"{path}.tcb_status", context)
    advisories = tcb.accepted_advisories.value
    if not isinstance(advisories, RelaxedDemand):
        for name, accepted in advisories.items():
            place = f"{path}.accepted_advisories.{name}"
            yield from context.expiry("advisory", place, accepted.expires, "review the advisory again")
    yield from _bounds(tcb, path, context)
    ppids = _stated(tcb.ppids)
    yield from _refused(ppids, tcb.denied_ppids, path, ("ppids", "denied_ppids"))
    for name in ("fmspcs", "ppids"):
        yield from _zeros(_stated(getattr(tcb, name)), f"{path}.{name}")


def _bounds(tcb: TcbDemands, path: str, context: LintContext) -> Iterator[LintFinding]:
    number = tcb.minimum_tcb_evaluation_data_number
    if number is not None and number > _PLAUSIBLE_EVALUATION:
        yield LintFinding(
            rule="never-matches",
            severity=Severity.ERROR,
            path=f"{path}.minimum_tcb_evaluation_data_number",
            why=f"{number} is decades ahead of Intel's evaluations",
            remedy="use the number of the collateral that you have ('attest verify --verbose')",
        )
    first = None if tcb.minimum_tcb_date is None else tcb.minimum_tcb_date.value
    if isinstance(first, datetime) and first > context.at:
        yield LintFinding(
            rule="never-matches",
            severity=Severity.ERROR,
            path=f"{path}.minimum_tcb_date",
            why="no platform reaches a TCB of the future",
            remedy="use the date of a TCB level that Intel has published",
        )


def _statuses(statuses: frozenset[str], path: str, context: LintContext) -> Iterator[LintFinding]:
    if statuses & _OUT_OF_DATE:
        everything = statuses == _ALL_STATUSES
        yield LintFinding(
            rule="over-broad",
            severity=context.in_production(Severity.ERROR if everything else Severity.WARNING),
            path=path,
            why="every status is accepted" if everything else "firmware with known and fixed flaws is accepted",
            remedy="do not accept OutOfDate; accept the advisories that you have reviewed, with an expiry date",
        )
