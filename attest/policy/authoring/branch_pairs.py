"""Pairs of branches that correspond to each other in two policies, regardless of their order."""

from __future__ import annotations

from dataclasses import fields

from attest.policy.model import PolicyBody


def branch_pairs(old: tuple[PolicyBody, ...], new: tuple[PolicyBody, ...]) -> list[tuple[int, int]]:
    """Pair branches of one name, then those of one content, then the others without names, in order."""
    pairs: list[tuple[int, int]] = []
    free_old, free_new = list(range(len(old))), list(range(len(new)))
    for alike in (_one_name, _one_content, _nameless):
        for before in tuple(free_old):
            after = next((index for index in free_new if alike(old[before], new[index])), None)
            if after is not None:
                pairs.append((before, after))
                free_old.remove(before)
                free_new.remove(after)
    return sorted(pairs, key=lambda pair: pair[1])


def _one_name(old: PolicyBody, new: PolicyBody) -> bool:
    return bool(old.name) and old.name == new.name


def _one_content(old: PolicyBody, new: PolicyBody) -> bool:
    return all(getattr(old, f.name) == getattr(new, f.name) for f in fields(PolicyBody) if f.name != "name")


def _nameless(old: PolicyBody, new: PolicyBody) -> bool:
    return not old.name or not new.name
