"""The result of a conversion between two policy languages: a document, and the demands that it lacks.

No two of these languages have the same demands. So a conversion lists each demand that it carried and where to, each
that it could not carry and why, and what the outcome demands beyond the source. A demand that is lost makes the
outcome weaker than its source: there is no outcome until a person accepts that by name, with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from attest.checks import Outcome
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy.loader import load_policy
from attest.policy.model import SCHEMA

_LONGEST_DESCRIPTION = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A demand of the source, by claim or key, and what has it in the outcome: a key, a claim, or verification."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A demand that is not in the outcome, or only in part.

    Attributes:
        name: the name to accept it by: a claim, a key, or the place of a list. Several may share a name.
        accepted: why its loss is accepted; None while it is not.
    """

    name: str
    demand: str
    why: str
    remedy: str
    accepted: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A conversion.

    Attributes:
        document: the outcome, None while a loss is not accepted.
        stricter: its demands beyond its source, for people: it refuses more.
    """

    document: dict[str, JsonValue] | None
    carried: tuple[Carried, ...]
    losses: tuple[Loss, ...]
    stricter: tuple[str, ...]

    @property
    def open_losses(self) -> tuple[Loss, ...]:
        """Losses that are not accepted."""
        return tuple(loss for loss in self.losses if loss.accepted is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedSection:
    """One section of the outcome, in one of its branches or at its top.

    Attributes:
        body: the section, with its reference values.
        skeleton: the section with the required keys alone: its demands do not come from the source.
        targets: its keys that come from demands of the source.
    """

    body: Mapping[str, JsonValue]
    skeleton: Mapping[str, JsonValue]
    targets: frozenset[str]


class CannotCarryError(Exception):
    """One demand that the other language cannot express. Never leaves this package."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


def impossible(problem: str, hint: str) -> ConfigurationError:
    """Make the error for a policy of which nothing sensible would be left."""
    return ConfigurationError(f"policy cannot be converted: {problem}", code="policy-conversion-impossible", hint=hint)


def not_demanded(source: str) -> dict[str, JsonValue]:
    """Fill a key that our policies require, and for which the source has no demand."""
    return {"unchecked": f"not demanded by the {source} from which this policy was converted"}


def accepted_losses(losses: Iterable[Loss], accept: Mapping[str, str]) -> tuple[Loss, ...]:
    """Mark the accepted losses, by name.

    Raises:
        ConfigurationError: ``loss-unknown``: a name that no loss has, or a blank reason. A name that is
            mistyped today may fit another loss tomorrow.
    """
    found = tuple(losses)
    names = sorted({loss.name for loss in found})
    for name, reason in accept.items():
        if name not in names or not reason.strip():
            problem = f"{name!r} is not the name of a loss" if name not in names else f"{name}: a reason is needed"
            raise ConfigurationError(
                f"accepted loss: {problem}",
                code="loss-unknown",
                field=name,
                expected=", ".join(names) or "nothing: the conversion carries every demand",
                hint="accept a loss by the name under which it is listed, with a reason",
            )
    return tuple(replace(loss, accepted=accept.get(loss.name)) for loss in found)


def finish_policy(
    body: Mapping[str, JsonValue],
    *,
    name: str,
    source: str,
    parts: Iterable[ConvertedSection],
    carried: tuple[Carried, ...],
    losses: tuple[Loss, ...],
    notes: tuple[str, ...] = (),
) -> Conversion:
    """Put a policy document of ours together, and load it.

    ``notes`` are demands of ``body`` beyond its source that follow from the way in which it is written.

    Raises:
        ConfigurationError: ``policy-invalid``, when the source's values fit its language and not ours.
    """
    head: dict[str, JsonValue] = {"schema": SCHEMA, "name": name, "version": 1}
    document = {**head, "description": _description(source, losses), **body}
    load_policy(json.dumps(document).encode())
    defaults = dict.fromkeys(line for part in parts for line in _defaults(head, part))
    is_open = any(loss.accepted is None for loss in losses)
    return Conversion(
        document=None if is_open else document, carried=carried, losses=losses, stricter=(*notes, *defaults)
    )


def _defaults(head: Mapping[str, JsonValue], part: ConvertedSection) -> Iterator[str]:
    """Yield the demands of a section that its source does not make."""
    demanded = _demanded({**head, **part.body})
    for rule, expected in _demanded({**head, **part.skeleton}).items():
        key = rule.removeprefix("policy.")
        if demanded.get(rule) == expected and key not in part.targets:
            yield f"{key}: {expected}"


def _description(source: str, losses: tuple[Loss, ...]) -> str:
    """Add the origin of a policy and its losses to its description."""
    reasons = "; ".join(dict.fromkeys(f"{loss.name} ({loss.accepted})" for loss in losses))
    text = f"converted from {source}" + (f"; not carried: {reasons}" if losses else "")
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return f"converted from {source}; {len(losses)} demands were not carried, and their loss accepted"


def _demanded(document: Mapping[str, JsonValue]) -> dict[str, str]:
    """Load a policy and return its demands by rule, without those that are unchecked or only warn."""
    policy = load_policy(json.dumps(document).encode())
    rules = (*(rule for kind in policy.rules.values() for rule in kind), *policy.set_rules)
    return {rule.id: rule.expected for rule in rules if rule.relaxed is None and rule.otherwise is Outcome.FAIL}
