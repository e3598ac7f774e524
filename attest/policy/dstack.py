"""Demands of a policy on what dstack measured into RTMR3: the keys of ``dstack``, and their rules.

The events are only as good as the code that extends the register. So the section requires ``tdx`` with demands on
RTMR1 and RTMR2, in which kernel, command line and the hash of the root file system are measured (dstack.md 1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from attest.encoding import JsonValue
from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin
from attest.evidence.dstack.facts import DstackFacts
from attest.policy.decoder import Demand, Section, demand, hex_list, hex_text, key, list_of, record_of, refuse, text
from attest.policy.rules import Rule, RuleMaker, Subject, Test, one_of

_CLAUSE = "dstack events of RTMR3"
_EVENT_LOG = "eventlog"
"""The relaxation under which no log is required."""
_PROVIDER = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
COMPOSE_HASH_BYTES = 32
OS_IMAGE_BYTES = 32
APP_ID_BYTES = 20


def _provider(value: JsonValue, path: str) -> str:
    name = text(value, path)
    if not _PROVIDER.fullmatch(name):
        raise refuse(path, "the name of a key provider, such as kms", value)
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedKeyProvider:
    """A provider of keys: its name, and the id that it has to have; without an id any."""

    name: str = field(metadata=key(_provider))
    id: str | None = field(default=None, metadata=key(hex_text))

    def meets(self, found: str) -> bool:
        """Return True if this is the provider that the log states, as text."""
        name, _, identity = found.rpartition(":")  # a name may have colons in it, hex has none
        return self.name == name and self.id in (None, identity)

    def __str__(self) -> str:
        return f"{self.name} with any id" if self.id is None else f"{self.name} {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DstackDemands:
    """Demands on the facts of dstack; None: no demand. See docs/policy.md for each key."""

    compose_hashes: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(COMPOSE_HASH_BYTES)))
    os_images: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(OS_IMAGE_BYTES)))
    app_ids: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(APP_ID_BYTES)))
    key_providers: Demand[tuple[AcceptedKeyProvider, ...]] | None = field(
        default=None, metadata=key(demand(list_of(record_of(AcceptedKeyProvider))))
    )


def decode_dstack(value: JsonValue, path: str) -> DstackDemands:
    """Read the key ``dstack`` of a policy."""
    section = Section(value, path)
    demands = section.record(DstackDemands)
    section.finish()
    if demands == DstackDemands():
        raise refuse(path, "compose_hashes, os_images, app_ids or key_providers", shown="none of them", at_key=True)
    return demands


def dstack_rules(dstack: DstackDemands) -> Iterator[Rule]:
    """Yield the rules of a policy document for a TDX guest of dstack."""
    for name, values, category in (
        ("compose_hashes", dstack.compose_hashes, "executables"),
        ("os_images", dstack.os_images, "executables"),
        ("app_ids", dstack.app_ids, "configuration"),
    ):
        yield from _DSTACK.rule(
            name, values, one_of, category=category, subject=Subject.DSTACK, tolerated_by=_EVENT_LOG
        )
    yield from _DSTACK.rule(
        "key_providers",
        dstack.key_providers,
        _one_of_providers,
        category="configuration",
        subject=Subject.DSTACK,
        tolerated_by=_EVENT_LOG,
        expected=lambda accepted: "one of " + ", ".join(map(str, accepted)),
    )


def _one_of_providers(accepted: tuple[AcceptedKeyProvider, ...]) -> Test:
    return lambda found, _at: any(one.meets(found) for one in accepted)


# -- claims


def _claim(name: str, kind: ClaimType, read: Callable[[DstackFacts], ClaimValue]) -> Claim:
    """Make a claim that is absent when no log was given, or when it does not state the fact."""

    def get(facts: DstackFacts | None) -> ClaimValue:
        return None if facts is None else read(facts)

    return Claim(name=f"eventlog.dstack.{name}", type=kind, origin=Origin.GUEST, clause=_CLAUSE, get=get)


_CLAIMS = {
    "compose_hashes": _claim("compose_hash", ClaimType.BYTES, lambda facts: facts.compose_hash),
    "os_images": _claim("os_image_hash", ClaimType.BYTES, lambda facts: facts.os_image_hash),
    "app_ids": _claim("app_id", ClaimType.BYTES, lambda facts: facts.app_id),
    "key_providers": _claim(
        "key_provider",
        ClaimType.TEXT,
        lambda facts: None if facts.key_provider is None else str(facts.key_provider),
    ),
}
_DSTACK = RuleMaker("dstack", _CLAIMS.__getitem__)
