"""The sections of a drafted policy: the claims of verified devices, as demands on later ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError
from attest.evidence.azure.claims import azure_claim
from attest.evidence.claims import Claim, ClaimValue
from attest.evidence.dstack.facts import DstackFacts
from attest.evidence.eventlog.facts import EventLogFacts
from attest.evidence.intel.claims import sgx_claim, tdx_claim
from attest.evidence.sample.claims import LAUNCH_DIGEST, sample_claim
from attest.evidence.sgx.structure import ATTRIBUTE_BITS
from attest.evidence.snp.claims import snp_claim
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS
from attest.policy.authoring.yaml_text import Path
from attest.policy.azure import VM_SWITCHES
from attest.policy.snp_tcb import TCB_DEMANDS

KEYS_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "sev-snp": ("snp",),
    "tdx": ("tdx",),
    "sgx": ("sgx",),
    "azure-snp": ("azure", "snp"),
    "azure-tdx": ("azure", "tdx"),
    "nvidia-gpu": ("gpu",),
    "nvidia-switch": ("nvswitch",),
    "sample": ("sample",),
    "sample-device": ("sample",),
}
"""The keys of a policy for a kind of Attester."""
_LARGEST_EXACT = 2**53 - 1
_ADVISORY_DAYS = 90
_STRICT_BITS = {
    "debug": False,
    "migrate_ma": False,
    "alias_check_complete": True,
    "sept_ve_disable": True,
    "migratable": False,
}
"""Bits with one strict value; another value of a machine becomes a relaxation, in ``draft``."""

_Get = Callable[[str], ClaimValue]


@dataclass(slots=True, kw_only=True)
class DraftSection:
    """One section in the making, under its key of the policy.

    Attributes:
        comments: comments above its keys; the empty path is the section itself.
        references: reference values that it uses, by name.
        weak: demands that are weaker than those of a strict policy, because the machine is: key and reason.
    """

    key: str
    demands: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    comments: dict[Path, tuple[str, ...]] = field(default_factory=dict[Path, tuple[str, ...]])
    references: dict[str, tuple[bytes, ...]] = field(default_factory=dict[str, tuple[bytes, ...]])
    weak: dict[str, str] = field(default_factory=dict[str, str])

    def put(self, name: str, value: JsonValue, comment: str | None = None) -> None:
        """Add a demand, with a comment."""
        self.demands[name] = value
        if comment is not None:
            self.comments[name,] = (comment,)

    def put_weak(self, name: str, value: JsonValue, reason: str) -> None:
        """Add a demand weaker than a strict policy's, with the reason."""
        self.put(name, value, f"WEAKER than a strict policy: {reason}")
        self.weak[f"{self.key}.{name}"] = reason

    def refer(self, name: str, reference: str, value: ClaimValue, comment: str | None = None) -> None:
        """Demand a measurement by the name of its reference values."""
        self.references[reference] = (raw_bytes(value),)
        self.put(name, [reference], comment)

    def identity(self, chosen: str, name: str, values: Iterable[ClaimValue], comment: str) -> None:
        """Demand single machines if that was chosen; otherwise show how, in a comment."""
        listed: list[JsonValue] = [raw.hex() for value in values if any(raw := raw_bytes(value))]
        if chosen == "exactly" and not listed:
            raise ConfigurationError(
                f"{self.key}.{name}: the evidence does not identify a single machine: its identity is masked",
                code="policy-draft-field",
                field=f"{self.key}.{name}",
                hint="leave this field as 'any'",
            )
        if chosen == "exactly":
            self.put(name, listed, f"{comment}.")
        elif listed:
            shown = ", ".join(f'"{value}"' for value in listed)
            self.comments[()] = (*self.comments.get((), ()), f"{comment}:", f"{name}: [{shown}]")


def raw_bytes(value: ClaimValue) -> bytes:
    """Return the value of a claim of bytes; nothing where it is absent."""
    return value if isinstance(value, bytes) else b""


def _reader(claim: Callable[[str], Claim], verified: object) -> _Get:
    return lambda name: claim(name).get(verified)


def _bits(get: _Get, prefix: str, names: Iterable[tuple[str, int]]) -> dict[str, JsonValue]:
    return {name: _STRICT_BITS.get(name, get(f"{prefix}.{name}") is True) for name, _ in names}


# -- CPUs


def snp_section(verified: Any, reference: str, chosen: Mapping[str, str]) -> DraftSection:  # noqa: ANN401  the claims' own
    """Add the section of a SEV-SNP Attester."""
    get = _reader(snp_claim, verified)
    section, product = DraftSection(key="snp"), str(get("product"))
    broken = (
        "Software can extract the report keys of Milan (2026), so reports of any firmware can be "
        "forged. Results carry a warning."
    )
    section.put("products", [product], broken if product == "Milan" else None)
    section.refer("measurement", reference, get("measurement"), "The guest's launch measurement.")
    _tcbs(section, get, product, exactly=chosen["snp.tcb"] == "exactly")
    section.put("vmpl", [_whole(get("vmpl"))])
    section.put("signing_key", [str(get("signing_key"))])
    section.put("guest_policy", _bits(get, "policy", GUEST_POLICY_BITS))
    section.put("platform_info", _bits(get, "platform_info", PLATFORM_INFO_BITS))
    _snp_owner(section, get)
    for name, claim in (("mitigations_at_launch", "launch_mit_vector"), ("mitigations_now", "current_mit_vector")):
        mask = get(claim)
        if isinstance(mask, int) and 0 < mask <= _LARGEST_EXACT:
            section.put(name, mask)
    section.identity(chosen["snp.chip"], "chip_ids", [get("chip_id")], "Only this chip")
    return section


def _tcbs(section: DraftSection, get: _Get, product: str, *, exactly: bool) -> None:
    """Add the demands on firmware: exactly these levels, or these and newer ones."""
    for which, (minimum, exact) in TCB_DEMANDS.items():
        levels = _levels(get(which))
        section.put(exact if exactly else minimum, {product: [levels] if exactly else levels})
    if exactly:
        section.comments["exact_tcb",] = (
            "Exactly this firmware: add the next level before the host's owner installs it, or guests are refused.",
        )
    else:
        section.comments["minimum_tcb",] = ("This firmware or newer; exact_tcb accepts this firmware only.",)


def _snp_owner(section: DraftSection, get: _Get) -> None:
    """Add the demands on values that the owner and the host chose; zeros are the absence of a choice."""
    for name, claim in (
        ("host_data", "host_data"),
        ("id_key_digests", "id_key_digest"),
        ("author_key_digests", "author_key_digest"),
        ("family_ids", "family_id"),
        ("image_ids", "image_id"),
    ):
        value = raw_bytes(get(claim))
        if any(value):
            section.put(name, [value.hex()])
    csp = get("csp_id")
    if isinstance(csp, str):
        section.put("csp_ids", [csp])
    svn = _whole(get("guest_svn"))
    if svn:
        section.put("minimum_guest_svn", svn)


_DRAFTED_PCRS = (*range(10), *range(11, 16))
"""Registers that firmware, boot loader and kernel extend. Register 10 grows with every file that IMA measures."""


def azure_section(
    verified: Any,  # noqa: ANN401  the claims' own
    facts: EventLogFacts | None,
    reference: str,
    chosen: Mapping[str, str],
) -> DraftSection:
    """Add the section of an Azure confidential VM, apart from its CPU's report."""
    get = _reader(azure_claim, verified)
    section = DraftSection(key="azure")
    for index in _DRAFTED_PCRS:
        value = raw_bytes(get(f"pcrs.{index}"))
        if any(value):  # registers that only firmware closes are often alike
            known = next((name for name, values in section.references.items() if values == (value,)), None)
            section.refer(f"pcr{index}", known or f"{reference}-pcr{index}", value)
    section.comments[()] = ("The registers of the virtual TPM. Nothing else measures the software that the VM booted.",)
    stated = {name: get(f"vm_configuration.{name}") for name, _ in VM_SWITCHES}
    strict = {"secure_boot": True, "tpm_enabled": True, "console_enabled": False}
    found: dict[str, JsonValue] = {
        name: strict.get(name, value) for name, value in stated.items() if isinstance(value, bool)
    }
    _event_log(section, facts)
    section.put("vm_configuration", {**strict, **found})
    vm = get("vm_configuration.vm_unique_id")
    if chosen["azure.vm"] == "exactly":
        section.put("vm_unique_ids", [str(vm)], "Only this VM.")
    return section


def _event_log(section: DraftSection, facts: EventLogFacts | None) -> None:
    """Demand a log if one was given, and Secure Boot if the log shows it."""
    if facts is not None:
        on = facts.secure_boot is not None and ("enabled", True) in facts.secure_boot.values
        section.put("event_log", {"required": True, **({"secure_boot": True} if on else {})})


def _levels(value: ClaimValue) -> dict[str, JsonValue]:
    return {part: _whole(level) for part, level in value.items()} if isinstance(value, Mapping) else {}


def _whole(value: ClaimValue) -> int:
    return value if isinstance(value, int) else 0


def intel_section(
    kind: str,
    verified: Any,  # noqa: ANN401  the claims' own
    facts: EventLogFacts | None,
    reference: str,
    chosen: Mapping[str, str],
    *,
    at: datetime,
) -> DraftSection:
    """Add the section of a TDX or SGX Attester."""
    get = _reader(tdx_claim if kind == "tdx" else sgx_claim, verified)
    section = DraftSection(key=kind)
    if kind == "tdx":
        _td(section, get, reference, chosen)
    else:
        _enclave(section, get, reference, chosen)
    _intel_tcb(section, get, at)
    _event_log(section, facts)
    section.identity(chosen[f"{kind}.platform"], "ppids", [get("ppid")], "Only this machine")
    return section


def _td(section: DraftSection, get: _Get, reference: str, chosen: Mapping[str, str]) -> None:
    section.refer("mr_td", reference, get("mr_td"), "The firmware that the TD was built from.")
    if "azure.vm" not in chosen:  # in such a VM the registers of its TPM are used, and these are zeros
        for number in range(4):
            section.refer(f"rtmr{number}", f"{reference}-rtmr{number}", get(f"rtmr{number}"))
        section.comments["rtmr0",] = (
            "Settings of the firmware; boot loader and kernel; what they loaded; the guest itself.",
        )
    section.put("td_attributes", _bits(get, "td_attributes", TD_ATTRIBUTE_BITS))
    if get("service_td_bound") is True:
        bound = raw_bytes(get("mr_service_td")).hex()
        section.put("mr_service_td", [bound], "A service TD is bound: it can move this TD.")
    for name in ("mr_config_id", "mr_owner", "mr_owner_config"):
        section.put(name, [raw_bytes(get(name)).hex()])
    if chosen["tdx.module"] == "exactly":
        section.put("mr_seam", [raw_bytes(get("mr_seam")).hex()], "Exactly this TDX module.")
    least = {str(get("tdx_module.major_version")): _whole(get("tdx_module.svn"))}
    section.put("minimum_tdx_module_svn", {**least}, "This TDX module or newer.")


def dstack_sections(facts: DstackFacts) -> list[DraftSection]:
    """Add the section of a dstack guest, if its log states anything that it could demand."""
    section = DraftSection(key="dstack")
    for name, value, comment in (
        (
            "compose_hashes",
            facts.compose_hash,
            "The app-compose that it started. Read that file: it decides what runs.",
        ),
        ("os_images", facts.os_image_hash, "The image by its name; rtmr0 to rtmr2 of tdx demand the image itself."),
        ("app_ids", facts.app_id, None),
    ):
        if value is not None:
            section.put(name, [value.hex()], comment)
    provider = facts.key_provider
    if provider is not None:
        identity: dict[str, JsonValue] = {"id": provider.id.hex()} if provider.id else {}
        section.put(
            "key_providers",
            [{"name": provider.name, **identity}],
            ("This provider can give the same keys to any machine."),
        )
    return [section] if section.demands else []


def _enclave(section: DraftSection, get: _Get, reference: str, chosen: Mapping[str, str]) -> None:
    if chosen["sgx.enclave"] == "exactly":
        section.refer("mr_enclave", reference, get("mr_enclave"), "Exactly this enclave.")
    else:
        newer = "newer versions have other measurements; the signer identifies them"
        section.put("mr_enclave", {"unchecked": newer}, "This version of the signer's product or newer.")
    section.put("mr_signer", [raw_bytes(get("mr_signer")).hex()])
    section.put("isv_prod_id", [_whole(get("isv_prod_id"))])
    section.put("minimum_isv_svn", _whole(get("isv_svn")))
    section.put("config_id", [raw_bytes(get("config_id")).hex()])
    section.put("attributes", _bits(get, "attributes", ATTRIBUTE_BITS))


def _intel_tcb(section: DraftSection, get: _Get, at: datetime) -> None:
    """Add the demands on Intel's status of the platform; without a status none is written, and the rule is strict."""
    status, advisories = get("tcb_status"), get("advisory_ids")
    if status == "UpToDate":
        section.put("tcb_status", ["UpToDate"])
    elif isinstance(status, str):
        section.put_weak("tcb_status", [status], f"Intel reports {status} for this machine")
    if isinstance(advisories, tuple) and advisories:
        end = rfc3339_text(at + timedelta(days=_ADVISORY_DAYS))
        accepted: JsonValue = {
            str(name): {"reason": "CHANGE: why this can wait", "expires": end} for name in advisories
        }
        section.put_weak(
            "accepted_advisories", accepted, (f"{', '.join(map(str, advisories))}: state the reason and an expiry date")
        )
    numbers = [get(name) for name in ("tcb_evaluation_data_number", "qe_identity_evaluation_data_number")]
    known = [number for number in numbers if isinstance(number, int)]
    if known:
        section.put("minimum_tcb_evaluation_data_number", min(known), "Intel's documents of this age or newer.")
    section.put("fmspcs", [raw_bytes(get("fmspc")).hex()])
    switches = {name: get(f"platform.{name}") for name in ("dynamic_platform", "cached_keys", "smt_enabled")}
    stated: dict[str, JsonValue] = {name: value for name, value in switches.items() if isinstance(value, bool)}
    if stated:
        section.put("platform", stated)


def sample_sections(cpus: Iterable[object], devices: Iterable[object]) -> list[DraftSection]:
    """Add the section of sample evidence, if there is any."""
    states, device_states = (list(dict.fromkeys(map(_svn, one))) for one in (cpus, devices))
    if not states and not device_states:
        return []
    section = DraftSection(key="sample")
    section.put("launch_digest", [LAUNCH_DIGEST], "A constant of sample evidence, which proves nothing.")
    if states:
        section.put("svn", [*states])
    if device_states:
        section.put("device_svn", [*device_states])
    return [section]


def _svn(verified: object) -> str:
    return str(sample_claim("svn").get(verified))
