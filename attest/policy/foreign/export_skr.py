"""Our policies as Azure's release policies, as far as those can express them.

Every demand of ours is looked at, whatever it is called: one that has no claim here is a loss, so that a new key of
our language cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import Any, Literal, cast

from attest.encoding import JsonValue, json_value, rfc3339_text
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.decoder import Demand, RelaxedDemand, stated
from attest.policy.foreign.conversion import CannotCarryError, Carried, Conversion, Loss, accepted_losses, impossible
from attest.policy.foreign.skr import (
    AllOf,
    AnyOf,
    ClaimTest,
    Condition,
    Operator,
    SkrAuthority,
    SkrPolicy,
    canonical_bytes,
    parse_skr,
)
from attest.policy.foreign.skr_claims import BITS, DIGESTS, GUEST_SVN, TCB_CLAIMS, TCB_STATUS, TEE_PREFIX, VMPL
from attest.policy.intel_tcb import TcbDemands
from attest.policy.model import MAX_BRANCHES, PolicyBody, PolicyDocument
from attest.policy.references import ReferenceValues
from attest.policy.snp import SnpDemands
from attest.policy.snp_tcb import ExactTcbs, TcbMinimums

GuestLayout = Literal["cvm", "container"]
"""Place of a report's facts in Azure's tokens: below ``x-ms-isolation-tee``, or at the top."""
_PREFIXES: Mapping[str, str] = MappingProxyType({"cvm": TEE_PREFIX, "container": ""})
_KINDS = {"snp": "sevsnpvm", "tdx": "tdxvm"}

_VALUES: Mapping[str, str] = MappingProxyType(
    {
        **{key: claim for key, (claim, _) in (*DIGESTS.items(), *BITS.items())},
        "snp.vmpl": VMPL,
        "tdx.tcb_status": TCB_STATUS,
    }
)
"""Keys with a list of values, or one, to the claim that must equal one of them."""
_BY_NAME = frozenset({"snp.measurement", "tdx.mr_td", *(f"tdx.rtmr{number}" for number in range(4))})
_EVERY_SIGNING_KEY = {"vcek", "vlek"}
_COMBINATORS = ("any_of", "all_of", "at_least")
_HEAD = frozenset(
    {"name", "version", "description", "simulated", "unchecked", "verifiers", "references", "reference_values"}
)
"""Keys without a demand: names, texts, values, and reasons for demanding less."""


@dataclass(slots=True, kw_only=True)
class _Draft:
    """An export in the making."""

    prefix: str
    extended: bool
    references: Mapping[str, ReferenceValues]
    carried: list[Carried] = field(default_factory=list[Carried])
    losses: list[Loss] = field(default_factory=list[Loss])
    stricter: list[str] = field(default_factory=list[str])

    def lose(self, name: str, demand: object, why: str, remedy: str) -> None:
        text = ", ".join(map(str, cast("tuple[object, ...]", demand))) if isinstance(demand, tuple) else str(demand)
        self.losses.append(Loss(name=name, demand=text[:1000], why=why, remedy=remedy))


def export_skr(
    policy: PolicyDocument,
    *,
    authority: str,
    layout: GuestLayout = "cvm",
    extended: bool = False,
    accept: Mapping[str, str] = MappingProxyType({}),
) -> Conversion:
    """Write a policy of ours as a release policy of Azure's.

    ``authority`` is the URL of the issuer whose tokens are to count. ``extended`` uses operators that Azure's service
    ignores and a service of ours honours. ``accept`` has the losses that are accepted, each with its reason.

    Raises:
        ConfigurationError: ``policy-conversion-impossible``; ``loss-unknown``; ``skr-policy-invalid``, the authority
            is none, or the outcome is beyond the limits of such policies.
    """
    draft = _Draft(prefix=_PREFIXES[layout], extended=extended, references=policy.reference_values)
    found = _body(draft, policy, "")
    if found is None:
        raise impossible("it accepts neither SEV-SNP nor TDX guests", "Azure's tokens are about these two")
    _lose_head(draft, policy)
    conditions = AllOf(conditions=(found,)) if isinstance(found, ClaimTest) else found
    outcome = canonical_bytes(SkrPolicy(authorities=(SkrAuthority(url=authority, conditions=conditions),)))
    parse_skr(outcome, extended=extended)
    losses = accepted_losses(dict.fromkeys(draft.losses), accept)
    document = cast("dict[str, JsonValue]", json_value(outcome, what="release policy"))
    return Conversion(
        document=None if any(loss.accepted is None for loss in losses) else document,
        carried=tuple(dict.fromkeys(draft.carried)),
        losses=losses,
        stricter=(*(f"{entry.check}: not left unchecked by Azure" for entry in policy.unchecked), *draft.stricter),
    )


def _lose_head(draft: _Draft, policy: PolicyDocument) -> None:
    """Record the demands outside of the sections that no release policy can state."""
    if not any(entry.check == "freshness" for entry in policy.unchecked):
        draft.lose(
            "freshness",
            "evidence for this exchange",
            "an Azure token has no audience and is valid for hours, for every key and vault whose policy it meets",
            "release to a key that the evidence commits to, and only once",
        )
    for row in policy.references:
        why = "a release policy has values and no documents: the values of today would never expire"
        name = f"references.{row.document}"
        draft.lose(name, f"the document {row.document!r}", why, "export again whenever the document has a new version")


# -- bodies and branches


def _body(draft: _Draft, body: PolicyBody, path: str) -> Condition | None:
    """Write a policy or one of its branches: a guest of one of its kinds, and every combinator.

    Returns:
        None for a body of which nothing can be written. That is not the condition that always holds.
    """
    _lose_the_rest(draft, body)
    guests = tuple(_guests(draft, body))
    parts = [*([_some(guests)] if guests else []), *_combinators(draft, body, f"{path}." if path else "")]
    return _every(parts) if parts else None


def _guests(draft: _Draft, body: PolicyBody) -> Iterator[Condition]:
    for kind, value in _KINDS.items():
        demands = getattr(body, kind)
        if demands is not None:
            test = ClaimTest(path=f"{draft.prefix}x-ms-attestation-type", operator=Operator.EQUALS, value=value)
            draft.carried.append(Carried(source=kind, target=test.path))
            yield AllOf(conditions=(test, *_conditions(draft, kind, demands)))


def _combinators(draft: _Draft, body: PolicyBody, start: str) -> Iterator[Condition]:
    if body.any_of:
        yield from _choice(draft, body.any_of, 1, f"{start}any_of")
    for index, branch in enumerate(body.all_of):
        found = _body(draft, branch, f"{start}all_of[{index}]")
        if found is not None:  # otherwise everything in it is a loss by its own name
            yield found
    if body.at_least is not None:
        yield from _choice(draft, body.at_least.of, body.at_least.count, f"{start}at_least")


def _choice(draft: _Draft, branches: tuple[PolicyBody, ...], count: int, path: str) -> Iterator[Condition]:
    """Write that some of these branches have to hold; one of which nothing can be written does not count as met."""
    places = [f"{path}[{index}]" for index in range(len(branches))]
    written = [_body(draft, branch, place) for branch, place in zip(branches, places, strict=True)]
    found = [one for one in written if one is not None]
    if len(found) < count or comb(len(found), count) > MAX_BRANCHES:
        why = "too many combinations" if len(found) >= count else "too few of them are about Azure's guests"
        draft.lose(path, f"{count} of {len(branches)} branches", why, "export each branch by itself")
        return
    for one, place in zip(written, places, strict=True):
        if one is None:
            draft.stricter.append(f"{place}: Azure's tokens have no claims for it; it is left out")
    yield _some([_every(several) for several in combinations(found, count)])


def _every(parts: Sequence[Condition]) -> Condition:
    """Join conditions that have to hold together; a list in a list has the meaning of its members."""
    flat = [inner for one in parts for inner in (one.conditions if isinstance(one, AllOf) else (one,))]
    return AllOf(conditions=tuple(flat)) if len(parts) > 1 else parts[0]


def _some(parts: Sequence[Condition]) -> Condition:
    flat = [inner for one in parts for inner in (one.conditions if isinstance(one, AnyOf) else (one,))]
    return AnyOf(conditions=tuple(flat)) if len(parts) > 1 else parts[0]


_SAY_NOTHING = {"azure": "a release policy covers the CPU's report, and no register of the virtual TPM"}


def _lose_the_rest(draft: _Draft, body: PolicyBody) -> None:
    """Record the kinds of devices that Azure's tokens have no claims for."""
    for one in fields(body):
        value = getattr(body, one.name)
        if one.name in _HEAD or one.name in _KINDS or one.name in _COMBINATORS or value in (None, (), {}):
            continue
        why = _SAY_NOTHING.get(one.name, "Azure's tokens have no claims about such a device")
        draft.lose(one.name, f"the key {one.name}", why, "appraise it with an attest policy as well")


# -- demands


def _conditions(draft: _Draft, kind: str, demands: object) -> Iterator[Condition]:
    for name, value in _demands(kind, demands):
        try:
            found = tuple(_condition(draft, name, value))
        except CannotCarryError as exc:
            draft.lose(name, value, exc.why, exc.remedy)
        else:
            yield from found
    if isinstance(demands, SnpDemands):
        _lose_product_lines(draft, demands)


def _lose_product_lines(draft: _Draft, demands: SnpDemands) -> None:
    """Record that a TCB which is demanded of some product lines refuses the others, and that no claim does.

    Where ``products`` is demanded that is lost anyway, by the same name.
    """
    if stated(demands.products) is not None:
        return
    for key in ("minimum_tcb", "exact_tcb"):
        levels = stated(getattr(demands, key))
        if levels is not None and len(levels) < len(SnpProduct):
            lines = ", ".join(levels)
            why = f"snp.{key} refuses every product line but {lines}, and no claim of Azure's names the line"
            draft.lose("snp.products", lines, why, "appraise the evidence with an attest policy")


def _demands(path: str, demands: object) -> Iterator[tuple[str, Any]]:  # Any: the demand's own type
    """Yield the demands by key, without those that are not made, or are left unchecked with a reason."""
    for one in fields(cast("Any", demands)):
        value = getattr(demands, one.name)
        if isinstance(value, TcbDemands):
            yield from _demands(path, value)  # its keys are beside the others
        elif isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            start = path if one.name == "rtmrs" else f"{path}.{one.name}"
            for name, member in members.items():
                yield from _demand(f"{start}.{name}", member)
        else:
            yield from _demand(f"{path}.{one.name}", value)


def _demand(name: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  the demand's own type
    inner: Any = value
    if isinstance(value, Demand):
        inner = inner.value
    if inner not in (None, ()) and not isinstance(inner, RelaxedDemand):
        yield name, inner


def _condition(draft: _Draft, name: str, value: Any) -> Iterator[Condition]:  # noqa: ANN401  the demand's own type
    if name == "snp.signing_key" and set(value) == _EVERY_SIGNING_KEY:
        return  # every report is signed by one of them
    if name == "snp.minimum_guest_svn":
        yield _minimum(draft, name, GUEST_SVN, value)
    elif name == "snp.minimum_tcb":
        yield from _tcb(draft, value)
    elif name == "snp.exact_tcb":
        yield from _exact_tcb(draft, value)
    elif name in _VALUES:
        yield _one_of(draft, name, value)
    else:
        raise CannotCarryError("Azure's tokens have no claim for it", "appraise the evidence with an attest policy")


def _one_of(draft: _Draft, name: str, value: Any) -> Condition:  # noqa: ANN401  a value, or a tuple of values
    several: tuple[Any, ...] = value
    listed = several if isinstance(value, tuple) else (value,)
    if name in _BY_NAME:
        listed = tuple(digest for reference in listed for digest in _digests(draft, name, reference))
    path = draft.prefix + _VALUES[name]
    tests = tuple(
        ClaimTest(path=path, operator=Operator.EQUALS, value=one.hex() if isinstance(one, bytes) else one)
        for one in dict.fromkeys(listed)
    )
    draft.carried.append(Carried(source=name, target=path))
    return tests[0] if len(tests) == 1 else AnyOf(conditions=tests)


def _digests(draft: _Draft, name: str, reference: str) -> tuple[bytes, ...]:
    found = draft.references[reference]
    if found.expires is not None:
        why = "a release policy has no dates: the values would never expire"
        until = f"{name} until {rfc3339_text(found.expires)}"
        draft.lose(f"reference_values.{reference}.expires", until, why, "replace the policy in time")
    return found.values


def _minimum(draft: _Draft, name: str, claim: str, value: int) -> Condition:
    """Demand a minimum, where the service that will read it has such an operator."""
    if not draft.extended:
        raise CannotCarryError(
            ("Azure's service has only the operator equals"), "appraise it with an attest policy as well"
        )
    path = draft.prefix + claim
    draft.carried.append(Carried(source=name, target=path))
    return ClaimTest(path=path, operator=Operator.GREATER_OR_EQUALS, value=value)


def _tcb(draft: _Draft, minimums: TcbMinimums) -> Iterator[Condition]:
    (tcb,) = _of_every_line({line: (tcb,) for line, tcb in minimums.items()})
    for part, level in tcb.components().items():
        yield _minimum(draft, "snp.minimum_tcb", TCB_CLAIMS[part], level)


def _exact_tcb(draft: _Draft, exact: ExactTcbs) -> Iterator[Condition]:
    """Write each TCB as conditions on its four parts."""
    tcbs = _of_every_line(exact)
    paths = {part: draft.prefix + claim for part, claim in TCB_CLAIMS.items()}
    draft.carried += (Carried(source="snp.exact_tcb", target=path) for path in paths.values())
    levels = [
        AllOf(
            conditions=tuple(
                ClaimTest(path=paths[part], operator=Operator.EQUALS, value=level)
                for part, level in tcb.components().items()
            )
        )
        for tcb in tcbs
    ]
    yield from levels[0].conditions if len(levels) == 1 else (AnyOf(conditions=tuple(levels)),)


def _of_every_line(by_line: Mapping[SnpProduct, tuple[SnpTcbVersion, ...]]) -> tuple[SnpTcbVersion, ...]:
    """Return the one list of TCBs that all product lines have, in any order."""
    lists = {frozenset(tcbs): tcbs for tcbs in by_line.values()}
    if len(lists) != 1 or any(tcb.fmc is not None for tcbs in lists for tcb in tcbs):
        why = "Azure's claims do not name the product line, and have no part fmc"
        raise CannotCarryError(why, "split the policy by product lines, each with its own machines")
    return next(iter(lists.values()))
