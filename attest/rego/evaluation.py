"""Evaluation of a Rego policy. One outcome is no refusal; every other outcome is a refusal.

The engine accepts these inputs, and this module refuses them (must-check.md, section 4): a null in a document, which
compares as greater than numbers; a value other than an integer where the policy orders a member of the input; an
undefined name under ``not``; a built-in function that sees more than its arguments; rules that contradict each other;
no answer in time. Two risks remain: behind a variable, values of two types still compare, and a policy may be wrong. So
the outcome is only ever combined by AND with the typed policy.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import NoReturn

from attest.checks import Check, Outcome, Tier
from attest.collect.child import ask_child
from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.rego.policy import REFERENCE_FUNCTION, TRUST_CLAIMS, RegoForm, RegoPolicy, misleading_mention
from attest.results.ear import tier_of_value

CHECK_ID = "policy.rego"
CLAUSE = "docs/rego.md"
_WORKER = Path(__file__).with_name("worker.py")
_RESERVED = "attest_reference_values"
_SHIM = f"package policy\n\n{REFERENCE_FUNCTION}(name) := data.{_RESERVED}[name]\n"
"""Trustee's host function as a rule. A missing value is undefined instead of null, which would compare."""
MAX_DOCUMENT_DEPTH = 32
MAX_EXACT = 1 << 53
"""Not every engine distinguishes larger integers."""
_ENDS = {
    9: "the engine wanted more memory than it may have",
    -signal.SIGXCPU: "the engine wanted more processor time than it may have",
    -signal.SIGKILL: "the engine was killed: it wanted more processor time or memory than it may have",
}
_NO_DATA: Mapping[str, JsonValue] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoLimits:
    """The resources that the engine may use.

    Attributes:
        seconds: wall clock, for start, work and end together.
        cpu_seconds: of processor time; the kernel ends the process after that.
        memory: resident bytes, the interpreter's own 30 MiB or so included; looked at every few milliseconds.
    """

    seconds: float = 10.0
    cpu_seconds: int = 5
    memory: int = 256 << 20


DEFAULT_LIMITS = RegoLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoOutcome:
    """The outcome of a Rego policy: a refusal, or none. The absence of a refusal allows nothing.

    Attributes:
        refused: the policy refuses, or could not be asked.
        claims: the trust claims that an attestation policy gave, by AR4SI name.
        digest: SHA-256 of the policy's text, 32 bytes.
    """

    refused: bool
    reason: str
    digest: bytes
    claims: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def check(self, *, item: str | None = None) -> Check:
        """Return the outcome as one check, to list with those of the typed policy."""
        return Check(
            id=CHECK_ID,
            outcome=Outcome.FAIL if self.refused else Outcome.PASS,
            expected=f"not refused by the Rego policy {self.digest.hex()}",
            got=self.reason,
            clause=CLAUSE,
            item=item,
        )

    def __bool__(self) -> NoReturn:
        raise TypeError("a RegoOutcome is no condition; ask .refused")


def also_refuses(
    policy: RegoPolicy,
    document: Mapping[str, JsonValue],
    references: Mapping[str, JsonValue] = _NO_DATA,
    *,
    data: Mapping[str, JsonValue] = _NO_DATA,
    limits: RegoLimits = DEFAULT_LIMITS,
) -> RegoOutcome:
    """Evaluate a policy for one document, its ``input``. Nothing is raised: a failure is a refusal.

    ``query_reference_value`` finds the references by name; ``data`` is beside the policy's own package.
    """
    refused = _unfit(policy, document, references, data)
    if refused is not None:
        return RegoOutcome(refused=True, reason=refused, digest=policy.digest)
    request: dict[str, JsonValue] = {
        "modules": [policy.source, _SHIM],
        "rules": list(policy.rules),
        "input": dict(document),
        "data": {**data, _RESERVED: dict(references)},
    }
    try:
        results = _ask(request, limits)
        claims = _not_refused(policy, results)
    except _RefusedError as exc:
        return RegoOutcome(refused=True, reason=str(exc), digest=policy.digest)
    return RegoOutcome(refused=False, reason="not refused", digest=policy.digest, claims=claims)


class _RefusedError(Exception):
    """The reason of a refusal; it never leaves this module."""


def _unfit(
    policy: RegoPolicy,
    document: Mapping[str, JsonValue],
    references: Mapping[str, JsonValue],
    data: Mapping[str, JsonValue],
) -> str | None:
    """Return what must not reach the engine, or None."""
    for name, value in (("input", document), ("reference values", references), ("data", data)):
        problem = _unsound(dict(value), name)
        if problem is not None:
            return problem
    if not document:
        return "the input is empty"
    if taken := {_RESERVED, "policy"} & set(data):
        return f"data may not have {min(taken)!r}, which is the policy's own"
    return misleading_mention(policy, document, references)


def _unsound(value: JsonValue, path: str, depth: int = 0) -> str | None:
    """Return the value in a document that engines misread, or None."""
    if depth > MAX_DOCUMENT_DEPTH:
        return f"{path}: nested deeper than {MAX_DOCUMENT_DEPTH}"
    match value:
        case None:
            return f"{path} is null, which compares as if it were a value"
        case bool() | str():
            return None
        case int():
            return None if abs(value) <= MAX_EXACT else f"{path}: an integer beyond 2^53"
        case float():
            return f"{path}: a number with a fraction"
        case list():
            inner = (_unsound(member, f"{path}[{at}]", depth + 1) for at, member in enumerate(value))
            return next((problem for problem in inner if problem is not None), None)
        case dict():
            inner = (_unsound(member, f"{path}.{name}", depth + 1) for name, member in value.items())
            return next((problem for problem in inner if problem is not None), None)
    return f"{path}: {type(value).__name__} is no JSON"


def _ask(request: Mapping[str, JsonValue], limits: RegoLimits) -> Mapping[str, JsonValue]:
    """Return the worker's results, by rule."""
    try:
        # The engine writes the compiled policy there; the worker reads the called functions from it.
        with TemporaryDirectory(prefix="attest-rego-") as folder:
            answer = ask_child(
                [sys.executable, "-I", str(_WORKER), str(limits.memory), str(limits.cpu_seconds)],
                request=json.dumps(request).encode(),
                seconds=limits.seconds,
                environment={},
                folder=Path(folder),
            )
    except TimeoutError:
        raise _RefusedError(f"the engine did not end within {limits.seconds:g} s") from None
    except OSError as exc:
        raise _RefusedError(f"the engine cannot be started: {exc.strerror}") from exc
    if answer.code != 0:
        raise _RefusedError(_ENDS.get(answer.code, f"the engine crashed: it ended with {answer.code}"))
    try:
        reply = json_value(answer.out, what="answer of the Rego engine")
    except EvidenceError as exc:
        raise _RefusedError("the engine's answer cannot be read") from exc
    match reply:
        case {"error": str(problem), **rest} if not rest:
            raise _RefusedError(problem)
        case {"results": dict(results), **rest} if not rest:
            return results
    raise _RefusedError("the engine's answer is none")


def _not_refused(policy: RegoPolicy, results: Mapping[str, JsonValue]) -> Mapping[str, int]:
    """Return the trust claims of a policy that does not refuse; none for a resource policy."""
    for rule in policy.rules:
        if rule not in results:
            raise _RefusedError(f"{rule} is undefined, or false")
    if policy.form is RegoForm.RESOURCE:
        if results["allow"] is not True:
            raise _RefusedError(f"allow is {json.dumps(results['allow'])[:80]}")
        return {}
    found = results["trust_claims"] if policy.rules == ("trust_claims",) else dict(results)
    return _affirming(found)


def _affirming(found: JsonValue) -> Mapping[str, int]:
    """Return trust claims of which at least one affirms and none does less, zero for "nothing said" aside."""
    if not isinstance(found, dict):
        raise _RefusedError("trust_claims is no object")
    claims: dict[str, int] = {}
    for rule, value in found.items():
        name = TRUST_CLAIMS.get(rule.replace("-", "_"))
        if name is None or name in claims:
            raise _RefusedError(f"{rule[:40]!r} is not a trust claim, or occurs twice")
        if isinstance(value, bool) or not isinstance(value, int) or not -128 <= value <= 127:
            raise _RefusedError(f"{name} is no integer from -128 to 127")
        claims[name] = value
    bad = {name: value for name, value in claims.items() if value and tier_of_value(value) is not Tier.AFFIRMING}
    if bad:
        raise _RefusedError(", ".join(f"{name} is {value} ({tier_of_value(value)})" for name, value in bad.items()))
    if not any(claims.values()):
        raise _RefusedError("no trust claim says anything")
    return claims
