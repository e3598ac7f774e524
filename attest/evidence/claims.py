"""The claims registry: each fact that verified evidence can state, with its type, its origin and its clause.

One row serves ``--json``, the policy language and the documentation. The origin matters to a policy's author: what
the guest or the host chose itself (report data, host data) authorises nothing on its own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from attest.encoding import JsonValue

ClaimTree: TypeAlias = "bool | int | str | bytes | tuple[ClaimTree, ...] | Mapping[str, ClaimTree]"
"""A value that is there, whole; what a mapping does not know is not among its keys."""
ClaimValue: TypeAlias = "ClaimTree | None"


class ClaimType(enum.StrEnum):
    """Types of claims; only ``INTEGER`` and ``TCB`` have an order."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    TEXT = "text"
    BYTES = "bytes"
    TCB = "tcb"
    LIST = "list"
    OBJECT = "object"


class Origin(enum.StrEnum):
    """The party that determined the value."""

    HARDWARE = "hardware"
    HOST = "host"
    GUEST = "guest"
    OWNER = "owner"
    CERTIFICATE = "certificate"


_STATED_TYPES: Mapping[ClaimType, type] = {
    ClaimType.BOOLEAN: bool,
    ClaimType.INTEGER: int,
    ClaimType.TEXT: str,
    ClaimType.BYTES: bytes,
    ClaimType.LIST: tuple,
}
"""The Python type of a claim's stated value; a claim of another type brings its own reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedClaims:
    """Statement of another Verifier about one device, by the names of our claims.

    Attributes:
        values: dotted name to value. A claim that the Verifier does not state is absent.
    """

    values: Mapping[str, ClaimValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedItem:
    """One TEE or device that another Verifier states, as rules read it: it has no event log."""

    name: str
    kind: str
    verified: StatedClaims
    eventlog: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One fact.

    Attributes:
        name: dotted name within its item (``policy.debug``), the path in ``--json`` too.
        type: decides the comparisons that a policy can make.
        get: takes the verified evidence of its kind; None when the evidence does not carry it.
        stated: takes what another Verifier states; None reads the value of this name, if it is of this type.
    """

    name: str
    type: ClaimType
    origin: Origin
    clause: str
    get: Callable[[Any], ClaimValue]  # Any: each registry is over the one verified type of its own package
    stated: Callable[[StatedClaims], ClaimValue] | None = None

    def read(self, subject: object) -> ClaimValue:
        """Return the value in verified evidence, or in what another Verifier states; None when it is absent."""
        if type(subject) is not StatedClaims:
            return self.get(subject)
        if self.stated is not None:
            return self.stated(subject)
        value, wanted = subject.values.get(self.name), _STATED_TYPES.get(self.type)
        # An exact type: true is no 1.
        return value if wanted is not None and type(value) is wanted else None


def claim_finder(claims: Iterable[Claim]) -> Callable[[str], Claim]:
    """Return the function that returns the claim of a name; an unknown name is a ``KeyError``."""
    return {claim.name: claim for claim in claims}.__getitem__


def claims_document(claims: Iterable[Claim], verified: object) -> dict[str, JsonValue]:
    """Return all claims that the evidence carries, nested by their dotted names, bytes as lower-case hex."""
    values = ((claim.name, claim.get(verified)) for claim in claims)
    return nested_document({name: value for name, value in values if value is not None})


def nested_document(values: Mapping[str, ClaimTree]) -> dict[str, JsonValue]:
    """Return values nested by their dotted names, bytes as lower-case hex."""
    document: dict[str, JsonValue] = {}
    for name, value in values.items():
        *parents, leaf = name.split(".")
        place: dict[str, Any] = document  # Any: a tree under construction
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = claim_json(value)
    return document


def claim_json(value: ClaimTree) -> JsonValue:
    """Return a value for JSON, bytes as lower-case hex."""
    match value:
        case bytes():
            return value.hex()
        case tuple():
            return [claim_json(member) for member in value]
        case Mapping():
            return {name: claim_json(member) for name, member in value.items()}
        case _:
            return value


def value_text(value: ClaimValue) -> str:
    """Write a value for people: bytes in full as hex, never shortened."""
    match value:
        case None:
            return "absent"
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case Mapping():
            return " ".join(f"{name} {value_text(member)}" for name, member in value.items())
        case tuple():
            return ", ".join(map(value_text, value)) or "none"
        case _:
            return str(value)
