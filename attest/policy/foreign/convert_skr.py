"""Azure's release policies as policies of ours: from claims of a token to demands on the evidence itself.

Azure's policy judges the claims of a Verifier's token; ours judges the evidence that the hardware signed. So facts of
the report are carried; statements of the Verifier, the paravisor or the guest beside them are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy.foreign.conversion import (
    Carried,
    Conversion,
    ConvertedSection,
    Loss,
    accepted_losses,
    finish_policy,
    impossible,
    not_demanded,
)
from attest.policy.foreign.issuers import normalised_issuer
from attest.policy.foreign.skr import AllOf, AnyOf, SkrAuthority, SkrPolicy, canonical_bytes, skr_digest
from attest.policy.foreign.skr_carriers import TCB_PARTS, NeverHoldsError, SkrDraft
from attest.policy.foreign.skr_choices import Alternative, Factors, SkrAlternatives

_SOURCE = "Azure release policy"
_TCB_LINES = ("Milan", "Genoa")
"""Product lines whose TCB has exactly the four parts that Azure's claims name."""
_ONLY_FOUR = "snp.{}: Turin is refused, whose TCB has a fifth part that the source says nothing about"
_REFERENCES = ("measurement", "mr_td", "rtmr0", "rtmr1", "rtmr2", "rtmr3")
"""Keys that name reference values."""
_WITH_DEFAULT = {"snp": "vmpl", "tdx": "tcb_status"}
"""Keys that are demanded when left out, of which a source can demand something else."""


def convert_skr(
    policy: SkrPolicy, *, name: str, accept: Mapping[str, str] = MappingProxyType({}), authority: str | None = None
) -> Conversion:
    """Convert a release policy into one of ours.

    ``accept`` has the losses that are accepted, each with its reason. ``authority`` is the issuer whose conditions are
    converted; None for those of all, of which one has to hold.

    Raises:
        ConfigurationError: ``policy-conversion-impossible``, nothing sensible would be left; ``loss-unknown``;
            ``policy-invalid``; ``policy-unreadable``, the outcome would be longer than our policies may be.
    """
    chosen = _chosen(policy, authority)
    try:
        factors = Factors.of(_conditions(policy, chosen), "anyOf")
    except NeverHoldsError as exc:
        raise _never(exc) from exc
    source = f"{_SOURCE}, SHA-256 of its canonical form {skr_digest(policy).hex()}"
    outcome = _Outcome(origin=source, dropped=factors.losses)
    body = outcome.body([_Drafts.of(choice, left_out=factors.left_out) for choice in factors.branches()])
    return finish_policy(
        body,
        name=name,
        source=f"an {source.replace(', SHA-256', ' (SHA-256')})",
        parts=outcome.parts,
        carried=tuple(outcome.carried(factors)),
        losses=accepted_losses(
            dict.fromkeys((*_issuers(policy, chosen), *factors.losses, *outcome.lost(factors))), accept
        ),
        notes=tuple(dict.fromkeys((*_left_out(factors), *outcome.notes))),
    )


# -- authorities


def _chosen(policy: SkrPolicy, authority: str | None) -> tuple[SkrAuthority, ...]:
    """Choose the authorities whose conditions are converted."""
    chosen = tuple(one for one in policy.authorities if authority is None or one.issuer == normalised_issuer(authority))
    if not chosen:
        raise impossible(f"{authority} is not one of its authorities", "name one of its authorities")
    return chosen


def _conditions(policy: SkrPolicy, chosen: Iterable[SkrAuthority]) -> Iterator[tuple[str, AllOf | AnyOf]]:
    """Yield conditions with their places, those that differ: equal ones are not a choice."""
    forms: dict[bytes, SkrAuthority] = {}
    for one in chosen:
        without_url = SkrAuthority(url="https://any.example", conditions=one.conditions)
        forms.setdefault(canonical_bytes(SkrPolicy(authorities=(without_url,))), one)
    for one in forms.values():
        yield f"anyOf[{policy.authorities.index(one)}]", one.conditions


def _issuers(policy: SkrPolicy, chosen: tuple[SkrAuthority, ...]) -> Iterator[Loss]:
    """Add a note that no token is demanded, and the issuer that was."""
    yield Loss(
        name="authority",
        demand=f"a token of {' or '.join(dict.fromkeys(one.issuer for one in chosen))}"[:1000],
        why="attest policies appraise evidence, not tokens: attest verifies the evidence in place of that issuer",
        remedy="appraise the evidence itself; what the issuer's own policy demands is not in this document",
    )
    if len(tuple(_conditions(policy, chosen))) > 1:
        yield Loss(
            name="authorities",
            demand="of each issuer's tokens its own conditions",
            why="attest policies have no issuers: the conditions of any one of them are enough",
            remedy="choose one with --authority; the outcome then accepts its machines only",
        )


def _never(problem: NeverHoldsError) -> ConfigurationError:
    return impossible(f"{problem}: the source can never be met", "correct the source first")


# -- the outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drafts:
    """The branches of one choice, and the alternatives that contradict what lies around them."""

    drafts: tuple[SkrDraft, ...]
    never: tuple[Alternative, ...]

    @staticmethod
    def of(choice: SkrAlternatives, *, left_out: Sequence[Alternative]) -> _Drafts:
        """Read the alternatives of a choice; ``left_out`` are those of the source that our policies cannot express.

        Raises:
            ConfigurationError: ``policy-conversion-impossible``, no machine meets any of those that are left.
        """
        drafts, never, reasons = list[SkrDraft](), list[Alternative](), list[NeverHoldsError]()
        for alternative in choice.alternatives:
            try:
                drafts.append(SkrDraft.of(alternative.wanted))
            except NeverHoldsError as exc:
                never.append(alternative)
                reasons.append(exc)
        if not drafts and left_out:
            paths = ", ".join(one.path for one in left_out)
            raise impossible(
                (f"{reasons[0]}: the demands that can be carried can never be met"),
                f"attest policies cannot express {paths}",
            )
        if not drafts:
            raise _never(reasons[0])
        return _Drafts(drafts=tuple(drafts), never=tuple(never))


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """A policy of ours in the making.

    Attributes:
        origin: of its reference values.
        dropped: choices that are not carried.
        drafts: the sources of ``parts``.
        never: alternatives that no machine meets.
        notes: demands beyond the source.
    """

    origin: str
    dropped: list[Loss]
    references: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    parts: list[ConvertedSection] = field(default_factory=list[ConvertedSection])
    drafts: list[SkrDraft] = field(default_factory=list[SkrDraft])
    never: list[Alternative] = field(default_factory=list[Alternative])
    notes: list[str] = field(default_factory=list[str])

    def body(self, choices: list[_Drafts]) -> dict[str, JsonValue]:
        """Write sections, as branches where there is a choice."""
        first, *others = ([*self._sections(choice, inner=index > 0)] for index, choice in enumerate(choices))
        body: dict[str, JsonValue] = {**first[0]} if len(first) == 1 and not others else {"any_of": [*first]}
        if others:
            body["all_of"] = [{"any_of": [*sections]} for sections in others]
        return {**({"reference_values": self.references} if self.references else {}), **body}

    def carried(self, factors: Factors) -> Iterator[Carried]:
        """Yield the carried demands, and those that are refused anyway because no machine meets them."""
        found = dict.fromkeys(one for draft in self.drafts for one in draft.carried)
        yield from found
        known = {one.source for one in found} | {loss.name for loss in self.lost(factors)}
        paths = dict.fromkeys(one.path for never in (*factors.never, *self.never) for one in never.wanted)
        for path in paths:
            if path not in known:
                yield Carried(source=path, target="refused: the demands beside it can never be met together with it")

    def lost(self, factors: Factors) -> Iterator[Loss]:
        """Yield the losses, also those in alternatives that are left out."""
        for draft in (*self.drafts, *(SkrDraft.of(one.wanted) for one in factors.left_out)):
            yield from draft.losses

    def _sections(self, choice: _Drafts, *, inner: bool) -> Iterator[dict[str, JsonValue]]:
        self.never += choice.never
        seen: list[dict[str, JsonValue]] = []
        for draft in choice.drafts:
            self.drafts.append(draft)
            section = self._section(draft, inner=inner)
            if section not in seen:
                seen.append(section)
                yield section

    def _section(self, draft: SkrDraft, *, inner: bool) -> dict[str, JsonValue]:
        if not draft.sections:
            hint = "a release policy names sevsnpvm or tdxvm, or a fact of one of their reports"
            raise impossible("it names no kind of machine", self.dropped[0].why if self.dropped else hint)
        (kind,) = draft.sections
        section = _required(kind)
        for key, values in draft.lists.get(kind, {}).items():
            section[key] = [self._reference(key, values)] if key in _REFERENCES else [*values]
        for group, bits in draft.bits.get(kind, {}).items():
            section[group] = dict(bits)
        if inner:
            reason: JsonValue = {"unchecked": "demanded by the branches of any_of, one of which must hold too"}
            section.setdefault(_WITH_DEFAULT[kind], reason)
        if "minimum_guest_svn" in draft.minimums:
            section["minimum_guest_svn"] = draft.minimums["minimum_guest_svn"]
        section |= self._tcb(draft)
        if "exact_tcb" in section:
            del section["minimum_tcb"]
        targets = frozenset(one.target for one in draft.carried)
        references = {"reference_values": self.references} if self.references else {}
        skeleton: dict[str, JsonValue] = {kind: _required(kind)}
        self.parts.append(ConvertedSection(body={**references, kind: section}, skeleton=skeleton, targets=targets))
        return {kind: section}

    def _tcb(self, draft: SkrDraft) -> dict[str, JsonValue]:
        """Write the demands on the TCB. Azure's claims name no product line, so each fitting one gets the same."""
        if draft.levels:
            self.notes.append(_ONLY_FOUR.format("exact_tcb"))
            return {"exact_tcb": {line: [{**tcb} for tcb in draft.exact_tcbs()] for line in _TCB_LINES}}
        least = {part: draft.minimums.get(f"minimum_tcb.{part}") for part in TCB_PARTS}
        if not any(level is not None for level in least.values()):
            return {}
        self.notes.append(_ONLY_FOUR.format("minimum_tcb"))
        return {"minimum_tcb": {line: {part: level or 0 for part, level in least.items()} for line in _TCB_LINES}}

    def _reference(self, key: str, values: list[JsonValue]) -> str:
        """Return the name under which values stand, the same for the same ones."""
        entry: JsonValue = {"values": values, "origin": self.origin}
        plain, number = f"converted-{key.replace('_', '-')}", 1
        name = plain
        while self.references.setdefault(name, entry) != entry:
            number += 1
            name = f"{plain}-{number}"
        return name


def _required(kind: str) -> dict[str, JsonValue]:
    keys = {"snp": ("products", "measurement", "minimum_tcb"), "tdx": ("mr_td", "rtmr1")}[kind]
    return {key: not_demanded(_SOURCE) for key in keys}


def _left_out(factors: Factors) -> Iterator[str]:
    for one in factors.left_out:
        yield f"{one.path}: an alternative without a demand that can be carried is left out: no evidence meets it"
