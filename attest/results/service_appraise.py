"""Baseline appraisal of a token of Azure, Intel or Google. No production policy.

Every TEE and device has to be one, without debugging; the Verifier has to call it compliant where it has a word for
that; Intel's TCB has to be ``UpToDate`` or ``SWHardeningNeeded``. A missing claim fails like a negative one. The
software of the machine is not judged: that is for policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from attest.appraisal import simulation_check
from attest.checks import Check, Outcome, judged
from attest.evidence.claims import ClaimTree, value_text
from attest.results.nvidia_token_claims import MEASUREMENTS_MATCH, members
from attest.results.service_token import VerifiedServiceToken
from attest.results.token_facts import TokenFacts

_CLAUSE = "docs/cli-verify.md, baseline"
_WITHOUT_DEBUG: Mapping[str, str] = {
    "sev-snp": "policy.debug",
    "tdx": "td_attributes.debug",
    "sgx": "attributes.debug",
}
_ACCEPTED_TCB = ("UpToDate", "SWHardeningNeeded")
_COMPLIANT = ("azure-compliant-cvm", "azure-compliant-uvm")
_DEBUG_STATUSES = ("disabled", "disabled-since-boot", "disabled-permanently", "disabled-fully-and-permanently")
"""``dbgstat`` of RFC 9711, without ``enabled``."""
_STABLE = "STABLE"
_UNSIGNED = ("sev", "sev-es")
_OVERALL = "x-nvidia-overall-att-result"
_REPORT_CHAINS = ("x-nvidia-gpu-attestation-report-cert-chain", "x-nvidia-switch-attestation-report-cert-chain")
_SOUND = (("x-nvidia-cert-status", "valid"), ("x-nvidia-cert-ocsp-status", "good"))
"""The status of a device's certificates in NVIDIA's tools (nvidia-gpu.md 17.2)."""


def appraise_service_token(token: VerifiedServiceToken, *, simulated: str | None = None) -> tuple[Check, ...]:
    """Return the token's statements as checks. ``attest.appraisal.freshness_check`` makes the one of freshness.

    ``simulated`` is the reason to tolerate simulated evidence, or None to refuse it.
    """
    stated = token.facts[0].simulated
    anchor: tuple[Check, ...] = ()
    if stated is not None:
        found = simulation_check(simulated=stated, tolerated=simulated if stated else None)
        anchor = (replace(found, id="policy.token.not_simulated"),)
    return (*anchor, *(check for facts in token.facts for check in _checks(facts)))


def _checks(facts: TokenFacts) -> Iterator[Check]:
    yield _tee(facts)
    yield from _nvidia(facts) if facts.kind.startswith("nvidia") else _machine(facts)
    if facts.frame.service == "ita":
        unmatched = facts.statements.get("policies_unmatched", ())
        yield _check("policy.token.policies", facts, unmatched == (), "every requested policy matches", unmatched)


def _tee(facts: TokenFacts) -> Check:
    """Judge the hardware. No processor signs reports of AMD's older kinds; Google states those."""
    outcome = Outcome.FAIL if facts.kind == "vm" else Outcome.WARNING if facts.kind in _UNSIGNED else Outcome.PASS
    got = {"vm": "a virtual machine without a TEE"}.get(facts.kind, facts.kind)
    return Check(
        id="policy.token.tee",
        outcome=outcome,
        expected="a TEE or device that signs its own report",
        got=got + (", which signs no report" if facts.kind in _UNSIGNED else ""),
        clause=_CLAUSE,
        item=facts.name,
    )


def _machine(facts: TokenFacts) -> Iterator[Check]:
    yield from _debugging(facts)
    service, stated = facts.frame.service, facts.statements
    if service == "maa" and facts.kind != "sgx":
        status = stated.get("compliance_status")
        yield _check("policy.token.compliance", facts, status in _COMPLIANT, " or ".join(_COMPLIANT), status)
    if service == "google":
        attributes = stated.get("confidential_space.support_attributes")
        supported = isinstance(attributes, tuple) and _STABLE in attributes
        yield _check("policy.token.compliance", facts, supported, f"an image that Google calls {_STABLE}", attributes)
        secure = stated.get("secure_boot")
        yield _check("policy.token.secure_boot", facts, secure is True, "true", secure)
    if facts.kind in ("tdx", "sgx"):
        status = facts.claims.get("tcb_status", stated.get("gcp_tcb_status"))
        yield _check("policy.token.tcb_status", facts, status in _ACCEPTED_TCB, " or ".join(_ACCEPTED_TCB), status)


def _debugging(facts: TokenFacts) -> Iterator[Check]:
    """Judge debugging by the report's own bits, and by the Verifier's summary where there is one or nothing else."""
    claims, status = facts.claims, facts.statements.get("debug_status")
    bit = _WITHOUT_DEBUG.get(facts.kind)
    has_report = "measurement" in claims or "mr_td" in claims or "mr_enclave" in claims
    if bit is not None and has_report:
        debug = claims.get("td_attributes.under_debug") or claims.get(bit)
        yield _check("policy.token.debug", facts, debug is False, "false", debug)
    if status is not None or not has_report:
        holds = status in _DEBUG_STATUSES
        yield _check("policy.token.debug_status", facts, holds, "disabled, or disabled since boot", status)


def _nvidia(facts: TokenFacts) -> Iterator[Check]:
    """Judge a device: by NVIDIA's claims where the token has them, else by the mode that Google states."""
    if facts.frame.service == "google":
        mode = facts.statements.get("cc_mode")
        yield _check("policy.token.cc_mode", facts, mode == "ON", "ON", mode)
        return
    words = members(facts.claims.get("nvidia"))
    result = words.get("measres")
    yield _check("policy.token.measres", facts, result in MEASUREMENTS_MATCH, "success", result)
    overall = words.get(_OVERALL)
    if overall is not None:
        yield _check("policy.token.overall_result", facts, overall is True, "true", overall)
    no = tuple(_says_no(words))
    yield _check("policy.token.verdicts", facts, not no, "no step of the verification that failed", no)


def _says_no(words: Mapping[str, ClaimTree]) -> Iterator[str]:
    """Yield the Verifier's negative findings about a report. Measurements and RIMs have checks of their own."""
    debug = words.get("dbgstat", "disabled")
    if debug not in _DEBUG_STATUSES:
        yield f"dbgstat: {value_text(debug)}"
    for claims in (words, members(words.get("x-nvidia-attestation-detailed-result"))):
        yield from (name for name, value in claims.items() if value is False and name != _OVERALL)
        for name in _REPORT_CHAINS:
            chain = members(claims.get(name))
            yield from (f"{name}: {value_text(chain[key])}" for key, good in _SOUND if chain.get(key, good) != good)


def _check(check_id: str, facts: TokenFacts, holds: bool, expected: str, got: ClaimTree | None) -> Check:  # noqa: FBT001
    shown = value_text(got)[:200]
    return judged(check_id, holds=holds, expected=expected, got=shown, clause=_CLAUSE, item=facts.name)
