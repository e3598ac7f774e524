"""The Verifiers that a policy accepts: their tokens take the place of Evidence (the passport model).

A policy that names none judges Evidence alone. The keys of an issuer are not part of a policy: the Relying Party
configures them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from attest.checks import Check, Outcome, judged
from attest.encoding import JsonValue
from attest.evidence.claims import ClaimTree, value_text
from attest.policy.decoder import (
    Demand,
    RelaxedDemand,
    demand,
    integer,
    key,
    list_of,
    record_of,
    refuse,
    table_of,
    text,
)

_CLAUSE = "RFC 9334, 5.1; docs/policy.md"
LARGEST_STATED = 2**53 - 1
"""Canonical JSON (RFC 8785), by which a policy has its digest, has no larger integers."""
_DEFAULT_AGE = 300
_SHOWN = 200
"""Characters of a token's statement in a check; the result shows the whole token besides."""
LONGEST_AGE = 24 * 3600
"""Seconds. A token older than a day does not show the machine's present state."""


StatementValue: TypeAlias = str | int | bool


def _value(value: JsonValue, path: str) -> StatementValue:
    if isinstance(value, bool):
        return value
    return integer(0, LARGEST_STATED)(value, path) if isinstance(value, int) else text(value, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedVerifier:
    """A Verifier whose tokens are accepted.

    Attributes:
        issuer: as its tokens name it (``iss``).
        maximum_age: seconds since a token was issued, the last one included.
        policy_ids: policies of its own, of which it must have applied one; None for no demand. An EAR that names this
            very policy, by digest, needs none.
        statements: its required statements beyond any report, by the names in results
            (``container.image_digest``): the values of which its own has to be one.
    """

    issuer: str = field(metadata=key(text))
    maximum_age: int = field(default=_DEFAULT_AGE, metadata=key(integer(1, LONGEST_AGE)))
    policy_ids: Demand[tuple[str, ...]] | None = field(default=None, metadata=key(demand(list_of(text))))
    statements: Mapping[str, tuple[StatementValue, ...]] = field(
        default_factory=dict[str, tuple[StatementValue, ...]], metadata=key(table_of(list_of(_value)))
    )


def decode_verifiers(value: JsonValue, path: str) -> tuple[AcceptedVerifier, ...]:
    """Read the key ``verifiers`` of a policy."""
    found = list_of(record_of(AcceptedVerifier))(value, path)
    for index, one in enumerate(found):
        if any(other.issuer == one.issuer for other in found[:index]):
            raise refuse(f"{path}[{index}].issuer", "an issuer that is not listed yet", one.issuer)
    return found


def verifier_checks(
    accepted: tuple[AcceptedVerifier, ...],
    *,
    issuer: str,
    issued: datetime | None,
    policy_ids: tuple[str, ...],
    at: datetime,
    statements: Sequence[Mapping[str, ClaimTree]] = (),
) -> tuple[Check, ...]:
    """Judge a token's issuer, age, applied policies and further statements.

    A token without a time of issue fails. ``statements`` are the Verifier's statements beyond the report of each TEE
    and device.
    """
    names = ", ".join(one.issuer for one in accepted)
    verifier = next((one for one in accepted if one.issuer == issuer), None)
    known = _check(
        "policy.verifier",
        f"one of {names}" if names else "Evidence: the policy takes no token",
        issuer,
        holds=verifier is not None,
    )
    if verifier is None:
        return (known,)
    age = None if issued is None else at - issued
    limit = timedelta(seconds=verifier.maximum_age)
    recent = _check(
        "policy.verifier.age",
        f"at most {verifier.maximum_age} s",
        "not stated" if age is None else f"{int(age.total_seconds())} s",
        holds=age is not None and age <= limit,
    )
    return (known, recent, *_policy_checks(verifier, policy_ids), *_statement_checks(verifier, statements))


def _policy_checks(verifier: AcceptedVerifier, policy_ids: tuple[str, ...]) -> Iterator[Check]:
    if verifier.policy_ids is None:
        return
    check_id, applied = "policy.verifier.policy_ids", ", ".join(policy_ids)[:_SHOWN] or "none"
    wanted = verifier.policy_ids.value
    if isinstance(wanted, RelaxedDemand):
        relaxed = f"unchecked: {wanted.reason}"
        yield Check(id=check_id, outcome=Outcome.NOT_EVALUATED, expected=relaxed, got=applied, clause=_CLAUSE)
    else:
        holds = not set(wanted).isdisjoint(policy_ids)
        yield _check(check_id, f"one of {', '.join(wanted)}", applied, holds=holds)


def _statement_checks(verifier: AcceptedVerifier, statements: Sequence[Mapping[str, ClaimTree]]) -> Iterator[Check]:
    """Judge statements: each has to be made of one TEE or device at least, and to fit wherever it is made."""
    for name, wanted in verifier.statements.items():
        found = [made[name] for made in statements if name in made]
        yield _check(
            f"policy.verifier.statements.{name}",
            f"one of {', '.join(map(value_text, wanted))}",
            "; ".join(map(value_text, found))[:_SHOWN] or "absent",
            holds=bool(found) and all(_fits(value, wanted) for value in found),
        )


def _fits(value: ClaimTree, wanted: tuple[StatementValue, ...]) -> bool:
    """Return True if a value is one of those wanted, or a list has one of them; bytes are written in lower-case hex."""
    if isinstance(value, tuple):
        return any(_fits(member, wanted) for member in value)
    plain = value.hex() if isinstance(value, bytes) else value
    return any(type(plain) is type(one) and plain == one for one in wanted)


def _check(check_id: str, expected: str, got: str, *, holds: bool) -> Check:
    return judged(check_id, holds=holds, expected=expected, got=got, clause=_CLAUSE)
