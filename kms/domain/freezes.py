"""Freezes of a key, a tenant, a product or everything, and their effect on a key. Pure functions."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError
from attest.release import require_tenant
from kms.domain.devices import PRODUCT_NAMES, is_product
from kms.domain.keys import KeyName

MAX_REASON_CHARACTERS: Final = 1000


class Scope(enum.StrEnum):
    """Kind of thing that a freeze stops."""

    KEY = "key"
    TENANT = "tenant"
    PRODUCT = "product"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The thing that a freeze stops.

    ``name`` is a key's name, a tenant, a product, or empty for everything.
    """

    scope: Scope
    name: str

    def __str__(self) -> str:
        """Write it for people."""
        return f"{self.scope} {self.name}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A freeze that is in force."""

    target: Target
    reason: str
    actor: str
    means: str
    frozen_at: datetime

    def members(self) -> dict[str, JsonValue]:
        """Return it as JSON members."""
        return {
            "scope": str(self.target.scope),
            "name": self.target.name,
            "reason": self.reason,
            "actor": {"name": self.actor, "means": self.means},
            "frozen_at": rfc3339_text(self.frozen_at),
        }


def target(scope: str, name: str | None) -> Target:
    """Parse the target of a freeze into its canonical spelling.

    Raises:
        ConfigurationError: ``freeze-target-invalid``, ``tenant-invalid`` or ``key-id-invalid``.
    """
    if scope not in set(Scope):
        raise _invalid(f"{scope[:40]!r} is not a kind of target that can be frozen", expected=", ".join(Scope))
    found = Scope(scope)
    if found is Scope.ALL:
        if name:
            raise _invalid("'all' takes no name", expected="no name")
        return Target(scope=found, name="")
    if not name:
        raise _invalid(f"which {found}?", expected="a name")
    if found is Scope.KEY:
        return Target(scope=found, name=str(KeyName.parse(name)))
    if found is Scope.TENANT:
        return Target(scope=found, name=require_tenant(name))
    if not is_product(name.lower()):
        # A freeze of a name that no evidence has would have no effect.
        known = f"{', '.join(PRODUCT_NAMES)}, or fmspc: and 12 hex digits"
        raise _invalid(f"there is no product {name[:80]!r}", expected=known)
    return Target(scope=found, name=name.lower())


def require_reason(reason: str) -> str:
    """Return a valid reason for a change; the log keeps it for ever.

    Raises:
        ConfigurationError: ``reason-invalid``.
    """
    if not reason.strip() or len(reason) > MAX_REASON_CHARACTERS or not reason.isprintable():
        raise ConfigurationError(
            f"a reason is one line of 1 to {MAX_REASON_CHARACTERS} characters",
            code="reason-invalid",
            field="reason",
            hint="state what happened, and where to find the details",
        )
    return reason


def freezing(freezes: Iterable[Freeze], *, key: KeyName) -> Iterator[Freeze]:
    """Return the freezes that stop a key for every workload."""
    stopping = {
        Target(scope=Scope.ALL, name=""),
        Target(scope=Scope.TENANT, name=key.tenant),
        Target(scope=Scope.KEY, name=str(key)),
    }
    return (one for one in freezes if one.target in stopping)


def frozen_products(freezes: Iterable[Freeze]) -> frozenset[str]:
    """Return the names of the frozen products."""
    return frozenset(one.target.name for one in freezes if one.target.scope is Scope.PRODUCT)


def _invalid(problem: str, *, expected: str) -> ConfigurationError:
    return ConfigurationError(
        problem,
        code="freeze-target-invalid",
        field="name",
        expected=expected,
        hint="kms freeze key|tenant|product NAME --reason TEXT, or kms freeze all --reason TEXT",
    )
