"""Limits of a key: number of releases, concurrent holders, chips and time windows. Pure functions."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from kms.domain.decide import DenialReason
from kms.domain.windows import Window

SCHEMA: Final = "kms.key-limits/1"
MAX_CHIPS: Final = 10_000
MAX_NUMBER: Final = 1_000_000_000
MAX_ENTRIES: Final = 32
"""Maximum of budgets, and of windows."""
_CHIP: Final = re.compile(r"(?:amd:[0-9a-f]{128}|intel:[0-9a-f]{32}|nvidia:[0-9a-f]{2,128})")
_BUDGET: Final = re.compile(r"([1-9][0-9]{0,9}|0)(?:/(hour|day|week))?")


class Period(enum.StrEnum):
    """The time before the moment of a decision over which releases are counted."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    TOTAL = "total"

    @property
    def length(self) -> timedelta | None:
        """Its length; None for a period without a beginning."""
        return _LENGTHS.get(self)


_LENGTHS: Final = {Period.HOUR: timedelta(hours=1), Period.DAY: timedelta(days=1), Period.WEEK: timedelta(days=7)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Maximum number of releases in a period; ``most`` is 0 to ``MAX_NUMBER``."""

    most: int
    per: Period

    @staticmethod
    def parse(text: str) -> Budget:
        """Read ``100`` (in total), ``100/hour``, ``100/day`` or ``100/week``.

        Raises:
            ConfigurationError: ``limits-invalid``.
        """
        found = _BUDGET.fullmatch(text)
        if found is None or int(found[1]) > MAX_NUMBER:
            raise _invalid(f"{text[:40]!r} is not a release budget", "a number, or a number and /hour, /day or /week")
        return Budget(most=int(found[1]), per=Period(found[2] or Period.TOTAL))

    def __str__(self) -> str:
        """Return its canonical spelling."""
        return str(self.most) if self.per is Period.TOTAL else f"{self.most}/{self.per}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """The limits of a key, as of one version. None sets no limit; an empty tuple refuses every release.

    Attributes:
        version: 0 if nothing was ever set, then from 1.
        releases: maximum of releases, of every version together; renewals count, since the key leaves each time.
        holders: maximum of concurrent holders with a live lease.
        chips: allowed chips (``amd:``, ``intel:`` or ``nvidia:`` and an id in hex).
        per_chip: maximum of releases to one chip.
        windows: allowed times; any of them suffices.
    """

    version: int
    releases: tuple[Budget, ...] = ()
    holders: int | None = None
    chips: tuple[str, ...] | None = None
    per_chip: Budget | None = None
    windows: tuple[Window, ...] | None = None

    def members(self) -> dict[str, JsonValue]:
        """Return the document."""
        return {
            "schema": SCHEMA,
            "version": self.version,
            "most_releases": [str(one) for one in self.releases],
            "most_holders": self.holders,
            "chips": None if self.chips is None else list(self.chips),
            "most_per_chip": None if self.per_chip is None else str(self.per_chip),
            "windows": None if self.windows is None else [str(one) for one in self.windows],
        }


NO_LIMITS: Final = KeyLimits(version=0)


def read_limits(document: JsonValue) -> KeyLimits:
    """Read the document.

    Raises:
        ConfigurationError: ``limits-invalid`` or ``window-invalid``.
    """
    if not isinstance(document, dict) or document.keys() != NO_LIMITS.members().keys():
        raise _invalid("wrong members", ", ".join(NO_LIMITS.members()))
    version, holders, per_chip = document["version"], document["most_holders"], document["most_per_chip"]
    if document["schema"] != SCHEMA or not _is_number(version):
        raise _invalid("unsupported schema", SCHEMA)
    if holders is not None and not _is_number(holders):
        raise _invalid("most_holders", f"a number up to {MAX_NUMBER}")
    releases = _texts(document["most_releases"], "most_releases", MAX_ENTRIES)
    windows = _texts(document["windows"], "windows", MAX_ENTRIES)
    chips = _chips(document["chips"])
    if releases is None:
        raise _invalid("most_releases", "a list")
    return KeyLimits(
        version=cast("int", version),
        releases=tuple(map(Budget.parse, releases)),
        holders=cast("int | None", holders),
        chips=chips,
        per_chip=None if per_chip is None else Budget.parse(str(per_chip)),
        windows=None if windows is None else tuple(map(Window.parse, windows)),
    )


def _chips(value: JsonValue) -> tuple[str, ...] | None:
    chips = _texts(value, "chips", MAX_CHIPS)
    for one in chips or ():
        if not _CHIP.fullmatch(one):
            raise _invalid(f"{one[:80]!r} is not a chip id", "amd:, intel: or nvidia: and an id in lower-case hex")
    if chips is not None and list(chips) != sorted(set(chips)):
        raise _invalid("chips", "a sorted list without duplicates")
    return chips


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRequest:
    """The properties of a request that limits use.

    ``cpu`` and ``devices`` are chips, None where one is unknown or masked; ``versions`` is the number of requested
    ones.
    """

    cpu: str | None
    devices: tuple[str | None, ...]
    versions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Previous releases of a key, as the deciding transaction counts them.

    ``to_chip`` counts the releases to the chip of the request in the period of ``per_chip``.
    """

    releases: Mapping[Budget, int]
    other_holders: int
    to_chip: int


def limit_reasons(
    limits: KeyLimits, *, asked: str, asking: UseRequest, usage: Usage, at: datetime
) -> Iterator[DenialReason]:
    """Yield a reason for every limit that a release would exceed; ``asked`` is the key as the request names it."""

    def reason(code: str, text: str) -> DenialReason:
        return DenialReason(code=code, key_id=asked, text=text)

    if limits.windows is not None and not any(window.holds(at) for window in limits.windows):
        windows = "; ".join(map(str, limits.windows)) or "never"
        yield reason("outside-window", f"the key {asked!r} is released {windows}")
    if limits.chips is not None and not _is_allowed(limits.chips, asking):
        yield reason("chip-not-allowed", f"the key {asked!r} is released only to the chips on its list")
    for budget in limits.releases:
        if usage.releases[budget] + asking.versions > budget.most:
            yield reason("budget-spent", f"the key {asked!r} is released at most {budget.most} times ({budget.per})")
    if limits.holders is not None and usage.other_holders + 1 > limits.holders:
        yield reason("holders-exceeded", f"the key {asked!r} is limited to {limits.holders} holders at a time")
    yield from (reason(*found) for found in _about_chip(limits, asked, asking, usage))


def _about_chip(limits: KeyLimits, asked: str, asking: UseRequest, usage: Usage) -> Iterator[tuple[str, str]]:
    if limits.per_chip is None:
        return
    if asking.cpu is None:
        # A release that cannot be counted is refused.
        yield "chip-not-allowed", f"releases of the key {asked!r} are limited per chip, and the evidence names no chip"
    elif usage.to_chip + asking.versions > limits.per_chip.most:
        most, per = limits.per_chip.most, limits.per_chip.per
        yield "chip-rate-exceeded", f"the key {asked!r} is released at most {most} times ({per}) to one chip"


def _is_allowed(chips: tuple[str, ...], asking: UseRequest) -> bool:
    """Return True if the CPU is on the list and, where the list names any other device, every device too."""
    if asking.cpu is None or asking.cpu not in chips:
        return False
    names_devices = any(one.startswith("nvidia:") for one in chips)
    return not names_devices or all(one in chips for one in asking.devices)


def _texts(value: JsonValue, what: str, most: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > most or not all(isinstance(one, str) for one in value):
        raise _invalid(what, f"a list of at most {most} texts")
    return tuple(str(one) for one in value)


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def _invalid(problem: str, expected: str) -> ConfigurationError:
    return ConfigurationError(f"limits of a key: {problem}", code="limits-invalid", field="limits", expected=expected)
