"""Values that a policy accepts by name although they have no known meaning: ``accepted_opaque`` and ``accepted_spls``.

A vendor may extend what its devices state. Verification refuses what it does not understand; an author who knows the
meaning names the exact value. Another value of the same field is refused as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from attest.encoding import JsonValue
from attest.evidence.claims import Claim, ClaimType, ClaimValue
from attest.evidence.gpu.opaque_types import VALUES
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tolerances import AcceptedValue
from attest.policy.decoder import Decoder, Demand, RelaxedDemand, refuse, table_of, text
from attest.policy.rules import Rule, RuleMaker, is_

ACCEPTED_VALUES = ("accepted_opaque", "accepted_spls")
"""The keys of policies."""
OPAQUE_NAME = f"(?:{'|'.join(map(str, sorted(VALUES)))}):(?:[0-9a-f]{{2}}){{0,64}}"
"""Type of an entry of opaque data whose values are a closed set, and at most 64 bytes of another value."""
SPL_NAME = "spl[4-7]:(?:[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
"""A spare component of a VCEK or VLEK, and its level."""


def accepted_opaque(value: JsonValue, path: str) -> Mapping[str, str]:
    """Read ``accepted_opaque``: the name of each value, and the reason why it is accepted."""
    return _table(OPAQUE_NAME, "a type and its bytes in lower-case hex, such as '36:0300'")(value, path)


def accepted_spls(value: JsonValue, path: str) -> Mapping[str, str]:
    """Read ``accepted_spls``: the name of each level, and the reason why it is accepted."""
    return _table(SPL_NAME, "spl4 to spl7 and a level, such as 'spl4:1'")(value, path)


def _table(grammar: str, expected: str) -> Decoder[Mapping[str, str]]:
    def decode(value: JsonValue, path: str) -> Mapping[str, str]:
        found = table_of(text)(value, path)
        for name in found:
            if not re.fullmatch(grammar, name):
                raise refuse(f"{path}.{name}", expected, name, at_key=True)
        return found

    return decode


def accepted_of(named: Mapping[str, str]) -> tuple[AcceptedValue, ...]:
    """Return the values for verification."""
    return tuple(AcceptedValue(value=value, reason=reason) for value, reason in named.items())


def accepted_rules(make: RuleMaker, key: str, named: Mapping[str, str]) -> Iterator[Rule]:
    """Make a rule for each value, which shows in the result whether the evidence has it, and the reason."""
    for value, reason in named.items():
        relaxed: Demand[bool] = Demand(RelaxedDemand(reason=reason))
        claim = _accepted(make.claim_of, value)
        yield from make.rule(f"{key}.{value}", relaxed, is_, category="hardware", claim=claim)


def _accepted(claim: Callable[[str], Claim], value: str) -> Claim:
    def get(verified: VerifiedGpu | VerifiedSnpReport) -> ClaimValue:
        return "accepted" if any(one.value == value for one in verified.accepted) else None

    return replace(claim("not_understood"), type=ClaimType.TEXT, get=get)
