"""Preparation of a policy document: the tree of its rules, and its tolerances for verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from attest.errors import InvalidValueError
from attest.evidence.tolerances import NO_TOLERANCES, AcceptedValue, GpuTolerances
from attest.policy.accepted_values import accepted_of
from attest.policy.azure import azure_rules, rules_of_cpu
from attest.policy.decoder import refuse
from attest.policy.devices import cpu_rule, device_set_rules
from attest.policy.dstack import dstack_rules
from attest.policy.gpu import gpu_rules, switch_rules, tolerances_of
from attest.policy.gpu_references import DeviceDemands
from attest.policy.intel import sgx_rules, tdx_rules
from attest.policy.model import AtLeastOf, PolicyBody, PolicyDocument
from attest.policy.references import ReferenceValues
from attest.policy.rule_tree import SET, AllBranch, AnyBranch, AtLeast, Leaf, Node
from attest.policy.rules import Rule
from attest.policy.sample import sample_device_rules, sample_rules
from attest.policy.snp import SnpDemands, snp_rules

CPU_KINDS = ("sev-snp", "tdx", "sgx", "azure-snp", "azure-tdx", "sample")
_References = Mapping[str, ReferenceValues]


def prepared(policy: PolicyDocument) -> AllBranch:
    """Return the tree of a policy's rules."""
    return _body(policy, "", policy.reference_values, whole=_is_plain(policy))


def _is_plain(body: PolicyBody) -> bool:
    return not body.any_of and not body.all_of and body.at_least is None


def _body(body: PolicyBody, path: str, references: _References, *, whole: bool = False) -> AllBranch:
    """Prepare one body; ``whole`` for a policy without branches."""
    sections = _sections(body, references)
    kinds = [kind for kind in CPU_KINDS if kind in sections]
    together = _set_rules(body, kinds, whole=whole)
    leaves = [Leaf(path=path, kind=kind, rules=rules) for kind, rules in sections.items()]
    if together:
        leaves.insert(0, Leaf(path=path, kind=SET, rules=together))
    return AllBranch(path=path, members=(*leaves, *_choices(body, path, references)))


def _choices(body: PolicyBody, path: str, references: _References) -> Iterator[Node]:
    if body.any_of:
        yield AnyBranch(path=path, members=_branches("any_of", body.any_of, path, references))
    yield from _branches("all_of", body.all_of, path, references)
    if body.at_least is not None:
        chosen: AtLeastOf = body.at_least
        yield AtLeast(path=path, count=chosen.count, members=_branches("at_least", chosen.of, path, references))


def _branches(
    combinator: str, bodies: tuple[PolicyBody, ...], path: str, references: _References
) -> tuple[AllBranch, ...]:
    """Prepare the branches of one combinator; a branch without a name has its number."""
    start = f"{path}.{combinator}" if path else combinator
    return tuple(_body(body, f"{start}[{body.name or index}]", references) for index, body in enumerate(bodies))


def _sections(body: PolicyBody, references: _References) -> dict[str, tuple[Rule, ...]]:
    """Return the rules for each kind of Attester that a body has a section for."""
    rules: dict[str, tuple[Rule, ...]] = {}
    machines = () if body.azure is None else azure_rules(body.azure, references)
    for key, kind, section_rules in (
        ("snp", "sev-snp", None if body.snp is None else snp_rules(body.snp, references)),
        ("tdx", "tdx", None if body.tdx is None else (*tdx_rules(body.tdx, references), *_of_dstack(body))),
    ):
        if section_rules is not None and body.azure is not None:
            rules[f"azure-{key}"] = (*machines, *rules_of_cpu(section_rules, key))
        elif section_rules is not None:
            rules[kind] = section_rules
    if body.sgx is not None:
        rules["sgx"] = sgx_rules(body.sgx, references)
    if body.gpu is not None:
        rules["nvidia-gpu"] = gpu_rules(body.gpu)
    if body.nvswitch is not None:
        rules["nvidia-switch"] = switch_rules(body.nvswitch)
    if body.sample is not None:
        rules["sample"] = tuple(sample_rules(body.sample))
        rules["sample-device"] = tuple(sample_device_rules(body.sample))
    return rules


def _of_dstack(body: PolicyBody) -> tuple[Rule, ...]:
    return () if body.dstack is None else tuple(dstack_rules(body.dstack))


def _set_rules(body: PolicyBody, cpu_kinds: list[str], *, whole: bool) -> tuple[Rule, ...]:
    """Return the rules over the evidence as a whole.

    Without branches, evidence of another kind of CPU is refused as a kind without demands. A branch needs a
    rule of its own: otherwise absent evidence of a CPU would meet its demands on a CPU.
    """
    if body.devices is not None:
        return device_set_rules(body.devices, cpu_kinds=cpu_kinds, gpus=body.gpu is not None)
    return () if whole or not cpu_kinds else cpu_rule(cpu_kinds)


# -- tolerances


def tolerated(policy: PolicyDocument, kind: Literal["gpu", "nvswitch"]) -> GpuTolerances:
    """Return the deviations that verification tolerates in devices of one kind.

    Verification runs once for all branches, so a waiver of one branch would apply to all.

    Raises:
        ConfigurationError: ``policy-invalid``, two bodies tolerate different things.
    """
    found = [(path, tolerances_of(demands)) for path, demands in _demands(policy, "", kind)]
    for path, one in found[1:]:
        if not _alike(one, found[0][1]):
            raise _different(path, "waived_measurements, accepted_opaque and held_rim_signers", found[0][0])
    return found[0][1] if found else NO_TOLERANCES


def tolerated_spls(policy: PolicyDocument) -> tuple[AcceptedValue, ...]:
    """Return the levels that verification accepts in the certificate of a SEV-SNP report's key.

    Raises:
        ConfigurationError: ``policy-invalid``, two bodies accept different levels.
    """
    found = [(path, accepted_of(snp.accepted_spls)) for path, snp in _snp_demands(policy, "")]
    for path, one in found[1:]:
        if set(one) != set(found[0][1]):
            raise _different(path, "accepted_spls", found[0][0])
    return found[0][1] if found else ()


def _different(path: str, keys: str, first: str) -> InvalidValueError:
    why = "evidence is verified once, so a tolerance of one branch would apply to all"
    return refuse(path, f"the same {keys} as in {first} ({why})", "others", at_key=True)


def _alike(one: GpuTolerances, other: GpuTolerances) -> bool:
    """Return True if two bodies tolerate the same things for the same reasons, in any order."""
    waived = set(one.waived_measurements) == set(other.waived_measurements)
    accepted = set(one.accepted_opaque) == set(other.accepted_opaque)
    return waived and accepted and one.held_rim_signers == other.held_rim_signers


def _demands(body: PolicyBody, path: str, kind: Literal["gpu", "nvswitch"]) -> Iterator[tuple[str, DeviceDemands]]:
    """Yield the section of this name of each body, with its path in the document."""
    found = body.gpu if kind == "gpu" else body.nvswitch
    if found is not None:
        yield f"{path}.{kind}" if path else kind, found
    for _, place, branch in body.branches(path):
        yield from _demands(branch, place, kind)


def _snp_demands(body: PolicyBody, path: str) -> Iterator[tuple[str, SnpDemands]]:
    """Yield the section ``snp`` of each body."""
    if body.snp is not None:
        yield f"{path}.snp" if path else "snp", body.snp
    for _, place, branch in body.branches(path):
        yield from _snp_demands(branch, place)
