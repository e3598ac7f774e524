"""One question to the engine: documents that no engine misreads, and what is compiled for it.

Spec: specs/must-check.md, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attest.encoding import JsonValue
from attest.rego.engine import PACKAGE, canonical
from attest.rego.policy import REFERENCE_FUNCTION, RegoForm, RegoPolicy
from attest.rego.zygote_pool import POOL
from attest.rego.zygotes import CompiledFor, RegoLimits

REFERENCES = "attest_reference_values"
MISSING_IS_UNDEFINED = f"package policy\n\n{REFERENCE_FUNCTION}(name) := data.{REFERENCES}[name]\n"
"""Trustee's host function as a rule. A missing value is undefined instead of null, which would compare."""
MISSING_IS_NULL = f"package policy\n\n{REFERENCE_FUNCTION}(name) := object.get(data.{REFERENCES}, name, null)\n"
"""The same function as Trustee has it, for policies that compare nothing but for equality."""
MAX_DOCUMENT_DEPTH = 32
MAX_EXACT = 1 << 53
"""Not every engine distinguishes larger integers."""
NO_DATA: Mapping[str, JsonValue] = MappingProxyType({})
_TAKEN = frozenset((REFERENCES, PACKAGE, "policy"))


def asked(
    policy: RegoPolicy,
    document: Mapping[str, JsonValue],
    references: Mapping[str, JsonValue],
    data: Mapping[str, JsonValue],
    *,
    limits: RegoLimits,
    rules: tuple[str, ...] | None = None,
    function: str = MISSING_IS_UNDEFINED,
) -> Mapping[str, JsonValue]:
    """Return the values of the policy's rules, without those that are undefined.

    Reference values change seldom, so an attestation policy is compiled with them. The data of a resource policy is
    another for each question.

    Raises:
        EngineRefusedError: no answer.
    """
    compiled, changing = compiled_for(policy, references, data, rules=rules, function=function)
    return POOL.ask(compiled, {"input": canonical(dict(document)), "data": changing}, limits)


def compiled_for(
    policy: RegoPolicy,
    references: Mapping[str, JsonValue],
    data: Mapping[str, JsonValue],
    *,
    rules: tuple[str, ...] | None = None,
    function: str = MISSING_IS_UNDEFINED,
) -> tuple[CompiledFor, dict[str, JsonValue]]:
    """Return what is compiled, and the data that comes with the question."""
    values: dict[str, JsonValue] = {**data, REFERENCES: dict(references)}
    fixed = values if policy.form is RegoForm.ATTESTATION else {}
    changing = {} if fixed else {name: values[name] for name in sorted(values)}
    compiled = CompiledFor(
        modules=(policy.source, function), rules=rules or policy.rules, data=fixed, names=tuple(changing)
    )
    return compiled, changing


def without_nulls(document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a document without the members that are null, which policies find absent; a null in a list stays."""
    return {name: _without_nulls(value) for name, value in document.items() if value is not None}


def _without_nulls(value: JsonValue, depth: int = 0) -> JsonValue:
    if depth > MAX_DOCUMENT_DEPTH:  # refused later
        return value
    match value:
        case dict():
            return {name: _without_nulls(member, depth + 1) for name, member in value.items() if member is not None}
        case list():
            return [_without_nulls(member, depth + 1) for member in value]
    return value


def unfit(
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
    if taken := _TAKEN & set(data):
        return f"data may not have {min(taken)!r}, which is the policy's own"
    return None


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
