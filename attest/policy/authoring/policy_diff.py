"""The difference between two policies: for each demand, stricter, looser or changed.

Both documents are compared with their strict defaults filled in. So a new line that states a default is no difference.
Neither are the order of lists, another name for the same reference value, or another cut of the same range of versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from attest.policy.authoring.branch_pairs import branch_pairs
from attest.policy.authoring.comparison import (
    Compared,
    Effect,
    combined,
    compare_values,
    maximum,
    minimum,
    reasons,
    shown,
    switches,
)
from attest.policy.authoring.demands import (
    INLINE,
    NAMED,
    NESTED,
    SECTIONS,
    TABLES,
    join,
    members,
    names_in_use,
    resolved,
    value_of,
)
from attest.policy.authoring.reference_comparison import compare_documents
from attest.policy.authoring.tcb_sets import joined_tcbs
from attest.policy.decoder import RelaxedDemand
from attest.policy.model import PolicyBody, PolicyDocument
from attest.policy.references import ReferenceValues
from attest.policy.verifiers import AcceptedVerifier

_CPUS = ("snp", "tdx", "sgx", "sample")
_References = Mapping[str, ReferenceValues]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """One difference.

    Attributes:
        path: the demand, as the document spells it (``snp.minimum_tcb``, ``any_of[1].tdx.mr_td``). Branches have the
            number that they have in the new policy; those that are gone, the one that they had.
    """

    path: str
    effect: Effect
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDifference:
    """All differences between two policies, in the order of the document."""

    changes: tuple[PolicyChange, ...]

    @property
    def effect(self) -> Effect | None:
        """The combined effect of all changes; None when there are none."""
        return combined(change.effect for change in self.changes)

    @property
    def same_meaning(self) -> bool:
        """True if both policies accept the same evidence; labels may differ."""
        return self.effect in {None, Effect.LABEL}


def diff_policies(old: PolicyDocument, new: PolicyDocument) -> PolicyDifference:
    """Compare two policies."""
    changes = (
        *_labels(old, new),
        *_demand("simulated", old.simulated, new.simulated, "simulated"),
        *_changes("unchecked", compare_values("unchecked", old.unchecked, new.unchecked)),
        *_verifiers(old, new),
        *_changes("references", compare_documents(old.references, new.references)),
        *_reference_labels(old, new),
        *_other(old, new),
        *diff_bodies(old, new, old_references=old.reference_values, new_references=new.reference_values),
    )
    changed = bool(changes) and _alone(old) != _alone(new)
    return PolicyDifference(changes=(*_version(old, new, changed=changed), *changes))


def _alone(policy: PolicyDocument) -> PolicyDocument:
    """Return a policy without the values of documents: a new version of a document is no change of the policy."""
    own = {name: one for name, one in policy.reference_values.items() if one.document is None}
    return replace(policy, reference_values=own)


def diff_bodies(
    old: PolicyBody, new: PolicyBody, *, old_references: _References, new_references: _References
) -> tuple[PolicyChange, ...]:
    """Compare the demands of two policies, or of two branches of one; empty if both accept the same."""
    walk = _Walk(
        old_references=old_references,
        new_references=new_references,
        old_kinds=kinds_in(old),
        new_kinds=kinds_in(new),
        branching=bool(_branches(old) or _branches(new)),
    )
    return tuple(walk.bodies(old, new, ""))


def kinds_in(body: PolicyBody) -> frozenset[str]:
    """Return the sections that a policy or branch has, at any depth."""
    own = frozenset(name for name in SECTIONS if getattr(body, name) is not None)
    return own.union(*map(kinds_in, _branches(body)))


def _cpus(body: PolicyBody) -> tuple[str, ...]:
    return tuple(name for name in _CPUS if getattr(body, name) is not None)


def _branches(body: PolicyBody) -> tuple[PolicyBody, ...]:
    return tuple(branch for *_, branch in body.branches(""))


# -- the top level


def _version(old: PolicyDocument, new: PolicyDocument, *, changed: bool) -> Iterator[PolicyChange]:
    """Compare the versions. A lower one is refused wherever versions only grow (must-check.md 23)."""
    if new.version < old.version:
        text = f"went back from {old.version} to {new.version}"
        yield PolicyChange(path="version", effect=Effect.CHANGED, text=text)
    elif new.version > old.version:
        yield PolicyChange(path="version", effect=Effect.LABEL, text=f"from {old.version} to {new.version}")
    elif changed:
        text = f"still {new.version}, though the document differs: raise it with every change"
        yield PolicyChange(path="version", effect=Effect.LABEL, text=text)


def _labels(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    for name in ("name", "description"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield PolicyChange(path=name, effect=Effect.LABEL, text=f"{before!r}, now {after!r}")


_COMPARED = frozenset(
    {"name", "version", "description", "simulated", "unchecked", "verifiers", "references", "reference_values"}
    | {field.name for field in fields(PolicyBody)}
)


def _verifiers(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    """Compare the accepted Verifiers: another Verifier is another way to be accepted."""
    before, after = ({one.issuer: one for one in policy.verifiers} for policy in (old, new))
    for issuer in dict.fromkeys((*before, *after)):
        path = f"verifiers.{issuer}"
        if issuer not in before:
            yield PolicyChange(path=path, effect=Effect.LOOSER, text="its tokens are now accepted instead of evidence")
        elif issuer not in after:
            yield PolicyChange(path=path, effect=Effect.STRICTER, text="its tokens are no longer accepted")
        else:
            ages = maximum(before[issuer].maximum_age, after[issuer].maximum_age)
            yield from _changes(f"{path}.maximum_age", ages)
            ids = before[issuer].policy_ids, after[issuer].policy_ids
            yield from _demand("policy_ids", *ids, f"{path}.policy_ids")
            first, second = _written(before[issuer]), _written(after[issuer])
            for name in dict.fromkeys((*first, *second)):
                yield from _demand(name, first.get(name), second.get(name), f"{path}.statements.{name}")


def _written(verifier: AcceptedVerifier) -> Mapping[str, tuple[str, ...]]:
    """Return statements as JSON text, in which true differs from 1."""
    return {name: tuple(map(json.dumps, values)) for name, values in verifier.statements.items()}


def _other(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    """Report every other key that differs, without a direction."""
    for name, before in members(old):
        if name not in _COMPARED:
            yield from _changes(name, switches(before, getattr(new, name)))


def _reference_labels(old: PolicyDocument, new: PolicyDocument) -> Iterator[PolicyChange]:
    """Compare the parts of reference values that no demand uses: origins, and values without a demand."""
    before, after = old.reference_values, new.reference_values
    used = names_in_use(old) | names_in_use(new)
    for name in dict.fromkeys((*before, *after)):
        path = f"reference_values.{name}"
        if name not in before or name not in after:
            if name not in used:
                word = "removed" if name in before else "added"
                yield PolicyChange(path=path, effect=Effect.LABEL, text=f"{word}; no demand refers to it")
        elif before[name].origin != after[name].origin:
            text = f"origin {before[name].origin!r}, now {after[name].origin!r}"
            yield PolicyChange(path=path, effect=Effect.LABEL, text=text)


# -- demands


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """One walk through both policies at once."""

    old_references: _References
    new_references: _References
    old_kinds: frozenset[str]
    new_kinds: frozenset[str]
    branching: bool

    def bodies(self, old: PolicyBody, new: PolicyBody, path: str) -> Iterator[PolicyChange]:
        """Compare two bodies: their sections, then their branches."""
        for name in (*SECTIONS, "devices"):
            before, after, place = getattr(old, name), getattr(new, name), join(path, name)
            if before is None and after is None:
                continue
            if before is None or after is None:
                yield self._section(name, path, old, new)
            else:
                yield from self._sections(before, after, place)
        yield from self._cpu(old, new, path)
        yield from self._choice(old.any_of, new.any_of, join(path, "any_of"))
        # All of these have to hold: a branch more is a demand more.
        yield from self._matched(old.all_of, new.all_of, join(path, "all_of"), added=Effect.STRICTER)
        yield from self._some(old, new, join(path, "at_least"))

    def _section(self, name: str, path: str, old: PolicyBody, new: PolicyBody) -> PolicyChange:
        """Compare a section that one policy lacks. A policy refuses evidence of a kind that it has no section for."""
        added = getattr(old, name) is None
        effect = self._section_effect(name, old, new, self.old_kinds if added else self.new_kinds, inner=bool(path))
        if effect is Effect.LOOSER:
            text = f"evidence of this kind is {'now accepted, under the demands here' if added else 'now refused'}"
        else:
            text = "now demanded" if added else "no longer demanded"
        return PolicyChange(path=join(path, name), effect=effect if added else effect.reverse, text=text)

    def _section_effect(
        self, name: str, old: PolicyBody, new: PolicyBody, others: frozenset[str], *, inner: bool
    ) -> Effect:
        """Return the effect of an added section; ``others`` are the kinds that the policy has without it."""
        if name in ("devices", "dstack"):
            return Effect.STRICTER
        if name == "azure":
            return Effect.CHANGED  # the sections of the CPU beside it judge another kind of evidence from then on
        if name in _CPUS and _cpus(old) and _cpus(new):
            return Effect.LOOSER  # one of several kinds of CPU is required: a further kind is an alternative
        if name in others:
            return Effect.STRICTER
        return Effect.CHANGED if inner or (self.branching and name in _CPUS) else Effect.LOOSER

    def _cpu(self, old: PolicyBody, new: PolicyBody, path: str) -> Iterator[PolicyChange]:
        """Compare the demand for a CPU, which ``devices`` makes in a body with sections for CPUs."""
        if old.devices is None or new.devices is None:
            return
        before, after = bool(_cpus(old)), bool(_cpus(new))
        if before is not after:
            text = "a CPU is now required" if after else "a CPU is no longer required"
            effect = Effect.STRICTER if after else Effect.LOOSER
            yield PolicyChange(path=join(path, "devices.cpu"), effect=effect, text=text)

    def _sections(self, old: object, new: object, path: str) -> Iterator[PolicyChange]:
        joined = joined_tcbs(old, new)
        for (name, before), (_, after) in zip(members(old), members(new), strict=True):
            inner = path if name in INLINE else join(path, name)
            if name in joined:
                yield from _changes(inner, joined[name])
            elif name in TABLES:
                for key in dict.fromkeys((*before, *after)):
                    yield from self._one(key, before.get(key), after.get(key), join(inner, key))
            elif name in NESTED and before is not None and after is not None:
                yield from self._sections(before, after, inner)
            elif name in NESTED:
                stated = ("its demands" if one is not None else None for one in (before, after))
                yield from _changes(inner, _compared(name, *stated))
            else:
                yield from self._one(name, before, after, inner)

    def _one(self, name: str, old: object, new: object, path: str) -> Iterator[PolicyChange]:
        if name in NAMED:
            old, new = resolved(old, self.old_references), resolved(new, self.new_references)
        yield from _demand(name, old, new, path)

    # -- branches

    def _choice(self, old: tuple[PolicyBody, ...], new: tuple[PolicyBody, ...], path: str) -> Iterator[PolicyChange]:
        """Compare branches, one of which must hold: another branch is another way to be accepted."""
        if bool(old) is not bool(new):
            yield self._combinator(old or new, path, added=bool(new))
        else:
            yield from self._matched(old, new, path, added=Effect.LOOSER)

    def _some(self, old: PolicyBody, new: PolicyBody, path: str) -> Iterator[PolicyChange]:
        """Compare branches of which a number has to hold."""
        before, after = old.at_least, new.at_least
        if before is None and after is None:
            return
        if before is None or after is None:
            one = before or after
            yield self._combinator(() if one is None else one.of, path, added=before is None)
            return
        yield from _changes(f"{path}.count", minimum(before.count, after.count))
        yield from self._matched(before.of, after.of, f"{path}.of", added=Effect.LOOSER)

    def _combinator(self, branches: tuple[PolicyBody, ...], path: str, *, added: bool) -> PolicyChange:
        others = self.old_kinds if added else self.new_kinds
        kinds = frozenset[str]().union(*map(kinds_in, branches))
        effect = Effect.STRICTER if kinds <= others else Effect.CHANGED
        word = "now demanded" if added else "no longer demanded"
        return PolicyChange(path=path, effect=effect if added else effect.reverse, text=f"{word}: {_names(branches)}")

    def _matched(
        self, old: tuple[PolicyBody, ...], new: tuple[PolicyBody, ...], path: str, *, added: Effect
    ) -> Iterator[PolicyChange]:
        """Compare branches in pairs, regardless of their order: by name, then by content."""
        pairs = branch_pairs(old, new)
        for before, after in pairs:
            yield from self.bodies(old[before], new[after], f"{path}[{after}]")
            if old[before].name != new[after].name:
                text = f"{old[before].name!r}, now {new[after].name!r}"
                yield PolicyChange(path=f"{path}[{after}].name", effect=Effect.LABEL, text=text)
        for index in sorted(set(range(len(new))) - {after for _, after in pairs}):
            effect = self._branch_effect(new[index], self.old_kinds, added)
            yield PolicyChange(path=f"{path}[{index}]", effect=effect, text=f"branch added{_named(new[index])}")
        for index in sorted(set(range(len(old))) - {before for before, _ in pairs}):
            effect = self._branch_effect(old[index], self.new_kinds, added.reverse)
            yield PolicyChange(path=f"{path}[{index}]", effect=effect, text=f"branch removed{_named(old[index])}")

    def _branch_effect(self, branch: PolicyBody, others: frozenset[str], effect: Effect) -> Effect:
        """Return the effect, unless the branch also adds or removes a kind of evidence."""
        loosens = Effect.LOOSER if others is self.old_kinds else Effect.STRICTER
        return effect if kinds_in(branch) <= others or effect is loosens else Effect.CHANGED


def _names(branches: tuple[PolicyBody, ...]) -> str:
    return ", ".join(branch.name or f"branch {index}" for index, branch in enumerate(branches))


def _named(branch: PolicyBody) -> str:
    return f": {branch.name}" if branch.name else ""


# -- one demand


def _demand(name: str, old: object, new: object, path: str) -> Iterator[PolicyChange]:
    """Compare two demands; either may be relaxed or absent."""
    yield from _changes(path, _compared(name, value_of(old), value_of(new)))


def _compared(name: str, old: object, new: object) -> Iterator[Compared]:
    loose_old, loose_new = (one is None or isinstance(one, RelaxedDemand) for one in (old, new))
    if isinstance(old, RelaxedDemand) and isinstance(new, RelaxedDemand):
        yield from reasons(old.reason, new.reason)
    elif loose_old and loose_new:
        if old is not new:
            yield Compared(effect=Effect.LABEL, text=f"{_missing_text(old)}, now {_missing_text(new)}")
    elif loose_old:
        yield Compared(effect=Effect.STRICTER, text=f"{_missing_text(old)}, now {shown(new)}")
    elif loose_new:
        yield Compared(effect=Effect.LOOSER, text=f"{shown(old)}, now {_missing_text(new)}")
    else:
        yield from compare_values(name, old, new)


def _missing_text(value: object) -> str:
    return f"unchecked ({value.reason})" if isinstance(value, RelaxedDemand) else "not demanded"


def _changes(path: str, differences: Iterable[Compared]) -> Iterator[PolicyChange]:
    for one in differences:
        yield PolicyChange(path=path, effect=one.effect, text=one.text)
