"""Explanation of a policy in words, and the remedies for a machine that fails it.

Everything here is text made from data in the order of the policy: the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attest.checks import Check
from attest.encoding import JsonValue, rfc3339_text
from attest.evidence.claims import value_text
from attest.policy.authoring.rule_descriptions import FIXES, longest_prefix, words_for
from attest.policy.decoder import RelaxedDemand
from attest.policy.loader import Policy
from attest.policy.references import ReferenceValues
from attest.policy.rule_tree import SET, AllBranch, AtLeast, Leaf, Node
from attest.policy.rules import Rule
from attest.policy.verifiers import AcceptedVerifier

EXPLANATION_SCHEMA = "attest.policy-explanation/1"
_KINDS: Mapping[str, str] = {
    "sev-snp": "A SEV-SNP guest",
    "tdx": "A TDX guest",
    "sgx": "An SGX enclave",
    "azure-snp": "An Azure confidential VM on SEV-SNP",
    "azure-tdx": "An Azure confidential VM on TDX",
    "nvidia-gpu": "Each GPU",
    "nvidia-switch": "Each NVSwitch",
    "sample": "Trustee's sample evidence, which proves nothing about a machine",
    "sample-device": "Each sample device, which proves nothing about a device",
    SET: "All devices together",
}


def fix_for(check_id: str) -> str:
    """Return the remedy for a failed check; for one without a line, a reference to the docs."""
    return longest_prefix(FIXES, check_id) or "See docs/policy.md and docs/errors.md for this check."


def explanation_document(policy: Policy, references: Mapping[str, ReferenceValues]) -> dict[str, JsonValue]:
    """Return the explanation of a policy for programs; ``references`` are its reference values."""
    return {
        "schema": EXPLANATION_SCHEMA,
        "name": policy.name,
        "version": policy.version,
        "digest": policy.digest.hex(),
        "accepts": [*policy.kinds],
        "simulated": policy.simulated,
        "unchecked": {entry.check: entry.reason for entry in policy.unchecked},
        **({"verifiers": [_verifier(one) for one in policy.verifiers]} if policy.verifiers else {}),
        "rules": [
            {
                "id": placed.rule.id,
                "kind": placed.kind,
                **({"branch": placed.path} if placed.path else {}),
                "text": _sentence(placed.rule),
                **({"unchecked": placed.rule.relaxed} if placed.rule.relaxed is not None else {}),
            }
            for placed in policy.all_rules()
        ],
        "reference_values": {name: _reference(reference) for name, reference in references.items()},
    }


def explanation_text(policy: Policy, references: Mapping[str, ReferenceValues]) -> str:
    """Return the explanation of a policy for people; arguments as ``explanation_document``."""
    lines = [f"policy {policy.name!r} version {policy.version}, digest {policy.digest.hex()}", ""]
    lines += _simulation(policy)
    lines += [f"UNCHECKED: {entry.check} need not be evaluated: {entry.reason}" for entry in policy.unchecked]
    lines += [f"It accepts only evidence of {', '.join(policy.kinds)}."]
    lines += [_verifier(one) for one in policy.verifiers]
    lines += [""]
    lines += _node(policy.tree, "")
    for name, reference in references.items():
        end = "never ends" if reference.expires is None else f"ends {rfc3339_text(reference.expires)}"
        count = f"{len(reference.values)} value" + "s" * (len(reference.values) != 1)
        lines += [f"Reference values {name!r}: {count}, {end}; {reference.origin}"]
    return "".join(f"{line}\n" for line in lines)


def _verifier(verifier: AcceptedVerifier) -> str:
    demanded = [
        f"{name} to be one of {', '.join(map(value_text, values))}" for name, values in verifier.statements.items()
    ]
    return _accepted_tokens(verifier) + (f" The token must state {'; '.join(demanded)}." if demanded else "")


def _accepted_tokens(verifier: AcceptedVerifier) -> str:
    age = f"It accepts tokens of {verifier.issuer} in place of evidence, at most {verifier.maximum_age} seconds old"
    if verifier.policy_ids is None:
        return f"{age}."
    wanted = verifier.policy_ids.value
    if isinstance(wanted, RelaxedDemand):
        return f"{age}. UNCHECKED: the policy that this Verifier applies: {wanted.reason}."
    return f"{age}, that name a policy of {', '.join(wanted)}."


def _simulation(policy: Policy) -> list[str]:
    if policy.simulated is None:
        return ["SIMULATED evidence is refused."]
    return [f"SIMULATED evidence is accepted, which proves nothing about hardware: {policy.simulated}"]


def _node(node: Node, indent: str) -> Iterator[str]:
    """Explain a part of the tree; a choice states the number of its branches that must hold."""
    if isinstance(node, Leaf):
        yield f"{indent}{_KINDS.get(node.kind, node.kind)}:"
        yield from (f"{indent}  - {_sentence(rule)}" for rule in node.rules)
        yield ""
    elif isinstance(node, AllBranch):
        for member in node.members:
            yield from _node(member, indent)
    else:
        count = node.count if isinstance(node, AtLeast) else 1
        yield f"{indent}At least {count} of these {len(node.members)} branches must be met in full:"
        for member in node.members:
            yield f"{indent}  branch {member.path}:"
            yield from _node(member, f"{indent}    ")


def _sentence(rule: Rule) -> str:
    if rule.relaxed is not None:
        return f"UNCHECKED: {rule.id.removeprefix('policy.')} is not demanded: {rule.relaxed}"
    return words_for(rule.id, rule.expected)


def _reference(reference: ReferenceValues) -> JsonValue:
    return {
        "origin": reference.origin,
        "values": [value.hex() for value in reference.values],
        **({} if reference.expires is None else {"expires": rfc3339_text(reference.expires)}),
    }


# -- against evidence


def failures_document(failed: Iterable[Check]) -> list[JsonValue]:
    """Return failed checks for programs: the demand, the value found, and the remedy."""
    return [{**dict(_row(check))} for check in failed]


def failures_text(failed: Iterable[Check]) -> str:
    """Return failed checks for people, values in full."""
    lines: list[str] = []
    for check in failed:
        row = dict(_row(check))
        lines.append(f"FAILED {row.pop('id')}" + (f" ({row.pop('item')})" if "item" in row else ""))
        lines += [f"  {name.replace('_', ' '):<11} {value}" for name, value in row.items()]
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def _row(check: Check) -> Iterator[tuple[str, str]]:
    yield "id", check.id
    if check.item is not None:
        yield "item", check.item
    if check.branch is not None:
        yield "branch", check.branch
    yield "expected", check.expected
    yield "got", check.got
    yield "clause", check.clause
    yield "how_to_fix", fix_for(check.id)
