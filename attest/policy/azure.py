"""Demands of a policy on an Azure confidential VM beyond its CPU's report: the keys of ``azure``, and their rules.

The CPU's report measures the paravisor and its firmware. Only the registers of the virtual TPM measure the software
that the VM booted, so a policy has to judge them, or a log that replays to them (azure-cvm.md 11.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from attest.encoding import JsonValue
from attest.evidence.azure.claims import azure_claim, of_cpu
from attest.evidence.azure.runtime import VM_CONFIGURATION
from attest.evidence.tpm.structure import MAX_PCRS
from attest.policy.decoder import (
    STRICT_ON,
    Demand,
    Section,
    demand,
    hex_list,
    integer,
    key,
    list_of,
    named_bits,
    refuse,
    text,
)
from attest.policy.eventlog import AZURE_LOG, EventLogDemands, decode_event_log, event_log_rules
from attest.policy.references import ReferenceValues, names_in
from attest.policy.rules import Rule, RuleMaker, is_, one_of

_AZURE = RuleMaker("azure", azure_claim)
PCR_KEYS = tuple(f"pcr{index}" for index in range(MAX_PCRS))
"""Keys of the registers, which take names of reference values with 32-byte digests: the bank is SHA-256."""
_PCR_BYTES = 32
VM_SWITCHES = tuple((name, 0) for name, kind in VM_CONFIGURATION.values() if kind is bool)
"""Settings of the VM that the paravisor states as true or false."""
_STRICT_CONFIGURATION = {"secure_boot": True, "tpm_enabled": True, "console_enabled": False}
_LARGEST_COUNT = 2**32 - 1


def _caseless(value: JsonValue, path: str) -> str:
    """Decode an identifier that paravisors write in either case."""
    return text(value, path).lower()


_CASELESS = key(demand(list_of(_caseless)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureDemands:
    """Demands on the VM around the CPU's report; None: no demand. See docs/policy.md for each key."""

    pcrs: Mapping[str, Demand[tuple[str, ...]] | None]
    vm_configuration: Mapping[str, Demand[bool]]
    vm_unique_ids: Demand[tuple[str, ...]] | None = field(default=None, metadata=_CASELESS)
    root_cert_thumbprints: Demand[tuple[str, ...]] | None = field(default=None, metadata=_CASELESS)
    user_data: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(64)))
    tpm_clock_safe: Demand[bool] | None = field(default=None, metadata=STRICT_ON)
    maximum_restart_count: int | None = field(default=None, metadata=key(integer(0, _LARGEST_COUNT)))
    event_log: EventLogDemands | None = field(default=None, metadata=key(partial(decode_event_log, key=AZURE_LOG)))

    @property
    def judges_boot(self) -> bool:
        """True if it judges the booted software: by a register, or by the events of the boot loader."""
        return any(self.pcrs.values()) or (self.event_log is not None and self.event_log.lists_loader_events)


# -- reading


def decode_azure(value: JsonValue, path: str, references: Mapping[str, ReferenceValues]) -> AzureDemands:
    """Read the key ``azure`` of a policy."""
    section = Section(value, path)
    named = demand(list_of(names_in(references, size=_PCR_BYTES)))
    demands = section.record(
        AzureDemands,
        pcrs={name: section.stated(name, named) for name in PCR_KEYS},
        vm_configuration=named_bits(section, "vm_configuration", dict(VM_SWITCHES), strict=_STRICT_CONFIGURATION),
    )
    section.finish()
    if not demands.judges_boot:
        expected = (
            "at least one of pcr0 to pcr23, or the boot loader's lists of event_log: nothing else measures what the VM "
            "booted; or {unchecked: reason} there"
        )
        raise refuse(path, expected, shown="none of them", at_key=True)
    return demands


# -- rules


def azure_rules(azure: AzureDemands, references: Mapping[str, ReferenceValues]) -> tuple[Rule, ...]:
    """Return the rules of a policy document for the VM; those for the CPU's report are ``rules_of_cpu``."""
    log = () if azure.event_log is None else event_log_rules(azure.event_log, key=AZURE_LOG)
    return (*_boot(azure, references), *log, *_vm(azure), *_tpm(azure))


def rules_of_cpu(rules: Iterable[Rule], prefix: str) -> tuple[Rule, ...]:
    """Return the same rules for the CPU's report within Azure evidence; ``prefix`` is ``snp`` or ``tdx``."""
    return tuple(replace(rule, claim=of_cpu(rule.claim, prefix=prefix)) for rule in rules)


def _boot(azure: AzureDemands, references: Mapping[str, ReferenceValues]) -> Iterator[Rule]:
    """Make the rules for the booted software. A register that the quote does not select is absent, and fails."""
    for index, name in enumerate(PCR_KEYS):
        yield from _AZURE.reference(name, azure.pcrs[name], references, claim=f"pcrs.{index}")


def _vm(azure: AzureDemands) -> Iterator[Rule]:
    """Make the rules for the settings that the paravisor states, and for the data that the VM gave to the paravisor."""
    for name, switch in azure.vm_configuration.items():
        yield from _AZURE.rule(f"vm_configuration.{name}", switch, is_, category="configuration")
    for name, values in (
        ("vm_unique_id", azure.vm_unique_ids),
        ("root_cert_thumbprint", azure.root_cert_thumbprints),
    ):
        claim = f"vm_configuration.{name}"
        yield from _AZURE.rule(
            f"{name}s",
            values,
            lambda listed: lambda value, _at: value.lower() in listed,
            category="instance-identity",
            claim=claim,
        )
    yield from _AZURE.rule("user_data", azure.user_data, one_of, category="configuration")


def _tpm(azure: AzureDemands) -> Iterator[Rule]:
    """Make the rules for the state of the virtual TPM, which shows that a VM was suspended or set back."""
    yield from _AZURE.rule("tpm_clock_safe", azure.tpm_clock_safe, is_, category="configuration", claim="tpm.safe")
    highest = None if azure.maximum_restart_count is None else Demand(azure.maximum_restart_count)
    yield from _AZURE.rule(
        "maximum_restart_count",
        highest,
        lambda high: lambda value, _at: value <= high,
        category="configuration",
        claim="tpm.restart_count",
        expected=lambda high: f"at most {high}",
    )
