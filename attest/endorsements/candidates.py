"""Choice among certificates that bear a wanted name, so that neither a damaged copy nor the order of files decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from attest.errors import AttestError

MAX_CANDIDATES = 32
"""Certificates or documents of one role that are tried; each may cost some public-key operations."""

_T = TypeVar("_T")


def best_candidate(candidates: Iterable[_T], *checks: Callable[[_T], object]) -> _T | None:
    """Return the first candidate that no check refuses, or else the first of those that pass the most checks in a row.

    A caller judges the choice by the same checks and reports the refusal. A single candidate costs no check.
    At most ``MAX_CANDIDATES`` are looked at. None is returned when there are none.
    """
    found = tuple(islice(candidates, MAX_CANDIDATES))
    if len(found) < 2:
        return found[0] if found else None
    return max(found, key=lambda candidate: _passed(candidate, checks))


def _passed(candidate: _T, checks: Iterable[Callable[[_T], object]]) -> int:
    """Return how many checks in a row accept a candidate."""
    passed = 0
    with suppress(AttestError):
        for check in checks:
            check(candidate)
            passed += 1
    return passed
