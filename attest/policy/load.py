"""From text to a policy that can appraise: YAML or JSON, typed, digested, prepared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import rfc8785

from attest.checks import Unchecked
from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.gpu.tolerances import NO_TOLERANCES, DeviceTolerances, GpuTolerances
from attest.policy.decode import Relaxed
from attest.policy.devices import device_set_rules
from attest.policy.gpu import BASELINE_GPU_RULES, BASELINE_SWITCH_RULES, gpu_rules, switch_rules, tolerances_of
from attest.policy.intel import BASELINE_SGX_RULES, BASELINE_TDX_RULES, sgx_rules, tdx_rules
from attest.policy.model import PolicyDocument, decode_policy
from attest.policy.rules import Rule
from attest.policy.snp import BASELINE_SNP_RULES, snp_rules

__all__ = ["MAX_POLICY_BYTES", "Policy", "load_policy"]

MAX_POLICY_BYTES = 1024 * 1024
BASELINE_RULES: Mapping[str, tuple[Rule, ...]] = {
    "sev-snp": BASELINE_SNP_RULES,
    "tdx": BASELINE_TDX_RULES,
    "sgx": BASELINE_SGX_RULES,
    "nvidia-gpu": BASELINE_GPU_RULES,
    "nvidia-switch": BASELINE_SWITCH_RULES,
}
"""What is asked without a policy, by kind of Attester."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An Appraisal Policy for Evidence, ready to use.

    Attributes:
        name: the author's name for it.
        version: the author's number, which only grows.
        digest: SHA-256 of the document's canonical JSON (RFC 8785), 32 bytes.
        rules: for each kind of Attester that the policy accepts, what is demanded of it. Other kinds are refused.
        simulated: why simulated evidence is tolerated, or None to refuse it.
        unchecked: what verification need not judge, each with its reason.
        set_rules: what is demanded of all GPUs and NVSwitches together, each over a ``DeviceSet``; none for a policy
            that speaks of neither.
        gpu_tolerances: what verification is to let pass in GPUs by name; shown in every result.
        switch_tolerances: likewise in NVSwitches, whose measurements have other meanings.
        production: whether a person wrote it for a purpose; the built-in baseline is no production policy.
    """

    name: str
    version: int
    digest: bytes
    rules: Mapping[str, tuple[Rule, ...]]
    simulated: str | None
    unchecked: tuple[Unchecked, ...]
    set_rules: tuple[Rule, ...] = ()
    gpu_tolerances: GpuTolerances = NO_TOLERANCES
    switch_tolerances: GpuTolerances = NO_TOLERANCES
    production: bool = True

    @property
    def tolerances(self) -> DeviceTolerances:
        """What verification is to let pass, by kind of device."""
        return DeviceTolerances(gpus=self.gpu_tolerances, switches=self.switch_tolerances)

    @staticmethod
    def baseline() -> Policy:
        """Return the built-in policy: genuine, not debuggable, not migratable, not simulated."""
        rules = "\n".join(f"{rule.id}: {rule.expected}" for kind in BASELINE_RULES.values() for rule in kind)
        return Policy(
            name="baseline",
            version=1,
            digest=sha256(f"attest baseline policy v1\n{rules}".encode()).digest(),
            rules=BASELINE_RULES,
            simulated=None,
            unchecked=(),
            production=False,
        )


def load_policy(data: bytes) -> Policy:
    """Read a policy from YAML or JSON; both of one content have one digest.

    Raises:
        ConfigurationError: ``policy-unreadable`` or ``policy-invalid``.
    """
    if len(data) > MAX_POLICY_BYTES:
        raise _unreadable(f"{len(data)} bytes, more than {MAX_POLICY_BYTES}")
    document = _json(data) if data.lstrip()[:1] == b"{" else _yaml(data)
    policy = decode_policy(document)
    simulated = policy.simulated.value
    return Policy(
        name=policy.name,
        version=policy.version,
        digest=sha256(rfc8785.dumps(cast("dict[str, Any]", document))).digest(),  # Any: JSON that was decoded above
        rules=_rules(policy),
        simulated=simulated.reason if isinstance(simulated, Relaxed) else None,
        unchecked=policy.unchecked,
        set_rules=_set_rules(policy),
        gpu_tolerances=tolerances_of(policy.gpu),
        switch_tolerances=tolerances_of(policy.nvswitch),
    )


def _rules(policy: PolicyDocument) -> dict[str, tuple[Rule, ...]]:
    """Return the rules for each kind of Attester that the policy speaks of."""
    references = policy.reference_values
    rules: dict[str, tuple[Rule, ...]] = {}
    if policy.snp is not None:
        rules["sev-snp"] = snp_rules(policy.snp, references)
    if policy.tdx is not None:
        rules["tdx"] = tdx_rules(policy.tdx, references)
    if policy.sgx is not None:
        rules["sgx"] = sgx_rules(policy.sgx, references)
    if policy.gpu is not None:
        rules["nvidia-gpu"] = gpu_rules(policy.gpu)
    if policy.nvswitch is not None:
        rules["nvidia-switch"] = switch_rules(policy.nvswitch)
    return rules


def _set_rules(policy: PolicyDocument) -> tuple[Rule, ...]:
    """Return the rules over all devices together."""
    if policy.devices is None:
        return ()
    cpus = (("sev-snp", policy.snp), ("tdx", policy.tdx), ("sgx", policy.sgx))
    kinds = [kind for kind, demands in cpus if demands is not None]
    return device_set_rules(policy.devices, cpu_kinds=kinds, gpus=policy.gpu is not None)


def _json(data: bytes) -> JsonValue:
    try:
        return json_value(data, what="policy")
    except EvidenceError as exc:
        raise _unreadable(exc.message) from exc


def _yaml(data: bytes) -> JsonValue:
    """YAML 1.2 without what makes two readers disagree: duplicate keys, anchors, tags, several documents."""
    try:
        from ruamel.yaml import YAML  # noqa: PLC0415  of the extra 'cli'; a JSON policy needs none
        from ruamel.yaml.error import YAMLError  # noqa: PLC0415
    except ImportError as exc:
        raise _unreadable("YAML needs the extra 'cli' of this package; JSON needs nothing") from exc
    reader: Any = YAML(typ="safe", pure=True)  # Any: the library's own annotations are partial
    try:
        for event in reader.parse(data):
            if getattr(event, "anchor", None) is not None:
                raise _unreadable("anchors and aliases are not allowed")
            if getattr(event, "tag", None) is not None:
                raise _unreadable(f"the tag {event.tag} is not allowed")
        value: object = reader.load(data)
    except (YAMLError, ValueError, TypeError, RecursionError) as exc:  # TypeError: a list or mapping as a key
        raise _unreadable(" ".join(str(exc).split())[:300]) from exc
    return _plain(value, "policy")


def _plain(value: object, path: str) -> JsonValue:
    """Reduce what YAML can say to what JSON can say."""
    match value:
        case None | bool() | int() | str():
            return value
        case list():
            return [_plain(member, f"{path}[{i}]") for i, member in enumerate(cast("list[object]", value))]
        case dict():
            members = cast("dict[object, object]", value)
            if not all(isinstance(name, str) for name in members):
                raise _unreadable(f"{path}: keys are text")
            return {str(name): _plain(member, f"{path}.{name}") for name, member in members.items()}
        case _:
            raise _unreadable(f"{path}: {type(value).__name__} is no value of a policy; put it in quotes")


def _unreadable(problem: str) -> ConfigurationError:
    return ConfigurationError(f"policy cannot be read: {problem}", code="policy-unreadable", hint="see docs/policy.md")
