"""The AR4SI vector that a policy in Trustee's form gives, also where it refuses.

Trustee asks ``data.policy.trust_claims`` for an object of vector members, and ``data.policy.extensions`` for a list
that goes to the token. An undefined ``trust_claims`` is eight zeros.

Spec: specs/kbs-protocol.md, sections 11.5 and 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attest.encoding import JsonValue
from attest.errors import ConfigurationError, EvidenceError
from attest.rego.evaluation import DEFAULT_LIMITS, RegoOutcome, affirming_claims
from attest.rego.policy import RegoForm, RegoPolicy, misleading_mention
from attest.rego.question import MISSING_IS_NULL, MISSING_IS_UNDEFINED, NO_DATA, asked, unfit, without_nulls
from attest.rego.zygotes import EngineRefusedError, RegoLimits
from attest.results.ear import VECTOR_LABELS, TrustVector

MAX_EXTENSIONS = 16
_RULES = ("trust_claims", "extensions")
_CLAUSE = "docs/rego.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoExtension:
    """A claim that a policy adds to the token, by name in JSON and by key in CBOR."""

    name: str
    key: int
    value: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoAppraisal:
    """Everything that an attestation policy says of one device.

    Attributes:
        outcome: the refusal, or none; the only part that a decision may use, combined by AND with the typed policy.
        vector: for the token.
        extensions: for the token.
    """

    outcome: RegoOutcome
    vector: TrustVector
    extensions: tuple[RegoExtension, ...]


def rego_appraisal(
    policy: RegoPolicy,
    document: Mapping[str, JsonValue],
    references: Mapping[str, JsonValue] = NO_DATA,
    *,
    limits: RegoLimits = DEFAULT_LIMITS,
) -> RegoAppraisal:
    """Evaluate an attestation policy for one device, as Trustee does.

    ``query_reference_value`` gives a missing value as null. In a policy that orders values, or compares them by
    ``!=``, it is undefined instead, since null would compare. Members of the document that are null are left out.

    Raises:
        EvidenceError: ``rego-input-unsound``: a document that engines misread.
        ConfigurationError: ``rego-data-invalid``: such reference values; ``rego-not-evaluated``: no answer of the
            engine; ``rego-claims-…`` and ``rego-extensions-invalid``: an answer that is no vector, or no extensions.
    """
    if policy.form is not RegoForm.ATTESTATION:
        raise ValueError("a resource policy has no trust claims")
    sent = without_nulls(document)
    if problem := unfit({"": ""}, references, NO_DATA):
        raise ConfigurationError(problem, code="rego-data-invalid", clause=_CLAUSE)
    if problem := unfit(sent, NO_DATA, NO_DATA):
        raise EvidenceError(problem, code="rego-input-unsound", clause=_CLAUSE)
    function = MISSING_IS_UNDEFINED if policy.compares else MISSING_IS_NULL
    try:
        values = asked(policy, sent, references, NO_DATA, limits=limits, rules=_RULES, function=function)
    except EngineRefusedError as exc:
        raise ConfigurationError(str(exc), code="rego-not-evaluated", clause=_CLAUSE) from exc
    vector = _vector(values["trust_claims"]) if "trust_claims" in values else _undefined()
    return RegoAppraisal(
        outcome=_outcome(policy, vector, misleading_mention(policy, sent, references)),
        vector=vector,
        extensions=_extensions(values.get("extensions", [])),
    )


def _outcome(policy: RegoPolicy, vector: TrustVector, misleading: str | None) -> RegoOutcome:
    try:
        claims = affirming_claims(dict(vector.items()))
    except EngineRefusedError as exc:
        return RegoOutcome(refused=True, reason=misleading or str(exc), digest=policy.digest)
    if misleading is not None:
        return RegoOutcome(refused=True, reason=misleading, digest=policy.digest)
    return RegoOutcome(refused=False, reason="not refused", digest=policy.digest, claims=claims)


def _undefined() -> TrustVector:
    return TrustVector.of(dict.fromkeys(VECTOR_LABELS, 0))


def _vector(found: JsonValue) -> TrustVector:
    if not isinstance(found, dict):
        raise _claims_error("rego-claims-not-object", "trust_claims", "an object", _kind(found))
    if not found:
        raise _claims_error("rego-claims-empty", "trust_claims", "at least one member", "none")
    return TrustVector.of({name: _value(name, value) for name, value in found.items()})


def _value(name: str, value: JsonValue) -> int:
    field = f"trust_claims.{name[:40]}"
    if name not in VECTOR_LABELS:
        raise _claims_error("rego-claims-unknown", field, f"one of {', '.join(VECTOR_LABELS)}", repr(name[:40]))
    if isinstance(value, bool) or not isinstance(value, int):
        raise _claims_error("rego-claims-not-integer", field, "an integer", _kind(value))
    if not -128 <= value <= 127:
        raise _claims_error("rego-claims-out-of-range", field, "-128 to 127", str(value)[:40])
    return value


def _claims_error(code: str, field: str, expected: str, got: str) -> ConfigurationError:
    message = f"{field} of the Rego policy: expected {expected}, got {got}"
    return ConfigurationError(message, code=code, field=field, expected=expected, got=got, clause=_CLAUSE)


def _extensions(found: JsonValue) -> tuple[RegoExtension, ...]:
    if not isinstance(found, list) or len(found) > MAX_EXTENSIONS:
        raise _extensions_error("extensions", f"a list of at most {MAX_EXTENSIONS}", _kind(found))
    extensions = tuple(_extension(f"extensions[{at}]", one) for at, one in enumerate(found))
    if len({one.name for one in extensions}) < len(extensions) or len({one.key for one in extensions}) < len(
        extensions
    ):
        raise _extensions_error("extensions", "each name and key once", "one twice")
    return extensions


def _extension(field: str, found: JsonValue) -> RegoExtension:
    match found:
        case {"name": str(name), "key": int(key), "value": value, **rest} if not rest and not isinstance(key, bool):
            return RegoExtension(name=name, key=key, value=value)
    raise _extensions_error(field, "name, key (an integer) and value", _kind(found))


def _extensions_error(field: str, expected: str, got: str) -> ConfigurationError:
    message = f"{field} of the Rego policy: expected {expected}, got {got}"
    return ConfigurationError(
        message, code="rego-extensions-invalid", field=field, expected=expected, got=got, clause=_CLAUSE
    )


def _kind(value: JsonValue) -> str:
    names: dict[type, str] = {bool: "a boolean", int: "an integer", float: "a fraction", str: "a text", list: "a list"}
    return "null" if value is None else names.get(type(value), "an object")
