"""A first policy from verified evidence: the state of this machine, written as demands.

The state of a machine need not be the right one. So the draft names the origin of each value, and has a relaxation with
a reason for every strict default that the machine does not meet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import cast

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError
from attest.evidence.dstack.facts import DstackFacts
from attest.evidence.eventlog.facts import EventLogFacts
from attest.evidence.gpu.device_set import DeviceSet
from attest.policy.authoring.draft_devices import device_sections
from attest.policy.authoring.draft_sections import (
    KEYS_OF_KIND,
    DraftSection,
    azure_section,
    dstack_sections,
    intel_section,
    sample_sections,
    snp_section,
)
from attest.policy.authoring.yaml_text import Path, comment_lines, yaml_text
from attest.policy.firmware_findings import FirmwareFinding
from attest.policy.loader import Policy, load_policy
from attest.policy.model import SCHEMA
from attest.policy.rule_tree import SET
from attest.policy.rules import Subject

SCHEMA_FILE = "attest-policy.schema.json"
"""The file for the output of ``attest policy schema``, beside the policy."""
EXACTLY, OR_NEWER, ANY = "exactly", "or-newer", "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftField:
    """A field of a draft with several possible demands; the first one is usual.

    Attributes:
        name: the key of its section, and what of it (``gpu.driver``).
        follows_default: ``--default`` applies to it too.
    """

    name: str
    about: str
    choices: tuple[str, ...]
    follows_default: bool = False


_BOTH = (EXACTLY, OR_NEWER)
FIELDS: Mapping[str, DraftField] = {
    field.name: field
    for field in (
        DraftField(name="azure.vm", about="the VM, by its id", choices=(ANY, EXACTLY)),
        # The host's owner replaces firmware at any time: exactly this one is demanded only on request.
        DraftField(name="snp.tcb", about="AMD's firmware (TCB)", choices=(OR_NEWER, EXACTLY)),
        DraftField(name="snp.chip", about="the chip, by CHIP_ID", choices=(ANY, EXACTLY)),
        DraftField(name="tdx.module", about="Intel's TDX module", choices=_BOTH, follows_default=True),
        DraftField(name="tdx.platform", about="the machine, by PPID", choices=(ANY, EXACTLY)),
        # Newer versions of an enclave have other measurements: only its signer identifies them.
        DraftField(name="sgx.enclave", about="the enclave", choices=_BOTH),
        DraftField(name="sgx.platform", about="the machine, by PPID", choices=(ANY, EXACTLY)),
        DraftField(name="gpu.driver", about="the GPU driver", choices=_BOTH, follows_default=True),
        DraftField(name="gpu.vbios", about="the VBIOS of the GPU", choices=_BOTH, follows_default=True),
        DraftField(name="gpu.device", about="the GPU, by the identity in its certificate", choices=(ANY, EXACTLY)),
        DraftField(name="nvswitch.vbios", about="the BIOS of the NVSwitch", choices=_BOTH, follows_default=True),
        DraftField(name="nvswitch.device", about="the NVSwitch, by its identity", choices=(ANY, EXACTLY)),
    )
}
"""Everything that can be chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """One verified device, under its name in the evidence.

    Attributes:
        verified: the result of the procedure of its format.
        silicon: of an Azure VM the CPU's report within; of every other device the same as ``verified``.
    """

    name: str
    kind: str
    verified: object
    silicon: object
    facts: EventLogFacts | None = None
    dstack: DstackFacts | None = None

    def subject(self, of: Subject) -> object:
        """Return what a rule about this subject is read from."""
        return {Subject.DEVICE: self.verified, Subject.EVENT_LOG: self.facts, Subject.DSTACK: self.dstack}[of]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSource:
    """Verified evidence, as far as a draft uses it.

    Attributes:
        devices: GPUs and NVSwitches together.
        at: the moment for which it was verified.
        unchecked: the caller's relaxations of the verification; the draft does not take them over.
    """

    items: tuple[SourceItem, ...]
    devices: DeviceSet
    digest: bytes
    at: datetime
    simulated: bool
    unchecked: tuple[Unchecked, ...] = ()

    @property
    def origin(self) -> str:
        """The origin of reference values."""
        prefix = "SIMULATED: " if self.simulated else ""
        return f"{prefix}from evidence {self.digest.hex()} on {rfc3339_text(self.at)[:10]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDraft:
    """A policy that affirms its source.

    Attributes:
        comments: the paragraphs above each key of its text.
        head: the paragraphs above the document.
        weak: key and reason of each strict default that the machine does not meet.
        policy: the document, loaded.
    """

    document: Mapping[str, JsonValue]
    comments: Mapping[Path, tuple[str, ...]]
    head: tuple[str, ...]
    weak: tuple[tuple[str, str], ...]
    policy: Policy

    @property
    def yaml(self) -> str:
        """The policy with its comments."""
        head = [f"# yaml-language-server: $schema=./{SCHEMA_FILE}"]
        for paragraph in self.head:
            head.extend(comment_lines(paragraph))
        return "".join(f"{line}\n" for line in head) + yaml_text(self.document, self.comments)


def fields_of(kinds: Iterable[str]) -> tuple[DraftField, ...]:
    """Return what can be chosen for these kinds of devices.

    Raises:
        ConfigurationError: ``policy-draft-kind``.
    """
    keys = {key for kind in kinds for key in _keys_of(kind)}
    return tuple(field for field in FIELDS.values() if field.name.partition(".")[0] in keys)


def _keys_of(kind: str) -> tuple[str, ...]:
    keys = KEYS_OF_KIND.get(kind)
    if keys is None:
        raise ConfigurationError(
            f"no policy can be drafted for evidence of kind {kind}: the language has no key for it",
            code="policy-draft-kind",
            expected=", ".join(KEYS_OF_KIND),
            got=kind,
        )
    return keys


def choose(
    kinds: Iterable[str], *, exactly: Sequence[str] = (), or_newer: Sequence[str] = (), default: str | None = None
) -> dict[str, str]:
    """Return the demand for each field of these kinds of devices.

    ``default`` is for versions of firmware and drivers that neither list names; None for each field's own.

    Raises:
        ConfigurationError: ``policy-draft-field``: a field is unknown, named twice, of no device in the evidence, or
            cannot be demanded so.
    """
    known = {field.name: field for field in fields_of(kinds)}
    named = [*((name, EXACTLY) for name in exactly), *((name, OR_NEWER) for name in or_newer)]
    chosen: dict[str, str] = {}
    for name, choice in named:
        _require_choice(name, choice, known, chosen)
        chosen[name] = choice
    for name, field in known.items():
        usual = default if default is not None and field.follows_default else field.choices[0]
        chosen.setdefault(name, usual)
    return {name: chosen[name] for name in known}


def _require_choice(name: str, choice: str, known: Mapping[str, DraftField], chosen: Mapping[str, str]) -> None:
    if name not in known:
        got = "a device that the evidence does not have" if name in FIELDS else "no known field"
        raise _bad_field(name, f"one of {', '.join(known)}", got)
    if name in chosen and chosen[name] != choice:
        raise _bad_field(name, "one choice", f"{chosen[name]} and {choice}")
    if choice not in known[name].choices:
        raise _bad_field(name, " or ".join(known[name].choices), choice)


def _bad_field(name: str, expected: str, got: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name}: expected {expected}, got {got}",
        code="policy-draft-field",
        field=name,
        expected=expected,
        got=got,
        hint="docs/policy.md lists what can be chosen for each kind of device",
    )


_ABOUT_REFERENCES = (
    "These are the values of one machine, which does not make them good. Set an expiry date for each:",
    'expires: "2027-12-31T00:00:00Z"',
)


def draft_policy(
    source: DraftSource,
    *,
    name: str,
    reference: str,
    chosen: Mapping[str, str],
    old_firmware: Iterable[FirmwareFinding] = (),
) -> PolicyDraft:
    """Write the policy that affirms exactly this source.

    ``old_firmware`` are findings about its firmware; each marks the demand that accepts it as weak.
    ``chosen`` is a result of ``choose``. ``reference`` is the name of the reference values; those of registers have it
    in front.

    Raises:
        ConfigurationError: ``policy-invalid``: a name is invalid.
    """
    sections = _sections(source, reference, chosen)
    for finding in old_firmware:
        _mark_old(next(section for section in sections if section.key == finding.section), finding)
    document: dict[str, JsonValue] = {"schema": SCHEMA, "name": name, "version": 1}
    document["description"] = f"drafted {source.origin}"
    comments: dict[Path, tuple[str, ...]] = {("version",): ("Raise it with every change.",)}
    if source.simulated:
        document["simulated"] = {"unchecked": "drafted from SIMULATED evidence, which proves nothing about hardware"}
        comments["simulated",] = ("SIMULATED: anyone can produce such evidence. Remove this entry before production.",)
    references: dict[str, JsonValue] = {
        at: {"origin": source.origin, "values": [value.hex() for value in values]}
        for section in sections
        for at, values in section.references.items()
    }
    if references:
        document["reference_values"] = references
        comments["reference_values",] = _ABOUT_REFERENCES
    for section in sections:
        document[section.key] = section.demands
        comments |= {(section.key, *path): comment for path, comment in section.comments.items()}
    stated = [pair for section in sections for pair in section.weak.items()]
    relaxed, policy = _relax(document, comments, source)
    weak = (*stated, *relaxed)
    return PolicyDraft(document=document, comments=comments, head=tuple(_head(source, weak)), weak=weak, policy=policy)


def _sections(source: DraftSource, reference: str, chosen: Mapping[str, str]) -> list[DraftSection]:
    found: list[DraftSection] = []
    for item in source.items:
        keys = _keys_of(item.kind)
        if "azure" in keys:
            found.append(azure_section(item.verified, item.facts, reference, chosen))
        if "snp" in keys:
            found.append(snp_section(item.silicon, reference, chosen))
        elif keys[-1] in ("tdx", "sgx"):
            facts = None if "azure" in keys else item.facts
            found.append(intel_section(keys[-1], item.silicon, facts, reference, chosen, at=source.at))
        if item.dstack is not None:
            found += dstack_sections(item.dstack)
    samples, devices = (
        [item.verified for item in source.items if item.kind == kind] for kind in ("sample", "sample-device")
    )
    return found + device_sections(source.devices, chosen) + sample_sections(samples, devices)


_DEMANDS_OF: Mapping[str, tuple[str, ...]] = {
    "driver": ("driver_versions",),
    "vbios": ("vbios_versions",),
    "tcb_date": ("tcb_status", "fmspcs"),
}
"""Keys that accept a component's level, the first that a section has; of AMD's levels those of the TCB."""


def _mark_old(section: DraftSection, finding: FirmwareFinding) -> None:
    """Mark the demand that accepts old firmware."""
    keys = _DEMANDS_OF.get(finding.component, ("minimum_tcb", "exact_tcb"))
    name = next(key for key in keys if key in section.demands)
    path = f"{section.key}.{name}"
    section.comments[name,] = (*section.comments.get((name,), ()), f"OLD FIRMWARE: {finding}.")
    section.weak[path] = "; ".join(filter(None, (section.weak.get(path), str(finding))))


def _head(source: DraftSource, weak: Sequence[tuple[str, str]]) -> list[str]:
    kinds = Counter(item.kind for item in source.items)
    devices = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    warnings: list[str] = []
    if source.simulated:
        warnings.append("SIMULATED evidence: use this policy in a laboratory only.")
    if weak:
        warnings.append(f"WEAKER than a strict policy: {', '.join(key for key, _ in weak)}; each is marked.")
    return [
        f"Drafted from one machine ({devices}), {source.origin}.",
        (
            "It affirms that machine and machines with the same values. Read it before you rely on it: it "
            "accepts the software that ran there."
        ),
        (
            f"'attest policy schema > {SCHEMA_FILE}' writes the schema for editors; 'attest policy "
            "explain' prints the policy in words."
        ),
        *warnings,
    ]


# -- relaxations


def _relax(
    document: dict[str, JsonValue], comments: dict[Path, tuple[str, ...]], source: DraftSource
) -> tuple[tuple[tuple[str, str], ...], Policy]:
    """Relax, with a reason, every strict default that the source does not meet, until it meets the policy."""
    weak: dict[str, str] = {}
    while True:
        policy = load_policy(json.dumps(document).encode())
        failed = _failed(policy, source)
        if not failed:
            return tuple(weak.items()), policy
        for check in failed:
            path = key_of(check.id)
            reason = f"this machine does not meet it: expected {check.expected}, got {check.got}"[:500]
            if weak.setdefault(".".join(path), reason) is not reason:
                continue
            _put(document, path, {"unchecked": reason})
            comments[path] = ("WEAKER than a strict policy, because this machine is. Decide whether you accept that.",)


def _failed(policy: Policy, source: DraftSource) -> list[Check]:
    """Judge the source by every rule; of several devices the first failure counts."""
    reasons = MappingProxyType({entry.check: entry.reason for entry in source.unchecked})
    found: dict[str, Check] = {}
    for placed in policy.all_rules():
        subjects = [item for item in source.items if item.kind == placed.kind]
        targets: list[tuple[str | None, object]] = [(item.name, item.subject(placed.rule.subject)) for item in subjects]
        if placed.kind == SET:
            targets = [(None, source.devices)]
        for name, subject in targets:
            check = placed.rule.judge(subject, at=source.at, item=name, reasons=reasons)
            if check.outcome is Outcome.FAIL:
                found.setdefault(check.id, check)
    return list(found.values())


_OTHER_KEYS: Mapping[str, Path] = {
    "policy.snp.firmware_rollback_protected": ("snp", "rollback_protection"),
    "policy.snp.csp_id": ("snp", "csp_ids"),
    "policy.tdx.under_debug": ("tdx", "td_attributes", "debug"),
}


def key_of(rule_id: str) -> Path:
    """Return the key that a check of a draft is about."""
    return _OTHER_KEYS.get(rule_id) or tuple(rule_id.split(".")[1:])


def _put(document: dict[str, JsonValue], path: Path, value: JsonValue) -> None:
    place = document
    for name in path[:-1]:
        place = cast("dict[str, JsonValue]", place.setdefault(name, {}))  # sections are mappings
    place[path[-1]] = value
