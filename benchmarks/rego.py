"""Questions to Rego policies: a resource policy and an attestation policy of the size that Trustee ships."""

from __future__ import annotations

import resource

from attest.encoding import JsonValue
from attest.rego import RegoPolicy, also_refuses, read_rego_policy
from attest.rego.zygote_pool import POOL
from benchmarks.measure import Figure

__all__ = ["warm"]

_BAR_MS = 5.0
_FEW, _MANY = 5, 205
_RESOURCE = b"""package policy
import rego.v1
default allow = false
allow if {
    data.plugin == "resource"
    count(input.submods) > 0
    every submod in input.submods { submod["ear.status"] == "affirming" }
    data["resource-path"][0] == "default"
}
"""
_CLAIMS = ("executables", "hardware", "configuration", "file_system", "instance_identity")
_TEES = ("snp", "tdx", "sample", "az-snp-vtpm", "az-tdx-vtpm")
_COMPARED = {"executables": (3, 1), "hardware": (2, 4), "configuration": (2, 8)}
"""By claim, its value and the number of reference values for it, as in Trustee's policy for SEV-SNP."""


def _attestation() -> bytes:
    """Write a policy with rules for five TEEs, of which one holds."""
    rules = [f"default {claim} := 0" for claim in _CLAIMS]
    members = ", ".join(f'"{claim.replace("_", "-")}": {claim}' for claim in _CLAIMS)
    rules.append(f"trust_claims := {{{members}}}")
    for tee in _TEES:
        for claim, (value, number) in _COMPARED.items():
            tests = "\n".join(
                f'    input["{tee}"].{claim}_{n} in query_reference_value("{tee}_{claim}_{n}")' for n in range(number)
            )
            rules.append(f'{claim} := {value} if {{\n    input["{tee}"]\n{tests}\n}}')
    return "\n\n".join(["package policy", "import rego.v1", *rules]).encode()


def _processor_seconds() -> float:
    """Return the processor time of this process, and of those that it started and that ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def _seconds(
    policy: RegoPolicy,
    document: dict[str, JsonValue],
    references: dict[str, JsonValue],
    data: dict[str, JsonValue],
    times: int,
) -> float:
    POOL.close()
    begin = _processor_seconds()
    for _ in range(times):
        outcome = also_refuses(policy, document, references, data=data)
        if outcome.refused:
            raise RuntimeError(outcome.reason)
    POOL.close()  # its time counts from here on
    return _processor_seconds() - begin


def _milliseconds(
    source: bytes, document: dict[str, JsonValue], references: dict[str, JsonValue], data: dict[str, JsonValue]
) -> float:
    """Return the time of one question: of many less few, so that the start of the process is not in it."""
    policy = read_rego_policy(source)
    few, many = (_seconds(policy, document, references, data, times) for times in (_FEW, _MANY))
    return (many - few) / (_MANY - _FEW) * 1000


def warm() -> Figure:
    """Measure the processor time of one question, on both sides, of the slower of two policies."""
    names = [f"{claim}_{n}" for claim, (_, number) in _COMPARED.items() for n in range(number)]
    snp: dict[str, JsonValue] = {name: "ab" * 48 if name == "executables_0" else 7 for name in names}
    snp["chip_id"] = "cd" * 64
    evidence: dict[str, JsonValue] = {"report_data": "00" * 64, "init_data": "00" * 32, "snp": snp}
    references: dict[str, JsonValue] = {f"snp_{name}": [snp[name]] for name in names}
    token: dict[str, JsonValue] = {
        "iat": 1,
        "submods": {"cpu0": {"ear.status": "affirming", "ear.veraison.annotated-evidence": evidence}},
    }
    data: dict[str, JsonValue] = {"plugin": "resource", "resource-path": ["default", "key", "1"], "query": {}}
    allow = _milliseconds(_RESOURCE, token, {}, data)
    claims = _milliseconds(_attestation(), evidence, references, {})
    detail = f"resource policy {allow:.2f} ms, attestation policy {claims:.2f} ms of processor time, both sides"
    return Figure(id="rego-warm-ms", value=max(allow, claims), bar=_BAR_MS, better="lower", detail=detail)
