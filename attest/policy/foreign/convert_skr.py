"""Azure's release policies as policies of ours: from claims of a token to demands on the evidence itself.

Azure's policy judges what a Verifier wrote into a token; ours judges what the hardware signed. So facts of the report
are carried, and whatever the Verifier, the paravisor or the guest said beside them is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from attest.encoding import JsonValue
from attest.policy.foreign.conversion import (
    CannotCarryError,
    Carried,
    Conversion,
    Loss,
    accepted_losses,
    finish_policy,
    impossible,
    not_demanded,
)
from attest.policy.foreign.issuers import normalised_issuer
from attest.policy.foreign.skr import (
    AllOf,
    AnyOf,
    Authority,
    ClaimTest,
    Condition,
    Operator,
    SkrPolicy,
    SkrValue,
    canonical_bytes,
    claim_tests,
    skr_digest,
)
from attest.policy.foreign.skr_claims import why_lost
from attest.policy.foreign.skr_evaluation import integer_of, values_equal

__all__ = ["convert_skr"]

TEE_PREFIX, SNP_PREFIX, TDX_PREFIX = "x-ms-isolation-tee.", "x-ms-sevsnpvm-", "tdx_"
_SOURCE = "Azure release policy"
_MINIMUM = {Operator.EQUALS: 0, Operator.GREATER_OR_EQUALS: 0, Operator.GREATER: 1}
"""Operators that a minimum can stand for, and what they add to it."""
_LOWER_HEX = frozenset("0123456789abcdef")
_KINDS = {"sevsnpvm": "snp", "tdxvm": "tdx"}
_TDX_PROFILE = "https://aka.ms/maa-eat-profile-tdxvm"
_TCB_LINES = ("Milan", "Genoa")
"""Product lines whose TCB has exactly the four parts that Azure's claims name."""
_ONLY_FOUR = "snp.minimum_tcb: Turin is refused, whose TCB has a fifth part that the source says nothing about"
_STATUSES = (
    "UpToDate",
    "SWHardeningNeeded",
    "ConfigurationNeeded",
    "ConfigurationAndSWHardeningNeeded",
    "OutOfDate",
    "OutOfDateConfigurationNeeded",
    "TDRelaunchAdvised",
    "TDRelaunchAdvisedConfigurationNeeded",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A claim, and the values of which it must have one."""

    path: str
    operator: Operator
    values: tuple[SkrValue, ...]

    def __str__(self) -> str:
        return f"{self.path} {self.operator} {' or '.join(map(repr, self.values))}"

    def equals(self) -> tuple[SkrValue, ...]:
        """Return the values of which the claim must equal one."""
        if self.operator is not Operator.EQUALS:
            raise CannotCarryError(f"our policies have no {self.operator} for it", "list the values that are accepted")
        return self.values


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A policy of ours in the making: lists that only shrink, minimums that only grow, bits that are set once."""

    lists: dict[str, dict[str, list[JsonValue]]] = field(default_factory=dict[str, dict[str, list[JsonValue]]])
    bits: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict[str, dict[str, dict[str, bool]]])
    minimums: dict[str, int] = field(default_factory=dict[str, int])
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    losses: list[Loss] = field(default_factory=list[Loss])

    def lose(self, name: str, demand: str, why: str, remedy: str) -> None:
        self.losses.append(Loss(name=name, demand=demand, why=why, remedy=remedy))

    def narrow(self, kind: str, key: str, values: list[JsonValue]) -> str:
        """Leave what both lists have: both demands have to hold."""
        known = self.lists.setdefault(kind, {})
        known[key] = [one for one in known[key] if one in values] if key in known else values
        if not known[key]:
            raise impossible(f"no value of {kind}.{key} is left: the source never holds", "correct the source first")
        return f"{kind}.{key}"

    def switch(self, kind: str, group: str, bit: str, *, wanted: bool) -> str:
        known = self.bits.setdefault(kind, {}).setdefault(group, {})
        if known.setdefault(bit, wanted) is not wanted:
            raise impossible(f"{kind}.{group}.{bit} is demanded both ways: it never holds", "correct the source first")
        return f"{kind}.{group}.{bit}"

    def raise_to(self, name: str, minimum: int) -> None:
        self.minimums[name] = max(minimum, self.minimums.get(name, 0))


_Carrier = Callable[[_Draft, _Wanted], str]
"""Writes a demand into a draft and returns its key; raises CannotCarryError."""


# -- carriers


def _hex_values(wanted: _Wanted, size: int) -> list[JsonValue]:
    values = wanted.equals()
    for value in values:
        if not isinstance(value, str) or len(value) != 2 * size or not _LOWER_HEX.issuperset(value):
            why = f"{value!r} is not {2 * size} lower-case hex digits, as Azure writes them: it never holds there"
            raise CannotCarryError(why, "correct the value in the source")
    return list(values)


def _hex(kind: str, key: str, size: int) -> _Carrier:
    return lambda draft, wanted: draft.narrow(kind, key, _hex_values(wanted, size))


def _bit(kind: str, group: str, bit: str, *, only: bool | None = None) -> _Carrier:
    """Carry a boolean; ``only`` is the one that our policies can demand."""

    def carry(draft: _Draft, wanted: _Wanted) -> str:
        values = wanted.equals()
        for truth in (True, False):
            if all(values_equal(value, truth) for value in values):
                if only is not None and only is not truth:
                    why = f"our policies never demand {str(truth).lower()} of it"
                    raise CannotCarryError(why, f"{kind}.{group}.{bit}: {{unchecked: reason}} accepts both")
                return draft.switch(kind, group, bit, wanted=truth)
        raise CannotCarryError("both truth values, or none, are accepted", "demand one of true and false")

    return carry


def _vmpl(draft: _Draft, wanted: _Wanted) -> str:
    numbers = [integer_of(value) for value in wanted.equals()]
    if not all(number in range(4) for number in numbers):
        raise CannotCarryError("a VMPL is a number from 0 to 3", "correct the value in the source")
    return draft.narrow("snp", "vmpl", list(numbers))


def _status(draft: _Draft, wanted: _Wanted) -> str:
    values = wanted.equals()
    if not set(values) <= set(_STATUSES):
        raise CannotCarryError("no policy of ours accepts such a status", f"name some of {', '.join(_STATUSES)}")
    return draft.narrow("tdx", "tcb_status", list(values))


def _at_least(name: str, highest: int) -> _Carrier:
    """Carry a minimum. An exact number becomes one, which accepts more: that part is lost."""

    def carry(draft: _Draft, wanted: _Wanted) -> str:
        numbers = [integer_of(value) for value in wanted.values]
        if wanted.operator not in _MINIMUM:
            raise CannotCarryError(f"our policies demand a minimum, and have no {wanted.operator}", "state a minimum")
        lowest = min(-1 if number is None else number for number in numbers) + _MINIMUM[wanted.operator]
        if not 0 <= lowest <= highest or None in numbers:
            raise CannotCarryError(f"such a number is from 0 to {highest}", "correct the value in the source")
        draft.raise_to(name, lowest)
        if wanted.operator is Operator.EQUALS:
            why = f"our policies demand a minimum, not an exact number: carried as at least {lowest}"
            draft.lose(wanted.path, str(wanted), why, "accept that newer levels pass too")
        return f"snp.{name}"

    return carry


def _kind(draft: _Draft, wanted: _Wanted) -> str:
    values = wanted.equals()
    if len(values) != 1 or values[0] not in _KINDS:
        raise CannotCarryError(
            "our policies know machines by the hardware that signs: " + ", ".join(_KINDS), "demand one of these"
        )
    kind = _KINDS[str(values[0])]
    draft.kinds[kind] = wanted.path
    return kind


def _profile(draft: _Draft, wanted: _Wanted) -> str:
    if wanted.equals() != (_TDX_PROFILE,):
        raise CannotCarryError("another profile than that of Azure's tokens about TDs", "demand an attestation type")
    draft.kinds["tdx"] = wanted.path
    return "tdx"


_CARRIERS: Mapping[str, _Carrier] = MappingProxyType(
    {
        "x-ms-attestation-type": _kind,
        "eat_profile": _profile,
        **{
            SNP_PREFIX + suffix: carrier
            for suffix, carrier in {
                "launchmeasurement": _hex("snp", "measurement", 48),
                "hostdata": _hex("snp", "host_data", 32),
                "authorkeydigest": _hex("snp", "author_key_digests", 48),
                "idkeydigest": _hex("snp", "id_key_digests", 48),
                "familyId": _hex("snp", "family_ids", 16),
                "imageId": _hex("snp", "image_ids", 16),
                "vmpl": _vmpl,
                "is-debuggable": _bit("snp", "guest_policy", "debug", only=False),
                "migration-allowed": _bit("snp", "guest_policy", "migrate_ma", only=False),
                "smt-allowed": _bit("snp", "guest_policy", "smt"),
                "guestsvn": _at_least("minimum_guest_svn", 2**32 - 1),
                "bootloader-svn": _at_least("minimum_tcb.bootloader", 255),
                "tee-svn": _at_least("minimum_tcb.tee", 255),
                "snpfw-svn": _at_least("minimum_tcb.snp", 255),
                "microcode-svn": _at_least("minimum_tcb.microcode", 255),
            }.items()
        },
        **{
            TDX_PREFIX + suffix: carrier
            for suffix, carrier in {
                "mrtd": _hex("tdx", "mr_td", 48),
                **{f"rtmr{number}": _hex("tdx", f"rtmr{number}", 48) for number in range(4)},
                "mrseam": _hex("tdx", "mr_seam", 48),
                "mrconfigid": _hex("tdx", "mr_config_id", 48),
                "mrowner": _hex("tdx", "mr_owner", 48),
                "mrownerconfig": _hex("tdx", "mr_owner_config", 48),
                "td_attributes_debug": _bit("tdx", "td_attributes", "debug", only=False),
                "td_attributes_key_locker": _bit("tdx", "td_attributes", "kl"),
                "td_attributes_perfmon": _bit("tdx", "td_attributes", "perfmon"),
                "td_attributes_protection_keys": _bit("tdx", "td_attributes", "pks"),
                "td_attributes_septve_disable": _bit("tdx", "td_attributes", "sept_ve_disable", only=True),
            }.items()
        },
        "attester_tcb_status": _status,
    }
)
_REFERENCES = ("measurement", "mr_td", "rtmr0", "rtmr1", "rtmr2", "rtmr3")
"""Keys that speak of reference values by name."""


# -- conditions


def convert_skr(
    policy: SkrPolicy, *, name: str, accept: Mapping[str, str] = MappingProxyType({}), authority: str | None = None
) -> Conversion:
    """Convert a release policy into one of ours.

    Args:
        policy: the release policy.
        name: the name of the outcome.
        accept: losses that are accepted, each with its reason.
        authority: the issuer whose conditions are converted, where the policy has several that differ. The outcome
            then accepts less than its source.

    Raises:
        ConfigurationError: ``policy-conversion-impossible``, nothing sensible would be left; ``loss-unknown``;
            ``policy-invalid``.
    """
    chosen = _chosen(policy, authority)
    draft, carried = _Draft(), list[Carried]()
    draft.lose(
        "authority",
        f"a token of {chosen.issuer}",
        "our policies judge evidence, not tokens: our own verification takes the place of that issuer",
        "appraise the evidence itself; what the issuer's own policy demands is not in this document",
    )
    for item in _conjunction(chosen.conditions, f"anyOf[{policy.authorities.index(chosen)}]"):
        if isinstance(item, Loss):
            draft.losses.append(item)
        else:
            carried += _carry(draft, item)
    kind = _only_kind(draft)
    body = _body(draft, kind, origin=f"{_SOURCE}, SHA-256 of its canonical form {skr_digest(policy).hex()}")
    return finish_policy(
        body,
        name=name,
        source=f"an {_SOURCE} (SHA-256 of its canonical form {skr_digest(policy).hex()})",
        skeleton={kind: _required(kind)},
        carried=tuple(carried),
        losses=accepted_losses(draft.losses, accept),
        notes=(_ONLY_FOUR,) if any(one.startswith("minimum_tcb.") for one in draft.minimums) else (),
    )


def _chosen(policy: SkrPolicy, authority: str | None) -> Authority:
    """Choose the conditions to convert; one of ours cannot say that other authorities are held to other ones."""
    candidates = [one for one in policy.authorities if authority is None or one.issuer == normalised_issuer(authority)]
    if not candidates:
        raise impossible(f"{authority} is no authority of it", "name one of its authorities")
    forms = {canonical_bytes(SkrPolicy(authorities=(_without_url(one),))) for one in candidates}
    if len(forms) > 1:
        hint = "choose one with --authority; the outcome then accepts its machines only"
        raise impossible("its authorities have different conditions", hint)
    return candidates[0]


def _without_url(authority: Authority) -> Authority:
    return Authority(url="https://any.example", conditions=authority.conditions)


def _conjunction(condition: Condition, path: str) -> Iterator[_Wanted | Loss]:
    """Yield demands that must all hold. A choice is one when it is between values of one claim; else it is lost."""
    match condition:
        case ClaimTest():
            yield _Wanted(path=condition.path, operator=condition.operator, values=(condition.value,))
        case AllOf():
            for index, below in enumerate(condition.conditions):
                yield from _conjunction(below, f"{path}.allOf[{index}]")
        case AnyOf(conditions=(only,)):
            yield from _conjunction(only, f"{path}.anyOf[0]")
        case _:
            yield _choice(condition, f"{path}.anyOf")


def _choice(condition: AnyOf, path: str) -> _Wanted | Loss:
    tests = tuple(claim_tests(condition))
    paths = tuple(dict.fromkeys(test.path for test in tests))
    is_flat = all(_is_choice_of_values(one) for one in condition.conditions)
    if is_flat and len(paths) == 1:
        return _Wanted(path=paths[0], operator=Operator.EQUALS, values=tuple(test.value for test in tests))
    return Loss(
        name=path,
        demand=f"one of {len(condition.conditions)} conditions on {', '.join(paths)}"[:1000],
        why="our policies have choices between values of one claim, not between conditions",
        remedy="convert each branch by itself, and give the policies one after another",
    )


def _is_choice_of_values(condition: Condition) -> bool:
    """Whether it says no more than that a claim equals one of some values."""
    match condition:
        case ClaimTest():
            return condition.operator is Operator.EQUALS
        case AnyOf():
            return all(map(_is_choice_of_values, condition.conditions))
        case _:
            return len(condition.conditions) == 1 and _is_choice_of_values(condition.conditions[0])


def _carry(draft: _Draft, wanted: _Wanted) -> Iterator[Carried]:
    """Carry a demand, or write down that it is lost."""
    carrier = _CARRIERS.get(wanted.path.removeprefix(TEE_PREFIX))
    if carrier is None:
        draft.lose(wanted.path, str(wanted)[:1000], *why_lost(wanted.path))
        return
    try:
        target = carrier(draft, wanted)
    except CannotCarryError as exc:
        draft.lose(wanted.path, str(wanted)[:1000], exc.why, exc.remedy)
    else:
        yield Carried(source=wanted.path, target=target)


# -- the outcome


def _only_kind(draft: _Draft) -> str:
    kinds = {*draft.kinds, *draft.lists, *draft.bits, *(["snp"] if draft.minimums else [])}
    if len(kinds) != 1:
        problem = "it demands two kinds of machine at once" if kinds else "it names no kind of machine"
        raise impossible(problem, "a release policy names sevsnpvm or tdxvm, or a fact of one of their reports")
    return kinds.pop()


def _required(kind: str) -> dict[str, JsonValue]:
    keys = {"snp": ("products", "measurement", "minimum_tcb"), "tdx": ("mr_td",)}[kind]
    return {key: not_demanded(_SOURCE) for key in keys}


def _body(draft: _Draft, kind: str, *, origin: str) -> dict[str, JsonValue]:
    section, references = _required(kind), dict[str, JsonValue]()
    for key, values in draft.lists.get(kind, {}).items():
        if key in _REFERENCES:
            reference = f"converted-{key.replace('_', '-')}"
            references[reference] = {"values": values, "origin": origin}
            section[key] = [reference]
        else:
            section[key] = values
    for group, bits in draft.bits.get(kind, {}).items():
        section[group] = dict(bits)
    section.update(_minimums(draft.minimums))
    return {**({"reference_values": references} if references else {}), kind: section}


def _minimums(minimums: Mapping[str, int]) -> Iterator[tuple[str, JsonValue]]:
    """Write minimums. Azure's claims do not name the product line, so each fitting one gets the same."""
    if "minimum_guest_svn" in minimums:
        yield "minimum_guest_svn", minimums["minimum_guest_svn"]
    parts = ("bootloader", "tee", "snp", "microcode")
    if any(f"minimum_tcb.{part}" in minimums for part in parts):
        level: dict[str, JsonValue] = {part: minimums.get(f"minimum_tcb.{part}", 0) for part in parts}
        yield "minimum_tcb", {line: dict(level) for line in _TCB_LINES}
